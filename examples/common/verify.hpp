// Are the numbers right? A tail's outputs against the CPU device in double precision, those of a tail with reductions
// and a producer's against plain loops.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <epifuse/epifuse.hpp>

namespace examples {

namespace ef = epifuse;

/// Several tensors, or parts of them, as doubles in row-major order.
using Values = std::vector<std::vector<double>>;

/// A tail with reductions, written down a second time as plain loops in double precision, for one group at a time: the
/// elements that a reduction brings together.
struct Reference {
  /// Extents of a group. Groups tile the tail's first operand, and every result of more than one element into as many.
  ef::Dims group;
  /// From the operands' elements in a group, each broadcast to the group's extents, to the results' there. For a result
  /// of one element, the largest of something over the whole tensor, it gives the largest of the group.
  std::function<Values(const Values& inputs)> compute;
  /// Where vectors among the operands lie: along this dimension of the first operand, or as in NumPy along the last.
  std::optional<int> vectors_along = {};
};

/// The outcome of comparing `samples` values; `failure` is empty where all are within tolerance, else a sentence.
struct Verdict {
  std::int64_t samples = 0;
  double max_error = 0;  ///< largest absolute difference
  std::string failure;
};

/// Coordinates of a dense tensor: the first and the last elements in memory, and random ones between, from a fixed
/// seed.
std::vector<ef::Dims> sample_positions(const ef::TensorView& tensor, std::int64_t edge, std::int64_t random);

/// Recomputes `output` at sampled positions (4096 random ones, 512 at each end of its memory): fetches the operands
/// there, runs the same chain on them as f64 on the CPU device, and allows what rounding to the output's type may
/// differ by.
Verdict verify_tail(const ef::Epilogue& tail, const ef::TensorView& output, std::span<const ef::TensorView> inputs);

/// The same of a chain that ran inside its producer: the first operand, which was never written, is what `expected`
/// says.
Verdict verify_inside(const ef::Epilogue& tail, const ef::TensorView& output, std::span<const ef::TensorView> inputs,
                      const std::function<double(const ef::Dims& at)>& expected);

/// Recomputes full groups of all outputs with `reference`: some 4 million elements in groups at random, the first and
/// the last among them, or all groups of a smaller tensor, or if an output is the largest of something over all groups.
Verdict verify_groups(const Reference& reference, std::span<const ef::OutputView> outputs,
                      std::span<const ef::TensorView> inputs);

/// Recomputes all of all outputs, on the CPU device in f64: random numbers know where in their tensor they are. The
/// tensors are dense and row-major; `inputs` stand in the order of tail.inputs().
Verdict verify_whole(const ef::Epilogue& tail, std::span<const ef::OutputView> outputs,
                     std::span<const ef::TensorView> inputs, const ef::Arguments& scalars);

/// Compares a few of the producer's results with `expected`, which computes one in double precision. In f32 the
/// tolerance is too small for TF32, so it also shows that the library computed in f32. Both signs must occur among
/// them.
Verdict verify_producer(const ef::TensorView& y, const std::function<double(const ef::Dims& at)>& expected);

}  // namespace examples
