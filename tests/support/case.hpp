// One test case: a chain, its operands, their memory before, and the judgement of the memory after.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <epifuse/inspect.hpp>

#include "support/chain.hpp"
#include "support/operand.hpp"
#include "support/oracle.hpp"

namespace epifuse::test {

struct Case {
  Chain chain;
  std::vector<Operand> inputs;
  std::vector<Operand> outputs;
  std::vector<int> in_place;  ///< per output: the input whose memory it is, or -1
  std::vector<double> scalars;
  Fill fill = Fill::plain;
  std::uint64_t data_seed = 1;
  unsigned row_dims = 0;  ///< of Fill::rows: dimensions that tell rows apart, bit 0 the last one
  /// Per input: an earlier one that is bound to the same memory in the same way, or -1. Inputs beyond its end have
  /// memory of their own.
  std::vector<int> same = {};

  /// Whose memory that input is: its own, or the one that it is bound to.
  std::size_t memory_of(std::size_t input) const noexcept {
    return input < same.size() && same[input] >= 0 ? static_cast<std::size_t>(same[input]) : input;
  }

  Compute compute() const;
  std::int64_t elements() const noexcept { return outputs[0].elements(); }
  /// The shape of every result, from the inputs' shapes. Throws ShapeError.
  std::vector<Dims> result_shapes() const;
  /// Chain and operands, for people.
  std::string str() const;
};

/// The library's plan for an H100; memory and its addresses play no part. Throws Error for what the library refuses.
PlanSummary planned(const Case& test);

/// Dense operands of those types and shapes.
Case simple_case(Chain chain, const std::vector<Operand>& inputs, const std::vector<DType>& outputs, const Dims& shape);

/// Adds operations to a chain that has its inputs, and says which values are results.
using Build = std::function<std::vector<int>(Chain&)>;

/// The chain that `build` makes of those inputs, with dense outputs of its results' shapes; their types are taken in
/// turns.
Case built(const std::vector<Operand>& inputs, const Build& build, const std::vector<DType>& outputs = {DType::f32});

/// Gives a case dense outputs of its results' shapes, whose types are taken in turns. `in_place`: the one that is the
/// first input, or -1.
void give_outputs(Case& test, const std::vector<DType>& types, int in_place = -1);

/// The memory of all operands. Outputs that are in place have no image of their own, nor have inputs that are bound
/// twice.
struct Memory {
  std::vector<Image> inputs;   ///< of an input that Case::same names again: empty
  std::vector<Image> outputs;  ///< of an output in place: empty, see Case::in_place

  explicit Memory(const Case& test);
  Image& of_output(const Case& test, std::size_t i) {
    return test.in_place[i] < 0 ? outputs[i] : inputs[test.memory_of(static_cast<std::size_t>(test.in_place[i]))];
  }
  const Image& of_input(const Case& test, std::size_t i) const { return inputs[test.memory_of(i)]; }
};

/// Views for a launch in the order that the library wants, for an addressing of the images.
struct Views {
  std::vector<TensorView> inputs;
  std::vector<OutputView> outputs;
  std::vector<double> scalars;
};
/// `address` gives where an image's first byte stands on the device that runs.
Views make_views(const Case& test, const Epilogue& tail, Memory& memory,
                 const std::function<unsigned char*(const Image&)>& address);
/// The same for plans, which read nothing: images far apart, each aligned as an allocation is.
Views views_apart(const Case& test, const Epilogue& tail, Memory& memory);

/// How much of a case could be judged.
struct Coverage {
  std::uint64_t elements = 0;
  std::uint64_t exact = 0;     ///< only one bit pattern was right
  std::uint64_t anything = 0;  ///< nothing could be wrong
};

/// Compares every element of every output with the oracle, and every other byte with what it was. A sentence if
/// something is wrong.
std::optional<std::string> judge(const Case& test, const Memory& before, Memory& after, Coverage* coverage = nullptr);

/// A smaller case that still fails, by greedy steps; `fails` is asked at most `attempts` times.
Case shrink(Case failing, const std::function<bool(const Case&)>& fails, int attempts);

}  // namespace epifuse::test
