// PyTorch's rule has three groups: tensors with dimensions, tensors without, numbers. Each promotes among its own; a
// group then only raises the category of the one before it.
#include "ir/result_types.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

namespace epifuse::ir {
namespace {

enum class Group : std::uint8_t { tensor, element, number };

struct Typed {
  DType dtype = DType::f32;
  int rank = 0;
  bool is_number = false;  // of the chain or the launch, and what is computed from those alone

  Group group() const noexcept { return rank > 0 ? Group::tensor : is_number ? Group::number : Group::element; }
};

class Promotion {
 public:
  void add(const Typed& argument) noexcept {
    std::optional<DType>& type = types_[static_cast<std::size_t>(argument.group())];
    type = type ? promoted(*type, argument.dtype) : argument.dtype;
  }

  DType type() const noexcept {
    std::optional<DType> all;
    for (const auto& lower : types_) {
      if (!lower) continue;
      const bool raises = all && category_of(*lower) > category_of(*all);
      if (!all || raises) all = all ? promoted(*all, *lower) : *lower;
    }
    return all.value_or(DType::f32);
  }

 private:
  std::array<std::optional<DType>, 3> types_;
};

DType by_rule(TypeRule rule, DType promotion) noexcept {
  const Category category = category_of(promotion);
  switch (rule) {
    case TypeRule::truth:
      return DType::boolean;
    case TypeRule::promoted:
      return promotion;
    case TypeRule::number:
    case TypeRule::first:
      return category == Category::truth ? DType::i64 : promotion;
    case TypeRule::integer:
      return category == Category::floating ? promotion : DType::i64;
    case TypeRule::floating:
      return category == Category::floating ? promotion : DType::f32;
  }
  return promotion;
}

// Whether the type of an argument counts. One that holds its default was most likely not given: clamp(x, 0) has no
// upper bound.
bool counts(const Node& node, std::size_t k, const Node& argument) {
  const OpRow& r = row(node.op);
  if (r.type == TypeRule::first) return k == 0;
  const Parameter& parameter = r.parameters[k];
  const bool is_default = argument.op == Op::constant && parameter.default_value == argument.constant;
  return parameter.kind == Kind::real && !is_default;
}

// How many dimensions a reduction leaves.
int rank_of_reduction(const Shaping& shaping, int rank) {
  if (shaping.keepdim) return rank;
  const int count = shaping.axes.count;
  if (count == 0) return 0;
  int reduced = count;
  if (shaping.axes.rest) {
    const int last = shaping.axes.at[static_cast<std::size_t>(count) - 1];
    reduced += rank - 1 - (last < 0 ? last + rank : last);
  }
  return std::max(rank - reduced, 0);
}

int rank_of_flatten(const Shaping& shaping, int rank) {
  const auto dimension = [&](std::int64_t at) { return static_cast<int>(at < 0 ? at + rank : at); };
  return std::max(rank - (dimension(shaping.sizes[1]) - dimension(shaping.sizes[0])), 1);
}

class Inference {
 public:
  Inference(const Program& program, std::span<const OperandType> operands) : program_(program), operands_(operands) {
    values_.reserve(program.nodes().size());
    for (const Node& node : program.nodes()) values_.push_back(typed(node));
  }

  DType of(Value value) const { return values_[static_cast<std::size_t>(value)].dtype; }

 private:
  const Typed& arg(const Node& node, std::size_t k) const { return values_[static_cast<std::size_t>(node.args[k])]; }

  // Only float8 factors have scales.
  DType type_of_matmul(const Node& node) const {
    const auto is_scaled = [&](std::size_t k) { return program_.node(node.args[k]).op == Op::block_scaled; };
    return is_scaled(0) || is_scaled(1) ? DType::f32 : type_of_product(arg(node, 0).dtype, arg(node, 1).dtype);
  }

  Typed typed(const Node& node) const {
    switch (node.op) {
      case Op::input: {
        const OperandType& operand = operands_[static_cast<std::size_t>(node.ordinal)];
        return {operand.dtype, operand.rank, false};
      }
      case Op::scalar:
        return {DType::f32, 0, true};
      case Op::constant:
        return {node.dtype, 0, true};
      case Op::count:
        return {DType::i64, 0, true};
      case Op::rand_like:
        return {DType::f32, arg(node, 0).rank, false};
      case Op::iota:
        return {DType::i64, arg(node, 0).rank, false};
      case Op::cat:
        return {promoted(arg(node, 0).dtype, arg(node, 1).dtype), arg(node, 0).rank, false};
      case Op::matmul:
        return {type_of_matmul(node), std::max(arg(node, 0).rank, arg(node, 1).rank), false};
      case Op::conv2d:
        return {type_of_product(arg(node, 0).dtype, arg(node, 1).dtype), 4, false};
      case Op::take:
      case Op::index_select:
        return {arg(node, 0).dtype, arg(node, 0).rank + arg(node, 1).rank - 1, false};
      case Op::gather:
        return {arg(node, 0).dtype, arg(node, 1).rank, false};
      case Op::index_copy:
      case Op::block_scaled:
        return {arg(node, 0).dtype, arg(node, 0).rank, false};
      case Op::scale_tiles:
        return {arg(node, 0).dtype, arg(node, 0).rank + 3, false};
      case Op::cast:
        return {node.dtype, arg(node, 0).rank, false};
      case Op::unflatten:
        return {arg(node, 0).dtype, arg(node, 0).rank + 1, false};
      case Op::flatten:
        return {arg(node, 0).dtype, rank_of_flatten(node.shaping, arg(node, 0).rank), false};
      case Op::view:
        return {arg(node, 0).dtype, rank_of(program_.view(node), arg(node, 0).rank), false};
      case Op::along:
      case Op::expand_as:
      case Op::unsqueeze_as:
      case Op::reshape_as:
      case Op::repeat_as:
        return {arg(node, 0).dtype, arg(node, 1).rank, false};
      default:
        return is_reduction(node.op) ? reduced(node) : computed(node);
    }
  }

  Typed reduced(const Node& node) const {
    const Typed& of = arg(node, 0);
    const int rank = node.arity() == 2 ? arg(node, 1).rank : rank_of_reduction(node.shaping, of.rank);
    return {by_rule(reduction_row(node.op).type, of.dtype), rank, false};
  }

  Typed computed(const Node& node) const {
    Typed all{DType::f32, 0, true};
    Promotion promotion;
    for (std::size_t k = 0; k < static_cast<std::size_t>(node.arity()); ++k) {
      const Typed& argument = arg(node, k);
      all.rank = std::max(all.rank, argument.rank);
      all.is_number = all.is_number && argument.is_number;
      if (counts(node, k, program_.node(node.args[k]))) promotion.add(argument);
    }
    all.dtype = by_rule(row(node.op).type, promotion.type());
    return all;
  }

  const Program& program_;
  std::span<const OperandType> operands_;
  std::vector<Typed> values_;
};

}  // namespace

DType type_of_product(DType left, DType right) noexcept {
  const DType type = promoted(left, right);
  if (category_of(type) != Category::floating) return DType::i32;
  return size_of(left) == 1 && size_of(right) == 1 ? DType::f32 : type;
}

Category category_of(DType type) noexcept {
  if (type == DType::boolean) return Category::truth;
  return is_floating(type) ? Category::floating : Category::integer;
}

DType default_type(Category category) noexcept {
  return category == Category::truth ? DType::boolean : category == Category::integer ? DType::i64 : DType::f32;
}

namespace {

bool is_unsigned(DType type) {
  return type == DType::u4 || type == DType::u8 || type == DType::u16 || type == DType::u32;
}

// The signed type of so many bytes.
DType signed_type(std::size_t bytes) {
  return bytes == 1 ? DType::i8 : bytes == 2 ? DType::i16 : bytes == 4 ? DType::i32 : DType::i64;
}

// The smallest type that holds what both hold. PyTorch has these, too, but none with u16 or u32 and another integer.
DType promoted_integers(DType a, DType b) {
  // All others but i4 hold the numbers of u4, and i8 those of both.
  if (b == DType::u4) std::swap(a, b);
  if (a == DType::u4) return b == DType::i4 ? DType::i8 : b;
  if (a == DType::i4) a = DType::i8;
  if (b == DType::i4) b = DType::i8;
  if (size_of(a) < size_of(b)) std::swap(a, b);
  if (is_unsigned(a) == is_unsigned(b) || (is_unsigned(b) && size_of(a) > size_of(b))) return a;
  return signed_type(2 * size_of(a));  // a is unsigned, or b is and of a's size
}

// PyTorch has nothing for two types of 8 bits. f8e8m0 has the exponents of bf16, which f16 has not.
DType promoted_floats(DType a, DType b) {
  if (size_of(a) < size_of(b)) std::swap(a, b);
  const bool has_scale = a == DType::f8e8m0 || b == DType::f8e8m0;
  if (size_of(a) > size_of(b)) return has_scale && a == DType::f16 ? DType::f32 : a;
  return size_of(a) == 2 ? DType::f32 : has_scale ? DType::bf16 : DType::f16;
}

}  // namespace

DType promoted(DType a, DType b) noexcept {
  if (a == b) return a;
  if (category_of(a) != category_of(b)) return category_of(a) > category_of(b) ? a : b;
  return category_of(a) == Category::integer ? promoted_integers(a, b) : promoted_floats(a, b);
}

std::vector<DType> value_types(const Program& program, std::span<const OperandType> operands) {
  const Inference inference(program, operands);
  std::vector<DType> types;
  types.reserve(program.nodes().size());
  for (std::size_t i = 0; i < program.nodes().size(); ++i) types.push_back(inference.of(static_cast<Value>(i)));
  return types;
}

std::vector<DType> result_types(const Program& program, std::span<const OperandType> operands) {
  const Inference inference(program, operands);
  std::vector<DType> types;
  for (const Result& result : program.results()) types.push_back(inference.of(result.value));
  return types;
}

Category Builder::least_category(const Node& node) const {
  const auto of = [&](std::size_t k) { return categories_[static_cast<std::size_t>(node.args[k])]; };
  const auto by = [](TypeRule rule, Category least) { return category_of(by_rule(rule, default_type(least))); };
  switch (node.op) {
    case Op::input:
      return Category::truth;
    case Op::scalar:
    case Op::rand_like:
      return Category::floating;
    case Op::count:
    case Op::iota:
      return Category::integer;
    case Op::cat:
      return std::max(of(0), of(1));
    case Op::matmul:
    case Op::conv2d:
      return std::max({of(0), of(1), Category::integer});
    case Op::constant:
    case Op::cast:
      return category_of(node.dtype);
    default:
      break;
  }
  if (is_movement(node.op) || is_indexing(node.op) || is_placed(node.op) || node.op == Op::block_scaled) return of(0);
  if (is_reduction(node.op)) return by(reduction_row(node.op).type, of(0));
  Category least = Category::truth;
  for (std::size_t k = 0; k < static_cast<std::size_t>(node.arity()); ++k) {
    if (counts(node, k, this->node(node.args[k]))) least = std::max(least, of(k));
  }
  return by(row(node.op).type, least);
}

}  // namespace epifuse::ir
