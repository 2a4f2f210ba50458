// The plan of a product that hosts a chain, in words and as data. Called by api/.
#include <string>

#include "base/text.hpp"
#include "plan/bind/shapes.hpp"
#include "plan/explain.hpp"
#include "plan/gemm/inside.hpp"
#include "plan/plan.hpp"

namespace epifuse::plan {

std::string name_of(const GemmClass& gemm_class) {
  return fmt::format("gemm {}, {} stages, {} slots", gemm_class.tile_name(), gemm_class.stages(), gemm_class.slots);
}

namespace {

std::string product_text(const GemmPlan& plan) {
  const std::string_view type = to_string(plan.gemm_class.factor);
  return fmt::format("product          {}[{}, {}] @ {}[{}, {}]^T{}{}", type, plan.rows, plan.depth, type, plan.columns,
                     plan.depth, plan.batches > 1 ? fmt::format(", {} of them", plan.batches) : "",
                     plan.gemm_class.factor == DType::f32 ? " as TF32" : "");
}

std::string convolution_text(const GemmPlan& plan) {
  const Convolution& of = *plan.convolution;
  const ir::Windows2d& windows = of.windows;
  return fmt::format(
      "convolution      {}[{}, {}, {}, {}] with filters [{}, {}, {}, {}], stride {} x {}, padding {} x {}, dilation {} "
      "x "
      "{}",
      to_string(plan.gemm_class.factor), of.images, of.channels, of.input_height, of.input_width, plan.columns,
      of.channels, of.filter_height, of.filter_width, windows.stride[0], windows.stride[1], windows.padding[0],
      windows.padding[1], windows.dilation[0], windows.dilation[1]);
}

std::string rows_text(const GemmPlan& plan) {
  const Convolution& of = *plan.convolution;
  if (!of.patch)
    return fmt::format(
        "rows of a tile   {} pixels of the result in their order: along its width, its height, its images\n",
        plan.gemm_class.tile_rows());
  const auto rows = static_cast<double>(of.patches() * of.patch->pixels());
  return fmt::format("rows of a tile   {} x {} pixels of {} image{}; {:.1f} % of all beyond the result's edges\n",
                     of.patch->height, of.patch->width, of.patch->images, of.patch->images == 1 ? "" : "s",
                     100 * (1 - static_cast<double>(of.pixels()) / rows));
}

std::string role_text(GemmRole role, const GemmClass& made) {
  const bool has_warp_groups = made.warp_group_tile() != nullptr;
  switch (role) {
    case GemmRole::product:
      return "a product: sums in registers";
    case GemmRole::tile:
      return fmt::format("a value for each element: by {}, into the slot that its result leaves",
                         has_warp_groups ? "TMA" : "cp.async");
    case GemmRole::row:
      return "a value for each column: shared memory, once for each tile";
    case GemmRole::column:
      return fmt::format("a value for each row: {}, once for each tile",
                         has_warp_groups ? "registers" : "shared memory");
  }
  return {};
}

std::string scope_text(const GemmPlan& plan, std::size_t reduction) {
  const GemmScope scope = plan.gemm_class.reductions[reduction].scope;
  if (scope == GemmScope::group)
    return fmt::format("over {} columns of a row, by the {} threads that have them; the chain goes on with it",
                       plan.gemm_class.group_columns(), plan.gemm_class.joins_warps() ? "eight" : "four");
  if (scope == GemmScope::whole_row)
    return plan.gemm_class.row_blocks() > 1
               ? std::string(
                     "over a row, by four threads of each block of a cluster, which give each other what they "
                     "have; the chain goes on with it")
               : std::string("over a row, by the four threads that have it; the chain goes on with it");
  const GemmPartials& partials = plan.partials[reduction];
  return fmt::format("{} partial results for each {}, {:.3g} MB of f32; another kernel combines them", partials.count,
                     scope == GemmScope::row ? "row" : "column", static_cast<double>(partials.bytes()) * 1e-6);
}

// The value that is reduced.
std::string reduced_text(const GemmPlan& plan, const ir::Program& program, std::size_t reduction) {
  const std::size_t result = 1 + reduction;
  if (result < program.results().size()) return plan::text_of(program, program.results()[result].value);
  const ir::Program& second = plan.groups->second;
  return plan::text_of(second, second.results()[result - program.results().size() + 1].value);
}

std::string whole_rows_text(const GemmClass& made) {
  if (!made.has_whole_rows()) return {};
  const int exchanges = made.groups->reduced_second > 0 ? 2 : 1;
  if (made.row_blocks() == 1) return fmt::format("rows             a row lies in one tile\n");
  return fmt::format(
      "rows             a row lies in the tiles of {} blocks of a cluster, which have one left tile in common and give "
      "each other what the row is reduced to {}\n",
      made.row_blocks(), exchanges == 1 ? "once" : "twice");
}

std::string scales_text(const GemmClass& made) {
  if (!made.is_scaled()) return {};
  const auto of = [](ScaledLines lines, std::string_view side, std::string_view line) {
    if (lines == ScaledLines::none) return std::string();
    return fmt::format("; {}: one for each {}{} and 128 numbers of the depth", side,
                       lines == ScaledLines::blocks ? "128 " : "",
                       lines == ScaledLines::blocks ? fmt::format("{}s", line) : line);
  };
  return fmt::format("scales           f32, by which sums of 128 numbers are multiplied{}{}\n",
                     of(made.left_scales, "left", "row"), of(made.right_scales, "right", "column"));
}

// These do not add up to the estimate: memory moves beside the products, and where groups take turns, so does most
// of the chain.
std::string time_text(const GemmPlan& plan, const ProductTimes& times) {
  const double flops = 2.0 * static_cast<double>(plan.batches * plan.rows * plan.columns * plan.depth) *
                       plan.gemm_class.count(GemmRole::product);
  return fmt::format(
      "time             about {:.3g} us; the product and then the chain about {:.3g} us\n"
      "made of          {:.3g} us of products, {:.3g} Tflop/s; {:.3g} us of the chain that no product hides; beside "
      "them {:.3g} us for {:.3g} MB of memory, and {:.3g} MB from the L2 cache to tiles\n",
      times.inside * 1e6, times.apart * 1e6, times.products * 1e6, flops / times.products * 1e-12, times.chain * 1e6,
      times.memory * 1e6, times.bytes * 1e-6, times.copied * 1e-6);
}

std::string cluster_text(const GemmClass& made) {
  return made.warp_group_tile() != nullptr ? fmt::format(", clusters of {}", made.blocks_of_cluster()) : "";
}

std::string grid_text(const GemmPlan& plan, const Machine& machine) {
  const GemmClass& made = plan.gemm_class;
  const std::int64_t tiles = plan.tiles * made.cluster() * std::max(made.row_blocks(), 1);
  const WarpTile* const tile = made.warp_tile();
  const int of_a_wave = machine.multiprocessors * (tile != nullptr ? tile->per_multiprocessor : 1) / made.split();
  return fmt::format("grid             {} blocks of {} threads for {} tiles: {:.2f} waves of {} multiprocessors{}\n",
                     plan.blocks, made.threads(), tiles, static_cast<double>(tiles) / of_a_wave,
                     machine.multiprocessors,
                     tile != nullptr ? fmt::format(", with {} of them each", tile->per_multiprocessor) : "");
}

}  // namespace

std::string to_text(const GemmPlan& plan, const ProductTimes& times, const ir::Program& program,
                    const Machine& machine) {
  const GemmClass& made = plan.gemm_class;
  const std::string another = made.count(GemmRole::product) > 1 ? ", and another of the same left factor" : "";
  std::string out = fmt::format("{}{}, sums in {}{}\n", plan.convolution ? convolution_text(plan) : product_text(plan),
                                another, to_string(made.sums()),
                                made.promotes() ? fmt::format(", of {} numbers at a time", made.promoted_depth()) : "");
  out += scales_text(made);
  if (plan.convolution) out += rows_text(plan);
  out += fmt::format("tile             {}; {} stages, {} slots{}\n", made.tile_name(), made.stages(), made.slots,
                     cluster_text(made));
  out += whole_rows_text(made);
  out += grid_text(plan, machine);
  out += fmt::format("shared memory    {} bytes of a block\n", made.shared_bytes());
  out += time_text(plan, times);
  for (std::size_t i = 0; i < made.operands.size(); ++i) {
    out += fmt::format("operand          {} ({}): {}\n", program.inputs()[i], to_string(made.operands[i].dtype),
                       role_text(made.operands[i].role, made));
  }
  for (std::size_t i = 0; i < made.reductions.size(); ++i) {
    out += fmt::format("reduced          {} of {}: {}\n", ir::reduction_row(made.reductions[i].op).name,
                       reduced_text(plan, program, i), scope_text(plan, i));
  }
  for (const GemmScales& scales : plan.scales) {
    out += made.has_whole_rows() ? fmt::format("written          a value for each row: {} apart\n", scales.row_stride)
                                 : fmt::format(
                                       "written          a value for each group: {} apart for rows, {} for "
                                       "groups\n",
                                       scales.row_stride, scales.group_stride);
  }
  return out;
}

PlanSummary summarise(const Inside& inside, const PlanSummary& chain, const Machine& machine) {
  const GemmPlan& plan = inside.plan;
  PlanSummary summary = chain;
  summary.schedule = "gemm";
  summary.why = fmt::format("the chain runs in the kernel of {}", inside.hosted.split.products[0].text);
  summary.threads = plan.gemm_class.threads();
  summary.blocks = static_cast<std::uint64_t>(plan.blocks);
  summary.kernel_class = name_of(plan.gemm_class);
  summary.product = to_text(plan, inside.times, inside.chain(), machine);
  summary.workspace_bytes = static_cast<std::uint64_t>(plan.partial_bytes());
  // The product itself stays in registers.
  const std::int64_t columns = plan.columns * plan.gemm_class.count(GemmRole::product);
  std::int64_t of_factors = plan.batches * plan.depth * (plan.rows + columns);
  if (plan.convolution) {
    const Convolution& of = *plan.convolution;
    of_factors =
        of.channels * (of.images * of.input_height * of.input_width + of.filter_height * of.filter_width * columns);
  }
  summary.bytes_read += static_cast<std::uint64_t>(of_factors) * size_of(plan.gemm_class.factor);
  for (const GemmFactorScales& scales : plan.factor_scales)
    summary.bytes_read += static_cast<std::uint64_t>(scales.count) * sizeof(float);
  for (std::size_t i = 0; i < inside.hosted.split.reads.size(); ++i) {
    if (inside.hosted.split.reads[i].is_product) summary.bytes_read -= chain.operands[i].bytes;
  }
  return summary;
}

}  // namespace epifuse::plan
