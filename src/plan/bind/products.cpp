// A chain is copied but for its products, which become operands; what only a product reads does not come with it.
#include "plan/bind/products.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "base/text.hpp"
#include "ir/derivatives.hpp"
#include "ir/result_types.hpp"
#include "ir/subchain.hpp"
#include "plan/bind/block_scales.hpp"
#include "plan/bind/shapes.hpp"
#include "plan/bind/views.hpp"

namespace epifuse::plan {
namespace {

using base::fail;
using ir::Node;
using ir::Op;
using enum ErrorCode;

std::size_t at(ir::Value value) { return static_cast<std::size_t>(value); }

bool is_float(DType type) { return is_floating(type) && type != DType::f8e8m0 && !is_packed(type); }
bool is_float8(DType type) { return is_float(type) && size_of(type) == 1; }

// Scales of a right factor are written [blocks of the depth, columns], and kept with lines first.
template <class Matrix>
void transpose(Matrix& matrix) {
  std::swap(matrix.shape[0], matrix.shape[1]);
  std::swap(matrix.strides[0], matrix.strides[1]);
}

class ProductSplitter {
 public:
  ProductSplitter(const ir::Program& program, std::span<const TensorView> inputs, Views views)
      : program_(program),
        inputs_(inputs),
        views_(views),
        shapes_(value_shapes(program, inputs)),
        is_elementwise_(std::ranges::none_of(program.nodes(), [](const Node& n) {
          return ir::is_reduction(n.op) || ir::is_generated(n.op) || n.op == Op::count;
        })) {}

  WithoutProducts run() {
    find_needed();
    declare();
    std::vector<ir::Value> copies(program_.nodes().size(), ir::kNone);
    for (std::size_t i = 0; i < copies.size(); ++i) {
      if (needed_[i]) copies[i] = copy(i, copies);
    }
    for (const ir::Result& result : program_.results()) builder_.result(result.name, copies[at(result.value)]);
    WithoutProducts made{std::move(builder_).finish().with(program_.math()), std::move(reads_), std::move(products_)};
    std::vector<std::string> texts;
    for (const WithoutProducts::Read& read : made.reads)
      texts.push_back(read.is_product ? made.products[read.index].text : program_.operand_text(read.index));
    made.chain = std::move(made.chain).with_operand_texts(std::move(texts));
    return made;
  }

 private:
  const Node& node(ir::Value value) const { return program_.node(value); }
  const Dims& shape(ir::Value value) const { return shapes_[at(value)]; }

  // By value: the rest of the chain computes it or reads it.
  void find_needed() {
    std::vector<ir::Value> writes;
    for (const ir::Result& result : program_.results()) writes.push_back(result.value);
    std::vector<bool> is_product;
    for (const Node& n : program_.nodes()) {
      is_product.push_back(ir::is_product(n.op));
      if (n.op == Op::matmul) std::ranges::copy(scales_of_chain(n), std::back_inserter(writes));
    }
    needed_ = needed_for(program_, writes, is_product);
  }

  // Products stand first, as they do in the chain. An operand that no value reads still counts for broadcasting, unless
  // a product reads it.
  void declare() {
    for (std::size_t i = 0; i < needed_.size(); ++i) {
      if (!needed_[i] || !ir::is_product(program_.nodes()[i].op)) continue;
      reads_.push_back({true, products_.size()});
      names_.push_back(product_name());
      products_.push_back(product_of(static_cast<ir::Value>(i)));
      builder_.input(names_.back());
    }
    std::vector<bool> is_read(program_.inputs().size(), false);
    std::vector<bool> is_mentioned = is_read;
    for (std::size_t i = 0; i < needed_.size(); ++i) {
      const Node& n = program_.nodes()[i];
      if (n.op != Op::input) continue;
      is_read[static_cast<std::size_t>(n.ordinal)] = needed_[i];
      is_mentioned[static_cast<std::size_t>(n.ordinal)] = true;
    }
    for (std::size_t i = 0; i < is_read.size(); ++i) {
      if (is_mentioned[i] && !is_read[i]) continue;
      reads_.push_back({false, i});
      builder_.input(program_.inputs()[i]);
    }
    for (const std::string& name : program_.scalars()) builder_.scalar(name);
  }

  // "product", or with a number behind it.
  std::string product_name() const {
    const auto is_taken = [&](const std::string& name) {
      const auto among = [&](const std::vector<std::string>& names) {
        return std::ranges::find(names, name) != names.end();
      };
      return among(program_.inputs()) || among(program_.scalars()) || among(names_);
    };
    std::string name = "product";
    for (int next = 1; is_taken(name); ++next) name = fmt::format("product{}", next);
    return name;
  }

  ir::Value copy(std::size_t i, const std::vector<ir::Value>& copies) {
    const Node& n = program_.nodes()[i];
    if (ir::is_product(n.op)) {
      ir::Value product = builder_.input(names_[next_product_++]);
      if (n.op != Op::matmul) return product;
      for (const ir::Value scale : scales_of_chain(n))
        product = builder_.apply(Op::mul, {product, copies[at(scale)], ir::kNone});
      return product;
    }
    std::array<ir::Value, ir::kMaxArity> args = {ir::kNone, ir::kNone, ir::kNone};
    for (std::size_t k = 0; k < static_cast<std::size_t>(n.arity()); ++k) args[k] = copies[at(n.args[k])];
    if (is_elementwise_ && (n.op == Op::unflatten || n.op == Op::flatten || n.op == Op::along))
      return builder_.view(args[0], numbered_view(ir::View::Kind::reshape, {shapes_[i].begin(), shapes_[i].end()}));
    return rebuilt(builder_, n, args, name_of_operand(program_, n), program_.view_of(n));
  }

  // Of the argument of a product; kNone where it has none.
  ir::Value scale_of(const Node& product, std::size_t argument) const {
    const Node& factor = node(product.args[argument]);
    return factor.op == Op::block_scaled ? factor.args[1] : ir::kNone;
  }
  ScaleShape shape_of_scale_of(const Node& product, std::size_t argument) const {
    return shape_of_scale(shape(product.args[argument]), shape(scale_of(product, argument)), argument);
  }

  // Scales for each row, each column or all: they multiply the product in the chain.
  base::InlineVector<ir::Value, 2> scales_of_chain(const Node& product) const {
    base::InlineVector<ir::Value, 2> scales;
    for (std::size_t i = 0; i < 2; ++i) {
      const ir::Value scale = scale_of(product, i);
      if (scale != ir::kNone && !shape_of_scale_of(product, i).is_of_blocks) scales.push_back(scale);
    }
    return scales;
  }

  // The others, which a product's kernel reads where they lie.
  std::optional<BlockScales> block_scales(const Node& product, std::size_t argument) const {
    const ir::Value scale = scale_of(product, argument);
    if (scale == ir::kNone) return std::nullopt;
    const ScaleShape varies = shape_of_scale_of(product, argument);
    if (!varies.is_of_blocks) return std::nullopt;
    auto operand = strided(scale);
    if (!operand || operand->dtype != DType::f32)
      fail(unsupported,
           "the {} scale of '{}' varies along the depth, and products read such scales as they lie in memory, in f32; "
           "it is {}. Write it to a tensor of f32 in a chain of its own, and pass that",
           argument == 0 ? "left" : "right", ir::written_name(product),
           operand ? std::string(to_string(operand->dtype)) : fmt::format("'{}'", plan::text_of(program_, scale)));
    if (argument == 1) transpose(*operand);
    for (int d = 0; d < 2; ++d) {
      if (operand->shape[d] == 1) operand->strides[d] = 0;
    }
    return BlockScales{*operand, varies.is_of_each};
  }

  std::string text_of_factor(const Node& product, std::size_t argument, const Factor& factor,
                             const std::optional<BlockScales>& scales) const {
    const ir::Value scale = scale_of(product, argument);
    return scales ? fmt::format("block_scaled({}, {})", factor.text, plan::text_of(program_, scale)) : factor.text;
  }

  Product product_of(ir::Value value) const {
    const Node& n = node(value);
    Product product{factor_of(n, 0), factor_of(n, 1), shape(value), {}, {}, n.op == Op::matmul && n.constant != 0};
    if (n.op == Op::conv2d) product.windows = n.shaping.windows;
    check_types(n, product.left.dtype, product.right.dtype);
    if (n.op == Op::matmul) {
      check_scaled_types(n, product.left.dtype);
      product.left_scales = block_scales(n, 0);
      product.right_scales = block_scales(n, 1);
    }
    if (product.tf32 && product.left.dtype != DType::f32)
      fail(unsupported, "'{}' has tf32=true, which is for factors of f32; these are {}. Leave it out",
           ir::written_name(n), to_string(product.left.dtype));
    check_sums(n, product);
    product.dtype = ir::type_of_product(product.left.dtype, product.right.dtype);
    const bool is_linear = n.written == "linear" && node(n.args[1]).op == Op::view;
    product.text =
        product.windows ? fmt::format("conv2d({}, {})", product.left.text, product.right.text)
        : is_linear ? fmt::format("linear({}, {})", product.left.text, plan::text_of(program_, node(n.args[1]).args[0]))
                    : fmt::format("{} @ {}", text_of_factor(n, 0, product.left, product.left_scales),
                                  text_of_factor(n, 1, product.right, product.right_scales));
    if (product.tf32) product.text += " in TF32";
    return product;
  }

  static void check_types(const Node& n, DType left, DType right) {
    if ((left == right && is_float(left)) || (is_float8(left) && is_float8(right)) ||
        (left == DType::i8 && right == DType::i8))
      return;
    fail(unsupported,
         "'{}' multiplies values of {} and {}; both are floats of one type but f8e8m0, of 8 bits each, or i8. Convert "
         "one to the "
         "other's type in a chain of its own",
         ir::written_name(n), to_string(left), to_string(right));
  }

  void check_scaled_types(const Node& n, DType factor) const {
    if (is_float8(factor) || (scale_of(n, 0) == ir::kNone && scale_of(n, 1) == ir::kNone)) return;
    fail(unsupported,
         "'{}' has scales of factors of {}; those of f8e4m3 and f8e5m2 have scales. Scales of rows and of columns "
         "multiply any product: (a @ b) * scale",
         ir::written_name(n), to_string(factor));
  }

  // i32 holds every sum of so many products of i8.
  static void check_sums(const Node& n, const Product& product) {
    constexpr std::int64_t kMostDepth = (std::int64_t{1} << 31) / (std::int64_t{128} * 128) - 1;
    const Factor& left = product.left;
    std::int64_t depth = left.shape[left.shape.size() - 1];
    if (product.windows) depth = product.right.shape[1] * product.right.shape[2] * product.right.shape[3];
    if (left.dtype != DType::i8 || depth <= kMostDepth) return;
    fail(unsupported, "'{}' sums {} products of i8, which i32 may not hold; at most {} can be summed",
         ir::written_name(n), depth, kMostDepth);
  }

  // A factor is read where it lies.
  Factor factor_of(const Node& product, std::size_t argument) const {
    ir::Value value = product.args[argument];
    if (node(value).op == Op::block_scaled) value = node(value).args[0];
    if (const auto operand = strided(value)) return *operand;
    ir::Value computed = value;
    while (is_movement(node(computed))) computed = node(computed).args[0];
    fail(unsupported,
         "the {} argument of '{}' is {}, and products read operands as they lie in memory: write it to a tensor in a "
         "chain of its own, and pass that",
         argument == 0 ? "first" : "second", ir::written_name(product),
         node(computed).op == Op::input ? fmt::format("'{}', which no strides describe", plan::text_of(program_, value))
                                        : fmt::format("a result of '{}'", ir::written_name(node(computed))));
  }

  static bool is_movement(const Node& n) { return n.op == Op::view || n.op == Op::unflatten || n.op == Op::flatten; }

  // Views of one operand that strides describe.
  std::optional<Factor> strided(ir::Value value) const {
    std::vector<ir::Value> path = {value};
    while (is_movement(node(path.back()))) path.push_back(node(path.back()).args[0]);
    if (node(path.back()).op != Op::input) return std::nullopt;
    const auto input = static_cast<std::size_t>(node(path.back()).ordinal);
    const TensorView& view = inputs_[input];
    if (path.size() == 1) return Factor{input, 0, view.dtype, view.shape, view.strides, program_.operand_text(input)};
    ir::Builder builder;
    ir::Value made = builder.input(program_.inputs()[input]);
    for (std::size_t i = path.size() - 1; i-- > 0;) {
      const Node& n = node(path[i]);
      made = rebuilt(builder, n, {made, ir::kNone, ir::kNone}, {}, program_.view_of(n));
    }
    builder.result("", made);
    const ir::Program alone = std::move(builder).finish();
    const Lowered lowered = lower(alone, std::span(&view, 1), views_);
    const ir::Program& left = lowered.program;
    if (lowered.operands.size() != 1 || !left.bounds().empty() || left.node(left.results()[0].value).op != Op::input)
      return std::nullopt;
    const Lowered::Operand& operand = lowered.operands[0];
    return Factor{input, operand.offset, view.dtype, operand.shape, operand.strides, operand.text};
  }

  const ir::Program& program_;
  std::span<const TensorView> inputs_;
  Views views_;
  std::vector<Dims> shapes_;
  bool is_elementwise_;  // but for products: then other shapes are views, which go down to the operands
  std::vector<bool> needed_;
  std::vector<std::string> names_;  // by product
  std::vector<WithoutProducts::Read> reads_;
  std::vector<Product> products_;
  std::size_t next_product_ = 0;
  ir::Builder builder_;
};

}  // namespace

TensorView Factor::view(std::span<const TensorView> inputs) const {
  const auto* const data = static_cast<const std::byte*>(inputs[input].data);
  return {data == nullptr ? nullptr : data + offset, dtype, shape, strides};
}

std::optional<std::int64_t> merged_stride(const Dims& shape, const Dims& strides, int first, int last) {
  std::optional<std::int64_t> innermost;
  std::int64_t next = 0;
  for (int d = last; d-- > first;) {
    if (shape[d] == 1) continue;
    if (innermost && strides[d] != next) return std::nullopt;
    if (!innermost) innermost = strides[d];
    next = strides[d] * shape[d];
  }
  return innermost.value_or(0);
}

ir::Program program_of(const Product& product) {
  ir::Builder builder;
  ir::Value left = builder.input("x");
  ir::Value right = builder.input("w");
  if (product.left_scales) left = builder.block_scaled(left, builder.input("sx"));
  if (product.right_scales) right = builder.block_scaled(right, builder.input("sw"));
  builder.result("", builder.matmul(left, right, product.tf32));
  return std::move(builder).finish();
}

std::vector<TensorView> operands_of(const Product& product, std::span<const TensorView> inputs) {
  std::vector<TensorView> operands = {product.left.view(inputs), product.right.view(inputs)};
  if (product.left_scales) operands.push_back(product.left_scales->values.view(inputs));
  if (product.right_scales) {
    operands.push_back(product.right_scales->values.view(inputs));
    transpose(operands.back());
  }
  return operands;
}

TensorView Product::result(DType type) const {
  return {nullptr, type, shape, windows ? channels_last(shape) : row_major(shape)};
}

TensorView WithoutProducts::Read::of(std::span<const TensorView> inputs) const {
  return view ? view->view(inputs) : inputs[index];
}

base::InlineVector<TensorView, 8> WithoutProducts::operands(std::span<const TensorView> inputs,
                                                            std::span<const TensorView> results) const {
  base::InlineVector<TensorView, 8> operands;
  for (const Read& read : reads) operands.push_back(read.is_product ? results[read.index] : read.of(inputs));
  return operands;
}

WithoutProducts split_products(const ir::Program& program, std::span<const TensorView> inputs, Views views) {
  check_inputs(program, inputs, views);
  return ProductSplitter(program, inputs, views).run();
}

std::vector<TensorView> abstract_results(const WithoutProducts& split) {
  std::vector<TensorView> results;
  for (const Product& product : split.products) results.push_back(product.result(product.dtype));
  return results;
}

namespace {

// How many windows stand beside each other, whose elements are a dilation apart.
std::int64_t window_count(const ir::Node& node, std::size_t along, std::int64_t pixels, std::int64_t size) {
  const ir::Windows2d& windows = node.shaping.windows;
  const std::int64_t padded = pixels + 2 * std::int64_t{windows.padding[along]};
  const std::int64_t reach = (size - 1) * windows.dilation[along] + 1;
  if (reach > padded)
    fail(invalid_argument,
         "a filter of '{}' reaches over {} pixels of the {}, and images have {} of them with their padding: no window "
         "fits",
         ir::written_name(node), reach, along == 0 ? "height" : "width", padded);
  return (padded - reach) / windows.stride[along] + 1;
}

Dims shape_of_convolution(const ir::Node& node, const Dims& images, const Dims& filters) {
  if (images.size() != 4 || filters.size() != 4)
    fail(
        invalid_argument,
        "'{}' takes images [N, C, H, W] and filters [K, C, R, S]; found the shapes {} and {}. One image goes in with a "
        "dimension of one element: x[None]",
        ir::written_name(node), to_string(images), to_string(filters));
  if (images[1] != filters[1])
    fail(invalid_argument,
         "'{}' takes images {} of {} channels and filters {} of {}: these are not equal. Groups of channels are not "
         "supported: make one convolution of each",
         ir::written_name(node), to_string(images), images[1], to_string(filters), filters[1]);
  if (filters[2] < 1 || filters[3] < 1)
    fail(invalid_argument, "the filters of '{}' have the shape {}: no pixels", ir::written_name(node),
         to_string(filters));
  return {images[0], filters[0], window_count(node, 0, images[2], filters[2]),
          window_count(node, 1, images[3], filters[3])};
}

}  // namespace

Dims shape_of_product(const ir::Node& node, const Dims& left, const Dims& right) {
  if (node.op == Op::conv2d) return shape_of_convolution(node, left, right);
  const bool is_linear = node.written == "linear";
  if (left.size() < 2 || right.size() < 2) {
    fail(invalid_argument,
         "'{}' multiplies matrices, or batches of them; found the shapes {} and {}. A vector goes in with a dimension "
         "of "
         "one element: x[None]",
         ir::written_name(node), to_string(left), to_string(right));
  }
  const int rank = std::max(left.size(), right.size());
  const std::int64_t depth = left[left.size() - 1];
  if (depth != right[right.size() - 2]) {
    fail(invalid_argument, "'{}' sums over {} of shape {} and {} of shape {}; {} and {} are not equal",
         ir::written_name(node), "the last dimension", to_string(left),
         is_linear ? "the last of a weight, here transposed," : "the last dimension but one", to_string(right), depth,
         right[right.size() - 2]);
  }
  Dims shape;
  for (int d = 0; d < rank - 2; ++d) {
    const int l = d - (rank - left.size());
    const int r = d - (rank - right.size());
    const std::int64_t a = l < 0 ? 1 : left[l];
    const std::int64_t b = r < 0 ? 1 : right[r];
    if (a != b && a != 1 && b != 1) {
      fail(invalid_argument,
           "the arguments of '{}' have shapes {} and {}: the dimensions before the last two do not broadcast",
           ir::written_name(node), to_string(left), to_string(right));
    }
    shape.push_back(a == 1 ? b : a);
  }
  shape.push_back(left[left.size() - 2]);
  shape.push_back(right[right.size() - 1]);
  return shape;
}

}  // namespace epifuse::plan
