// How many registers a thread may take, how many steps a pass takes at once, and which loads leave the caches first: what measurements on an H100
// decided for each form that rows take (docs/measurements/notes/reductions.md).
#include "plan/tuning.hpp"

#include <algorithm>
#include <bit>

#include "plan/parts.hpp"
#include "plan/policy.hpp"

namespace epifuse::plan {
namespace {

class RowTuner {
 public:
  RowTuner(const KernelClass& kernel, const ir::Program& program, const Machine& machine)
      : kernel_(kernel), rows_(*kernel.rows), program_(program), machine_(machine) {}

  Tuning choose() const {
    Tuning tuning;
    tuning.resident_blocks = resident_blocks();
    tuning.unroll = rows_.staged ? unroll() : 1;
    tuning.batch = batch();
    tuning.evict_first = evict_first();
    tuning.cheap_terms = capacity() >= kPolicy.sum_elements || rows_.sums_hundreds;
    return tuning;
  }

  // In place an operand is the same view as a result and so accessed as it is: where no result is, the kernel does not write the operand. Read ahead
  // of stores it takes registers that kernels with staged rows, tiles that turn, several accesses to a group, or a warp's rows of 16 bits do not have
  // (docs/measurements/notes/reductions.md).
  bool is_read_only(const OperandPlan& operand) const {
    const auto is_written = [&](Access access) {
      return std::ranges::any_of(kernel_.outputs, [&](const OperandPlan& output) { return output.access == access; });
    };
    // Of rows in registers walks have no loops that could read it once: those take what registers there are.
    if (operand.access == Access::row) return rows_.staged && !is_written(Access::row);
    const bool is_lean = kernel_.schedule == Schedule::team && !rows_.staged && !crosses() &&
                         kernel_.elements <= operand.width && (rows_.team > kWarp || size_of(operand.dtype) >= 4);
    return is_lean && operand.access == Access::contiguous && !is_written(Access::contiguous);
  }

 private:
  bool crosses() const { return rows_.crossing != Crossing::none; }
  bool writes_walk() const { return rows_.structure.writes_walk(); }

  // Elements that those who share a row hold, or walk in one round.
  int capacity() const { return rows_.team * rows_.cluster * kernel_.steps * (rows_.along ? kernel_.elements : 1); }

  // Bytes of shared memory that a block keeps rows in.
  std::int64_t block_bytes() const {
    return std::int64_t{staged_bytes(program_, kernel_)} * kernel_.steps * kernel_.threads;
  }

  // Asked for by a thread before it waits.
  int asked_bytes() const {
    int bytes = 0;
    for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) {
      if (rows_.held[i]) bytes += size_in_bytes(kernel_.inputs[i]);
    }
    return bytes * kernel_.elements * kernel_.steps * rows_.passes;
  }

  // Of a multiprocessor: its registers are shared among them.
  int resident_threads() const {
    // Two walks' code, a tile's addresses, and what is known of a thread's several rows.
    if (crosses() && kernel_.schedule == Schedule::split && !rows_.along) return kPolicy.crossed_resident_threads;
    if (rows_.staged && rows_.interleaved) return kPolicy.crowded_threads;
    if (rows_.staged)  // 16 elements at a time need the registers
      return kernel_.elements <= 8 ? kPolicy.staged_resident_threads : kPolicy.most_resident_threads;
    if (kernel_.schedule != Schedule::team || crosses()) return kPolicy.most_resident_threads;
    if (rows_.lanewise) return kPolicy.most_resident_threads;  // two walks' code
    const int asked = asked_bytes();
    if (asked <= kPolicy.asks_least_bytes) return kPolicy.asks_least_threads;
    if (asked <= kPolicy.asks_little_bytes) return kPolicy.asks_little_threads;
    const bool is_crowded = kernel_.threads <= kPolicy.crowded_block && (rows_.spread || !writes_walk());
    if (is_crowded) return kPolicy.crowded_threads;
    const bool asks_some =
        asked <= kPolicy.asks_some_bytes && rows_.along && kernel_.elements >= kPolicy.asks_some_elements;
    return asks_some ? kPolicy.asks_some_threads : kPolicy.most_resident_threads;
  }

  // Two blocks of the largest team share a multiprocessor: one computes while the other's loads are on their way. Of blocks that keep parts of rows as
  // many as fit.
  int resident_blocks() const {
    if (kernel_.schedule == Schedule::kept) return std::max(kept_blocks(machine_, kernel_.threads, block_bytes()), 1);
    std::int64_t blocks = resident_threads() / kernel_.threads;
    if (rows_.staged) blocks = std::min(blocks, kPolicy.staged_blocks_bytes / block_bytes());
    return kernel_.f64 ? 0 : static_cast<int>(blocks);
  }

  // Nothing as long as what is held is written. Who reads half of a sector at a time loses by it, rows across memory that a team holds (level2 25 in f32:
  // 1.02 of reading, 1.05), and rows that a block holds and walks once (mean 16384x8192 in f32: 0.950, 0.958).
  bool evict_first() const {
    if (writes_walk()) return false;
    if (!rows_.along) return kernel_.schedule == Schedule::split;
    const bool is_short = rows_.team > 1 && rows_.team <= kWarp;
    return is_short || rows_.structure.has_parts() || kernel_.schedule != Schedule::team;
  }

  // More steps take registers, and code that the instruction cache does not hold.
  int unroll() const {
    if (rows_.framed) return 1;
    const bool is_narrow = rows_.interleaved || rounds_to_few_bits(kernel_);
    int most = kernel_.schedule == Schedule::kept
                   ? std::clamp(kPolicy.unrolled_elements / kernel_.elements, 1, kPolicy.unrolled_steps)
               : is_narrow ? kPolicy.unrolled_steps
                           : kPolicy.unrolled_wide_steps;
    while (kernel_.steps % most != 0) most /= 2;
    return most;
  }

  int batch() const {
    if (rows_.structure.has_averages()) return 1;  // groups are whole or not, one by one
    const int most = rows_.along ? std::max(1, kPolicy.group_elements / kernel_.elements) : 8;
    int batch = std::min({most, kernel_.steps, std::max(1, 32 / kernel_.elements)});  // a mask has 32 bits
    // Batches of copies are whole groups and whole turns of the unrolled loop, a power of two.
    while (kernel_.steps % batch != 0 || (rows_.staged && !std::has_single_bit(static_cast<unsigned>(batch)))) --batch;
    return batch;
  }

  const KernelClass& kernel_;
  const RowClass& rows_;
  const ir::Program& program_;
  const Machine& machine_;
};

}  // namespace

void tune_rows(KernelClass& kernel, const ir::Program& program, const Machine& machine) {
  const RowTuner tuner(kernel, program, machine);
  kernel.tuning = tuner.choose();
  for (OperandPlan& input : kernel.inputs) input.read_only = tuner.is_read_only(input);
}

}  // namespace epifuse::plan
