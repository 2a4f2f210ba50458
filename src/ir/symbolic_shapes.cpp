// Atoms are numbered as they are met. One that broadcasts to others vanishes beside them: a mean with keepdim beside
// what it is a mean of.
#include "ir/symbolic_shapes.hpp"

#include <algorithm>

namespace epifuse::ir {

void SymbolicShapes::declare(Value input, const Atoms& shape) {
  assume(input, shape);
  declared_.emplace_back(shape, input);
}

void SymbolicShapes::assume(Value value, const Atoms& shape) {
  const auto at = static_cast<std::size_t>(value);
  if (known_.size() <= at) {
    known_.resize(at + 1);
    is_known_.resize(at + 1, false);
  }
  known_[at] = shape;
  is_known_[at] = true;
}

Atoms SymbolicShapes::of(Value value) {
  const auto at = static_cast<std::size_t>(value);
  if (known_.size() <= at) {
    known_.resize(at + 1);
    is_known_.resize(at + 1, false);
  }
  if (is_known_[at]) return known_[at];
  // Without recursion, since chains may be deep: arguments have smaller numbers, all of which are computed.
  for (std::size_t& i = next_; i <= at; ++i) {
    if (is_known_[i]) continue;
    Atoms atoms = computed(static_cast<Value>(i));
    known_[i] = std::move(atoms);
    is_known_[i] = true;
  }
  return known_[at];
}

Atoms SymbolicShapes::computed(Value value) {
  const Node& node = builder_.node(value);
  const auto arg = [&](std::size_t k) -> const Atoms& { return known_[static_cast<std::size_t>(node.args[k])]; };
  switch (node.op) {
    case Op::input:
      return made(value, {}, {}, false);
    case Op::scalar:
    case Op::constant:
    case Op::count:
      return {};
    case Op::rand_like:
    case Op::iota:
    case Op::index_copy:
    case Op::block_scaled:
      return arg(0);
    case Op::expand_as:
    case Op::reshape_as:
    case Op::repeat_as:
    case Op::gather:
      return arg(1);
    case Op::unsqueeze_as:
      return arg(0).empty() ? Atoms() : made(value, arg(0), arg(1), is_reduced(arg(0)));
    case Op::unflatten:
    case Op::flatten:
    case Op::view:
    case Op::along:
    case Op::cat:
    case Op::matmul:
    case Op::conv2d:
    case Op::take:
    case Op::index_select:
    case Op::scale_tiles:
      return made(value, arg(0), {}, is_reduced(arg(0)));
    default:
      break;
  }
  if (is_reduction(node.op)) {
    if (node.arity() == 2) return arg(1);
    return arg(0).empty() ? Atoms() : made(value, arg(0), node.shaping.keepdim ? arg(0) : Atoms(), true);
  }
  Atoms shape;
  for (int k = 0; k < node.arity(); ++k) shape = joined(shape, arg(static_cast<std::size_t>(k)));
  return shape;
}

// What `value` makes of a shape: the same for all values that do the same with it.
Atoms SymbolicShapes::made(Value value, const Atoms& of, const Atoms& base, bool reduced) {
  const Node& node = builder_.node(value);
  // All reductions give the same shape.
  const int kind =
      node.op == Op::input ? -1 - node.ordinal : static_cast<int>(is_reduction(node.op) ? Op::sum : node.op);
  std::vector<int> what = {kind};
  if (node.op == Op::view) what.push_back(-2 - ordinal_of(node));
  what.insert(what.end(), of.begin(), of.end());
  if (node.arity() == 2) {
    const Atoms& other = known_[static_cast<std::size_t>(node.args[1])];
    what.push_back(-1);
    what.insert(what.end(), other.begin(), other.end());
  }
  const auto [it, is_new] = numbers_.try_emplace(Key{what, node.shaping}, static_cast<int>(atoms_.size()));
  if (is_new) atoms_.push_back({value, base, reduced});
  return {it->second};
}

// Of a view; of elements of windows that of the first element that was met, since all have one shape.
int SymbolicShapes::ordinal_of(const Node& node) {
  const View& view = *builder_.view_of(node);
  if (view.kind != View::Kind::window) return node.ordinal;
  constexpr std::size_t kElement = 4;
  std::vector<std::int64_t> numbers = view.numbers;
  numbers[kElement] = 0;
  return windows_.try_emplace(std::move(numbers), node.ordinal).first->second;
}

Atoms SymbolicShapes::joined(const Atoms& a, const Atoms& b) const {
  Atoms all;
  std::ranges::set_union(a, b, std::back_inserter(all));
  for (std::size_t i = all.size(); i-- > 0;) {
    const Atoms& base = atoms_[static_cast<std::size_t>(all[i])].base;
    Atoms rest = all;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(i));
    if (!base.empty() && std::ranges::includes(rest, base)) all = std::move(rest);
  }
  return all;
}

Value SymbolicShapes::like(const Atoms& shape) {
  const auto it = std::ranges::find(declared_, shape, &std::pair<Atoms, Value>::first);
  if (it != declared_.end()) return it->second;
  Value value = kNone;
  for (const int atom : shape) {
    const Value first = atoms_[static_cast<std::size_t>(atom)].first;
    value = value == kNone ? first : builder_.apply(Op::add, {value, first, kNone});
  }
  return value;
}

const Shaping* SymbolicShapes::reduction_of(const Atoms& shape, const Atoms& of) const {
  if (shape.size() != 1) return nullptr;
  const Atom& atom = atoms_[static_cast<std::size_t>(shape[0])];
  const Node& node = builder_.node(atom.first);
  const bool matches = is_reduction(node.op) && node.arity() == 1 && node.shaping.keepdim && atom.base == of;
  return matches ? &node.shaping : nullptr;
}

bool SymbolicShapes::is_reduced(const Atoms& shape) const {
  return !shape.empty() &&
         std::ranges::all_of(shape, [&](int atom) { return atoms_[static_cast<std::size_t>(atom)].reduced; });
}

}  // namespace epifuse::ir
