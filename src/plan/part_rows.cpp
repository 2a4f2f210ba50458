// Which parts of rows a few lanes walk each, and how many. Called by rows.cpp.
#include <algorithm>
#include <limits>

#include "plan/parts.hpp"
#include "plan/policy.hpp"

namespace epifuse::plan {

int part_bytes(const ir::Program& program, const KernelClass& kernel) {
  const RowClass& rows = *kernel.rows;
  const Marks read = inputs_of_walk(program, rows.structure, rows.structure.levels, rows.carried);
  const auto rounded = [](int bytes) { return (bytes + 15) / 16 * 16; };
  int bytes = static_cast<int>(rows.carried.size()) * rounded(kernel.elements * word_bytes(kernel));
  for (std::size_t i = 0; i < read.size(); ++i) {
    const NodeRole role = role_of_input(program, rows.structure, i);
    const Access access = kernel.inputs[i].access;
    if (!read[i] || role.extent != Extent::element || access == Access::uniform || access == Access::unused) continue;
    if (rows.held[i]) {
      bytes += rounded(kernel.elements * size_in_bytes(kernel.inputs[i]));
    } else if (!role.part_wise) {
      return 0;
    }
  }
  return bytes;
}

namespace {

// Of a block's shared memory, so that a multiprocessor has room for two: what needs no asking where more cannot be asked for.
std::int64_t most_bytes(const Machine& machine) {
  return machine.architecture < 80 ? kPolicy.static_shared_bytes - kPolicy.exchange_bytes : shared_for_rows(machine, 2);
}

// The power of two with which a team needs the least time: the more lanes walk a part, the fewer parts it takes at once.
int lanes_of_part(const Plan& plan, int team) {
  const std::int64_t groups = plan.part_length / plan.kernel_class.elements + 1;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  int best = 1;
  for (int lanes = 1; lanes <= std::min(team, kWarp); lanes *= 2) {
    const std::int64_t rounds = divide_up(plan.row_parts, team / lanes);
    const std::int64_t time = rounds * (divide_up(groups, lanes) + kPolicy.part_round_groups);
    if (time < least) {
      least = time;
      best = lanes;
    }
  }
  return best;
}

}  // namespace

void choose_part_lanes(Plan& plan, const ir::Program& program, const Machine& machine) {
  const KernelClass& kernel = plan.kernel_class;
  RowClass& rows = *plan.kernel_class.rows;
  const bool is_held = kernel.schedule == Schedule::team && rows.along && !rows.staged && rows.cluster == 1;
  if (!is_held || !rows.structure.has_parts() || rows.structure.has_averages()) return;
  const std::int64_t groups = std::int64_t{rows.team} * kernel.steps;
  const std::int64_t places = groups + groups / 8;  // KeptRow of templates/parts.cuh
  const std::int64_t bytes = kernel.threads / rows.team * places * part_bytes(program, kernel);
  if (bytes == 0 || bytes > most_bytes(machine) || plan.row_parts * kWarp * kPolicy.part_idle < rows.team) return;
  rows.lanewise = true;
  plan.part_lanes = lanes_of_part(plan, rows.team);
  plan.shared_bytes = bytes;
}

}  // namespace epifuse::plan
