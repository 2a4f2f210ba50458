// Rows that blocks hold in their shared memory, each a chunk, and that meet in the workspace: when this is done, how
// long chunks are, whether enough rows are on the device at a time, and why. Called by reduction.cpp; tuning.cpp asks
// how many such blocks a multiprocessor has.
#include <algorithm>
#include <array>

#include "plan/reduction/explain.hpp"
#include "plan/reduction/planner.hpp"

namespace epifuse::plan {
namespace {

// Chunks of rows that blocks hold in shared memory from the first pass to the last, and meet between.
struct ResidentChunks {
  ResidentBlock block;
  int steps = 0;
  std::int64_t chunks = 0;  // of a row
};

// Of a block's shared memory: the system's, and an accumulator of four words for each of at most 32 warps.
constexpr std::int64_t kBesides = kReservedShared + std::int64_t{kWarp} * kAccessBytes;

// Of what rounds to few bits many small blocks. Of rows that they would cut into too many chunks two on a
// multiprocessor, with which two rows of 15 MB just fit an H100.
std::array<ResidentBlock, 2> forms_of(const KernelClass& kernel, const Machine& machine) {
  if (rounds_to_few_bits(kernel))
    return {{{kPolicy.small_block_threads, kPolicy.few_bits_blocks, kPolicy.chunk_prefetch_bytes},
             {large_block_threads(machine), kPolicy.least_blocks, kPolicy.prefetch_bytes}}};
  return {{{kPolicy.block_threads, kPolicy.wide_blocks, kPolicy.chunk_prefetch_bytes},
           {kPolicy.block_threads, kPolicy.least_blocks, kPolicy.long_row_prefetch_bytes, true}}};
}

// Of a row in chunks of so many vectors.
std::int64_t chunks_of(const Plan& plan, std::int64_t vectors) { return divide_up(plan.row_vectors, vectors); }

// Steps of a thread, at most `most`. All blocks of a row wait for the last one, whose chunk may hold next to nothing:
// rather some steps fewer, and a chunk more, than many idle vectors (KernelBench L2 #21 in f16: 18.001 chunks 1.39 of
// the copy, 20 of a step less 1.20).
int steps_that_fit(const Plan& plan, int threads, int most) {
  int best = most;
  std::int64_t fewest_idle = -1;
  for (int steps = most; steps > 0 && steps >= most - kPolicy.resident_fewer_steps; --steps) {
    const std::int64_t vectors = std::int64_t{steps} * threads;
    const std::int64_t idle = chunks_of(plan, vectors) * vectors - plan.row_vectors;
    if (fewest_idle < 0 || idle < fewest_idle) {
      best = steps;
      fewest_idle = idle;
    }
    if (idle * kPolicy.resident_idle <= plan.row_vectors) break;
  }
  return best;
}

// `bytes` of a thread and step; nothing where too few rows would be on the device at a time.
std::optional<ResidentChunks> choose_resident_chunks(const Plan& plan, int bytes, const Machine& machine) {
  // Rows that are on the device at a time, since blocks of a row wait for each other: while one leaves, others come.
  const auto chunks_in = [&](const ResidentBlock& block, int rows) -> std::optional<ResidentChunks> {
    const std::int64_t chunk_bytes = machine.shared_bytes / block.blocks - kBesides;
    int most = std::max(static_cast<int>(chunk_bytes / (std::int64_t{bytes} * block.threads)), 1);
    // Few rows: smaller chunks, so that every multiprocessor has some.
    const auto all_chunks = [&] { return plan.rows * chunks_of(plan, std::int64_t{most} * block.threads); };
    while (most > 1 && all_chunks() < std::int64_t{machine.multiprocessors} * kPolicy.least_blocks) most /= 2;
    const int steps = steps_that_fit(plan, block.threads, most);
    const std::int64_t vectors = std::int64_t{steps} * block.threads;
    const std::int64_t chunks = chunks_of(plan, vectors);
    const std::int64_t slots =
        std::int64_t{machine.multiprocessors} * resident_blocks_that_fit(machine, block.threads, vectors * bytes);
    return chunks * rows <= slots ? std::optional(ResidentChunks{block, steps, chunks}) : std::nullopt;
  };
  const std::array<ResidentBlock, 2> forms = forms_of(plan.kernel_class, machine);
  for (const ResidentBlock& block : forms) {
    if (const auto chunks = chunks_in(block, std::max(block.blocks - 1, kPolicy.least_blocks))) return chunks;
  }
  // Several operands would all be read again: then one row and a share of the next will do.
  return holds_several(*plan.kernel_class.reduction()) ? chunks_in(forms.back(), 1) : std::nullopt;
}

}  // namespace

int resident_blocks_that_fit(const Machine& machine, int threads, std::int64_t bytes) {
  const std::int64_t fit = machine.shared_bytes / (bytes + kBesides);
  return static_cast<int>(std::min<std::int64_t>(fit, row_threads_of(machine) / threads));
}

// A row in the shared memory of blocks that meet in the workspace. What a thread keeps of a step must be 16 bytes:
// more, and neighbouring threads meet in the same banks of shared memory (KernelBench L2 #19 in f16, 32 bytes: 1.49 of
// the copy, split 1.30).
bool ReductionPlanner::choose_split_resident() {
  // Saved values have 32 bits: where formulas are cheap, computing them again leaves space for twice as many elements
  // (KernelBench L2 #19 in f16: 1.04 of the copy, saved 1.28).
  if (rounds_to_few_bits(kernel_) && !reduction().residency.saved.empty()) {
    const Arithmetic arithmetic = choose_arithmetic(program_, kernel_);
    const auto is_cheap = [&](ir::Value value) {
      return operands_.cost_of(value, &arithmetic) <= kPolicy.again_instructions;
    };
    if (std::ranges::all_of(reduction().residency.saved, is_cheap)) reduction().residency.saved.clear();
  }
  const int bytes = staged_bytes(program_, kernel_);
  const bool has_two_passes = passes() == (structure().has_column_runs() ? 3 : 2);
  if (bytes == 0 || !has_two_passes || structure().stages != 1 || most_shared(machine_) == 0) return false;
  const std::optional<ResidentChunks> chunks = choose_resident_chunks(plan_, bytes, machine_);
  if (!chunks) return false;
  reduction().driver = SplitResident{};
  resident_block_ = chunks->block;
  kernel_.threads = chunks->block.threads;
  kernel_.steps = chunks->steps;
  row_threads().group = kernel_.threads;
  plan_.shared_bytes = std::int64_t{chunks->steps} * chunks->block.threads * bytes;
  plan_.chunks = chunks->chunks;
  return true;
}

std::string why(const SplitResident&, const Plan& plan, const ReductionSummary& reduction, const Machine& machine) {
  return why_unheld(plan, reduction, machine) + ": many blocks hold a chunk of each";
}

}  // namespace epifuse::plan
