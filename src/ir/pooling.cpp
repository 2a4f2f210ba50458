// Windows are taken apart when a chain is built: the largest of 2 x 2 elements is the largest of four strided views, which every schedule
// computes as any other pointwise work.
#include "ir/pooling.hpp"

#include "base/text.hpp"

namespace epifuse::ir {
namespace {

using base::fail;
using enum ErrorCode;

constexpr std::int64_t kMostElements = 64;  // of a window: each is an operand of the kernel

// One number for each dimension. What the call is named stands in the Builder.
std::vector<std::int64_t> by_dimension(std::string_view function, std::string_view what,
                                       std::span<const std::int64_t> given, int rank) {
  if (given.size() == 1) return std::vector<std::int64_t>(static_cast<std::size_t>(rank), given[0]);
  if (given.size() != static_cast<std::size_t>(rank))
    fail(invalid_expression, "'{}' of '{}' is one number or {}, found {}", what, function, rank, given.size());
  return {given.begin(), given.end()};
}

// The elements of all windows, each as a value: those of the last dimension are the fastest.
std::vector<Value> elements_of(Builder& b, Value x, int rank, std::string_view function, const Windows& windows) {
  const auto size = by_dimension(function, "kernel_size", windows.size, rank);
  const auto stride = windows.stride.empty() ? size : by_dimension(function, "stride", windows.stride, rank);
  const auto dilation = by_dimension(function, "dilation", windows.dilation, rank);
  std::int64_t count = 1;
  for (const std::int64_t n : size) {
    if (n < 1) fail(invalid_expression, "'kernel_size' of '{}' is at least 1, found {}", function, n);
    if (n > kMostElements || (count *= n) > kMostElements) {
      fail(unsupported,
           "windows of '{}' have at most {} elements, of which each is an operand of its own. Where windows do not "
           "overlap, unflatten the dimension and reduce the inner one",
           function, kMostElements);
    }
  }
  std::vector<Value> elements = {x};
  for (int d = 0; d < rank; ++d) {
    const auto at = static_cast<std::size_t>(d);
    std::vector<Value> next;
    for (const Value value : elements) {
      for (std::int64_t i = 0; i < size[at]; ++i)
        next.push_back(
            b.view(value, numbered_view(View::Kind::window, {d - rank, size[at], stride[at], dilation[at], i})));
    }
    elements = std::move(next);
  }
  return elements;
}

// Neighbours first, so that rounding errors and waiting grow with the logarithm.
Value combined(Builder& b, Op op, std::vector<Value> values) {
  while (values.size() > 1) {
    std::vector<Value> next;
    for (std::size_t i = 0; i + 1 < values.size(); i += 2)
      next.push_back(b.apply(op, {values[i], values[i + 1], kNone}));
    if (values.size() % 2 == 1) next.push_back(values.back());
    values = std::move(next);
  }
  return values[0];
}

Value number(Builder& b, double value) { return b.constant(value, Category::integer); }

std::string name_with(std::string_view stem, int rank) { return fmt::format("{}{}d", stem, rank); }

}  // namespace

Value max_pool(Builder& b, Value x, int rank, const Windows& windows) {
  return combined(b, Op::maximum, elements_of(b, x, rank, name_with("max_pool", rank), windows));
}

Value avg_pool(Builder& b, Value x, int rank, const Windows& windows, std::span<const std::int64_t> divisor) {
  const std::string name = name_with("avg_pool", rank);
  const std::vector<Value> elements = elements_of(b, x, rank, name, windows);
  if (divisor.size() > 1 || (divisor.size() == 1 && divisor[0] == 0))
    fail(invalid_expression, "'divisor_override' of '{}' is one number that is not 0", name);
  const auto count = divisor.empty() ? static_cast<std::int64_t>(elements.size()) : divisor[0];
  return b.apply(Op::div, {combined(b, Op::add, elements), number(b, static_cast<double>(count)), kNone});
}

Value lp_pool(Builder& b, Value x, int rank, double p, const Windows& windows) {
  const std::string name = name_with("lp_pool", rank);
  if (!(p > 0) || p > 1e300)
    fail(invalid_expression, "'norm_type' of '{}' is a positive number, found {}", name, print_number(p));
  std::vector<Value> elements = elements_of(b, x, rank, name, windows);
  for (Value& element : elements) {
    if (p != 1)
      element =
          p == 2 ? b.apply(Op::square, {element, kNone, kNone}) : b.apply(Op::pow, {element, b.constant(p), kNone});
  }
  const Value sum = combined(b, Op::add, elements);
  if (p == 1) return sum;
  return p == 2 ? b.apply(Op::sqrt, {sum, kNone, kNone}) : b.apply(Op::pow, {sum, b.constant(1 / p), kNone});
}

Value adaptive_pool(Builder& b, Op op, Value x, int rank, std::span<const std::int64_t> sizes) {
  const std::string name = name_with(op == Op::mean ? "adaptive_avg_pool" : "adaptive_max_pool", rank);
  const auto parts = by_dimension(name, "output_size", sizes, rank);
  Axes axes;
  for (int d = 0; d < rank; ++d) {
    // From the last dimension on, each of which then is two: the parts, and the elements of one.
    const int dimension = -1 - 2 * d;
    x = b.unflatten(x, dimension, {parts[static_cast<std::size_t>(rank - 1 - d)], -1});
    axes.at[axes.count++] = static_cast<std::int8_t>(dimension);
  }
  return b.reduce(op, x, axes, false);
}

Value upsample_nearest(Builder& b, Value x, int rank, std::span<const std::int64_t> factors) {
  const std::string name = name_with("upsample_nearest", rank);
  const auto times = by_dimension(name, "scale_factor", factors, rank);
  std::vector<Index> items = {{}, {}};
  std::vector<std::int64_t> sizes = {-1, -1};
  for (const std::int64_t factor : times) {
    if (factor < 1 || factor > kMaxSize)
      fail(invalid_expression, "'scale_factor' of '{}' is at least 1, found {}", name, factor);
    items.insert(items.end(), {Index{}, Index{.kind = Index::Kind::added}});
    sizes.insert(sizes.end(), {-1, factor});
  }
  x = b.view(b.view(x, index_view(items)), numbered_view(View::Kind::expand, sizes));
  for (int d = 2; d < 2 + rank; ++d) x = b.flatten(x, d, d + 1);
  return x;
}

}  // namespace epifuse::ir
