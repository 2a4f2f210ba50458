// What is known of the shapes of a chain's values before there are tensors: which of them are surely equal. For
// gradient.cpp.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "ir/program.hpp"

namespace epifuse::ir {

/// Of what is listed by value.
inline std::size_t index(Value value) { return static_cast<std::size_t>(value); }

/// A shape is what its atoms broadcast to: shapes of operands, and what reductions and shape operations make of shapes.
/// Sorted. Equal lists are equal shapes; shapes that happen to be equal may have different lists.
using Atoms = std::vector<int>;

class SymbolicShapes {
 public:
  explicit SymbolicShapes(Builder& builder) : builder_(builder) {}

  /// `input` has this shape, and none of its own.
  void declare(Value input, const Atoms& shape);
  Atoms of(Value value);
  /// `value` has this shape, which what makes it does not tell.
  void assume(Value value, const Atoms& shape);
  /// Of two shapes that broadcast.
  Atoms joined(const Atoms& a, const Atoms& b) const;
  /// A value of this shape, not empty: one that was declared to have it if there is one.
  Value like(const Atoms& shape);
  /// The reduction with keepdim that makes `shape` of `of`; null: none is known.
  const Shaping* reduction_of(const Atoms& shape, const Atoms& of) const;
  /// Every atom is what a reduction left: one element for many.
  bool is_reduced(const Atoms& shape) const;

 private:
  int ordinal_of(const Node& node);
  struct Atom {
    Value first = kNone;  ///< has this shape and no other atom
    Atoms base;           ///< broadcasts to this shape; empty: not known
    bool reduced = false;
  };
  using Key = std::pair<std::vector<int>, Shaping>;

  Atoms computed(Value value);
  Atoms made(Value value, const Atoms& of, const Atoms& base, bool reduced);

  Builder& builder_;
  std::vector<Atoms> known_;  // by value
  std::vector<bool> is_known_;
  std::size_t next_ = 0;  // all before are known
  std::map<Key, int> numbers_;
  std::map<std::vector<std::int64_t>, int>
      windows_;  // by numbers of a window's view, but for the element: its first view
  std::vector<Atom> atoms_;
  std::vector<std::pair<Atoms, Value>> declared_;
};

}  // namespace epifuse::ir
