// Expressions of a source, with what is known written out: `kCluster * kWarps` of one block is `kWarps`. Used by
// known.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "codegen/lean/tokens.hpp"

namespace epifuse::codegen::lean {

struct Known {
  std::int64_t number;
  bool is_truth;
  std::string name = {};  // of a constant whose number it is, for a reader
  std::string text() const {
    if (is_truth) return number != 0 ? "true" : "false";
    return number > 1 && !name.empty() ? name : std::to_string(number);
  }
};
struct NameHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view name) const { return std::hash<std::string_view>()(name); }
};
/// By name what a constant is; by ".name" a static member, by "sizeof name" the bytes of a type.
using KnownNames = std::unordered_map<std::string, Known, NameHash, std::equal_to<>>;

class Fold {
 public:
  Fold(const Source& source, const KnownNames& names);

  /// Tokens [first, last): the text from the first to the last of them, folded. Names of 0, 1, true and false are
  /// written as these numbers; of greater numbers a reader wants the name.
  std::string text(std::size_t first, std::size_t last) const;
  /// The value of tokens [first, last), if they are an expression that is known.
  std::optional<Known> value(std::size_t first, std::size_t last) const;

 private:
  struct Expression {
    std::size_t first, last;  // tokens
    std::string text;
    int level;  // of the operator that binds least
    std::optional<Known> known = {};
  };
  struct Sign {
    int level;
    std::size_t tokens;
    std::int64_t (*apply)(std::int64_t, std::int64_t);  // or nothing
  };

  bool is_plain(std::size_t first, std::size_t last) const { return known_before_[first] == known_before_[last]; }
  std::string gap(std::size_t i) const;
  bool separates(std::size_t first, std::size_t i) const;
  std::string tokens(std::size_t first, std::size_t last) const;
  std::string group(std::size_t open) const;
  std::optional<Sign> sign_at(std::size_t i, std::size_t last) const;
  std::optional<Expression> choice(std::size_t& i, std::size_t last) const;
  std::optional<Expression> of_level(std::size_t& i, std::size_t last, int level) const;
  std::optional<Expression> operand(std::size_t& i, std::size_t last) const;
  std::optional<Expression> leaf(std::size_t i, std::size_t last) const;
  std::optional<Expression> in_parentheses(std::size_t open) const;
  bool is_enumerator(const Expression& one) const;
  Expression combined(Expression left, std::size_t at, const Sign& sign, Expression right) const;
  std::optional<Expression> neutral(std::string_view sign, const Expression& left, const Expression& right) const;
  Expression literal(const Expression& left, const Expression& right, Known known) const;

  const Source& source_;
  const KnownNames& names_;
  std::vector<std::uint32_t> known_before_;  // of each token: how many before it may be known
};

}  // namespace epifuse::codegen::lean
