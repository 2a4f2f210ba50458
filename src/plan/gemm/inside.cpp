// The kernel of a product knows a batch, rows and columns. Dimensions before the last two are one of these if they lie
// in one line.
#include "plan/gemm/inside.hpp"

#include <algorithm>
#include <optional>

#include "base/text.hpp"
#include "plan/bind/block_scales.hpp"
#include "plan/bind/views.hpp"
#include "plan/plan.hpp"
#include "plan/planning.hpp"

namespace epifuse::plan {
namespace {

// Strides of `view` in `shape`, to which it broadcasts.
Dims strides_in(const TensorView& view, const Dims& shape) {
  Dims strides;
  for (int d = 0; d < shape.size(); ++d) {
    const int own = d - (shape.size() - view.shape.size());
    strides.push_back(own < 0 || view.shape[own] == 1 ? 0 : view.strides[own]);
  }
  return strides;
}

std::int64_t extent(const Dims& shape, int first, int last) {
  std::int64_t product = 1;
  for (int d = first; d < last; ++d) product *= shape[d];
  return product;
}

// How the dimensions of the result become a batch, rows and columns.
class Merge {
 public:
  /// Of a product of that shape and the shape of its right factor.
  Merge(const Dims& shape, const Dims& right)
      : shape_(shape), rank_(shape.size()), is_batched_(extent(right, 0, right.size() - 2) > 1) {}

  std::optional<TensorView> left(const TensorView& factor) const {
    Dims shape = shape_;
    shape[rank_ - 1] = factor.shape[factor.shape.size() - 1];
    return of(factor, shape);
  }
  std::optional<TensorView> of(const TensorView& view) const { return of(view, shape_); }

  // As its transpose: [columns, depth].
  std::optional<TensorView> right(const TensorView& factor) const {
    Dims shape = shape_;
    shape[rank_ - 2] = factor.shape[factor.shape.size() - 2];
    const Dims strides = strides_in(factor, shape);
    const auto batch = is_batched_ ? merged_stride(shape, strides, 0, rank_ - 2) : std::optional<std::int64_t>(0);
    if (!batch) return std::nullopt;
    TensorView made{factor.data, factor.dtype, {}, {}};
    if (is_batched_) add(made, extent(shape, 0, rank_ - 2), *batch);
    add(made, shape[rank_ - 1], strides[rank_ - 1]);
    add(made, shape[rank_ - 2], strides[rank_ - 2]);
    return made;
  }

 private:
  std::optional<TensorView> of(const TensorView& view, const Dims& shape) const {
    const Dims strides = strides_in(view, shape);
    const auto rows = merged_stride(shape, strides, is_batched_ ? rank_ - 2 : 0, rank_ - 1);
    const auto batch = is_batched_ ? merged_stride(shape, strides, 0, rank_ - 2) : std::optional<std::int64_t>(0);
    if (!rows || !batch) return std::nullopt;
    TensorView made{view.data, view.dtype, {}, {}};
    if (is_batched_) add(made, extent(shape, 0, rank_ - 2), *batch);
    add(made, extent(shape, is_batched_ ? rank_ - 2 : 0, rank_ - 1), *rows);
    add(made, shape[rank_ - 1], strides[rank_ - 1]);
    return made;
  }

  static void add(TensorView& view, std::int64_t extent, std::int64_t stride) {
    view.shape.push_back(extent);
    view.strides.push_back(stride);
  }

  Dims shape_;
  int rank_;
  bool is_batched_;
};

std::string not_in_line(std::string_view what) {
  return fmt::format("{} has dimensions before its last two that do not lie in one line of memory", what);
}

}  // namespace

std::optional<Matrices> matrices_of(const TensorView& left, const TensorView& right, const OutputView& result) {
  const Merge merge(result.shape, right.shape);
  const auto l = merge.left(left);
  const auto r = merge.right(right);
  const auto made = merge.of(result);
  if (!l || !r || !made) return std::nullopt;
  return Matrices{*l, *r, *made};
}

std::vector<Matrices> all_matrices_of(const TensorView& left, const TensorView& right, const OutputView& result) {
  const auto batched = [](TensorView view) {
    if (view.shape.size() == 3) return view;
    return TensorView{view.data, view.dtype, {1, view.shape[0], view.shape[1]}, {0, view.strides[0], view.strides[1]}};
  };
  if (const auto one = matrices_of(left, right, result))
    return {{batched(one->left), batched(one->right), batched(one->result)}};
  // Each element of the first dimension on its own.
  std::vector<Matrices> all;
  const auto element = [&](const TensorView& view, std::int64_t at) {
    TensorView rest{view.data, view.dtype, {}, {}};
    const bool has_it = view.shape.size() == result.shape.size();
    if (has_it && view.shape[0] > 1)
      rest.data = static_cast<const std::byte*>(view.data) +
                  at * view.strides[0] * static_cast<std::int64_t>(size_of(view.dtype));
    for (int d = has_it ? 1 : 0; d < view.shape.size(); ++d) {
      rest.shape.push_back(view.shape[d]);
      rest.strides.push_back(view.strides[d]);
    }
    return rest;
  };
  for (std::int64_t at = 0; at < result.shape[0]; ++at) {
    const TensorView batch = element(result, at);
    const OutputView made(const_cast<void*>(batch.data), batch.dtype, batch.shape, batch.strides);
    std::ranges::move(all_matrices_of(element(left, at), element(right, at), made), std::back_inserter(all));
  }
  return all;
}

namespace {

bool is_same(const Factor& a, const Factor& b) {
  return a.input == b.input && a.offset == b.offset && a.shape == b.shape && a.strides == b.strides;
}
bool is_same(const std::optional<BlockScales>& a, const std::optional<BlockScales>& b) {
  return a && b ? is_same(a->values, b->values) : !a && !b;
}

// Why no kernel computes these products together, or nothing.
std::string why_apart(const std::vector<Product>& products) {
  const Product& first = products[0];
  if (products.size() > kMostProducts)
    return fmt::format("the chain has {} products, and a kernel computes {}", products.size(), kMostProducts);
  for (const Product& other : products) {
    if (!other.windows && other.left.dtype == DType::f32 && !other.tf32)
      return fmt::format(
          "'{}' multiplies f32, and tensor cores take it as TF32: tf32=true as an argument of 'linear' or 'matmul' "
          "allows that",
          other.text);
    if (!is_same(other.left, first.left) || other.shape != first.shape || other.windows != first.windows ||
        (first.windows && other.right.shape != first.right.shape))
      return fmt::format("'{}' and '{}' are no products of one left factor", first.text, other.text);
    if (!is_same(other.left_scales, first.left_scales) || !other.right_scales != !first.right_scales)
      return fmt::format("the scales of '{}' and '{}' do not vary alike along the depth", first.text, other.text);
  }
  return {};
}

// A result of groups as [rows, groups], or with a batch in front. It may have one element in the place of a group's
// columns. Of whole rows, for which `columns` is 0, there is one group, and the result may have no dimension for it.
std::optional<TensorView> scales_of_groups(const Product& product, const OutputView& result, int columns) {
  Dims shape = product.shape;
  const int last = shape.size() - 1;
  shape[last] = columns == 0 ? 1 : shape[last] / columns;
  TensorView scales(result.data, result.dtype, {}, {});
  for (int d = 0; d < shape.size(); ++d) {
    scales.shape.push_back(shape[d]);
    scales.strides.push_back(d < result.strides.size() ? result.strides[d] : 1);
  }
  return Merge(shape, product.right.shape).of(scales);
}

// One kernel writes the tensor and scales, and others the rest: none of them sees what the others write. Null pointers
// stand for memory that overlaps nothing.
void check_apart(std::span<const OutputView> outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      if (outputs[i].data != nullptr && outputs[k].data != nullptr && overlap(outputs[i], outputs[k]))
        base::fail(ErrorCode::invalid_argument, "results {} and {} of the chain overlap in memory; give each its own",
                   k, i);
    }
  }
}

// Nothing is merged: tensor maps have four dimensions.
ProductOperands operands_of_convolution(const WithoutProducts& split, const OutputView& output,
                                        std::span<const TensorView> inputs) {
  const Dims order = {0, 2, 3, 1};
  const Product& product = split.products[0];
  ProductOperands made{product.left.view(inputs).permute(order), {}, output.permute(order), {}, {}};
  for (const Product& each : split.products) made.rights.push_back(each.right.view(inputs).permute(order));
  for (const TensorView& operand : split.operands(inputs, abstract_results(split))) {
    const TensorView whole{operand.data, operand.dtype, product.shape, strides_in(operand, product.shape)};
    made.all.push_back(whole.permute(order));
  }
  return made;
}

// A matrix of one row has any stride: one that the kernel copies rows by.
void give_row_stride(TensorView& matrix) {
  const int row = matrix.shape.size() - 2;
  const std::int64_t unit = 16 / static_cast<std::int64_t>(size_of(matrix.dtype));
  if (matrix.shape[row] == 1) matrix.strides[row] = divide_up(matrix.shape[row + 1], unit) * unit;
}

}  // namespace

std::variant<ProductOperands, std::string> operands_of_product(const Hosted& hosted,
                                                               std::span<const OutputView> outputs,
                                                               std::span<const TensorView> inputs) {
  const WithoutProducts& split = hosted.split;
  const OutputView& written = outputs[hosted.result];
  const Product& product = split.products[0];
  check_apart(outputs);
  if (product.windows) return operands_of_convolution(split, written, inputs);
  const auto operands = split.operands(inputs, abstract_results(split));
  const Merge merge(product.shape, product.right.shape);
  auto left = merge.left(product.left.view(inputs));
  auto output = merge.of(written);
  if (!left) return not_in_line(fmt::format("'{}'", product.left.text));
  if (!output) return not_in_line("the result");
  if (product.has_scales()) {
    give_row_stride(*left);
    give_row_stride(*output);
  }
  ProductOperands made{*left, {}, {written.writable(), written.dtype, output->shape, output->strides}, {}, {}};
  for (const Product& each : split.products) {
    auto right = merge.right(each.right.view(inputs));
    if (!right) return not_in_line(fmt::format("'{}'", each.right.text));
    if (product.has_scales()) give_row_stride(*right);
    made.rights.push_back(*right);
    if (each.right_scales) made.scaling.rights.push_back(each.right_scales->view(inputs));
  }
  if (product.left_scales) made.scaling.left = product.left_scales->view(inputs);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const auto operand = merge.of(operands[i]);
    if (!operand) return not_in_line(fmt::format("operand '{}'", split.chain.operand_text(i)));
    made.all.push_back(*operand);
  }
  for (const std::size_t result : hosted.of_groups) {
    const auto scales = scales_of_groups(product, outputs[result], hosted.groups->columns);
    if (!scales)
      return not_in_line(hosted.groups->columns == 0 ? "a result with a value for each row"
                                                     : "a result with a value for each group of columns");
    made.scales.emplace_back(outputs[result].writable(), scales->dtype, scales->shape, scales->strides);
  }
  return made;
}

namespace {

// A left factor whose rows are ordered as those of a product of that shape; nothing if they lie in no one line.
std::optional<Factor> rows_in(const Factor& factor, const Dims& shape) {
  const int rank = factor.shape.size();
  const auto row = merged_stride(factor.shape, factor.strides, 0, rank - 1);
  if (!row) return std::nullopt;
  Factor made = factor;
  made.shape = shape;
  made.strides = row_major(shape);
  const int last = shape.size() - 1;
  std::int64_t step = *row;
  for (int d = last; d-- > 0;) {
    made.strides[d] = step;
    step *= shape[d];
  }
  made.shape[last] = factor.shape[rank - 1];
  made.strides[last] = factor.strides[rank - 1];
  return made;
}

// The first column of what is read of a product, if that is neighbouring columns of all of its rows in their order.
std::optional<std::int64_t> columns_from(const Lowered::Operand& operand, const Product& product) {
  const int rank = operand.shape.size();
  const std::int64_t columns = product.shape[product.shape.size() - 1];
  if (!operand.within.empty() || operand.is_mask || rank < 2) return std::nullopt;
  Dims whole = operand.shape;
  whole[rank - 1] = columns;
  if (extent(whole, 0, rank) != extent(product.shape, 0, product.shape.size())) return std::nullopt;
  const Dims dense = row_major(whole);
  for (int d = 0; d < rank; ++d) {
    if (operand.shape[d] != 1 && operand.strides[d] != dense[d]) return std::nullopt;
  }
  const auto size = static_cast<std::int64_t>(size_of(product.dtype));
  const std::int64_t first = operand.offset / size;
  if (operand.offset < 0 || first + operand.shape[rank - 1] > columns) return std::nullopt;
  return first;
}

// The scales of a right factor whose columns begin at `first` of those of `whole`; false where they begin within a
// block.
bool begin_at(std::optional<BlockScales>& scales, std::int64_t first) {
  if (!scales) return true;
  const std::int64_t of_a_scale = scales->is_of_each ? 1 : kScaledBlock;
  scales->values.offset += first / of_a_scale * scales->values.strides[0] * static_cast<std::int64_t>(sizeof(float));
  return first % of_a_scale == 0;
}

// The product whose elements an operand of a chain without views reads.
std::optional<Product> product_read(const Product& whole, const Lowered::Operand& operand) {
  if (whole.windows) {
    const bool is_whole = operand.shape == whole.shape && operand.strides == whole.result(whole.dtype).strides;
    return is_whole && operand.within.empty() && !operand.is_mask ? std::optional(whole) : std::nullopt;
  }
  const auto first = columns_from(operand, whole);
  if (!first) return std::nullopt;
  Product made = whole;
  if (!begin_at(made.right_scales, *first)) return std::nullopt;
  const int rank = whole.right.shape.size();
  made.shape = operand.shape;
  made.text = operand.text;
  made.right.shape[rank - 1] = operand.shape[operand.shape.size() - 1];
  made.right.offset += *first * whole.right.strides[rank - 1] * static_cast<std::int64_t>(size_of(whole.right.dtype));
  Dims rows = operand.shape;
  rows[rows.size() - 1] = whole.shape[whole.shape.size() - 1];
  if (rows == whole.shape) return made;
  const auto left = rows_in(whole.left, operand.shape);
  if (!left || extent(whole.right.shape, 0, rank - 2) > 1) return std::nullopt;
  made.left = *left;
  return made;
}

// The same chain with its views pushed down to its operands: those of a product are columns of it, each a product of
// its own.
std::variant<WithoutProducts, std::string> without_views(const WithoutProducts& split,
                                                         std::span<const TensorView> inputs) {
  static constexpr std::string_view kMoved = "the chain behind the product has views that move its elements";
  const Lowered lowered = lower(split.chain, split.operands(inputs, abstract_results(split)), Views::abstract);
  if (lowered.results.size() != split.chain.results().size() || !lowered.program.bounds().empty() ||
      !lowered.program.scatters().empty())
    return std::string(kMoved);
  WithoutProducts made{lowered.program, {}, {}};
  for (const Lowered::Operand& operand : lowered.operands) {
    const WithoutProducts::Read& whole = split.reads[operand.input];
    if (whole.is_product) {
      const auto product = product_read(split.products[whole.index], operand);
      if (!product) return std::string(kMoved);
      made.reads.push_back({true, made.products.size()});
      made.products.push_back(*product);
    } else {
      made.reads.push_back({false, whole.index,
                            Factor{whole.index, operand.offset, inputs[whole.index].dtype, operand.shape,
                                   operand.strides, operand.text}});
    }
  }
  return made;
}

}  // namespace

namespace {

double distinct_bytes(const TensorView& view) {
  auto bytes = static_cast<double>(size_of(view.dtype));
  for (int d = 0; d < view.shape.size(); ++d) bytes *= view.strides[d] == 0 ? 1 : static_cast<double>(view.shape[d]);
  return bytes;
}

// Whether a chain has a kernel behind its products: sums of rows and of columns have none.
bool is_one_kernel(const WithoutProducts& split, std::span<const OutputView> outputs,
                   std::span<const TensorView> inputs, const Machine& machine) {
  try {
    const auto operands = split.operands(inputs, abstract_results(split));
    if (!split.chain.is_lowered_first()) {
      make_plan(split.chain, outputs, operands, Views::abstract, machine);
      return true;
    }
    const Lowered lowered = lower(split.chain, operands, Views::abstract);
    make_plan(lowered.program, lowered.outputs(outputs, operands), lowered.views(operands), Views::abstract, machine);
    return true;
  } catch (const epifuse::Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;
    return false;
  }
}

std::variant<Inside, std::string> plan_hosted(const Hosted& host, std::span<const OutputView> outputs,
                                              std::span<const TensorView> inputs, const Machine& machine) {
  const WithoutProducts& split = host.split;
  const OutputView& written = outputs[host.result];
  if (split.chain.has_shaping())
    return std::string("the chain behind the product has operations that change shapes, or random numbers");
  if (written.shape != split.products[0].shape)
    return fmt::format("the result has the shape {}, and the product {}", to_string(written.shape),
                       to_string(split.products[0].shape));
  auto operands = operands_of_product(host, outputs, inputs);
  if (auto* const why = std::get_if<std::string>(&operands)) return std::move(*why);
  const auto& [left, rights, output, all, scales, scaling] = std::get<ProductOperands>(operands);
  std::vector<std::string_view> names(split.products.size());
  for (std::size_t i = 0; i < split.reads.size(); ++i) {
    if (split.reads[i].is_product) names[split.reads[i].index] = split.chain.inputs()[i];
  }
  try {
    const std::span right(rights.data(), rights.size());
    const auto& windows = split.products[0].windows;
    Inside made{host,
                windows ? plan_convolution(split.chain, names, *windows, left, right, output, all, machine)
                        : plan_gemm(split.chain, names, left, right, output, all, machine,
                                    {host.reductions, host.groups, scales, scaling}),
                {}};
    double operand_bytes = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (!split.reads[i].is_product) operand_bytes += distinct_bytes(all[i]);
    }
    made.times = estimate(made.plan, split.chain, operand_bytes, host.finishes.size(), machine);
    return made;
  } catch (const epifuse::Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;
    return std::string(error.what());
  }
}

}  // namespace

std::variant<Inside, std::string> plan_one_kernel(const WithoutProducts& split, std::span<const OutputView> outputs,
                                                  std::span<const TensorView> inputs, const Machine& machine) {
  if (split.chain.has_views()) {
    auto lowered = without_views(split, inputs);
    if (auto* const why = std::get_if<std::string>(&lowered)) return std::move(*why);
    return plan_one_kernel(std::get<WithoutProducts>(lowered), outputs, inputs, machine);
  }
  if (std::string why = why_apart(split.products); !why.empty()) return why;
  const std::vector<Dims> shapes = result_shapes(split.chain, split.operands(inputs, abstract_results(split)));
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    if (shapes[i] != outputs[i].shape) return std::string("the chain's result has another shape than its output");
  }
  auto host = hosted(split, outputs, inputs);
  if (auto* const why = std::get_if<std::string>(&host)) return std::move(*why);
  return plan_hosted(std::get<Hosted>(host), outputs, inputs, machine);
}

std::variant<Inside, std::string> plan_inside(const WithoutProducts& split, std::span<const OutputView> outputs,
                                              std::span<const TensorView> inputs, const Machine& machine) {
  auto planned = plan_one_kernel(split, outputs, inputs, machine);
  const auto* const made = std::get_if<Inside>(&planned);
  // Nobody else multiplies by scales that vary along the depth: apart, this kernel runs without the chain.
  const bool has_scales = std::ranges::any_of(split.products, &Product::has_scales);
  if (made == nullptr || has_scales || made->times.inside <= made->times.apart ||
      !is_one_kernel(split, outputs, inputs, machine))
    return planned;
  return fmt::format("one kernel would take about {:.3g} us, and the product and then the chain {:.3g} us",
                     made->times.inside * 1e6, made->times.apart * 1e6);
}

ProductAlone plan_alone(const Product& product, std::span<const TensorView> inputs, const Machine& machine) {
  ProductAlone alone{program_of(product), {}};
  const std::vector<TensorView> operands = operands_of(product, inputs);
  const OutputView result(nullptr, DType::f32, product.shape);
  const WithoutProducts split = split_products(alone.program, operands, Views::abstract);
  alone.planned = plan_inside(split, std::span(&result, 1), operands, machine);
  return alone;
}

base::InlineVector<TensorView, 8> Inside::operands(const Finish& finish, const void* memory,
                                                   std::span<const TensorView> inputs) const {
  base::InlineVector<TensorView, 8> operands;
  for (const Finish::Read& read : finish.reads)
    operands.push_back(operand_of(read, plan, memory, hosted.split.products[0].shape, inputs));
  return operands;
}

std::vector<OutputView> Inside::outputs(const Finish& finish, std::span<const OutputView> outputs) const {
  std::vector<OutputView> own;
  for (const std::size_t result : finish.results) own.push_back(outputs[result]);
  return own;
}

}  // namespace epifuse::plan
