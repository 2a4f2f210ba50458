// Sampling, references and tolerances of the examples.
#include "common/verify.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <random>

#include "common/data.hpp"
#include "common/gpu.hpp"

namespace examples {
namespace {

/// How far a result may be from the exact value: `relative` of its size plus `absolute`. Results saturate at the
/// limits.
struct Tolerance {
  ef::DType dtype;
  double relative;
  double absolute;
  double lowest = -std::numeric_limits<double>::infinity();
  double highest = std::numeric_limits<double>::infinity();
};

/// f32: a few roundings among values of order one. f16: one unit in the last place besides. i8: half a unit, since the
/// reference is not rounded, and a little for f32 next to a tie.
constexpr Tolerance kTailTolerances[] = {
    {ef::DType::f32, 2e-6, 2e-6}, {ef::DType::f16, 0x1p-10, 2e-6}, {ef::DType::i8, 0, 0.5 + 1e-3, -128, 127}};

/// With reductions: sums of up to some hundred thousand elements in f32, and what dividing by a small deviation makes
/// of the roundings before it. bf16: one unit in the last place besides. f8: half a unit at most, down to the smallest
/// denormals.
constexpr Tolerance kGroupTolerances[] = {{ef::DType::f32, 1e-5, 1e-5},
                                          {ef::DType::f16, 0x1p-10, 2e-5},
                                          {ef::DType::bf16, 0x1p-7, 2e-5},
                                          {ef::DType::f8e4m3, 0x1p-4, 0x1p-10, -448, 448}};

/// f32: sums of thousands of products in any order; TF32 would be off by some 3e-4. f16: inputs are exact, the sum is
/// f32, the result is rounded (twice where a bias is added in f16). bf16: the same. i32: exact.
constexpr Tolerance kProducerTolerances[] = {{ef::DType::f32, 5e-5, 5e-5},
                                             {ef::DType::f16, 0x1p-10, 2e-3},
                                             {ef::DType::bf16, 0x1p-7, 2e-3},
                                             {ef::DType::i32, 0, 0}};

/// Of producer and tail as one launch: what both may be off by. Where the two run apart, a product of 16 bits is
/// rounded in between.
constexpr Tolerance kTogetherTolerances[] = {
    {ef::DType::f32, 5e-5, 5e-5}, {ef::DType::f16, 0x1p-9, 2e-3}, {ef::DType::i8, 0, 0.5 + 1e-3, -128, 127}};

/// How many elements of a tail with reductions are recomputed, unless it needs all; and how few groups at least.
constexpr std::int64_t kGroupElements = 1 << 22;
constexpr std::int64_t kFewGroups = 16;

const Tolerance& tolerance_of(ef::DType dtype, std::span<const Tolerance> table) {
  const auto row = std::ranges::find(table, dtype, &Tolerance::dtype);
  if (row != table.end()) return *row;
  throw Failure("the examples have no tolerance for results of type " + std::string(ef::to_string(dtype)));
}

std::string complaint(const ef::Dims& at, double got, double want, double allowed) {
  char text[200];
  std::snprintf(text, sizeof text, "at %s found %.9g, expected %.9g within %.3g", ef::to_string(at).c_str(), got, want,
                allowed);
  return text;
}

/// Compares value by value; `at` gives the coordinates of the i-th.
template <typename Position>
Verdict compare(const Position& at, std::span<const double> got, std::span<const double> want,
                const Tolerance& tolerance) {
  if (got.size() != want.size()) throw Failure("a reference of the examples gives another number of values");
  Verdict verdict;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double expected = std::clamp(want[i], tolerance.lowest, tolerance.highest);
    const double error = std::abs(got[i] - expected);
    const double allowed = tolerance.absolute + tolerance.relative * std::abs(expected);
    // Written so that a NaN is a failure.
    if (!(error <= allowed) && verdict.failure.empty()) verdict.failure = complaint(at(i), got[i], expected, allowed);
    verdict.max_error = std::max(verdict.max_error, error);
    ++verdict.samples;
  }
  return verdict;
}

/// Coordinates that were listed.
auto among(const std::vector<ef::Dims>& positions) {
  return [&positions](std::size_t i) { return positions[i]; };
}

void add(Verdict& total, const Verdict& part) {
  total.samples += part.samples;
  total.max_error = std::max(total.max_error, part.max_error);
  if (total.failure.empty()) total.failure = part.failure;
}

/// Coordinates of the element at `offset` in the memory of a dense tensor, whatever the order of its dimensions.
ef::Dims coordinates_of(const ef::TensorView& tensor, std::int64_t offset) {
  ef::Dims at;
  for (int d = 0; d < tensor.shape.size(); ++d) at.push_back(offset / tensor.strides[d] % tensor.shape[d]);
  return at;
}

/// Coordinates in the box of these extents of its element number `index`, in row-major order, or of a group in the grid
/// of groups.
ef::Dims coordinates_in(const ef::Dims& extents, std::int64_t index) {
  const ef::Dims strides = ef::row_major(extents);
  ef::Dims at;
  for (int d = 0; d < extents.size(); ++d) at.push_back(index / strides[d] % extents[d]);
  return at;
}

/// A vector along dimension `dim` of tensors of this rank, as a view that broadcasts to them.
ef::TensorView along(const ef::TensorView& vector, int dim, int rank) {
  ef::Dims shape = vector.shape;
  ef::Dims strides = vector.strides;
  for (int d = dim + 1; d < rank; ++d) {
    shape.push_back(1);
    strides.push_back(1);
  }
  return {vector.data, vector.dtype, shape, strides};
}

/// The operands' elements in the group that begins here.
Values operands_of(const Reference& reference, std::span<const ef::TensorView> inputs, const ef::Dims& begin) {
  Values values;
  for (const ef::TensorView& input : inputs) {
    const bool moved = reference.vectors_along && input.shape.size() == 1;
    values.push_back(
        gather_box(moved ? along(input, *reference.vectors_along, begin.size()) : input, begin, reference.group));
  }
  return values;
}

/// Where the groups begin that will be recomputed.
std::vector<ef::Dims> choose_groups(const ef::Dims& shape, const ef::Dims& group, bool all) {
  ef::Dims grid;
  for (int d = 0; d < shape.size(); ++d) {
    if (shape[d] % group[d] != 0) throw Failure("groups of " + to_string(group) + " do not tile " + to_string(shape));
    grid.push_back(shape[d] / group[d]);
  }
  const std::int64_t count = count_of(grid);
  const std::int64_t wanted = std::max(kGroupElements / count_of(group), kFewGroups);
  std::vector<std::int64_t> chosen{0, count - 1};
  std::mt19937_64 generator(21);
  if (all || count <= wanted) {
    chosen.resize(static_cast<std::size_t>(count));
    std::ranges::generate(chosen, [next = std::int64_t{0}]() mutable { return next++; });
  } else {
    while (static_cast<std::int64_t>(chosen.size()) < wanted)
      chosen.push_back(static_cast<std::int64_t>(generator() % static_cast<std::uint64_t>(count)));
  }
  std::vector<ef::Dims> begins;
  for (const std::int64_t index : chosen) {
    ef::Dims at = coordinates_in(grid, index);
    for (int d = 0; d < at.size(); ++d) at[d] *= group[d];
    begins.push_back(at);
  }
  return begins;
}

/// A box of a tensor: where it begins, and its extents.
struct Box {
  ef::Dims begin;
  ef::Dims extents;
};

/// What of a result belongs to the group of the first operand (of this shape) that begins there: each dimension has as
/// many groups in both.
Box box_of(const ef::TensorView& output, const ef::Dims& shape, const ef::Dims& group, const ef::Dims& begin) {
  Box box;
  for (int d = 0; d < shape.size(); ++d) {
    const std::int64_t groups = shape[d] / group[d];
    if (output.shape.size() != shape.size() || output.shape[d] % groups != 0)
      throw Failure("groups of " + to_string(group) + " of " + to_string(shape) + " do not tile a result of " +
                    to_string(output.shape));
    box.extents.push_back(output.shape[d] / groups);
    box.begin.push_back(begin[d] / group[d] * box.extents[d]);
  }
  return box;
}

Verdict compare_group(const ef::TensorView& output, const Box& box, std::span<const double> want) {
  const auto position = [&box](std::size_t i) {
    ef::Dims at = coordinates_in(box.extents, static_cast<std::int64_t>(i));
    for (int d = 0; d < at.size(); ++d) at[d] += box.begin[d];
    return at;
  };
  return compare(position, gather_box(output, box.begin, box.extents), want,
                 tolerance_of(output.dtype, kGroupTolerances));
}

}  // namespace

std::vector<ef::Dims> sample_positions(const ef::TensorView& tensor, std::int64_t edge, std::int64_t random) {
  const std::int64_t count = count_of(tensor.shape);
  edge = std::min(edge, count);
  std::vector<ef::Dims> at;
  for (std::int64_t i = 0; i < edge; ++i) at.push_back(coordinates_of(tensor, i));
  for (std::int64_t i = count - edge; i < count; ++i) at.push_back(coordinates_of(tensor, i));
  std::mt19937_64 generator(20);
  for (std::int64_t i = 0; i < random; ++i) {
    at.push_back(coordinates_of(tensor, static_cast<std::int64_t>(generator() % static_cast<std::uint64_t>(count))));
  }
  return at;
}

namespace {

/// `values` are the operands' at these positions.
Verdict verify_at(const std::vector<ef::Dims>& at, const ef::Epilogue& tail, const ef::TensorView& output,
                  const Values& values, std::span<const Tolerance> tolerances) {
  const ef::Dims shape{static_cast<std::int64_t>(at.size())};
  std::vector<ef::TensorView> views;
  for (const std::vector<double>& each : values) views.emplace_back(each.data(), ef::DType::f64, shape);
  std::vector<double> want(at.size());
  const ef::OutputView result(want.data(), ef::DType::f64, shape);
  ef::Engine(ef::Device::cpu()).launch(tail, nullptr, std::span(&result, 1), views);
  return compare(among(at), gather(output, at), want, tolerance_of(output.dtype, tolerances));
}

}  // namespace

Verdict verify_tail(const ef::Epilogue& tail, const ef::TensorView& output, std::span<const ef::TensorView> inputs) {
  const std::vector<ef::Dims> at = sample_positions(output, 512, 4096);
  Values values;
  for (const ef::TensorView& input : inputs) values.push_back(gather(input, at));
  return verify_at(at, tail, output, values, kTailTolerances);
}

Verdict verify_inside(const ef::Epilogue& tail, const ef::TensorView& output, std::span<const ef::TensorView> inputs,
                      const std::function<double(const ef::Dims& at)>& expected) {
  // Each sum is recomputed on the host: fewer positions.
  const std::vector<ef::Dims> at = sample_positions(output, 32, 192);
  Values values(1);
  for (const ef::Dims& position : at) values[0].push_back(expected(position));
  for (const ef::TensorView& input : inputs.subspan(1)) values.push_back(gather(input, at));
  return verify_at(at, tail, output, values, kTogetherTolerances);
}

Verdict verify_groups(const Reference& reference, std::span<const ef::OutputView> outputs,
                      std::span<const ef::TensorView> inputs) {
  const ef::Dims& shape = inputs.front().shape;
  const ef::Dims& group = reference.group;
  const auto spans_groups = [](const ef::TensorView& output) { return count_of(output.shape) == 1; };
  const bool all = std::ranges::any_of(outputs, spans_groups);
  std::vector<double> largest(outputs.size(), -std::numeric_limits<double>::infinity());
  Verdict verdict;
  for (const ef::Dims& begin : choose_groups(shape, group, all)) {
    const Values want = reference.compute(operands_of(reference, inputs, begin));
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (spans_groups(outputs[i])) {
        largest[i] = std::max(largest[i], want.at(i).at(0));
      } else {
        add(verdict, compare_group(outputs[i], box_of(outputs[i], shape, group, begin), want.at(i)));
      }
    }
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!spans_groups(outputs[i])) continue;
    const std::vector<double> got = download(outputs[i].data, outputs[i].dtype, 0, count_of(outputs[i].shape));
    const auto nowhere = [](std::size_t) { return ef::Dims{}; };
    add(verdict, compare(nowhere, got, std::span(&largest[i], 1), tolerance_of(outputs[i].dtype, kGroupTolerances)));
  }
  return verdict;
}

Verdict verify_whole(const ef::Epilogue& tail, std::span<const ef::OutputView> outputs,
                     std::span<const ef::TensorView> inputs, const ef::Arguments& scalars) {
  Values operands;
  ef::Arguments given = scalars;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const ef::TensorView& input = inputs[i];
    operands.push_back(download(input.data, input.dtype, 0, count_of(input.shape)));
    given.emplace_back(tail.inputs().at(i), ef::TensorView(operands.back().data(), ef::DType::f64, input.shape));
  }
  Values want;
  std::vector<ef::OutputView> results;
  for (const ef::OutputView& output : outputs) {
    want.emplace_back(static_cast<std::size_t>(count_of(output.shape)));
    results.emplace_back(want.back().data(), ef::DType::f64, output.shape);
  }
  ef::Engine(ef::Device::cpu()).launch(tail, nullptr, results, given);
  Verdict verdict;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const ef::OutputView& output = outputs[i];
    const auto position = [&](std::size_t e) { return coordinates_in(output.shape, static_cast<std::int64_t>(e)); };
    add(verdict, compare(position, download(output.data, output.dtype, 0, count_of(output.shape)), want[i],
                         tolerance_of(output.dtype, kGroupTolerances)));
  }
  return verdict;
}

Verdict verify_producer(const ef::TensorView& y, const std::function<double(const ef::Dims& at)>& expected) {
  const std::vector<ef::Dims> at = sample_positions(y, 1, 30);
  std::vector<double> want;
  want.reserve(at.size());
  for (const ef::Dims& position : at) want.push_back(expected(position));
  Verdict verdict = compare(among(at), gather(y, at), want, tolerance_of(y.dtype, kProducerTolerances));
  const auto [low, high] = std::ranges::minmax(want);
  if (verdict.failure.empty() && !(low < 0 && high > 0)) verdict.failure = "its sampled results have but one sign";
  return verdict;
}

}  // namespace examples
