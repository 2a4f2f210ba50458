// Windows are taken apart when a chain is built: the largest of 2 x 2 elements is the largest of four strided views,
// which every schedule computes as any other pointwise work. Larger windows are dimensions that are reduced.
#include "ir/pooling.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "base/text.hpp"

namespace epifuse::ir {
namespace {

using base::fail;
using enum ErrorCode;

constexpr double kMostElements = 64;  // of a window that is taken apart: each is an operand of the kernel

// One number for each dimension. What the call is named stands in the Builder.
std::vector<std::int64_t> by_dimension(std::string_view function, std::string_view what,
                                       std::span<const std::int64_t> given, int rank) {
  if (given.size() == 1) return std::vector<std::int64_t>(static_cast<std::size_t>(rank), given[0]);
  if (given.size() != static_cast<std::size_t>(rank))
    fail(invalid_expression, "'{}' of '{}' is one number or {}, found {}", what, function, rank, given.size());
  return {given.begin(), given.end()};
}

// Windows of a call, by dimension.
struct Geometry {
  std::string_view function;
  int rank;
  std::vector<std::int64_t> size, stride, dilation, padding;
  bool ceil_mode;

  bool pads() const {
    return std::ranges::any_of(padding, [](std::int64_t one) { return one != 0; });
  }
  bool may_step_outside() const { return ceil_mode || pads(); }
  /// Of a window. More than 2^53 is not exact, and needs not be.
  double elements() const {
    double count = 1;
    for (const std::int64_t n : size) count *= static_cast<double>(n);
    return count;
  }
};

Geometry geometry_of(std::string_view function, const Windows& windows, int rank) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;  // as 'window' has it
  const auto positive = [&](std::string_view what, std::span<const std::int64_t> given) {
    std::vector<std::int64_t> numbers = by_dimension(function, what, given, rank);
    for (const std::int64_t n : numbers) {
      if (n < 1 || n > kMost) fail(invalid_expression, "'{}' of '{}' is 1 to 2^30, found {}", what, function, n);
    }
    return numbers;
  };
  Geometry all{function, rank, positive("kernel_size", windows.size), {}, {}, {}, windows.ceil_mode};
  all.stride = windows.stride.empty() ? all.size : positive("stride", windows.stride);
  all.dilation = positive("dilation", windows.dilation);
  all.padding = by_dimension(function, "padding", windows.padding, rank);
  for (std::size_t d = 0; d < all.padding.size(); ++d) {
    if (all.padding[d] < 0)
      fail(invalid_expression, "'padding' of '{}' is 0 or more, found {}", function, all.padding[d]);
    if (all.padding[d] > all.size[d] / 2) {
      fail(invalid_expression, "'padding' of '{}' is at most half of 'kernel_size', which is {}; found {}", function,
           all.size[d], all.padding[d]);
    }
  }
  return all;
}

// One element of each window, along one dimension. What never steps outside is a view without bounds.
View window_view(std::int64_t dim, std::int64_t size, std::int64_t stride, std::int64_t dilation, std::int64_t padding,
                 bool ceil_mode, double outside, std::int64_t index) {
  std::vector<std::int64_t> numbers = {dim, size, stride, dilation, index};
  if (padding != 0 || ceil_mode)
    numbers.insert(numbers.end(), {padding, ceil_mode ? 1 : 0, std::bit_cast<std::int64_t>(outside)});
  return numbered_view(View::Kind::window, std::move(numbers));
}

// The same along dimension `d` of those of the windows.
View window_view(const Geometry& windows, int d, double outside, std::int64_t index) {
  const auto at = static_cast<std::size_t>(d);
  return window_view(d - windows.rank, windows.size[at], windows.stride[at], windows.dilation[at], windows.padding[at],
                     windows.ceil_mode, outside, index);
}

// The elements of all windows, each as a value: those of the last dimension are the fastest. None of windows
// that have too many.
std::vector<Value> elements_of(Builder& b, Value x, const Geometry& windows, double outside) {
  if (windows.elements() > kMostElements) return {};
  std::vector<Value> elements = {x};
  for (int d = 0; d < windows.rank; ++d) {
    std::vector<Value> next;
    for (const Value value : elements) {
      for (std::int64_t i = 0; i < windows.size[static_cast<std::size_t>(d)]; ++i)
        next.push_back(b.view(value, window_view(windows, d, outside, i)));
    }
    elements = std::move(next);
  }
  return elements;
}

// `op` of dimensions that have the elements of a pool's windows.
Value reduced(Builder& b, Op op, Value x, const Axes& axes) {
  return is_extreme(op) ? b.extreme(op, x, axes, false, Ties::pool) : b.reduce(op, x, axes, false);
}

// `op` of the elements of each window, as of any row. In the padding `outside` stands.
Value reduced_windows(Builder& b, Op op, Value x, const Geometry& windows, double outside) {
  Axes axes;
  for (int d = 0; d < windows.rank; ++d) {
    const auto at = static_cast<std::size_t>(d);
    const std::int64_t dilation = windows.dilation[at];
    // Each takes the place of its dimension, and its elements stand behind those of the windows before it.
    const std::int64_t reach = (windows.size[at] - 1) * dilation + 1;
    x = b.view(x,
               unfold_view(-windows.rank, reach, windows.stride[at], windows.padding[at], windows.ceil_mode, outside));
    if (dilation != 1) x = b.view(x, index_view({{.kind = Index::Kind::rest}, {.step = dilation}}));
    axes.at[axes.count++] = static_cast<std::int8_t>(d - windows.rank);
  }
  return reduced(b, op, x, axes);
}

// Of windows that overlap along the last dimension first what stands in one column: neighbouring windows share columns,
// and kernels add these up once.
Value sum_of_windows(Builder& b, Value x, const std::vector<Value>& elements, const Geometry& windows) {
  if (elements.empty()) return reduced_windows(b, Op::sum, x, windows, 0);
  const bool overlap = windows.stride.back() < windows.size.back();
  if (!overlap) return combined(b, Op::add, elements);
  const auto columns = static_cast<std::size_t>(windows.size.back());
  std::vector<Value> sums;
  for (std::size_t column = 0; column < columns; ++column) {
    std::vector<Value> values;
    for (std::size_t i = column; i < elements.size(); i += columns) values.push_back(elements[i]);
    sums.push_back(combined(b, Op::add, std::move(values)));
  }
  return combined(b, Op::add, std::move(sums));
}

Value number(Builder& b, double value) { return b.constant(value, Category::integer); }

// The elements along dimension `d` of those of the windows, at the first place of the others.
View line_view(const Geometry& windows, int d) {
  std::vector<Index> line(static_cast<std::size_t>(windows.rank), Index{.stop = 1});
  line[static_cast<std::size_t>(d)] = {};
  line.insert(line.begin(), Index{.kind = Index::Kind::rest});
  return index_view(std::move(line));
}

// One element of each window along dimension `d`, of which only the shape counts. Of windows of many elements some of
// these exist, however few there are.
Value one_of_each(Builder& b, Value x, const Geometry& windows, int d) {
  const bool has_many = windows.elements() > kMostElements;
  const std::int64_t index = has_many ? windows.padding[static_cast<std::size_t>(d)] : 0;
  return b.view(b.view(x, line_view(windows, d)), window_view(windows, d, 0, index));
}

// Where each window along dimension `d` begins, counted from the padding's first element.
Value beginnings(Builder& b, Value x, const Geometry& windows, int d) {
  const Value which = b.iota(one_of_each(b, x, windows, d), d - windows.rank);
  const auto stride = static_cast<double>(windows.stride[static_cast<std::size_t>(d)]);
  return b.apply(Op::mul, {which, number(b, stride), kNone});
}

// How many elements of each window lie in the tensor: along each dimension from its beginning or the tensor's to the
// end of either.
Value count_inside_of_many(Builder& b, Value x, const Geometry& windows) {
  const auto apply = [&](Op op, Value a, Value c) { return b.apply(op, {a, c, kNone}); };
  Value product = number(b, 1);
  for (int d = 0; d < windows.rank; ++d) {
    const auto at = static_cast<std::size_t>(d);
    const int dimension = d - windows.rank;
    Value count = number(b, static_cast<double>(windows.size[at]));
    if (windows.padding[at] != 0 || windows.ceil_mode) {
      const Value padding = number(b, static_cast<double>(windows.padding[at]));
      const Value extent = b.count(x, axes_of(windows.function, std::array{std::int64_t{dimension}}, false));
      const Value begin = beginnings(b, x, windows, d);
      const Value end = apply(Op::minimum, apply(Op::add, begin, count), apply(Op::add, extent, padding));
      count = apply(Op::sub, end, apply(Op::maximum, begin, padding));
    }
    product = apply(Op::mul, product, count);
  }
  return product;
}

// The same: along each dimension a one for each that does, and the product of these sums.
Value count_inside(Builder& b, Value x, const Geometry& windows) {
  if (windows.elements() > kMostElements) return count_inside_of_many(b, x, windows);
  Value product = number(b, 1);
  for (int d = 0; d < windows.rank; ++d) {
    const auto at = static_cast<std::size_t>(d);
    Value count = number(b, static_cast<double>(windows.size[at]));
    if (windows.padding[at] != 0 || windows.ceil_mode) {
      const Value ones = b.expand_as(number(b, 1), b.view(x, line_view(windows, d)));
      std::vector<Value> inside;
      for (std::int64_t i = 0; i < windows.size[at]; ++i) inside.push_back(b.view(ones, window_view(windows, d, 0, i)));
      count = combined(b, Op::add, std::move(inside));
    }
    product = b.apply(Op::mul, {product, count, kNone});
  }
  return product;
}

// How many elements of each window lie in the tensor or in its padding, where the last one may end behind that: along
// each dimension what is left from the window's first element on, and not more than the window.
Value count_padded(Builder& b, Value x, const Geometry& windows) {
  const auto apply = [&](Op op, Value a, Value c) { return b.apply(op, {a, c, kNone}); };
  Value product = number(b, 1);
  for (int d = 0; d < windows.rank; ++d) {
    const auto at = static_cast<std::size_t>(d);
    const int dimension = d - windows.rank;
    const Value extent = b.count(x, axes_of(windows.function, std::array{std::int64_t{dimension}}, false));
    const Value end = apply(Op::add, extent, number(b, static_cast<double>(2 * windows.padding[at])));
    const Value begin = beginnings(b, x, windows, d);
    const Value count =
        apply(Op::minimum, apply(Op::sub, end, begin), number(b, static_cast<double>(windows.size[at])));
    product = apply(Op::mul, product, count);
  }
  return product;
}

// What a window's sum is divided by.
Value divisor_of(Builder& b, Value x, const Geometry& windows, const Divisor& divisor) {
  if (divisor.override_by.size() > 1 || (divisor.override_by.size() == 1 && divisor.override_by[0] == 0))
    fail(invalid_expression, "'divisor_override' of '{}' is one number that is not 0", windows.function);
  if (!divisor.override_by.empty()) return number(b, static_cast<double>(divisor.override_by[0]));
  const bool counts_all = divisor.count_include_pad && !windows.ceil_mode;
  if (counts_all || !windows.may_step_outside()) return number(b, windows.elements());
  if (divisor.count_include_pad && windows.pads()) return count_padded(b, x, windows);
  return count_inside(b, x, windows);
}

std::string name_with(std::string_view stem, int rank) { return fmt::format("{}{}d", stem, rank); }

}  // namespace

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

Value max_pool(Builder& b, Value x, int rank, const Windows& windows) {
  constexpr double kLeast = -std::numeric_limits<double>::infinity();
  const std::string name = name_with("max_pool", rank);
  const Geometry geometry = geometry_of(name, windows, rank);
  std::vector<Value> elements = elements_of(b, x, geometry, kLeast);
  if (elements.empty()) return reduced_windows(b, Op::amax, x, geometry, kLeast);
  return combined(b, Op::maximum, std::move(elements));
}

Value avg_pool(Builder& b, Value x, int rank, const Windows& windows, const Divisor& divisor) {
  const std::string name = name_with("avg_pool", rank);
  const Geometry geometry = geometry_of(name, windows, rank);
  const std::vector<Value> elements = elements_of(b, x, geometry, 0);
  const Value count = divisor_of(b, x, geometry, divisor);
  return b.apply(Op::div, {sum_of_windows(b, x, elements, geometry), count, kNone});
}

Value lp_pool(Builder& b, Value x, int rank, double p, const Windows& windows) {
  const std::string name = name_with("lp_pool", rank);
  if (!(p > 0) || p > 1e300)
    fail(invalid_expression, "'norm_type' of '{}' is a positive number, found {}", name, print_number(p));
  const Geometry geometry = geometry_of(name, windows, rank);
  // Powers first: their gradient is then one sum over windows. Outside 0 adds nothing.
  if (p != 1) x = p == 2 ? b.apply(Op::square, {x, kNone, kNone}) : b.apply(Op::pow, {x, b.constant(p), kNone});
  const std::vector<Value> elements = elements_of(b, x, geometry, 0);
  Value sum = sum_of_windows(b, x, elements, geometry);
  if (geometry.ceil_mode) {  // as in PyTorch: the mean of what lies inside, times a whole window's elements
    const Value mean = b.apply(Op::div, {sum, count_inside(b, x, geometry), kNone});
    sum = b.apply(Op::mul, {mean, number(b, geometry.elements()), kNone});
  }
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
    const std::int64_t count = parts[static_cast<std::size_t>(rank - 1 - d)];
    const std::array<std::int64_t, 2> as_it_is = {-1, 1};
    x = b.unflatten(x, dimension, count == Index::kOpen ? as_it_is : std::array<std::int64_t, 2>{count, -1});
    axes.at[axes.count++] = static_cast<std::int8_t>(dimension);
  }
  return reduced(b, op, x, axes);
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

Value pad(Builder& b, Value x, const std::vector<std::int64_t>& sizes, std::string_view mode, double value) {
  if (mode != "constant") {
    fail(invalid_expression,
         "'mode' of 'pad' is \"constant\", found '{}': what repeats or reflects elements is 'cat' of slices and flips",
         base::shown(mode));
  }
  return b.view(x, pad_view(sizes, value));
}

Value roll(Builder& b, Value x, std::span<const std::int64_t> shifts, std::span<const std::int64_t> dims) {
  if (shifts.size() != dims.size() || dims.empty()) {
    fail(invalid_expression, "'roll' takes a shift for each dimension; found {} and {}", shifts.size(), dims.size());
  }
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const auto part = [&](std::int64_t which) {
      return b.view(x, numbered_view(View::Kind::roll, {dims[i], shifts[i], which}));
    };
    x = b.cat(part(0), part(1), dimension_of("roll", dims[i]));
  }
  return x;
}

const View* rolled_by(const Program& program, const Node& cat) {
  const Node& first = program.node(cat.args[0]);
  const Node& second = program.node(cat.args[1]);
  const View* const a = program.view_of(first);
  const View* const b = program.view_of(second);
  const auto is_piece = [](const View* view, std::int64_t which) {
    return view != nullptr && view->kind == View::Kind::roll && view->numbers[2] == which;
  };
  const bool is_roll = is_piece(a, 0) && is_piece(b, 1) && first.args[0] == second.args[0] &&
                       a->numbers[0] == b->numbers[0] && a->numbers[1] == b->numbers[1] &&
                       a->numbers[0] == cat.shaping.axes.at[0];
  return is_roll ? a : nullptr;
}

Value window(Builder& b, Value x, std::int64_t dim, const Windows& windows, std::int64_t index, double value) {
  return b.view(x, window_view(dim, windows.size[0], windows.stride[0], windows.dilation[0], windows.padding[0],
                               windows.ceil_mode, value, index));
}

}  // namespace epifuse::ir
