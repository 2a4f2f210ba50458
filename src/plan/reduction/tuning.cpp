// How many registers a thread may take, how many steps a pass takes at once, and which loads leave the caches first:
// what measurements on an H100 decided for each form that rows take (docs/measurements/notes/reductions.md).
#include "plan/reduction/tuning.hpp"

#include <algorithm>
#include <bit>

#include "plan/planning.hpp"
#include "plan/policy.hpp"

namespace epifuse::plan {
namespace {

class ReductionTuner {
 public:
  ReductionTuner(const Plan& plan, const ir::Program& program, const Machine& machine)
      : plan_(plan),
        kernel_(plan.kernel_class),
        reduction_(*kernel_.reduction()),
        program_(program),
        machine_(machine) {}

  Tuning choose() const {
    Tuning tuning;
    tuning.resident_blocks = resident_blocks();
    tuning.unroll = reduction_.is_in_shared_memory() ? unroll() : 1;
    tuning.batch = batch();
    tuning.l1_evict_first = l1_evict_first();
    tuning.cheap_terms =
        capacity() >= kPolicy.sum_elements || (reduction_.is<Split>() && plan_.row_length >= kPolicy.sum_elements);
    return tuning;
  }

  // In place an operand is the same view as a result and so accessed as it is: where no result is, the kernel does not
  // write the operand. Read ahead of stores it takes registers that kernels with staged rows, tiles of transposes,
  // several accesses to a vector, or a warp's rows of 16 bits do not have (docs/measurements/notes/reductions.md).
  bool is_read_only(const OperandPlan& operand) const {
    if (operand.written) return false;
    const auto is_written = [&](Access access) {
      return std::ranges::any_of(kernel_.outputs, [&](const OperandPlan& output) { return output.access == access; });
    };
    // Of rows in registers passes have no loops that could read it once: those take what registers there are.
    if (operand.access == Access::row) return reduction_.is_in_shared_memory() && !is_written(Access::row);
    const bool is_lean = reduction_.is_resident() && !reduction_.is_in_shared_memory() && !transposes_stores() &&
                         kernel_.elements <= operand.width &&
                         (reduction_.threads.group > kWarp || size_of(operand.dtype) >= 4);
    return is_lean && operand.access == Access::contiguous && !is_written(Access::contiguous);
  }

  // Two blocks of the largest thread group share a multiprocessor: one computes while the other's loads are on their
  // way. Of blocks that hold chunks of rows as many as fit; of those that hold rows as leave some to the L1 cache.
  int resident_blocks() const {
    if (reduction_.is<SplitResident>())
      return std::max(resident_blocks_that_fit(machine_, kernel_.threads, block_bytes()), 1);
    // hold_columns() counted the registers.
    if (reduction_.columns && reduction_.layout.inner_reduction) return kernel_.f64 ? 0 : plan_.column_residents;
    std::int64_t blocks = machine_.threads_with(registers()) / kernel_.threads;
    if (reduction_.is_in_shared_memory())
      blocks = std::min(blocks, std::max((machine_.shared_bytes - kPolicy.l1_bytes) / block_bytes(), std::int64_t{1}));
    return kernel_.f64 ? 0 : static_cast<int>(blocks);
  }

 private:
  bool transposes_stores() const { return reduction_.store.has_value(); }
  // A thread keeps accumulators for each of its rows: of batch_norm's backward pass in bf16 304 bytes spilled with four
  // steps at once, and 24 in f32 with eight.
  bool stages_rows_side_by_side() const {
    return reduction_.is_in_shared_memory() && !reduction_.layout.inner_reduction;
  }
  bool has_write_pass() const { return reduction_.structure.has_write_pass(); }

  // Elements that those who share a row hold, or read in one round.
  int capacity() const {
    return reduction_.threads.group * reduction_.cluster() * kernel_.steps *
           (reduction_.layout.inner_reduction ? kernel_.elements : 1);
  }

  // Bytes of shared memory that a block keeps rows in.
  std::int64_t block_bytes() const {
    return std::int64_t{staged_bytes(program_, kernel_)} * kernel_.steps * kernel_.threads;
  }

  // Asked for by a thread before it waits.
  int loaded_per_thread() const {
    int bytes = 0;
    for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) {
      if (reduction_.residency.held[i]) bytes += size_in_bytes(kernel_.inputs[i]);
    }
    return bytes * kernel_.elements * kernel_.steps * reduction_.rows_per_group();
  }

  // As numbers, beside those of the first operand that is held: passes work on a vector of each, and a pair of values
  // of both. group_norm's backward pass in bf16 spilled 336 bytes without, and took 1.69 of a copy; 1.04 so, with half
  // the vectors to a thread. Rows of a warp's lanes lost by it: silu(x) * r in blocks of MXFP8 1.84 to 1.90.
  int numbers_of_others() const {
    const auto held = static_cast<int>(std::ranges::count(reduction_.residency.held, true));
    return holds_several(reduction_) && reduction_.threads.group > kWarp ? (held - 1) * 2 * kernel_.elements * 4 : 0;
  }

  // Of a thread.
  int registers() const {
    const int of_rows = registers_for(kPolicy.held_bytes);
    // Two passes' code, a tile's addresses, and what is known of a thread's several rows.
    if (transposes_stores() && reduction_.is<Split>() && !reduction_.layout.inner_reduction)
      return kPolicy.many_registers;
    if (reduction_.is_in_shared_memory() && reduction_.interleaves_rows()) return kPolicy.many_registers;
    if (reduction_.is_in_shared_memory())  // longer vectors need the registers
      return kernel_.elements <= kPolicy.thread_elements ? registers_for(kPolicy.lean_bytes) : of_rows;
    if (!reduction_.is_resident() || transposes_stores()) return of_rows;
    if (reduction_.reduces_segments_by_lanes()) return of_rows;  // two passes' code
    const int in_flight = loaded_per_thread();
    const bool is_lean = in_flight <= kPolicy.lean_bytes;
    const bool moves_one_by_one = reduction_.layout.striped || !has_write_pass();
    if (!is_lean && moves_one_by_one && kernel_.threads <= kPolicy.block_threads) return kPolicy.many_registers;
    // What is requested stays in registers as it comes. Rows of f32 and of outer reductions take more of them.
    const bool stays_packed = reduction_.layout.inner_reduction && kernel_.elements >= kPolicy.thread_elements;
    const int packed = static_cast<int>(std::bit_ceil(static_cast<unsigned>(in_flight))) + numbers_of_others();
    return is_lean || stays_packed ? std::min(registers_for(packed), of_rows) : of_rows;
  }

  // Nothing as long as what is held is written. Who reads half of a sector at a time loses by it, rows of outer
  // reductions that a thread group holds (KernelBench L2 #25 in f32: 1.02 of reading, 1.05), and rows that a block
  // holds and reads in one pass (mean 16384x8192 in f32: 0.950, 0.958).
  bool l1_evict_first() const {
    if (has_write_pass() || reduction_.structure.has_written()) return false;
    if (!reduction_.layout.inner_reduction) return reduction_.is<Split>();
    const bool is_short = reduction_.threads.group > 1 && reduction_.threads.group <= kWarp;
    return is_short || reduction_.structure.has_segments() || !reduction_.is_resident();
  }

  // More steps take registers, and code that the instruction cache does not hold.
  int unroll() const {
    if (reduction_.layout.tensor_aligned || stages_rows_side_by_side()) return 1;
    const bool takes_more_steps = reduction_.interleaves_rows() || rounds_to_few_bits(kernel_);
    int most = reduction_.is<SplitResident>() ? std::clamp(kAccessBytes / kernel_.elements, 1, kPolicy.most_steps)
               : takes_more_steps             ? kPolicy.most_steps
                                              : kPolicy.unrolled_wide_steps;
    while (kernel_.steps % most != 0) most /= 2;
    return most;
  }

  int batch() const {
    if (reduction_.structure.has_segment_means()) return 1;  // vectors are in bounds or not, one by one
    const bool is_by_element = !reduction_.layout.inner_reduction && !stages_rows_side_by_side();
    const int most = std::max(1, kPolicy.thread_elements / (is_by_element ? 1 : kernel_.elements));
    int batch = std::min({most, kernel_.steps, std::max(1, 32 / kernel_.elements)});  // a mask has 32 bits
    // Batches of copies are full vectors and iterations of the unrolled loop, a power of two.
    while (kernel_.steps % batch != 0 ||
           (reduction_.is_in_shared_memory() && !std::has_single_bit(static_cast<unsigned>(batch))))
      --batch;
    return batch;
  }

  const Plan& plan_;
  const KernelClass& kernel_;
  const ReductionClass& reduction_;
  const ir::Program& program_;
  const Machine& machine_;
};

}  // namespace

int resident_blocks(const Plan& plan, const ir::Program& program, const Machine& machine) {
  return ReductionTuner(plan, program, machine).resident_blocks();
}

void tune_reduction(Plan& plan, const ir::Program& program, const Machine& machine) {
  const ReductionTuner tuner(plan, program, machine);
  KernelClass& kernel = plan.kernel_class;
  kernel.tuning = tuner.choose();
  for (OperandPlan& input : kernel.inputs) input.read_only = tuner.is_read_only(input);
}

}  // namespace epifuse::plan
