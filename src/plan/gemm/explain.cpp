// The plan of a product that hosts a chain, in words and as data. Called by api/.
#include <array>
#include <string_view>

#include "base/text.hpp"
#include "plan/explain.hpp"
#include "plan/gemm/inside.hpp"
#include "plan/plan.hpp"

namespace epifuse::plan {

std::string name_of(const GemmClass& gemm_class) {
  return fmt::format("gemm {}, {} stages, {} slots", gemm_class.tile.name, gemm_class.tile.stages, gemm_class.slots);
}

std::string to_text(const GemmPlan& plan, const ProductTimes& times, const ir::Program& program,
                    const Machine& machine) {
  static constexpr std::array<std::string_view, 4> kRoles = {
      "a product: sums in registers", "a value for each element: by TMA, into the slot that its result leaves",
      "a value for each column: shared memory, once for each tile",
      "a value for each row: registers, once for each tile"};
  const GemmClass& made = plan.gemm_class;
  const GemmTile& tile = made.tile;
  std::string out = fmt::format("product          {}[{}, {}] @ {}[{}, {}]^T{}{}, sums in {}{}\n",
                                to_string(made.factor), plan.rows, plan.depth, to_string(made.factor), plan.columns,
                                plan.depth, plan.batches > 1 ? fmt::format(", {} of them", plan.batches) : "",
                                made.count(GemmRole::product) > 1 ? ", and another of the same left factor" : "",
                                to_string(made.sums()),
                                made.promotes() ? fmt::format(", of {} numbers at a time", made.depth()) : "");
  out += fmt::format("tile             {}; {} stages, {} slots, clusters of {}\n", tile.name, tile.stages, made.slots,
                     tile.cluster);
  const double waves = static_cast<double>(plan.tiles) * tile.cluster / machine.multiprocessors;
  out += fmt::format("grid             {} blocks of 384 threads for {} tiles: {:.2f} waves of {} multiprocessors\n",
                     plan.blocks, plan.tiles * tile.cluster, waves, machine.multiprocessors);
  out += fmt::format("shared memory    {} bytes of a block\n", made.shared_bytes());
  out += fmt::format("time             about {:.3g} us; the product and then the chain about {:.3g} us\n",
                     times.inside * 1e6, times.apart * 1e6);
  for (std::size_t i = 0; i < made.operands.size(); ++i) {
    out += fmt::format("operand          {} ({}): {}\n", program.inputs()[i], to_string(made.operands[i].dtype),
                       kRoles[static_cast<std::size_t>(made.operands[i].role)]);
  }
  return out;
}

PlanSummary summarise(const Inside& inside, const PlanSummary& chain, const Machine& machine) {
  const GemmPlan& plan = inside.plan;
  PlanSummary summary = chain;
  summary.schedule = "gemm";
  summary.why = fmt::format("the chain runs in the kernel of {}", inside.split.products[0].text);
  summary.threads = kGemmThreads;
  summary.blocks = static_cast<std::uint64_t>(plan.blocks);
  summary.kernel_class = name_of(plan.gemm_class);
  summary.product = to_text(plan, inside.times, inside.split.chain, machine);
  summary.workspace_bytes = 0;
  const auto bytes = [&](std::int64_t rows) {
    return static_cast<std::uint64_t>(plan.batches * rows * plan.depth) * size_of(plan.gemm_class.factor);
  };
  // The product itself stays in registers.
  const std::int64_t columns = plan.columns * plan.gemm_class.count(GemmRole::product);
  summary.bytes_read += bytes(plan.rows) + bytes(columns);
  for (std::size_t i = 0; i < inside.split.reads.size(); ++i) {
    if (inside.split.reads[i].is_product) summary.bytes_read -= chain.operands[i].bytes;
  }
  return summary;
}

}  // namespace epifuse::plan
