// A gradient may have fewer dimensions than its value, which it then broadcasts to: that of a mean stays one number per
// row. It gets the value's shape (covering) where elements are counted: before it is summed, reshaped or returned.
#include "ir/reverse_sweep.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/text.hpp"
#include "ir/derivatives.hpp"
#include "ir/pooling.hpp"
#include "ir/subchain.hpp"

namespace epifuse::ir {
namespace {

// "x[1:]" with what it is of left out, or the pool that a window is a part of.
std::string text_of(const Node& node, const View& view) {
  return is_within_call(node, view) ? std::string(node.written) : print_view(view, "…");
}

// A name that neither operand nor result of the program has.
std::string unused_name(const Program& program, std::string name) {
  const auto is_taken = [&] {
    return std::ranges::find(program.inputs(), name) != program.inputs().end() ||
           std::ranges::find(program.scalars(), name) != program.scalars().end() ||
           std::ranges::find(program.results(), name, &Result::name) != program.results().end();
  };
  while (is_taken()) name += '_';
  return name;
}

}  // namespace

ReverseSweep::ReverseSweep(const Program& program, const std::vector<int>& wrt)
    : program_(program),
      parts_(program.nodes().size()),
      windows_(program.nodes().size()),
      reached_(program.nodes().size(), false) {
  for (const std::string& name : program.inputs()) builder.input(name);
  for (const std::string& name : program.scalars())
    builder.scalar(name);  // in their order, which need not be that of their uses
  copy_forward();
  find_active(wrt);
  declare_gradients();
  for (std::size_t i = program.nodes().size(); i-- > 0;) {
    const auto value = static_cast<Value>(i);
    if (!active_[i] || !reached_[i]) continue;
    const Builder::Written as(builder, ir::name_of_gradient(node(value)));
    add_windows(value);
    if (node(value).op != Op::input && !parts_[i].empty()) differentiate(value, total(value));
    for (int k = 0; k < node(value).computed_arity(); ++k) {
      const auto at = static_cast<std::size_t>(k);
      if (passes(value, at)) reached_[index(node(value).args[at])] = true;
    }
  }
  for (const int ordinal : wrt) {
    const auto it =
        std::ranges::find_if(program.nodes(), [&](const Node& n) { return n.op == Op::input && n.ordinal == ordinal; });
    const auto at = static_cast<std::size_t>(it - program.nodes().begin());
    const bool is_reached = it != program.nodes().end() && reached_[at];
    of_wrt.push_back(is_reached ? covering(total(static_cast<Value>(at)), shapes.of(forward[at])) : kNone);
  }
}

void ReverseSweep::copy_forward() {
  for (const Node& n : program_.nodes()) {
    std::array<Value, kMaxArity> args = {kNone, kNone, kNone};
    for (int k = 0; k < n.arity(); ++k) args[static_cast<std::size_t>(k)] = now(n.args[static_cast<std::size_t>(k)]);
    forward.push_back(rebuilt(builder, n, args, name_of_operand(program_, n), program_.view_of(n)));
  }
}

// Whether a gradient of the value, be it 0, gives one of that argument.
bool ReverseSweep::passes(Value value, std::size_t argument) const {
  const Node& n = node(value);
  if (n.op == Op::cast) return is_floating(n.dtype);
  if (is_reduction(n.op)) return reduction_row(n.op).argument == Kind::real;
  if (is_movement(n.op) || n.op == Op::cat) return true;
  if (is_product(n.op) || n.op == Op::block_scaled) {
    base::fail(ErrorCode::unsupported,
               "the gradient of '{}' is products of the gradient, which is a computed value: differentiate the chain "
               "behind the product, with the product as an operand of its own",
               written_name(n));
  }
  if (is_indexing(n.op)) return argument == 0;
  if (n.op == Op::scale_tiles)
    base::fail(ErrorCode::unsupported,
               "'scale_tiles' says where scales lie, and has no gradient: differentiate the chain without it");
  if (n.op == Op::index_copy) {
    base::fail(
        ErrorCode::unsupported,
        "'index_copy' writes into the memory of an operand, and has no gradient: differentiate the chain without "
        "it");
  }
  return slope_of(n.op, argument) != Slope::stops;
}

void ReverseSweep::find_active(const std::vector<int>& wrt) {
  for (std::size_t i = 0; i < program_.nodes().size(); ++i) {
    const Node& n = program_.nodes()[i];
    bool active = n.op == Op::input && std::ranges::find(wrt, n.ordinal) != wrt.end();
    for (int k = 0; k < n.computed_arity(); ++k) {
      const auto at = static_cast<std::size_t>(k);
      active = active || (active_[index(n.args[at])] && passes(static_cast<Value>(i), at));
    }
    active_.push_back(active);
  }
}

void ReverseSweep::declare_gradients() {
  for (std::size_t i = 0; i < program_.results().size(); ++i) {
    const Value value = program_.results()[i].value;
    gradients.push_back(kNone);
    if (!active_[index(value)] || gives_truth(node(value))) continue;
    const Value g = builder.float_input(unused_name(program_, "d" + program_.result_name(i)));
    const Atoms shape = written_shape(now(value));
    shapes.declare(g, shape);
    gradients.back() = g;
    reached_[index(value)] = true;
    add(value, g, shape);
  }
}

Atoms ReverseSweep::written_shape(Value value) {
  Atoms shape = shapes.of(value);
  if (program_.has_shaping()) return shape;
  for (std::size_t i = 0; i < program_.inputs().size(); ++i)
    shape = shapes.joined(shape, shapes.of(static_cast<Value>(i)));  // declared first
  return shape;
}

// `gradient` broadcasts to `shape`, which the value broadcasts to as well.
void ReverseSweep::add(Value value, Value gradient, const Atoms& shape) {
  if (!active_[index(value)]) return;
  auto& parts = parts_[index(value)];
  const auto same = std::ranges::find(parts, shape, &std::pair<Atoms, Value>::first);
  if (same == parts.end()) {
    parts.emplace_back(shape, gradient);
  } else {
    same->second = op(Op::add, same->second, gradient);
  }
}

// All that was added, in the value's shape or one that broadcasts to it.
Value ReverseSweep::total(Value value) {
  const Atoms own = shapes.of(now(value));
  Value sum = kNone;
  for (const auto& [shape, part] : parts_[index(value)]) {
    Value gradient = part;
    if (own != shape) {
      gradient = covering(gradient, shape);
      const Shaping* const reduction = shapes.reduction_of(own, shape);
      gradient = reduction != nullptr ? sum_over(gradient, reduction->axes)
                                      : builder.sum_to(gradient, own.empty() ? now(value) : shapes.like(own));
    }
    sum = sum == kNone ? gradient : op(Op::add, sum, gradient);
  }
  return sum == kNone ? number(0) : sum;
}

Value ReverseSweep::covering(Value gradient, const Atoms& shape) {
  return shape.empty() || shapes.of(gradient) == shape ? gradient : builder.expand_as(gradient, shapes.like(shape));
}

void ReverseSweep::differentiate(Value value, Value g) {
  const Node& n = node(value);
  const Atoms shape = shapes.of(now(value));
  if (n.op == Op::cast) return add(n.args[0], g, shape);
  if (is_reduction(n.op) && differentiate_unfolded(value, g)) return;
  if (is_reduction(n.op)) return differentiate_reduction(value, g);
  if (is_movement(n.op)) return differentiate_movement(value, g);
  if (n.op == Op::cat) return differentiate_cat(value, g);
  if (is_indexing(n.op)) {
    base::fail(
        ErrorCode::unsupported,
        "the gradient of '{}' adds up elements wherever indices are equal, which a chain could only find by "
        "comparing each row of the table with every index: differentiate what reads it as an operand of its own, "
        "and add its gradient up with PyTorch's index_add_ or embedding_dense_backward",
        written_name(n));
  }
  const bool is_more = differentiate_softmax(value, g) || differentiate_log_softmax(value, g) ||
                       differentiate_logsumexp(value, g) || differentiate_norm(value, g) ||
                       differentiate_root(value, g) || differentiate_clamp(value, g) ||
                       differentiate_max_pool(value, g);
  if (is_more) return;
  std::array<Value, kMaxArity> args = {kNone, kNone, kNone};
  for (int k = 0; k < n.arity(); ++k) args[static_cast<std::size_t>(k)] = now(n.args[static_cast<std::size_t>(k)]);
  for (int k = 0; k < n.arity(); ++k) {
    const auto at = static_cast<std::size_t>(k);
    if (!active_[index(n.args[at])] || slope_of(n.op, at) != Slope::stated) continue;
    add(n.args[at], derivative(builder, n.op, at, args, now(value), g), shape);
  }
}

// ---- shape operations

void ReverseSweep::differentiate_movement(Value value, Value g) {
  const Node& n = node(value);
  const Value a = n.args[0];
  const Atoms own = shapes.of(now(a));
  const Atoms shape = shapes.of(now(value));
  const View* const view = program_.view_of(n);
  const ReversedView reversed = view == nullptr ? ReversedView{} : reversed_view(*view);
  if (n.op == Op::repeat_as) {
    base::fail(ErrorCode::unsupported,
               "the gradient of '{}' is not known to chains: differentiate what reads it as an operand of its own",
               written_name(n));
  }
  if (own.empty() || n.op == Op::expand_as || reversed.kind == ReversedView::Kind::sum) return add(a, g, shape);
  g = covering(g, shape);
  if (reversed.kind == ReversedView::Kind::view) return add(a, builder.view(g, reversed.view), own);
  if (reversed.kind == ReversedView::Kind::scatter) {
    if (view->kind == View::Kind::window) {
      windows_[index(a)].push_back({*view, g});
      return;
    }
    if (view->kind == View::Kind::unfold && differentiate_unfold(value, g)) return;
    if (view->kind == View::Kind::unfold) {
      base::fail(
          ErrorCode::unsupported,
          "the gradient of '{}' adds up windows of more than 64 elements, each of which gave something of its "
          "own: only a sum, a mean or a pool of all of their elements has one. Differentiate what reads it as an "
          "operand of its own",
          text_of(n, *view));
    }
    if (const auto beside = views_beside(*view)) return add(a, amid_zeros(now(a), g, *beside), own);
    if (const auto back = put_back(a, g, *view)) return add(a, *back, own);
    base::fail(ErrorCode::unsupported,
               "the gradient of '{}' is a tensor that is 0 elsewhere, which chains do not write where slices "
               "count from the back: count from the front, or differentiate what reads it as an operand of its own",
               text_of(n, *view));
  }
  return add(a, builder.reshape_as(g, shapes.like(own)), own);
}

// The gradient of one of several pieces, with zeros in the place of the others.
Value ReverseSweep::amid_zeros(Value x, Value g, const ViewsBeside& beside) {
  const auto zeros = [&](const View& view) { return builder.expand_as(number(0), builder.view(x, view)); };
  Value all = kNone;
  const auto append = [&](Value piece) {
    all = all == kNone ? piece : builder.cat(all, piece, static_cast<int>(beside.dimension));
  };
  for (const View& view : beside.before) append(zeros(view));
  append(g);
  for (const View& view : beside.behind) append(zeros(view));
  return all;
}

// Halves: where arguments of other sizes meet is not known before there are tensors. What was rolled is rolled back.
void ReverseSweep::differentiate_cat(Value value, Value g) {
  const Node& n = node(value);
  if (const View* const by = rolled_by(program_, n)) {
    const Value x = node(n.args[0]).args[0];
    const std::array shifts = {-by->numbers[1]};
    return add(x, roll(builder, covering(g, shapes.of(now(value))), shifts, std::array{by->numbers[0]}),
               shapes.of(now(x)));
  }
  const Atoms first = shapes.of(now(n.args[0]));
  const Atoms second = shapes.of(now(n.args[1]));
  if (first.empty() || second.empty()) {
    base::fail(
        ErrorCode::unsupported,
        "the gradient of '{}' is cut where its arguments meet, one of which is a number: differentiate what goes "
        "into it, with a slice of the gradient for each",
        written_name(n));
  }
  g = covering(g, shapes.of(now(value)));
  if (first != second) {
    // As far as each goes: the first from the front, the second from the back.
    const int axis = n.shaping.axes.at[0];
    const View flip = flip_view({axis});
    add(n.args[0], builder.repeat_as(g, shapes.like(first), axis, 1, 0), first);
    const Value behind = builder.repeat_as(builder.view(g, flip), shapes.like(second), axis, 1, 0);
    return add(n.args[1], builder.view(behind, flip), second);
  }
  for (const std::int64_t k : {0, 1}) {
    const View half = numbered_view(View::Kind::chunk, {2, n.shaping.axes.at[0], k});
    add(n.args[static_cast<std::size_t>(k)], builder.view(g, half), first);
  }
}

// ---- reductions

// What has the shape of a reduction's result, with the reduced dimensions as one element each.
Value ReverseSweep::unreduced(Value reduction, Value result) {
  const Node& n = node(reduction);
  if (n.shaping.keepdim) return result;
  return builder.unsqueeze_as(covering(result, shapes.of(now(reduction))), shapes.like(shapes.of(now(n.args[0]))),
                              n.shaping.axes);
}

void ReverseSweep::differentiate_reduction(Value value, Value g) {
  const Node& n = node(value);
  const Value a = n.args[0];
  const Value x = now(a);
  const Value y = now(value);
  const Atoms shape = shapes.of(x);
  if (shape.empty()) return;
  const Axes& axes = n.shaping.axes;
  const auto count = [&] { return builder.count(shapes.like(shape), axes); };
  // A NaN is no element's equal, and 0 times what nobody shares is NaN: so it is in PyTorch.
  const auto extreme = [&] {
    const Value is_one = op(Op::eq, x, unreduced(value, y));
    const Value ones = sum_over(is_one, axes);
    if (reduces_windows(n)) largest_elements.push_back(ones);
    return op(Op::mul, is_one, op(Op::div, unreduced(value, g), ones));
  };
  switch (n.op) {
    case Op::sum:
      return add(a, n.arity() == 2 ? g : unreduced(value, g), shape);
    case Op::mean:
      return add(a, unreduced(value, op(Op::div, g, count())), shape);
    case Op::prod:
      return add(a, op(Op::mul, unreduced(value, g), product_of_others(value)), shape);
    case Op::amax:
    case Op::amin:
      return add(a, n.constant == 0 ? extreme() : of_first(value, g), shape);
    default: {  // var
      const Value freedom =
          n.constant == 0 ? count() : op(Op::maximum, op(Op::sub, count(), number(n.constant)), number(0));
      const Value mean = builder.reduce(Op::mean, x, axes, n.shaping.keepdim);
      const Value factor = op(Op::mul, g, op(Op::div, number(2), freedom));
      return add(a, op(Op::mul, unreduced(value, factor), op(Op::sub, x, unreduced(value, mean))), shape);
    }
  }
}

// To the first of equal elements alone, in row-major order of the reduced dimensions, or to one NaN: the first, or as
// pools have it the last.
Value ReverseSweep::of_first(Value reduction, Value g) {
  const Node& n = node(reduction);
  const Value x = now(n.args[0]);
  const Value like = shapes.like(shapes.of(x));
  std::vector<std::int8_t> axes(n.shaping.axes.at.begin(), n.shaping.axes.at.begin() + n.shaping.axes.count);
  std::ranges::sort(axes);
  Value place = kNone;
  for (const std::int8_t axis : axes) {
    const Value at = builder.iota(like, axis);
    const Axes one = axes_of("amax", std::array{std::int64_t{axis}}, false);
    place = place == kNone ? at : op(Op::add, op(Op::mul, place, builder.count(like, one)), at);
  }
  const Value is_one = op(Op::eq, x, unreduced(reduction, now(reduction)));
  const Value chosen = first_place(n, is_one, place, true);
  return op(Op::where, op(Op::eq, place, chosen), unreduced(reduction, g), number(0));
}

// Of the places of a row's elements that of the first which equals the extreme (`is_one`). With NaNs it is that of one
// of these, as the ties of the reduction say.
Value ReverseSweep::first_place(const Node& reduction, Value is_one, Value place, bool keepdim) {
  const Value is_nan = op(Op::isnan, now(reduction.args[0]));
  const Value far = builder.constant(std::numeric_limits<double>::infinity());
  const auto least = [&](Value places) { return builder.reduce(Op::amin, places, reduction.shaping.axes, keepdim); };
  if (static_cast<Ties>(reduction.constant) == Ties::first)
    return least(op(Op::where, op(Op::logical_or, is_one, is_nan), place, far));
  const auto behind_zero = [&](Value at) { return op(Op::sub, number(-1), at); };  // the last place is the smallest
  const Value first = least(op(Op::where, is_one, place, op(Op::where, is_nan, behind_zero(place), far)));
  return op(Op::where, op(Op::lt, first, number(0)), behind_zero(first), first);
}

// Without a division by zero: where one element of a row is 0, the product of the others is the gradient of that one
// alone.
Value ReverseSweep::product_of_others(Value reduction) {
  const Node& n = node(reduction);
  const Value x = now(n.args[0]);
  const Value is_zero = op(Op::eq, x, number(0));
  const Value zeros = sum_over(is_zero, n.shaping.axes);
  const Value others = builder.reduce(Op::prod, op(Op::where, is_zero, number(1), x), n.shaping.axes, true);
  const Value at_zero = op(Op::where, op(Op::eq, zeros, number(1)), others, number(0));
  const Value elsewhere = op(Op::where, op(Op::eq, zeros, number(0)), op(Op::div, others, x), number(0));
  return op(Op::where, is_zero, at_zero, elsewhere);
}

// ---- what is more than its operations: the maximum that an exponential is shifted by has no part in the gradient

bool ReverseSweep::differentiate_softmax(Value value, Value g) {
  const Node& quotient = node(value);
  if (quotient.op != Op::div) return false;
  const Node& e = node(quotient.args[0]);
  const Node& total = node(quotient.args[1]);
  if (e.op != Op::exp || total.op != Op::sum || total.arity() != 1 || total.args[0] != quotient.args[0]) return false;
  const Node& d = node(e.args[0]);
  if (d.op != Op::sub || !total.shaping.keepdim) return false;
  const Node& largest = node(d.args[1]);
  if (largest.op != Op::amax || largest.args[0] != d.args[0] || largest.shaping != total.shaping) return false;
  const Value y = now(value);
  const Value weighted = op(Op::mul, g, y);
  const Value mean = sum_over(weighted, total.shaping.axes);
  add(d.args[0], op(Op::sub, weighted, op(Op::mul, y, mean)), shapes.of(y));
  return true;
}

bool ReverseSweep::differentiate_log_softmax(Value value, Value g) {
  const Node& difference = node(value);
  if (difference.op != Op::sub) return false;
  const Node& logarithm = node(difference.args[1]);
  const Node& d = node(difference.args[0]);
  if (logarithm.op != Op::log || d.op != Op::sub) return false;
  const Node& total = node(logarithm.args[0]);
  if (total.op != Op::sum || total.arity() != 1 || !total.shaping.keepdim) return false;
  const Node& e = node(total.args[0]);
  const Node& largest = node(d.args[1]);
  if (e.op != Op::exp || e.args[0] != difference.args[0]) return false;
  if (largest.op != Op::amax || largest.args[0] != d.args[0] || largest.shaping != total.shaping) return false;
  const Atoms shape = shapes.of(now(value));
  g = covering(g, shape);
  const Value sum = sum_over(g, total.shaping.axes);
  add(d.args[0], op(Op::sub, g, op(Op::mul, op(Op::exp, now(value)), sum)), shape);
  return true;
}

bool ReverseSweep::differentiate_logsumexp(Value value, Value g) {
  // The amax M of where(isinf(M), 0, M).
  const auto guarded = [&](Value shift) -> const Node* {
    const Node& n = node(shift);
    if (n.op != Op::where) return nullptr;
    const Node& condition = node(n.args[0]);
    const Node& largest = node(n.args[2]);
    const bool matches = condition.op == Op::isinf && condition.args[0] == n.args[2] && largest.op == Op::amax;
    return matches ? &largest : nullptr;
  };
  const Node& sum = node(value);
  if (sum.op != Op::add || node(sum.args[0]).op != Op::log) return false;
  const Value total_value = node(sum.args[0]).args[0];
  const Node& total = node(total_value);
  if (total.op != Op::sum || total.arity() != 1 || node(total.args[0]).op != Op::exp) return false;
  const Node& d = node(node(total.args[0]).args[0]);
  if (d.op != Op::sub) return false;
  const Node* const outer = guarded(sum.args[1]);
  const Node* const inner = guarded(d.args[1]);
  if (outer == nullptr || inner == nullptr || outer->shaping != total.shaping || outer->args[0] != d.args[0])
    return false;
  if (inner->args[0] != d.args[0] || !inner->shaping.keepdim || inner->shaping.axes != total.shaping.axes) return false;
  const Value x = now(d.args[0]);
  const Value share = op(Op::exp, op(Op::sub, x, unreduced(total_value, now(value))));
  add(d.args[0], op(Op::mul, unreduced(total_value, g), share), shapes.of(x));
  return true;
}

// (sum |x| ** p) ** (1 / p) for p < 1: powers of elements that are 0 have infinite slopes. PyTorch gives these elements
// the gradient 0.
bool ReverseSweep::differentiate_norm(Value value, Value g) {
  const auto exponent_of = [&](const Node& n) -> std::optional<double> {
    if (n.op == Op::square) return 2;
    if (n.op == Op::reciprocal) return -1;
    const bool is_known = n.op == Op::pow && node(n.args[1]).op == Op::constant;
    return is_known ? std::optional(node(n.args[1]).constant) : std::nullopt;
  };
  const auto root = exponent_of(node(value));
  if (!root || node(node(value).args[0]).op != Op::sum) return false;
  const Value sum = node(value).args[0];
  const Node& power = node(node(sum).args[0]);
  const auto p = exponent_of(power);
  if (!p || *p >= 1 || 1 / *p != *root || node(power.args[0]).op != Op::abs || node(sum).arity() != 1) return false;
  const Value argument = node(power.args[0]).args[0];
  const Value x = now(argument);
  const Value y = now(value);
  const auto unless_zero = [&](Value of, Value slope) {
    return op(Op::where, op(Op::eq, of, number(0)), number(0), slope);
  };
  const Value size = op(Op::pow, op(Op::abs, x), number(*p - 1));
  const Value scale = unless_zero(y, op(Op::mul, g, op(Op::pow, y, number(1 - *p))));
  add(argument, op(Op::mul, unreduced(sum, scale), unless_zero(x, op(Op::mul, op(Op::sign, x), size))), shapes.of(x));
  return true;
}

// The root of a variance or of a sum (std, norm): PyTorch has the gradient 0 where it is 0.
bool ReverseSweep::differentiate_root(Value value, Value g) {
  const Node& n = node(value);
  const bool is_power = n.op == Op::pow && node(n.args[1]).op == Op::constant && node(n.args[1]).constant < 1;
  if (n.op != Op::sqrt && !is_power) return false;
  const Node& reduction = node(n.args[0]);
  if (reduction.op != Op::var && reduction.op != Op::sum) return false;
  const Value y = now(value);
  const std::array<Value, kMaxArity> args = {now(n.args[0]), is_power ? now(n.args[1]) : kNone, kNone};
  const Value slope = derivative(builder, n.op, 0, args, y, g);
  add(n.args[0], op(Op::where, op(Op::eq, y, number(0)), number(0), slope), shapes.of(y));
  return true;
}

// At a bound that is a number nothing passes; a tensor shares with it (derivatives.def). So it is since PyTorch 2.15.
bool ReverseSweep::differentiate_clamp(Value value, Value g) {
  const Node& n = node(value);
  if (n.op != Op::clamp || node(n.args[1]).op != Op::constant || node(n.args[2]).op != Op::constant) return false;
  const Value x = now(n.args[0]);
  Value inside = kNone;
  const auto need = [&](Value condition) {
    inside = inside == kNone ? condition : op(Op::logical_and, inside, condition);
  };
  if (!std::isinf(node(n.args[1]).constant)) need(op(Op::gt, x, now(n.args[1])));
  if (!std::isinf(node(n.args[2]).constant)) need(op(Op::lt, x, now(n.args[2])));
  add(n.args[0], inside == kNone ? g : op(Op::where, inside, g, number(0)), shapes.of(x));
  return true;
}

}  // namespace epifuse::ir
