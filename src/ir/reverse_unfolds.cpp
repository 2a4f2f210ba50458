// Gradients of windows whose elements are a dimension. Where their sum, mean or largest is taken, each element reads
// what the windows gave that hold it: one after the other, or, where these are many, as a reduction of its own. Nothing
// is scattered.
#include <algorithm>
#include <array>
#include <utility>

#include "base/text.hpp"
#include "ir/reverse_windows.hpp"

namespace epifuse::ir {
namespace {

constexpr double kMostApart = 64;  // windows that are asked one after the other: each is an operand of the kernel

// The step of "[..., ::2]", the only thing that stands between windows and their reduction. 0 for other views.
std::int64_t step_of(const View* view) {
  if (view == nullptr || view->kind != View::Kind::index || view->items.size() != 2) return 0;
  const Index& last = view->items[1];
  const bool is_step = view->items[0].kind == Index::Kind::rest && last == Index{.step = last.step};
  return is_step && last.step > 0 ? last.step : 0;
}

View steps_view(std::int64_t step) { return index_view({{.kind = Index::Kind::rest}, {.step = step}}); }

// The axes are the last dimensions, which so many windows have made.
bool are_last(const Axes& axes, std::size_t count) {
  std::vector<int> all(axes.at.begin(), axes.at.begin() + axes.count);
  std::ranges::sort(all);
  if (all.size() != count || count == 0) return false;
  for (std::size_t i = 0; i < count; ++i)
    if (all[i] != static_cast<int>(i) - static_cast<int>(count)) return false;
  return true;
}

// A dimension of what is pooled, where so many dimensions of elements stand behind it.
int behind(int dim, std::size_t elements) { return dim < 0 ? dim - static_cast<int>(elements) : dim; }

// One element of each window of an unfold, along a dimension counted as `dim`.
View element_view(const View& unfold, int dim, std::int64_t index) {
  std::vector<std::int64_t> numbers = {dim, unfold.numbers[1], unfold.numbers[2], 1, index};
  numbers.insert(numbers.end(), unfold.numbers.begin() + 3, unfold.numbers.end());
  return numbered_view(View::Kind::window, std::move(numbers));
}

}  // namespace

// Of a reduction over the elements of windows, and nothing else: what the windows are of.
std::optional<ReverseSweep::Pool> ReverseSweep::unfolded_pool_of(const Node& reduction) const {
  Pool pool;
  pool.x = reduction.args[0];
  std::vector<std::pair<const View*, std::int64_t>> unfolds;  // the first one first, and the step of its elements
  while (unfolds.size() < static_cast<std::size_t>(reduction.shaping.axes.count)) {
    const View* view = program_.view_of(node(pool.x));
    const std::int64_t step = step_of(view);
    if (step > 0) {
      pool.x = node(pool.x).args[0];
      view = program_.view_of(node(pool.x));
    }
    if (view == nullptr || view->kind != View::Kind::unfold) return std::nullopt;
    pool.x = node(pool.x).args[0];
    unfolds.emplace(unfolds.begin(), view, std::max<std::int64_t>(step, 1));
  }
  if (!are_last(reduction.shaping.axes, unfolds.size())) return std::nullopt;
  for (std::size_t i = 0; i < unfolds.size(); ++i) {
    const auto& [view, dilation] = unfolds[i];
    constexpr std::int64_t kMostInWindow = std::int64_t{1} << 30;  // as 'window' has it
    if (view->numbers[1] > kMostInWindow || view->numbers[2] > kMostInWindow) return std::nullopt;
    // Elements of the windows before it stand behind the dimensions of what is pooled.
    const auto dim = static_cast<int>(view->numbers[0]) + (view->numbers[0] < 0 ? static_cast<int>(i) : 0);
    const bool is_own = view->numbers[0] < 0 ? dim < 0 : unfolds.size() == 1;
    const auto is_same = [&](const Window& other) { return other.dim == dim; };
    if (!is_own || std::ranges::any_of(pool.windows, is_same)) return std::nullopt;
    // That of the first window is no padding, so that some elements of the view exist.
    pool.views.push_back(element_view(*view, dim, view->numbers.size() > 3 ? view->numbers[3] : 0));
    Window window(pool.views.back());
    window.size = (window.size - 1) / dilation + 1;
    window.dilation = dilation;
    pool.windows.push_back(window);
  }
  return pool;
}

bool ReverseSweep::reduces_windows(const Node& reduction) const { return unfolded_pool_of(reduction).has_value(); }

bool ReverseSweep::differentiate_unfolded(Value reduction, Value g) {
  const Node& n = node(reduction);
  const bool is_largest = n.op == Op::amax && static_cast<Ties>(n.constant) == Ties::pool;
  if (n.shaping.keepdim || n.arity() != 1 || !(is_largest || n.op == Op::sum || n.op == Op::mean)) return false;
  const auto pool = unfolded_pool_of(n);
  if (!pool) return false;
  const bool are_many = pool->choices() > kMostApart;
  // What is put before a dimension is counted from the last one.
  if (are_many && std::ranges::any_of(pool->windows, [](const Window& window) { return window.dim >= 0; }))
    return false;
  g = covering(g, shapes.of(now(reduction)));
  if (n.op == Op::mean) {
    double count = 1;
    for (const Window& window : pool->windows) count *= static_cast<double>(window.size);
    g = op(Op::div, g, number(count));
  }
  Value largest = kNone;
  if (is_largest) {
    largest = builder.cast(largest_of_unfolded(reduction, *pool), pool->type_of_places());
    largest_elements.push_back(largest);
    has_windows = true;
  }
  const Atoms shape = shapes.of(now(pool->x));
  if (are_many) {
    const Value all = over_unfolded(*pool, largest, g);
    shapes.assume(all, shape);
    add(pool->x, all, shape);
  } else {
    add(pool->x, is_largest ? of_largest(*pool, 0, largest, g, kNone, kNone) : apart_from_windows(*pool, g), shape);
  }
  return true;
}

// ---- one window after the other

// From the last dimension on, the dimensions before which are still those of windows.
Value ReverseSweep::apart_from_windows(const Pool& pool, Value g) {
  for (std::size_t d = pool.windows.size(); d-- > 0;) {
    Value like = now(pool.x);
    for (std::size_t k = 0; k < d; ++k) like = builder.view(like, pool.views[k]);
    like = shapes.like(shapes.of(like));
    const Window& window = pool.windows[d];
    if (window.dilation == 1) {
      g = of_whole_windows(like, window, g);
      continue;
    }
    Value sum = kNone;
    for (std::int64_t k = 0; k < window.size; ++k) {
      const Value term = taken_every(like, g, window.dim, window.stride, window.padding - k * window.dilation);
      sum = sum == kNone ? term : op(Op::add, sum, term);
    }
    g = sum;
  }
  return g;
}

// ---- all windows of an element as a row

Value ReverseSweep::over_unfolded(const Pool& pool, Value largest, Value g) {
  const Value unfolded = repeated_to_all(pool, g);
  Axes axes;
  for (const Window& window : pool.windows)
    if (window.choices() > 1) axes.at[axes.count] = static_cast<std::int8_t>(-1 - axes.count), ++axes.count;
  const Value in_windows = counted_in_windows(pool, unfolded);
  const Value is_one =
      largest == kNone ? in_windows : counted_largest(pool, unfolded, repeated_to_all(pool, largest), in_windows);
  return builder.reduce(Op::sum, is_one == kNone ? unfolded : op(Op::where, is_one, unfolded, number(0)), axes, false);
}

// A value of the windows, for each element of what is pooled that of each window which may hold it: the first one
// first, as a dimension for each dimension of windows in which there are several.
Value ReverseSweep::repeated_to_all(const Pool& pool, Value value) {
  for (std::size_t d = pool.windows.size(); d-- > 0;) {
    Value like = now(pool.x);
    for (std::size_t k = 0; k < d; ++k) like = builder.view(like, pool.views[k]);
    // The windows before an element are those at the elements before it.
    std::vector<std::int64_t> before;
    for (std::size_t k = d; k < pool.windows.size(); ++k) {
      const Window& window = pool.windows[k];
      before.resize(std::max(before.size(), static_cast<std::size_t>(-2 * window.dim)), 0);
      before[static_cast<std::size_t>(-2 * window.dim - 2)] = (window.choices() - 1) * window.step();
    }
    like = builder.view(like, pad_view(before, 0));
    const Window& window = pool.windows[d];
    const std::int64_t shift = window.padding - (window.choices() - 1) * window.step();
    value = builder.repeat_as(value, shapes.like(shapes.of(like)), window.dim, window.stride, shift);
  }
  std::size_t elements = 0;
  for (const Window& window : pool.windows) {
    if (window.choices() == 1) continue;
    const std::int64_t reach = (window.choices() - 1) * window.step() + 1;
    value = builder.view(value, unfold_view(behind(window.dim, elements++), reach, 1, 0, false, 0));
    if (window.step() > 1) value = builder.view(value, steps_view(window.step()));
  }
  return value;
}

// Which of the windows hold an element. Nothing where all do.
Value ReverseSweep::counted_in_windows(const Pool& pool, Value unfolded) {
  const auto several = std::ranges::count_if(pool.windows, [](const Window& w) { return w.choices() > 1; });
  Value all = kNone;
  int axis = -static_cast<int>(several);
  for (const Window& window : pool.windows) {
    const int dim = behind(window.dim, static_cast<std::size_t>(several));
    const bool has_axis = window.choices() > 1;
    Value holds = kNone;
    if (window.dilation == 1 && window.choices() * window.stride > window.size) {
      // The first of the windows may end before it.
      const std::int64_t last = window.size - (window.choices() - 1) * window.stride;
      holds =
          op(Op::lt, rest(position(unfolded, dim, window.padding), window.stride), number(static_cast<double>(last)));
      if (has_axis) holds = op(Op::logical_or, holds, op(Op::gt, builder.iota(unfolded, axis), number(0)));
    } else if (window.dilation != 1 && window.stride > 1) {
      const std::int64_t first = window.padding - (window.choices() - 1) * window.step();
      Value at = position(unfolded, dim, first);
      if (has_axis)
        at = op(Op::add, at, op(Op::mul, builder.iota(unfolded, axis), number(static_cast<double>(window.step()))));
      holds = op(Op::eq, rest(at, window.stride), number(0));
    }
    if (holds != kNone) all = all == kNone ? holds : op(Op::logical_and, all, holds);
    if (has_axis) ++axis;
  }
  return all;
}

// In which of the windows an element is the largest.
Value ReverseSweep::counted_largest(const Pool& pool, Value unfolded, Value largest, Value holds) {
  const auto several = std::ranges::count_if(pool.windows, [](const Window& w) { return w.choices() > 1; });
  Value which = kNone;
  int axis = -static_cast<int>(several);
  for (const Window& window : pool.windows) {
    const int dim = behind(window.dim, static_cast<std::size_t>(several));
    // The last of the choices is the window at the element.
    Value element = number(0);
    if (window.choices() > 1) {
      const Value before =
          op(Op::sub, number(static_cast<double>(window.choices() - 1)), builder.iota(unfolded, axis++));
      element = window.dilation == 1 ? op(Op::mul, before, number(static_cast<double>(window.stride))) : before;
    }
    if (window.dilation == 1)
      element = op(Op::add, rest(position(unfolded, dim, window.padding), window.stride), element);
    which = which == kNone ? element
                           : op(Op::add, op(Op::mul, which, number(static_cast<double>(window.pitch()))), element);
  }
  const Value is_it = op(Op::eq, largest, which);
  return holds == kNone ? is_it : op(Op::logical_and, holds, is_it);
}

// Which element of each window is the largest: the first of equals, or the last NaN. Of a window without a number above
// -inf it is the first that is no padding.
Value ReverseSweep::largest_of_unfolded(Value reduction, const Pool& pool) {
  const Node& n = node(reduction);
  const Value x = now(n.args[0]);
  Value place = kNone;
  for (std::size_t d = 0; d < pool.windows.size(); ++d) {
    const Value at = builder.iota(x, static_cast<int>(d) - static_cast<int>(pool.windows.size()));
    const auto pitch = static_cast<double>(pool.windows[d].pitch());
    place = place == kNone ? at : op(Op::add, op(Op::mul, place, number(pitch)), at);
  }
  Value is_one = op(Op::eq, x, unreduced(reduction, now(reduction)));
  for (std::size_t d = 0; d < pool.windows.size(); ++d) {
    const View& view = pool.views[d];
    if (view.numbers.size() <= Window::kPadding) continue;
    const int axis = static_cast<int>(d) - static_cast<int>(pool.windows.size());
    const Window& window = pool.windows[d];
    const Value first = op(Op::mul, builder.iota(x, behind(window.dim, pool.windows.size())),
                           number(static_cast<double>(window.stride)));
    const Value step = number(static_cast<double>(window.dilation));
    const Value at = op(Op::add, first, op(Op::mul, builder.iota(x, axis), step));
    const Value begin = number(static_cast<double>(window.padding));
    const Value extent = builder.count(now(pool.x), axes_of("count", std::array{std::int64_t{window.dim}}, false));
    is_one = op(Op::logical_and, is_one,
                op(Op::logical_and, op(Op::ge, at, begin), op(Op::lt, at, op(Op::add, extent, begin))));
  }
  return first_place(n, is_one, place, false);
}

// ---- windows of which anything is made

// Each element of the windows gave something of its own: false where they have too many.
bool ReverseSweep::differentiate_unfold(Value unfold, Value g) {
  const Node& n = node(unfold);
  const View& view = *program_.view_of(n);
  const std::int64_t size = view.numbers[1];
  if (static_cast<double>(size) > kMostApart) return false;
  for (std::int64_t i = 0; i < size; ++i) {
    windows_[index(n.args[0])].push_back(
        {element_view(view, static_cast<int>(view.numbers[0]), i), builder.view(g, select_view(-1, i))});
  }
  return true;
}

}  // namespace epifuse::ir
