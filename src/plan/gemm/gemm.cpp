// What the operands of a chain are to the tiles of its product, and what is refused. tiles.cpp chooses the tile.
#include "plan/gemm/gemm.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "base/text.hpp"
#include "plan/analysis/accuracy.hpp"
#include "plan/gemm/factor_scales.hpp"
#include "plan/gemm/maps.hpp"
#include "plan/gemm/tiles.hpp"
#include "plan/gemm/time.hpp"
#include "plan/planning.hpp"

namespace epifuse::plan {
namespace {

using base::fail;
using enum ErrorCode;

// What tensor cores multiply, and what a chain may read and write beside its product: f32 as TF32, which inside.cpp
// lets in where it is asked for. Numbers of 8 bytes, and integers that f32 does not hold, are none.
constexpr auto kFactors = std::to_array({DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2, DType::i8, DType::f32});
constexpr auto kElements =
    std::to_array({DType::f32, DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2, DType::i8, DType::u8});

bool is_one_of(std::span<const DType> types, DType type) { return std::ranges::find(types, type) != types.end(); }

struct Sides {
  std::int64_t batches, rows, depth;
};

Sides sides_of(const char* what, const TensorView& factor) {
  if (!is_one_of(kFactors, factor.dtype))
    fail(unsupported,
         "the {} factor is {}; a product that hosts a chain takes 16-bit types, float8 types, i8, or f32 as TF32", what,
         to_string(factor.dtype));
  const int rank = factor.shape.size();
  if (rank != 2 && rank != 3)
    fail(invalid_argument, "the {} factor has shape {}; a matrix, or a batch of them, was expected", what,
         to_string(factor.shape));
  return {rank == 3 ? factor.shape[0] : 1, factor.shape[rank - 2], factor.shape[rank - 1]};
}

bool is_contiguous_along_rows(const TensorView& factor) {
  const int rank = factor.shape.size();
  return factor.strides[rank - 1] != 1 && factor.strides[rank - 2] == 1;
}

// An operand against the result: its strides there, 0 where it broadcasts.
struct Spread {
  std::int64_t batch, row, column;
};

Spread spread(const TensorView& operand) {
  const auto stride = [&](int from_the_back) {
    const int at = operand.shape.size() - from_the_back;
    return at >= 0 && operand.shape[at] > 1 ? operand.strides[at] : 0;
  };
  return {stride(3), stride(2), stride(1)};
}

// Null pointers stand for memory that overlaps nothing.
bool is_overlapped(const TensorView& a, const TensorView& b) {
  return a.data != nullptr && b.data != nullptr && overlap(a, b);
}

bool is_same(const TensorView& a, const TensorView& b) {
  return a.data == b.data && a.dtype == b.dtype && a.shape == b.shape && a.strides == b.strides;
}

GemmScales scales_at(const OutputView& scales) {
  const Spread steps = spread(scales);
  return {scales.writable(), steps.batch, steps.row, steps.column};
}

void check_memory(const GemmClass& made, const TensorView& left, std::span<const TensorView> right,
                  const OutputView& output, std::span<const TensorView> inputs, const ir::Program& program,
                  std::span<const OutputView> scales) {
  for (const OutputView& scale : scales) {
    const auto is_under_scale = [&](const TensorView& other) { return is_overlapped(scale, other); };
    if (is_under_scale(left) || is_under_scale(output) || std::ranges::any_of(right, is_under_scale) ||
        std::ranges::any_of(inputs, is_under_scale))
      fail(invalid_argument, "a result with a value for each group of columns overlaps another tensor of the launch");
  }
  const auto is_under = [&](const TensorView& factor) { return is_overlapped(output, factor); };
  if (is_under(left) || std::ranges::any_of(right, is_under))
    fail(invalid_argument, "the result overlaps a factor of the product, of which other elements are still to be read");
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const GemmRole role = made.operands[i].role;
    if (role == GemmRole::product || !is_overlapped(output, inputs[i])) continue;
    if (role == GemmRole::tile && is_same(output, inputs[i])) continue;
    fail(invalid_argument, "the result overlaps operand '{}' and is not the same view", program.operand_text(i));
  }
}

class GemmPlanner {
 public:
  GemmPlanner(const ir::Program& program, std::span<const std::string_view> products, const TensorView& left,
              std::span<const TensorView> right, const OutputView& output, std::span<const TensorView> inputs,
              const Machine& machine, const GemmHost& host, const ir::Windows2d* windows = nullptr)
      : program_(program),
        left_(left),
        right_(right),
        output_(output),
        inputs_(inputs.begin(), inputs.end()),
        machine_(machine),
        host_(host) {
    if (machine.tensor_cores == TensorCores::other)
      fail(
          unsupported,
          "a product that hosts a chain needs the tensor cores of sm_80 to sm_90, or of sm_120; this is sm_{}. Run the "
          "product and the chain apart",
          machine.architecture);
    check_chain(products);
    if (host.groups != nullptr && host.groups->columns == 0 && machine.tensor_cores != TensorCores::warp_groups)
      fail(unsupported,
           "the chain reads elements beside reductions of whole rows, which a product hosts in the clusters of sm_90; "
           "this is sm_{}. Run the product and the chain apart",
           machine.architecture);
    if (windows != nullptr) {
      measure(*windows);
    } else {
      measure();
    }
    constexpr int kFirstWithFloat8 = 89;
    if ((left_.dtype == DType::f8e4m3 || left_.dtype == DType::f8e5m2) && machine.architecture < kFirstWithFloat8)
      fail(
          unsupported,
          "the factors are {}, which tensor cores multiply from sm_{} on; this is sm_{}. Run the product and the chain "
          "apart",
          to_string(left_.dtype), kFirstWithFloat8, machine.architecture);
  }

  GemmPlan plan() {
    GemmPlan plan{};
    plan.rows = rows_;
    plan.columns = columns_;
    plan.depth = depth_;
    plan.batches = batches_;
    GemmClass& made = plan.gemm_class;
    made.factor = left_.dtype;
    made.result = output_.dtype;
    made.has_windows = convolution_.has_value();
    plan.convolution = convolution_;
    made.left_transposed = !convolution_ && is_contiguous_along_rows(left_);
    made.right_transposed = !convolution_ && is_contiguous_along_rows(right_[0]);
    if (size_of(made.factor) != 2 && (made.left_transposed || made.right_transposed))
      fail(unsupported,
           "the {} factor has its rows contiguous; of {} tensor cores take factors whose depth is. Copy it, or run the "
           "product and the chain apart",
           made.left_transposed ? "left" : "right", to_string(made.factor));
    for (const std::size_t product : products_) inputs_[product] = TensorView(nullptr, DType::f32, output_.shape);
    std::vector<OutputView> outputs(program_.results().size(), OutputView(nullptr, DType::f32, output_.shape));
    if (host_.groups == nullptr) outputs[0] = output_;
    const Plan alone = make_plan(program_, outputs, inputs_, Views::abstract, machine_);
    made.chain = alone.kernel_class;
    plan.input_kinds = alone.space.input_kinds();
    if (made.chain.f64)
      fail(unsupported, "the chain computes in f64; a product that hosts a chain computes in f32. Run the two apart");
    made.reductions = host_.reductions;
    if (host_.groups != nullptr) add_groups(plan);
    place_operands(plan);
    place_scales(plan, host_.scaling);
    check_scales_apart(output_, host_.scaling);
    check_memory(made, left_, right_, output_, inputs_, program_, host_.scales);
    choose_tile(plan);
    make_maps(plan);
    make_partials(plan);
    return plan;
  }

 private:
  void check_chain(std::span<const std::string_view> products) {
    const auto& names = program_.inputs();
    for (const std::string_view product : products) {
      const auto found = std::ranges::find(names, product);
      if (found == names.end())
        fail(invalid_argument, "the chain has no operand '{}' that could stand for the product", base::shown(product));
      products_.push_back(static_cast<std::size_t>(found - names.begin()));
    }
    if (inputs_.size() != names.size())
      fail(invalid_argument, "the chain has {} operands, found {}", names.size(), inputs_.size());
    const int reduced_second = host_.groups != nullptr ? host_.groups->reduced_second() : 0;
    if (program_.results().size() + static_cast<std::size_t>(reduced_second) != 1 + host_.reductions.size())
      fail(unsupported, "the chain has {} results for elements; a product hosts a chain of one",
           program_.results().size());
    if (program_.has_shaping() || program_.has_views() || !program_.bounds().empty())
      fail(unsupported,
           "a product hosts chains of element by element operations; this one has reductions, views or random "
           "numbers. Run the product and the chain apart");
    if (!is_one_of(kElements, output_.dtype))
      fail(unsupported,
           "the result is {}; a product that hosts a chain writes f32, 16-bit types, float8 types, i8 or u8",
           to_string(output_.dtype));
  }

  void measure() {
    const Sides left = sides_of("left", left_);
    const Sides right = sides_of("right", right_[0]);
    if (left_.dtype != right_[0].dtype)
      fail(invalid_argument, "the left factor is {} and the right one {}; both must be of one type",
           to_string(left_.dtype), to_string(right_[0].dtype));
    for (const TensorView& other : right_) {
      if (other.shape != right_[0].shape || other.dtype != right_[0].dtype ||
          is_contiguous_along_rows(other) != is_contiguous_along_rows(right_[0]))
        fail(unsupported, "the right factors {} and {} of two products differ in shape, type or layout",
             to_string(right_[0].shape), to_string(other.shape));
    }
    if (left.depth != right.depth)
      fail(invalid_argument,
           "the left factor {} and the right one {} differ in their last dimension, along which products are summed: "
           "{} and "
           "{}. A matrix [depth, columns] goes in as its transpose",
           to_string(left_.shape), to_string(right_[0].shape), left.depth, right.depth);
    if (left.batches != right.batches)
      fail(invalid_argument,
           "the left factor is a batch of {} and the right one of {}. One weight for a whole batch: make the batch and "
           "the "
           "rows of the left factor one dimension",
           left.batches, right.batches);
    batches_ = left.batches;
    rows_ = left.rows;
    columns_ = right.rows;
    depth_ = left.depth;
    if (rows_ * columns_ * depth_ * batches_ == 0)
      fail(unsupported, "the product of {} and {} has no elements to compute", to_string(left_.shape),
           to_string(right_[0].shape));
    const Dims expected = output_.shape.size() == 3 ? Dims{batches_, rows_, columns_} : Dims{rows_, columns_};
    if (!(output_.shape == expected) || (batches_ > 1 && output_.shape.size() != 3))
      fail(invalid_argument, "the result has shape {}; the product of {} and the transpose of {} has [{}{}, {}]",
           to_string(output_.shape), to_string(left_.shape), to_string(right_[0].shape),
           batches_ > 1 ? fmt::format("{}, ", batches_) : "", rows_, columns_);
    if (std::max({rows_, columns_, depth_, batches_}) > (1 << 30))
      fail(unsupported, "the product of {} and {} has an extent above 2^30", to_string(left_.shape),
           to_string(right_[0].shape));
  }

  // The chains behind the groups' reductions are planned as kernels of their own, whose operands are f32, or vectors of
  // the chain before.
  void add_groups(GemmPlan& plan) const {
    const GemmGroups& groups = *host_.groups;
    GemmGroupClass made{.columns = groups.columns,
                        .elements = {},
                        .scales = {},
                        .chains = {},
                        .results = {},
                        .reduced_second = groups.reduced_second(),
                        .second = {}};
    const auto planned = [&](const ir::Program& chain, std::span<const OutputView> outputs) {
      std::vector<TensorView> inputs(chain.inputs().size(), TensorView(nullptr, DType::f32, outputs[0].shape));
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const auto vector = std::ranges::find(program_.inputs(), chain.inputs()[i]);
        if (vector != program_.inputs().end())
          inputs[i] = inputs_[static_cast<std::size_t>(vector - program_.inputs().begin())];
      }
      const ir::Fingerprint& fingerprint = chain.code_fingerprint();
      made.chains.push_back(fingerprint.low);
      made.chains.push_back(fingerprint.high);
      return make_plan(chain, outputs, inputs, Views::abstract, machine_).kernel_class;
    };
    const OutputView tensor(nullptr, output_.dtype, output_.shape);
    made.elements = planned(groups.elements, std::span(&tensor, 1));
    if (made.reduced_second > 0)
      made.second = planned(
          groups.second, std::vector(groups.second.results().size(), OutputView(nullptr, DType::f32, output_.shape)));
    std::vector<OutputView> scales;
    for (const OutputView& scale : host_.scales) {
      made.results.push_back(scale.dtype);
      scales.emplace_back(nullptr, scale.dtype, scale.shape);
      plan.scales.push_back(scales_at(scale));
    }
    if (!scales.empty()) made.scales = planned(groups.scales, scales);
    plan.gemm_class.groups = made;
    plan.groups = host_.groups;
  }

  // Of a convolution: all lies as plan_convolution() says.
  void measure(const ir::Windows2d& windows) {
    const TensorView& filters = right_[0];
    for (const TensorView& factor : {left_, filters}) {
      if (!is_one_of(kFactors, factor.dtype) || factor.dtype != left_.dtype || factor.dtype == DType::f32)
        fail(unsupported,
             "the convolution has factors of {} and {}; one that hosts a chain takes two of one 16-bit type, float8 "
             "type "
             "or i8",
             to_string(left_.dtype), to_string(filters.dtype));
    }
    Convolution made{windows,        output_.shape[0], output_.shape[1], output_.shape[2], left_.shape[1],
                     left_.shape[2], left_.shape[3],   filters.shape[1], filters.shape[2], std::nullopt};
    const bool has_warp_groups = machine_.tensor_cores == TensorCores::warp_groups;
    const int stage_bytes = has_warp_groups ? WarpGroupTile::kDepthBytes : WarpTile::kDepthBytes;
    const std::int64_t stage = stage_bytes / static_cast<int>(size_of(left_.dtype));
    columns_ = filters.shape[0];
    depth_ = made.filter_height * made.filter_width * divide_up(made.channels, stage) * stage;
    if (made.pixels() * columns_ * depth_ == 0) fail(unsupported, "the convolution has no elements to compute");
    batches_ = 1;
    rows_ = made.pixels();
    if (has_warp_groups) {
      made.patch = choose_patch(made);
      if (!made.patch)
        fail(unsupported,
             "the convolution has strides of {} and {}; one that hosts a chain on sm_90 takes every 8th pixel at most",
             windows.stride[0], windows.stride[1]);
      rows_ = made.patches() * kPatchPixels;
    }
    if (std::max({rows_, columns_, depth_, made.input_height, made.input_width, made.images}) > (1 << 30))
      fail(unsupported, "the convolution has an extent above 2^30");
    convolution_ = made;
  }

  void place_operands(GemmPlan& plan) {
    GemmClass& made = plan.gemm_class;
    std::array<int, 4> numbers{};
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const TensorView& operand = inputs_[i];
      const bool is_product = std::ranges::find(products_, i) != products_.end();
      const GemmRole role = is_product ? GemmRole::product : role_of(operand, program_.inputs()[i]);
      made.operands.push_back({role, operand.dtype, numbers[static_cast<std::size_t>(role)]++});
      const Spread steps = spread(operand);
      if (role == GemmRole::row) plan.row_vectors.push_back({operand.data, steps.batch, steps.column});
      if (role == GemmRole::column) plan.column_vectors.push_back({operand.data, steps.batch, steps.row});
    }
    constexpr int kMostTiles = 2;
    if (made.count(GemmRole::tile) > kMostTiles)
      fail(unsupported,
           "the chain reads {} tensors of the result's size; a product that hosts a chain takes {}. Run "
           "the product and the chain apart",
           made.count(GemmRole::tile), kMostTiles);
  }

  GemmRole role_of(const TensorView& operand, const std::string& name) const {
    const Spread steps = spread(operand);
    if (convolution_) {
      if (is_one_for_all_pixels(operand)) return GemmRole::row;
      check_is_full(operand, name);
    } else if (steps.row == 0) {
      return GemmRole::row;
    } else if (steps.column == 0) {
      return GemmRole::column;
    }
    if (!is_one_of(kElements, operand.dtype))
      fail(
          unsupported,
          "operand '{}' is {} and has a value for each element of the result; a product that hosts a chain copies such "
          "operands of f32, 16-bit types, float8 types, i8 or u8. Run the product and the chain apart",
          name, to_string(operand.dtype));
    if (batches_ > 1 && steps.batch == 0)
      fail(unsupported, "operand '{}' is one matrix for a batch of {}; give it a batch of its own", name, batches_);
    return GemmRole::tile;
  }

  static bool is_one_for_all_pixels(const TensorView& operand) {
    constexpr int kChannels = 3;
    for (int d = 0; d < kChannels; ++d) {
      if (operand.shape[d] > 1 && operand.strides[d] != 0) return false;
    }
    return true;
  }
  void check_is_full(const TensorView& operand, const std::string& name) const {
    static constexpr std::array<std::string_view, 4> kWhat = {"images", "rows", "columns", "channels"};
    for (int d = 0; d < output_.shape.size(); ++d) {
      if (output_.shape[d] == 1 || operand.strides[d] != 0) continue;
      fail(unsupported,
           "operand '{}' has one value for all {} of the convolution's result, and several for others; a convolution "
           "that "
           "hosts a chain takes operands with a value for each channel, or for each element",
           name, kWhat[static_cast<std::size_t>(d)]);
    }
  }

  void choose_tile(GemmPlan& plan) const {
    const int instructions = hosted_instructions(program_, plan);
    const GemmWork work = {batches_, rows_, columns_, depth_, instructions, element_instructions(instructions, plan)};
    const auto chosen = with_tile(plan.gemm_class, work, machine_);
    if (!chosen && plan.gemm_class.has_whole_rows())
      fail(unsupported,
           "the chain reads elements beside reductions of whole rows, which have {} columns of {}; the blocks of a "
           "cluster have no more than {}. Run the product and the chain apart",
           columns_, products_.size() == 1 ? "a product" : "two products", 2048 / products_.size());
    if (!chosen && host_.groups != nullptr)
      fail(unsupported,
           "the chain reduces groups of {} columns of {}; sm_{} has no tile with whole ones that fits its shared "
           "memory. Run the product and the chain apart",
           host_.groups->columns, products_.size() == 1 ? "a product" : "two products", machine_.architecture);
    if (!chosen && plan.gemm_class.right_scales == ScaledLines::each && products_.size() > 1)
      fail(
          unsupported,
          "two products have scales for each column, which leave no registers for the {} vectors of the chain. Run the "
          "products and the chain apart",
          plan.row_vectors.size() + plan.column_vectors.size());
    if (!chosen)
      fail(unsupported, "the chain's vectors do not fit a multiprocessor's shared memory beside a product's tiles");
    plan.gemm_class = *chosen;
    plan.gemm_class.unrolls = unrolls(*chosen, work.in_code);
    const int cluster = chosen->cluster();
    plan.cluster_rows = divide_up(rows_, std::int64_t{chosen->tile_rows()} * cluster);
    plan.tile_columns = chosen->has_whole_rows() ? 1 : divide_up(columns_, chosen->result_columns());
    plan.tiles = tiles_of(*chosen, work);
    if (plan.tiles > (1 << 30)) fail(unsupported, "the product has {} tiles, more than 2^30", plan.tiles);
    plan.band = kBandRows / (chosen->tile_rows() * cluster);
    // Blocks of warp groups stay, and work on one tile after another; others have one.
    const std::int64_t stay = clusters_at_once(*chosen, machine_);
    plan.blocks = static_cast<int>(chosen->warp_group_tile() != nullptr ? std::min(plan.tiles, stay) : plan.tiles) *
                  chosen->blocks_of_cluster();
  }

  void make_maps(GemmPlan& plan) const {
    if (convolution_) return make_image_maps(plan);
    const GemmClass& made = plan.gemm_class;
    const int depth = made.depth();
    plan.maps.push_back(
        map_of("left factor", left_, made.left_transposed, {depth, made.left_box_rows(), 1, 1}, made.depth_bytes()));
    const int columns = std::min(made.tile_columns() / made.cluster(), made.result_columns());
    for (const TensorView& right : right_)
      plan.maps.push_back(map_of("right factor", right, made.right_transposed,
                                 {depth, made.right_transposed ? 64 : columns, 1, 1}, made.depth_bytes()));
    plan.maps.push_back(map_of_subtiles("result", output_, made));
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (made.operands[i].role == GemmRole::tile)
        plan.maps.push_back(map_of_subtiles(program_.inputs()[i], inputs_[i], made));
    }
  }

  void make_partials(GemmPlan& plan) const {
    const GemmClass& made = plan.gemm_class;
    for (const GemmReduction& reduction : host_.reductions) {
      if (reduction.scope == GemmScope::group || reduction.scope == GemmScope::whole_row) continue;
      if (reduction.scope == GemmScope::row) {
        plan.partials.push_back({plan.tile_columns * made.row_partials(), batches_ * rows_});
      } else {
        plan.partials.push_back({batches_ * divide_up(rows_, std::int64_t{made.reduced_rows()}), columns_});
      }
    }
  }

  void make_image_maps(GemmPlan& plan) const {
    const GemmClass& made = plan.gemm_class;
    if (made.warp_tile() != nullptr) return make_pixel_maps(plan);
    const Patch& patch = *convolution_->patch;
    const auto& [stride_y, stride_x] = convolution_->windows.stride;
    plan.maps.push_back(map_of_pixels("images", left_, made.depth(), patch));
    plan.maps.back().steps = {1, stride_x, stride_y, 1};
    const int filters = std::min(made.tile_columns() / made.cluster(), made.result_columns());
    for (const TensorView& right : right_) plan.maps.push_back(map_of_filters(right, made.depth(), filters));
    plan.maps.push_back(map_of_pixels("result", output_, made.subtile_columns(), patch.halved()));
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      if (made.operands[i].role == GemmRole::tile)
        plan.maps.push_back(map_of_pixels(program_.inputs()[i], inputs_[i], made.subtile_columns(), patch.halved()));
    }
  }

  // Where rows are pixels in their order, a channels-last result is a matrix, and so are operands of its size.
  void make_pixel_maps(GemmPlan& plan) const {
    const GemmClass& made = plan.gemm_class;
    plan.maps.push_back(map_of_images("images", left_));
    check_reach(plan.maps.back());
    for (const TensorView& right : right_) plan.maps.push_back(map_of_filter_matrices(right));
    plan.maps.push_back(map_of_subtiles("result", rows_of_pixels("result", output_), made));
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const std::string& name = program_.inputs()[i];
      if (made.operands[i].role == GemmRole::tile)
        plan.maps.push_back(map_of_subtiles(name, rows_of_pixels(name, inputs_[i]), made));
    }
  }

  // Threads keep where windows begin in 32 bits, in units of 16 bytes.
  void check_reach(const GemmMap& images) const {
    constexpr std::int64_t kMost = std::int64_t{16} << 31;
    const auto& [pad_y, pad_x] = convolution_->windows.padding;
    const std::int64_t reach = images.extents[3] * images.strides[2] + (images.extents[2] + pad_y) * images.strides[1] +
                               (images.extents[1] + pad_x) * images.strides[0];
    if (reach < kMost) return;
    fail(unsupported,
         "the images reach over {:.3g} GB; a convolution that hosts a chain reads 34 GB at most on sm_{}. Launch fewer "
         "images at a time",
         static_cast<double>(reach) * 1e-9, machine_.architecture);
  }

  static GemmMap map_of_subtiles(std::string_view name, const TensorView& tensor, const GemmClass& made) {
    return map_of(name, tensor, false, {made.subtile_columns(), 64, 1, 1},
                  made.subtile_columns() * static_cast<int>(size_of(tensor.dtype)));
  }

  static constexpr int kBandRows = 2048;  // whose left operands the L2 cache holds while columns of tiles pass

  const ir::Program& program_;
  const TensorView& left_;
  std::span<const TensorView> right_;
  const OutputView& output_;
  std::vector<TensorView> inputs_;
  const Machine& machine_;
  const GemmHost& host_;
  base::InlineVector<std::size_t, kMostProducts> products_;  // positions among the chain's operands
  std::int64_t batches_ = 0, rows_ = 0, columns_ = 0, depth_ = 0;
  std::optional<Convolution> convolution_;
};

}  // namespace

std::int64_t GemmPlan::partials_at(std::size_t reduction) const {
  constexpr std::int64_t kBoundary = 256;  // bytes
  std::int64_t at = 0;
  for (std::size_t i = 0; i < reduction; ++i) at += divide_up(partials[i].bytes(), kBoundary) * kBoundary;
  return at;
}

void GemmPlan::move_to(const TensorView& left, std::span<const TensorView> right, const OutputView& output,
                       std::span<const TensorView> inputs, const ir::Program& program,
                       std::span<const OutputView> moved_scales, const GemmScaling& scaling) {
  check_memory(gemm_class, left, right, output, inputs, program, moved_scales);
  check_scales_apart(output, scaling);
  move_scales(*this, scaling);
  for (std::size_t i = 0; i < scales.size(); ++i) scales[i] = scales_at(moved_scales[i]);
  maps[0].data = left.data;
  for (std::size_t i = 0; i < right.size(); ++i) maps[1 + i].data = right[i].data;
  maps[1 + right.size()].data = output.data;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const GemmOperand& operand = gemm_class.operands[i];
    const auto number = static_cast<std::size_t>(operand.number);
    if (operand.role == GemmRole::tile) maps[2 + right.size() + number].data = inputs[i].data;
    if (operand.role == GemmRole::row) row_vectors[number].data = inputs[i].data;
    if (operand.role == GemmRole::column) column_vectors[number].data = inputs[i].data;
  }
}

GemmPlan plan_gemm(const ir::Program& program, std::string_view product, const TensorView& left,
                   const TensorView& right, const OutputView& output, std::span<const TensorView> inputs,
                   const Machine& machine) {
  return plan_gemm(program, std::span(&product, 1), left, std::span(&right, 1), output, inputs, machine);
}

GemmPlan plan_gemm(const ir::Program& program, std::span<const std::string_view> products, const TensorView& left,
                   std::span<const TensorView> right, const OutputView& output, std::span<const TensorView> inputs,
                   const Machine& machine, const GemmHost& host) {
  return GemmPlanner(program, products, left, right, output, inputs, machine, host).plan();
}

GemmPlan plan_convolution(const ir::Program& program, std::span<const std::string_view> products,
                          const ir::Windows2d& windows, const TensorView& images, std::span<const TensorView> filters,
                          const OutputView& output, std::span<const TensorView> inputs, const Machine& machine) {
  return GemmPlanner(program, products, images, filters, output, inputs, machine, {}, &windows).plan();
}

}  // namespace epifuse::plan
