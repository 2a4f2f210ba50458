// Memory of kernels with rows: what a thread keeps of a step in shared memory, and what blocks of one launch leave for each other in device memory
// (signals, accumulators of parts of rows and of results across rows). Called by rows.cpp and its neighbours; codegen asks what is kept.
#include <algorithm>

#include "plan/multiprocessor.hpp"
#include "plan/parts.hpp"
#include "plan/policy.hpp"

namespace epifuse::plan {
namespace {

// Numbers that the accumulators of a level consist of; level 0: those across rows.
std::int64_t words(const Structure& structure, int level) {
  std::int64_t sum = 0;
  for (const Accumulator& a : structure.accumulators) {
    if (a.across ? level == 0 : a.level == level) sum += words_of(a.kind);
  }
  return sum;
}

}  // namespace

bool carried_replaces_held(const ir::Program& program, const RowClass& rows) {
  if (rows.carried.size() != 1) return false;
  for (int walk = 1; walk <= rows.structure.output_walk; ++walk) {
    const Marks read = inputs_of_walk(program, rows.structure, walk, rows.carried);
    for (std::size_t i = 0; i < read.size(); ++i) {
      if (read[i] && rows.held[i]) return false;
    }
  }
  return true;
}

int staged_bytes(const ir::Program& program, const KernelClass& kernel) {
  const RowClass& rows = *kernel.rows;
  const auto rounded = [](int bytes) { return (bytes + 15) / 16 * 16; };
  int packets = 0;
  for (std::size_t i = 0; i < kernel.inputs.size(); ++i) {
    if (rows.held[i]) packets += rounded(size_in_bytes(kernel.inputs[i]) * kernel.elements);
  }
  const int carried = static_cast<int>(rows.carried.size()) * rounded(kernel.elements * word_bytes(kernel));
  return carried_replaces_held(program, rows) ? std::max(packets, carried) : packets + carried;
}

std::int64_t results_across(const Plan& plan) {
  const RowClass& rows = *plan.kernel_class.rows;
  std::int64_t results = 1;
  for (int d = 0; d < plan.space.rank(); ++d) {
    const bool kept = d < rows.outer || d >= rows.outer + rows.reduced;
    if (kept && (rows.structure.across >> d & 1U) == 0) results *= plan.space.extents[d];
  }
  return results;
}

// One kilobyte of a block's is the system's, and the exchange takes some.
std::int64_t shared_for_rows(const Machine& machine, int blocks) {
  return multiprocessor_of(machine.architecture).shared_bytes / blocks - 1024 - kPolicy.exchange_bytes;
}

// Before sm_80 there is no cp.async.
std::int64_t most_shared(const Machine& machine) {
  if (machine.architecture < 80) return 0;
  return std::min<std::int64_t>(shared_for_rows(machine, 1), kPolicy.most_staged_bytes);
}

int most_cluster(const Machine& machine) {
  return machine.architecture >= 90 && machine.architecture / 10 != 12 ? kPolicy.most_cluster : 1;
}

void lay_out_workspace(Plan& plan) {
  Workspace& workspace = plan.workspace;
  RowClass& rows = *plan.kernel_class.rows;
  const Structure& structure = rows.structure;
  const auto add = [&](Workspace::Use use, int level, std::int64_t bytes) {
    constexpr std::size_t kAlignment = 256;
    workspace.parts.push_back({use, level, workspace.bytes});
    workspace.bytes = (workspace.bytes + static_cast<std::size_t>(bytes) + kAlignment - 1) / kAlignment * kAlignment;
  };
  const bool is_shared = shares_rows(plan.kernel_class.schedule);
  const bool is_kept = plan.kernel_class.schedule == Schedule::kept;
  const int walks = structure.output_walk + 1;
  rows.shares_across = structure.across != 0 && plan.parts > 1;
  const std::int64_t groups = rows.shares_across ? results_across(plan) : 0;
  const std::int64_t word = word_bytes(plan.kernel_class);
  // Signals first, since they must be zero: arrivals of each row; where it is walked again a ticket, and arrivals and a flag for each walk. What
  // blocks have seen of a result across rows, or of a kept row, whose parts have states besides: words of 4 bytes beside flags, two at a time.
  if (is_shared) add(Workspace::Use::signals, 0, (is_kept ? plan.tiles : 1 + plan.tiles * 2 * walks) * 4);
  if (rows.shares_across) add(Workspace::Use::across_arrivals, 0, groups * 4);
  const auto flagged = [&](int level) { return divide_up(words(structure, level) * word, 8) * 16; };
  if (rows.shares_across) add(Workspace::Use::across_parts, 0, groups * plan.parts * flagged(0));
  if (is_kept) {
    add(Workspace::Use::states, 0, plan.tiles * plan.chunks * 4);
    add(Workspace::Use::partials, 1, plan.tiles * plan.chunks * flagged(1));
  }
  workspace.zeroed_bytes = workspace.bytes;
  const std::int64_t tile_rows =
      rows.along ? plan.kernel_class.threads / rows.team : std::int64_t{rows.columns} * plan.kernel_class.elements;
  for (int level = 1; is_shared && !is_kept && level <= structure.levels; ++level) {
    const std::int64_t bytes = plan.tiles * tile_rows * words(structure, level) * word;
    add(Workspace::Use::partials, level, bytes * plan.chunks);
    add(Workspace::Use::finals, level, bytes);
  }
}

}  // namespace epifuse::plan
