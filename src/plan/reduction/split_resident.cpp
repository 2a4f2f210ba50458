// Rows that blocks hold in their shared memory, each a chunk: how long chunks are, and whether enough rows are on the
// device at a time. Called by resident.cpp; tuning.cpp asks how many such blocks a multiprocessor has.
#include <algorithm>

#include "plan/planning.hpp"
#include "plan/policy.hpp"

namespace epifuse::plan {
namespace {

// Of a row in chunks of so many vectors.
std::int64_t chunks_of(const Plan& plan, std::int64_t vectors) { return divide_up(plan.row_vectors, vectors); }

// Steps of a thread, at most `most`. All blocks of a row wait for the last one, whose chunk may hold next to nothing: rather some steps fewer, and a
// chunk more, than many idle vectors (KernelBench L2 #21 in f16: 18.001 chunks 1.39 of the copy, 20 of a step less 1.20).
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

}  // namespace

int resident_blocks_that_fit(const Machine& machine, int threads, std::int64_t bytes) {
  const std::int64_t fit = machine.shared_bytes / (bytes + kPolicy.resident_shared_besides);
  return static_cast<int>(std::min<std::int64_t>(fit, kPolicy.most_resident_threads / threads));
}

std::optional<ResidentChunks> choose_resident_chunks(const Plan& plan, int bytes, const Machine& machine) {
  const auto& blocks = rounds_to_few_bits(plan.kernel_class) ? kPolicy.resident_of_few_bits : kPolicy.resident;
  for (const ResidentBlock& block : blocks) {
    int most = std::max(block.bytes / (bytes * block.threads), 1);
    // Few rows: smaller chunks, so that every multiprocessor has some.
    const auto all_chunks = [&] { return plan.rows * chunks_of(plan, std::int64_t{most} * block.threads); };
    while (most > 1 && all_chunks() < std::int64_t{machine.multiprocessors} * 2) most /= 2;
    const int steps = steps_that_fit(plan, block.threads, most);
    const std::int64_t vectors = std::int64_t{steps} * block.threads;
    const std::int64_t chunks = chunks_of(plan, vectors);
    const std::int64_t slots =
        std::int64_t{machine.multiprocessors} * resident_blocks_that_fit(machine, block.threads, vectors * bytes);
    if (chunks * block.rows <= slots) return ResidentChunks{block, steps, chunks};
  }
  return std::nullopt;
}

}  // namespace epifuse::plan
