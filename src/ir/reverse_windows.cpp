// Gradients of what takes some elements of a dimension: windows with steps, and slices. A gradient is read where the
// elements went: element i is in the windows (i + padding) / stride, and in so many before that one as windows overlap.
// Nothing is scattered, so sums have one order.
#include <algorithm>
#include <array>
#include <utility>

#include "base/text.hpp"
#include "ir/reverse_windows.hpp"

namespace epifuse::ir {
namespace {

constexpr std::size_t kIndex = 4;  // of a window's numbers: which element

// The same, whichever element of the windows it is.
std::vector<std::int64_t> without_index(const View& view) {
  std::vector<std::int64_t> numbers = view.numbers;
  numbers[kIndex] = 0;
  return numbers;
}

bool is_window(const View* view) { return view != nullptr && view->kind == View::Kind::window; }

}  // namespace

// A value of the shape that a value has.
Value ReverseSweep::shape_of(Value value) { return shapes.like(shapes.of(now(value))); }

// Where elements of a value shaped like `like` stand along a dimension of it, from a shift on, and what is left of that
// beyond whole strides.
Value ReverseSweep::position(Value like, int dim, std::int64_t shift) {
  const Value at = builder.iota(like, dim);
  return shift == 0 ? at : op(Op::add, at, number(static_cast<double>(shift)));
}

Value ReverseSweep::rest(Value position, std::int64_t stride) {
  if (stride == 1) return number(0);
  const Value by = number(static_cast<double>(stride));
  return op(Op::sub, position, op(Op::mul, op(Op::floor, op(Op::div, position, by)), by));
}

// ---- windows

// All that elements of the same windows gave, as one where each gave the same.
void ReverseSweep::add_windows(Value value) {
  std::vector<WindowGradient> all = std::move(windows_[static_cast<std::size_t>(value)]);
  has_windows = has_windows || !all.empty();
  windows_[static_cast<std::size_t>(value)].clear();
  const Atoms shape = shapes.of(now(value));
  while (!all.empty()) {
    const WindowGradient first = all.front();
    const auto is_same = [&](const WindowGradient& other) {
      return other.gradient == first.gradient && without_index(other.view) == without_index(first.view);
    };
    std::vector<std::int64_t> taken;
    for (const WindowGradient& one : all) {
      if (is_same(one)) taken.push_back(one.view.numbers[kIndex]);
    }
    std::erase_if(all, is_same);
    const Window window(first.view);
    const bool are_all = std::cmp_equal(taken.size(), window.size);
    if (are_all && window.dilation == 1) {
      add(value, of_whole_windows(shape_of(value), window, first.gradient), shape);
    } else {
      for (const std::int64_t element : taken) add(value, of_element(value, first, element), shape);
    }
  }
}

// The sum of what the windows that hold an element gave each of their elements. `like` has what is pooled.
Value ReverseSweep::of_whole_windows(Value like, const Window& window, Value g) {
  Value sum = kNone;
  for (std::int64_t k = 0; k < window.overlapping(); ++k) {
    const std::int64_t shift = window.padding - k * window.stride;
    Value term = builder.repeat_as(g, like, window.dim, window.stride, shift);
    if ((k + 1) * window.stride > window.size) {
      const Value element = rest(position(like, window.dim, window.padding), window.stride);
      term = op(Op::where, op(Op::lt, element, number(static_cast<double>(window.size - k * window.stride))), term,
                number(0));
    }
    sum = sum == kNone ? term : op(Op::add, sum, term);
  }
  return sum;
}

Value ReverseSweep::of_element(Value value, const WindowGradient& given, std::int64_t element) {
  const Window window(given.view);
  const std::int64_t shift = window.padding - element * window.dilation;
  return taken_every(shape_of(value), given.gradient, window.dim, window.stride, shift);
}

// Of elements with a stride between them the gradient where they stand among those of `like`, else 0.
Value ReverseSweep::taken_every(Value like, Value g, int dim, std::int64_t stride, std::int64_t shift) {
  const Value term = builder.repeat_as(g, like, dim, stride, shift);
  if (stride == 1) return term;
  return op(Op::where, op(Op::eq, rest(position(like, dim, shift), stride), number(0)), term, number(0));
}

// ---- the largest of windows

// The values below maxima of maxima, the first one first.
void ReverseSweep::below_maxima(Value value, std::vector<Value>& leaves) const {
  const Node& n = node(value);
  if (n.op != Op::maximum) {
    leaves.push_back(value);
    return;
  }
  below_maxima(n.args[0], leaves);
  below_maxima(n.args[1], leaves);
}

// Which element of its windows a value is, of windows along `rank` dimensions; nothing for a value of other windows
// than the pool's.
std::optional<std::int64_t> ReverseSweep::element_of(const Pool& pool, Value value) const {
  std::int64_t which = 0;
  std::int64_t pitch = 1;
  for (std::size_t d = pool.windows.size(); d-- > 0;) {
    const View* const view = program_.view_of(node(value));
    const View& known = *program_.view_of(node(pool.levels[d + 1]));
    if (!is_window(view) || without_index(*view) != without_index(known)) return std::nullopt;
    which += view->numbers[kIndex] * pitch;
    pitch *= pool.windows[d].pitch();
    value = node(value).args[0];
  }
  return value == pool.levels[0] ? std::optional(which) : std::nullopt;
}

// Maxima of all elements of windows along some dimensions, each once and in their order.
std::optional<ReverseSweep::Pool> ReverseSweep::max_pool_of(const std::vector<Value>& leaves) const {
  Pool pool;
  pool.levels = {leaves[0]};
  for (std::size_t elements = 1; elements < leaves.size();) {
    const View* const view = program_.view_of(node(pool.levels[0]));
    if (!is_window(view)) return std::nullopt;
    pool.windows.emplace(pool.windows.begin(), *view);
    pool.views.insert(pool.views.begin(), *view);
    pool.levels.insert(pool.levels.begin(), node(pool.levels[0]).args[0]);
    elements *= static_cast<std::size_t>(view->numbers[1]);
    if (elements > leaves.size()) return std::nullopt;
  }
  pool.x = pool.levels[0];
  std::int64_t last = -1;
  for (const Value leaf : leaves) {
    const auto which = element_of(pool, leaf);
    if (!which || *which <= last) return std::nullopt;
    last = *which;
  }
  return pool.windows.empty() ? std::nullopt : std::optional(std::move(pool));
}

// Which of the elements below a maximum is the largest, the first of equals. A NaN counts as the largest.
Value ReverseSweep::largest_of(Value value, const Pool& pool) {
  const Node& n = node(value);
  if (n.op != Op::maximum) return number(static_cast<double>(*element_of(pool, value)));
  const Value first = largest_of(n.args[0], pool);
  const Value second = largest_of(n.args[1], pool);
  const Value later = now(n.args[1]);
  const Value is_later = op(Op::logical_or, op(Op::gt, later, now(n.args[0])), op(Op::isnan, later));
  return op(Op::where, is_later, second, first);
}

bool ReverseSweep::differentiate_max_pool(Value value, Value g) {
  if (node(value).op != Op::maximum) return false;
  std::vector<Value> leaves;
  below_maxima(value, leaves);
  const auto pool = max_pool_of(leaves);
  if (!pool) return false;
  const Value largest = builder.cast(largest_of(value, *pool), pool->type_of_places());
  largest_elements.push_back(largest);
  has_windows = true;
  add(pool->x, of_largest(*pool, 0, largest, covering(g, shapes.of(now(value))), kNone, kNone),
      shapes.of(now(pool->x)));
  return true;
}

// The sum over all windows that an element may be in, from dimension `d` on: `which` is its number among their elements
// so far, of dimensions whose windows are asked one by one where `holds` is true.
Value ReverseSweep::of_largest(const Pool& pool, std::size_t d, Value largest, Value g, Value which, Value holds) {
  if (d == pool.windows.size()) {
    const Value is_it = op(Op::eq, largest, which);
    return op(Op::where, holds == kNone ? is_it : op(Op::logical_and, holds, is_it), g, number(0));
  }
  const Window& window = pool.windows[d];
  const Value x = shape_of(pool.x);
  Value sum = kNone;
  for (std::int64_t k = 0; k < window.choices(); ++k) {
    const std::int64_t shift = window.padding - k * window.step();
    Value element = number(static_cast<double>(k));
    Value stands = holds;
    if (window.dilation == 1) {
      element = op(Op::add, rest(position(x, window.dim, window.padding), window.stride),
                   number(static_cast<double>(k * window.stride)));
    } else if (window.stride > 1) {
      const Value is_one = op(Op::eq, rest(position(x, window.dim, shift), window.stride), number(0));
      stands = stands == kNone ? is_one : op(Op::logical_and, stands, is_one);
    }
    if (which != kNone) element = op(Op::add, op(Op::mul, which, number(static_cast<double>(window.pitch()))), element);
    const auto repeated = [&](Value value) { return repeated_to(pool, d, value, shift); };
    const Value term = of_largest(pool, d + 1, repeated(largest), repeated(g), element, stands);
    sum = sum == kNone ? term : op(Op::add, sum, term);
  }
  return sum;
}

// A value of the windows, where dimension `d` is that of what is pooled. Dimensions behind it are still those of
// windows.
Value ReverseSweep::repeated_to(const Pool& pool, std::size_t d, Value value, std::int64_t shift) {
  const Window& window = pool.windows[d];
  Value like = now(pool.x);
  for (std::size_t k = d + 1; k < pool.windows.size(); ++k) like = builder.view(like, pool.views[k]);
  return builder.repeat_as(value, shapes.like(shapes.of(like)), window.dim, window.stride, shift);
}

// ---- slices

// Of a slice that counts from the front, or of one element, the first element and the step.
std::optional<ReverseSweep::Places> ReverseSweep::places_of(const Index& item) {
  const std::int64_t start = item.start == Index::kOpen ? 0 : item.start;
  if (start < 0 && item.kind == Index::Kind::at) return Places{-1 - start, 1, true};
  if (start < 0 || item.step < 0) return std::nullopt;
  return Places{start, item.step, false};
}

// The gradient of elements where they stood, and 0 elsewhere. Nothing for slices that count from the back.
std::optional<Value> ReverseSweep::put_back(Value value, Value g, const View& view) {
  const std::vector<std::int64_t>& numbers = view.numbers;
  if (view.kind == View::Kind::split)
    return taken_every(shape_of(value), g, static_cast<int>(numbers[1]), 1, -numbers[0] * numbers[2]);
  if (view.kind != View::Kind::index) return std::nullopt;
  // The same dimensions again: those that went, with one element, and without those that came.
  std::vector<Index> own;
  std::vector<Index> items;  // by dimension of the value, but for '...'
  for (const Index& item : view.items) {
    const bool is_rest = item.kind == Index::Kind::rest;
    if (item.kind == Index::Kind::added) {
      own.push_back({.kind = Index::Kind::at, .start = 0});
      continue;
    }
    if (!is_rest && item != Index{} && !places_of(item)) return std::nullopt;
    own.push_back(item.kind == Index::Kind::at ? Index{.kind = Index::Kind::added} : is_rest ? item : Index{});
    items.push_back(item);
  }
  if (own != std::vector<Index>(own.size())) g = builder.view(g, index_view(own));
  const auto rest = std::ranges::find(items, Index::Kind::rest, &Index::kind);
  std::vector<Index> left = items;  // what the gradient still lacks
  for (Index& item : left) {
    const std::int64_t end = item.start == -1 ? Index::kOpen : item.start + 1;
    if (item.kind == Index::Kind::at) item = {.start = item.start, .stop = end};
  }
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (items[i].kind == Index::Kind::rest || items[i] == Index{}) continue;
    const bool is_front = std::cmp_less(i, rest - items.begin());
    const int dim = static_cast<int>(is_front ? i : i - items.size());
    const auto [start, step, is_from_back] = *places_of(items[i]);
    left[i] = {};
    const bool is_last =
        std::ranges::all_of(left, [](const Index& item) { return item == Index{} || item.kind == Index::Kind::rest; });
    const Value like = is_last ? now(value) : builder.view(now(value), index_view(left));
    g = taken_every(like, g, dim, step, -start);
    if (is_from_back) g = builder.view(g, flip_view({dim}));
  }
  return g;
}

}  // namespace epifuse::ir
