// Random chains in which views stand anywhere, over arrays of small integers: what they give is known to the last bit.
// An oracle of its own: it indexes arrays element by element, as NumPy documents it, and knows no strides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <epifuse/engine.hpp>
#include <epifuse/epilogue.hpp>
#include <epifuse/tensor.hpp>

#include "support/random.hpp"

namespace epifuse::test {

struct IntegerArray {
  Dims shape;
  std::vector<double> values;  ///< row-major
};

struct ViewCase {
  std::string text;
  std::vector<IntegerArray> inputs;  ///< x0, x1, …
  std::vector<int> layouts;          ///< of each: 0 dense, 1 gaps behind rows, 2 back to front, 3 column-major
  std::vector<DType> types;          ///< of each; none: all are f32
  IntegerArray expected;
  std::set<std::string> used;  ///< kinds of views
  double tolerance = 0;        ///< of a result that is rounded on the way, to its size or to 1
  DType result = DType::f32;
};

const std::vector<std::string>& view_kinds();
ViewCase draw_view_case(std::uint64_t seed);

/// What is wrong with the case's result on the engine's device; empty if nothing is. Throws what the launch throws.
std::string judge_on(Engine& engine, const ViewCase& test);

/// A case in memory: what a launch takes, and what it left. Throws Error where the chain refuses the operands' shapes.
class PlacedViewCase {
 public:
  explicit PlacedViewCase(const ViewCase& test);
  const Epilogue& tail() const noexcept { return tail_; }
  std::span<const TensorView> inputs() const noexcept { return inputs_; }
  std::span<const OutputView> outputs() const noexcept { return {&output_, 1}; }
  /// What is wrong; empty if nothing is.
  std::string judge() const;

 private:
  const ViewCase& test_;
  Epilogue tail_;
  void store_as(std::size_t input, DType type);

  std::vector<std::vector<float>> memory_;
  std::vector<std::vector<std::byte>> stored_;  // of those that are no f32
  std::vector<TensorView> inputs_;
  std::vector<std::byte> result_;  // and an element behind it
  OutputView output_;
};

}  // namespace epifuse::test
