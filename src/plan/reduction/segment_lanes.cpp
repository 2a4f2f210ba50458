// Which segments of rows a few lanes reduce each, and how many lanes. Called by reduction.cpp.
#include <algorithm>
#include <limits>

#include "plan/planning.hpp"
#include "plan/policy.hpp"

namespace epifuse::plan {

int segment_bytes(const ir::Program& program, const KernelClass& kernel) {
  const ReductionClass& reduction = *kernel.reduction();
  const Marks read =
      inputs_of_pass(program, reduction.structure, reduction.structure.stages, reduction.residency.saved);
  const auto rounded = [](int bytes) { return round_up(bytes, kAccessBytes); };
  int bytes = static_cast<int>(reduction.residency.saved.size()) * rounded(kernel.elements * word_bytes(kernel));
  for (std::size_t i = 0; i < read.size(); ++i) {
    const NodeRole role = role_of_input(program, reduction.structure, i);
    const Access access = kernel.inputs[i].access;
    if (!read[i] || role.scope != Scope::element || access == Access::uniform || access == Access::unused) continue;
    if (reduction.residency.held[i]) {
      bytes += rounded(kernel.elements * size_in_bytes(kernel.inputs[i]));
    } else if (!role.per_segment) {
      return 0;
    }
  }
  return bytes;
}

namespace {

// Of a block's shared memory, so that a multiprocessor has space for two: what needs no opt-in where there is none.
std::int64_t most_bytes(const Machine& machine) {
  return !machine.async_copies ? kTileShared - kPolicy.exchange_bytes : shared_for_rows(machine, 2);
}

// The power of two with which a thread group needs the least time: the more lanes reduce a segment, the fewer segments
// it takes at once.
int lanes_of_segment(const Plan& plan, int group_threads) {
  const std::int64_t vectors = plan.segment_length / plan.kernel_class.elements + 1;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  int best = 1;
  for (int lanes = 1; lanes <= std::min(group_threads, kWarp); lanes *= 2) {
    const std::int64_t rounds = divide_up(plan.segments_per_row, group_threads / lanes);
    const std::int64_t time = rounds * (divide_up(vectors, lanes) + kPolicy.segment_round_vectors);
    if (time < least) {
      least = time;
      best = lanes;
    }
  }
  return best;
}

}  // namespace

void choose_segment_lanes(Plan& plan, const ir::Program& program, const Machine& machine) {
  const KernelClass& kernel = plan.kernel_class;
  ReductionClass& reduction = *plan.kernel_class.reduction();
  auto* driver = std::get_if<Resident>(&reduction.driver);
  if (driver == nullptr || !reduction.layout.inner_reduction || driver->cluster > 1 ||
      !reduction.structure.has_segments() || reduction.structure.has_segment_means())
    return;
  const std::int64_t vectors = std::int64_t{reduction.threads.group} * kernel.steps;
  const std::int64_t places = vectors + vectors / 8;  // HeldRow of templates/reduction/segments.cuh
  const std::int64_t bytes = kernel.threads / reduction.threads.group * places * segment_bytes(program, kernel);
  if (bytes == 0 || bytes > most_bytes(machine) ||
      plan.segments_per_row * kWarp * kPolicy.segment_idle < reduction.threads.group)
    return;
  driver->segments_by_lanes = true;
  plan.segment_lanes = lanes_of_segment(plan, reduction.threads.group);
  plan.shared_bytes = bytes;
}

}  // namespace epifuse::plan
