// Memory of kernels with rows: what a thread keeps of a step in shared memory, and what blocks of one launch leave for
// each other in device memory (signals, accumulators of segments of rows and of grid reductions). Called by
// reduction.cpp and its neighbours; codegen asks what is held.
#include <algorithm>

#include "plan/planning.hpp"
#include "plan/policy.hpp"

namespace epifuse::plan {
namespace {

// Numbers that the accumulators of a stage consist of; stage 0: those of grid reductions. Segments are one stage more.
std::int64_t words(const Structure& structure, int stage) {
  std::int64_t sum = 0;
  for (const Accumulator& a : structure.accumulators) {
    if ((!a.columns || a.in_runs()) && (a.grid ? stage == 0 : a.stage == stage)) sum += words_of(a.kind);
  }
  return sum;
}

}  // namespace

bool saved_replaces_held(const ir::Program& program, const ReductionClass& reduction) {
  if (reduction.residency.saved.size() != 1) return false;
  for (int pass = 1; pass <= reduction.structure.output_pass; ++pass) {
    const Marks read = inputs_of_pass(program, reduction.structure, pass, reduction.residency.saved);
    for (std::size_t i = 0; i < read.size(); ++i) {
      if (read[i] && reduction.residency.held[i]) return false;
    }
  }
  return true;
}

int staged_bytes(const ir::Program& program, const KernelClass& kernel) {
  const ReductionClass& reduction = *kernel.reduction();
  const auto rounded = [](int bytes) { return round_up(bytes, kAccessBytes); };
  int packets = 0;
  for (std::size_t i = 0; i < kernel.inputs.size(); ++i) {
    if (reduction.residency.held[i]) packets += rounded(size_in_bytes(kernel.inputs[i]) * kernel.elements);
  }
  const int saved = static_cast<int>(reduction.residency.saved.size()) * rounded(kernel.elements * word_bytes(kernel));
  return saved_replaces_held(program, reduction) ? std::max(packets, saved) : packets + saved;
}

std::int64_t grid_results(const Plan& plan) {
  const ReductionClass& reduction = *plan.kernel_class.reduction();
  std::int64_t results = 1;
  for (int d = 0; d < plan.space.rank(); ++d) {
    const bool is_parallel = d < reduction.layout.outer || d >= reduction.layout.outer + reduction.layout.reduced;
    if (is_parallel && (reduction.structure.across() >> d & 1U) == 0) results *= plan.space.extents[d];
  }
  return results;
}

int column_sums_of(const Structure& structure) {
  return static_cast<int>(std::ranges::count_if(structure.accumulators, &Accumulator::columns));
}

int columns_of_vector(const KernelClass& kernel) {
  const ReductionClass& reduction = *kernel.reduction();
  const bool has_one = reduction.columns->coordinates > 0 || !reduction.layout.inner_reduction;
  return has_one ? 1 : kernel.elements;
}

bool are_column_sums(const Structure& structure) {
  return std::ranges::none_of(structure.accumulators,
                              [](const Accumulator& a) { return a.columns && a.kind != AccumulatorKind::sum; });
}

std::int64_t summing_blocks(const Plan& plan) {
  const std::int64_t columns = grid_results(plan) * plan.columns_per_row;
  return std::min<std::int64_t>(plan.blocks, divide_up(columns, columns_at_once(plan.kernel_class)));
}

std::int64_t columns_at_once(const KernelClass& kernel) {
  return kernel.reduction()->structure.has_column_runs() ? kernel.threads / kWarp : kWarp;
}

// One kilobyte of a block's is the system's, and the exchange takes some.
std::int64_t shared_for_rows(const Machine& machine, int blocks) {
  return machine.shared_bytes / blocks - kReservedShared - kPolicy.exchange_bytes;
}

std::int64_t most_shared(const Machine& machine) {
  if (!machine.async_copies) return 0;
  return std::min<std::int64_t>(shared_for_rows(machine, 1), kPolicy.most_staged_bytes);
}

void lay_out_workspace(Plan& plan) {
  Workspace& workspace = plan.workspace;
  const ReductionClass& reduction = *plan.kernel_class.reduction();
  const Structure& structure = reduction.structure;
  const auto add = [&](Workspace::Use use, int stage, std::int64_t bytes) {
    constexpr std::size_t kAlignment = 256;
    workspace.regions.push_back({use, stage, workspace.bytes});
    workspace.bytes = (workspace.bytes + static_cast<std::size_t>(bytes) + kAlignment - 1) / kAlignment * kAlignment;
  };
  const bool is_shared = reduction.shares_rows();
  const bool is_split_resident = reduction.is<SplitResident>();
  const int passes = structure.output_pass + 1;
  const bool shares_grid = reduction.grid && reduction.grid->several_blocks;
  const std::int64_t results = shares_grid ? grid_results(plan) : 0;
  const std::int64_t word = word_bytes(plan.kernel_class);
  // Signals first, since they must be zero: arrivals of each row; where it is read again a ticket, and arrivals and a
  // flag for each pass. What blocks have seen of a grid reduction, or of a row of split_resident, whose chunks have
  // states besides: values with a status, two at a time.
  if (is_shared) add(Workspace::Use::signals, 0, (is_split_resident ? plan.tiles : 1 + plan.tiles * 2 * passes) * 4);
  if (shares_grid) add(Workspace::Use::grid_arrivals, 0, results * 4);
  const auto value_with_status = [&](int stage) { return divide_up(words(structure, stage) * word, 8) * 16; };
  if (shares_grid) add(Workspace::Use::grid_partials, 0, results * plan.blocks_per_result * value_with_status(0));
  if (is_split_resident) {
    add(Workspace::Use::states, 0, plan.tiles * plan.chunks * 4);
    add(Workspace::Use::partials, 1, plan.tiles * plan.chunks * value_with_status(1));
  }
  // Arrivals of blocks with column sums, and states of those that sum up.
  const bool shares_columns = reduction.columns && reduction.columns->several_blocks;
  if (shares_columns || structure.has_column_runs())
    add(Workspace::Use::column_signals, 0, (1 + summing_blocks(plan)) * 4);
  workspace.zeroed_bytes = workspace.bytes;
  if (shares_columns)
    add(Workspace::Use::column_partials, 0,
        grid_results(plan) * plan.blocks_per_result / reduction.columns->cluster * column_sums_of(structure) *
            plan.columns_per_row * word);
  if (structure.has_column_runs())
    add(Workspace::Use::column_partials, 0,
        plan.rows * slots_per_row(plan) * words(structure, structure.stages + 1) * word);
  const std::int64_t tile_rows = reduction.layout.inner_reduction
                                     ? plan.kernel_class.threads / reduction.threads.group
                                     : std::int64_t{reduction.threads.columns} * plan.kernel_class.elements;
  for (int stage = 1; is_shared && !is_split_resident && stage <= structure.stages; ++stage) {
    const std::int64_t bytes = plan.tiles * tile_rows * words(structure, stage) * word;
    add(Workspace::Use::partials, stage, bytes * plan.chunks);
    add(Workspace::Use::finals, stage, bytes);
  }
}

}  // namespace epifuse::plan
