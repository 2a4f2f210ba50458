// The operands of a backward pass take their shapes from the forward pass, their types from the operands and results
// that they belong to.
#include "support/gradient_cases.hpp"

#include <algorithm>
#include <string>

#include <spdlog/fmt/fmt.h>

#include <epifuse/error.hpp>
#include <epifuse/gradient.hpp>

#include "support/random_case.hpp"
#include "support/reduction_case.hpp"
#include "support/shapes.hpp"

namespace epifuse::test {
namespace {

bool is_differentiable(DType type) noexcept {
  return type == DType::f64 || type == DType::f32 || type == DType::f16 || type == DType::bf16;
}

// A gradient of one operand exists where a path of operations with a derivative leads to a result.
bool has_gradient(const Epilogue& tail, const std::string& name) {
  try {
    static_cast<void>(gradient(tail, {name}));
    return true;
  } catch (const Error&) {
    return false;
  }
}

// What stands in memory for an operand of the backward pass.
class BackwardOperands {
 public:
  BackwardOperands(const Case& test, const Gradient& gradient)
      : test_(test), gradient_(gradient), forward_(from_epilogue(gradient.forward)) {
    std::vector<Dims> shapes;
    for (const std::string& name : gradient.forward.inputs()) shapes.push_back(input(name).shape);
    const std::vector<Dims> inferred = infer_shapes(forward_, shapes);
    for (const int result : forward_.results) result_shapes_.push_back(inferred[static_cast<std::size_t>(result)]);
  }

  Operand of(const GradientOperand& operand) const {
    switch (operand.source) {
      case GradientSource::gradient:
        return Operand::dense(gradient_type(test_.outputs[operand.index].dtype), result_shapes_[operand.index]);
      case GradientSource::result:
        return Operand::dense(test_.outputs[operand.index].dtype, result_shapes_[operand.index]);
      case GradientSource::saved:
        return Operand::dense(saved_type(operand.index), result_shapes_[operand.index]);
      default:
        return input(gradient_.forward.inputs()[operand.index]);
    }
  }

 private:
  const Operand& input(const std::string& name) const { return test_.inputs[ordinal_of(name)]; }
  // Of results that are stored as integers or truth values gradients are numbers all the same.
  DType gradient_type(DType result) const { return is_differentiable(result) ? result : number_type(); }
  DType number_type() const { return test_.compute() == Compute::f64 ? DType::f64 : DType::f32; }
  DType saved_type(std::size_t result) const {
    const Step& step = forward_.steps[static_cast<std::size_t>(forward_.results[result])];
    if (step.kind == Step::Kind::op && step.definition->truth) return DType::boolean;
    return number_type();
  }

  const Case& test_;
  const Gradient& gradient_;
  Chain forward_;
  std::vector<Dims> result_shapes_;
};

Case case_of(const std::string& text, const std::vector<Dims>& shapes, DType type) {
  Case test;
  test.chain = from_epilogue(Epilogue::parse(text));
  for (const Dims& shape : shapes) test.inputs.push_back(Operand::dense(type, shape));
  for (const Dims& shape : test.result_shapes()) {
    test.outputs.push_back(Operand::dense(type, shape));
    test.in_place.push_back(-1);
  }
  return test;
}

// The planner refuses the others with a sentence.
bool is_one_kernel(const Case& test) {
  try {
    static_cast<void>(planned(test));
    return true;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;
    return false;
  }
}

}  // namespace

std::optional<Case> backward_case(const Case& test) {
  const Epilogue tail = to_epilogue(test.chain);
  std::vector<std::string> wrt;
  for (const std::string& name : tail.inputs()) {
    if (is_differentiable(test.inputs[ordinal_of(name)].dtype) && has_gradient(tail, name)) wrt.push_back(name);
  }
  if (wrt.empty()) return std::nullopt;
  const Gradient found = gradient(tail, wrt);

  Case backward;
  backward.chain = from_epilogue(found.backward);
  const BackwardOperands operands(test, found);
  for (const GradientOperand& operand : found.operands) backward.inputs.push_back(operands.of(operand));
  const std::vector<Dims> shapes = backward.result_shapes();
  for (std::size_t i = 0; i < wrt.size(); ++i)
    backward.outputs.push_back(Operand::dense(test.inputs[ordinal_of(wrt[i])].dtype, shapes[i]));
  backward.in_place.assign(backward.outputs.size(), -1);
  for (const std::string& name : found.backward.scalars()) backward.scalars.push_back(test.scalars[ordinal_of(name)]);
  backward.fill = test.fill == Fill::rows ? Fill::plain : test.fill;
  backward.data_seed = test.data_seed;
  return backward;
}

std::vector<Case> random_gradients(std::uint64_t seed, std::size_t count, int elements) {
  std::vector<Case> cases;
  Random seeds(seed);
  for (bool reduces = true; cases.size() < count; reduces = !reduces) {
    const std::uint64_t family = seeds.bits();
    const Case forward = reduces ? ReductionFamily(family).next(elements) : Family(family).next(elements);
    std::optional<Case> backward = backward_case(forward);
    if (backward && is_one_kernel(*backward)) cases.push_back(std::move(*backward));
  }
  return cases;
}

std::vector<Case> column_sum_cases() {
  struct Line {
    std::string text;
    std::vector<Dims> shapes;
  };
  const auto rows = [](std::int64_t count, std::int64_t length) { return Dims{count, length}; };
  std::vector<Line> backward;
  // One row, fewer rows than blocks, many; lengths that are multiples of a vector or not, of a few lanes, a warp, a
  // block.
  for (const auto& [count, length] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{1, 96}, {2, 40}, {37, 8}, {70, 33}, {9, 256}, {5, 1001}}) {
    backward.push_back({"layer_norm(x, w, b)", {rows(count, length), {length}, {length}}});
    backward.push_back({"rms_norm(x, w)", {rows(count, length), {length}}});
  }
  const std::vector<Line> others = {
      {"rms_norm(x + r, w)", {rows(30, 64), rows(30, 64), {64}}},
      {"layer_norm(x + r, w, b)", {rows(30, 70), rows(30, 70), {70}, {70}}},
      {"gelu(layer_norm(x, w, b))", {rows(30, 40), {40}, {40}}},
      {"softmax(x * w + b, -1)", {rows(30, 70), {70}, {70}}},
      {"log_softmax(x + b, -1)", {rows(30, 70), {70}}},
      {"layer_norm(x, exp(w), b * 2)", {rows(30, 70), {70}, {70}}},
      {"x * w * c", {rows(30, 70), {70}, {30, 1}}},
      // A weight for each of the outer dimension too: a result for each.
      {"rms_norm(x) * w", {{5, 6, 40}, {6, 40}}},
      {"rms_norm(x) * w", {{3, 4, 7}, {3, 1, 7}}},
      {"layer_norm(x) * w + b", {{16, 3, 24}, {3, 24}, {3, 24}}},
      // A weight for each channel of a group, which has many pixels, a few, or an odd number of them.
      {"group_norm(x, 2, w, b)", {{6, 8, 8, 9}, {8}, {8}}},
      {"group_norm(x, 4, w, b)", {{5, 12, 2, 2}, {12}, {12}}},
      {"group_norm(x + k, 1, w)", {{7, 6, 5, 7}, {6, 1, 1}, {6}}},
      {"silu(group_norm(x, 3, w, b))", {{40, 6, 24}, {6}, {6}}},
      // Rows side by side: full tiles and cut ones, short rows and such as many warps share.
      {"sigmoid((softmax(x, 1) + k) * 2)", {{5, 40, 7, 9}, {40, 1, 1}}},
      {"softmax(x * k, 1)", {{3, 8, 64}, {8, 1}}},
      {"rms_norm(x, axis=(1,)) * k", {{2, 300, 33}, {300, 1}}},
      {"log_softmax(x + k, 0)", {{70, 130}, {70, 1}}},
      {"softmax(x, 2) * k", {{4, 3, 24, 40}, {3, 24, 1}}},
      // Groups that lanes hold, whose gradients need their sums, of rows that have a number of their own.
      {"amin(group_norm(x, 4, w, b), 1, true)", {{37, 64}, {64}, {64}}},
      {"amax(group_norm(x, 32, w, b), 1, true)", {{9, 1024}, {1024}, {1024}}},
  };
  backward.insert(backward.end(), others.begin(), others.end());
  const std::vector<Line> forward = {
      {"y = softmax(x, 1); return y, mean(y, 0)", {rows(33, 70)}},
      {"y = x - mean(x, 1, true); return sum(y, 0), sum(y * y, 0) * w", {rows(33, 70), {70}}},
      {"y = rms_norm(x); return y, amax(y, 1), sum(y, 0), mean(y, 0) + sum(abs(y), 0)", {rows(18, 64)}},
      {"y = softmax(x, 1); return y, sum(y, 0), mean(y, 0)", {rows(0, 5)}},
      {"y = group_norm(x, 2); return y, mean(y * y, (0, 2, 3)), sum(y, (0, 2, 3))", {{6, 4, 3, 8}}},
      // Products, maxima and the like stand for sums, in blocks that have all rows of a result and in others.
      {"amax(clamp(instance_norm(x * m), -1, 1) * m, axis=1)", {{3, 4, 2, 5, 3}, {4, 1, 1, 1}}},
      {"amin(instance_norm(x), axis=1) * w", {{2, 9, 4, 16}, {4, 16}}},
      {"y = x - mean(x, 1, true); return amax(y, 0), sum(y, 0), prod(1 + y / 64, 0) * w", {rows(33, 70), {70}}},
      {"y = softmax(x, 1); return y, any(x > 1, 0), all(x > -2, 0), amin(y, 0)", {rows(33, 72)}},
      {"y = group_norm(x, 2); return y, amax(y, (0, 2, 3)), mean(y, (0, 2, 3))", {{6, 4, 3, 8}}},
      {"y = group_norm(x, 3); return amin(y, (0, 2)), amax(y, (0, 2))", {{40, 6, 24}}},
      {"y = softmax(x, 0); return y, amax(y, 1), mean(y, 1)", {rows(33, 70)}},
      {"y = softmax(x, 1); return y, prod(1 + y, (0, 2)), any(y > 0.2, (0, 2))", {{4, 20, 30}}},
      {"y = softmax(x, 1); return y, sum(y, 2), mean(y, 2)", {{3, 20, 70}}},
      {"y = softmax(x, 1); return y, sum(y, (0, 2)), mean(y, (0, 2))", {{0, 20, 70}}},
  };
  std::vector<Case> cases;
  // Rows that a cluster holds.
  cases.push_back(*backward_case(case_of("softmax(x * k, 0)", {{6000, 48}, {6000, 1}}, DType::f32)));
  cases.push_back(case_of("y = x - mean(x, 1, true); return y, amax(y, 0)", {rows(4, 40'000)}, DType::f32));
  cases.push_back(*backward_case(case_of("rms_norm(x, w)", {rows(4, 40'000), {40'000}}, DType::f32)));
  for (const DType type : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
    for (const Line& line : backward) cases.push_back(*backward_case(case_of(line.text, line.shapes, type)));
    for (const Line& line : forward) cases.push_back(case_of(line.text, line.shapes, type));
  }
  return cases;
}

std::vector<Case> batch_norm_cases() {
  const auto batch_norm = [](const std::string& of, const std::string& axes) {
    return fmt::format(
        "u = {0}; m = mean(u, axis={1}, keepdim=true); v = var(u, axis={1}, correction=0, keepdim=true); "
        "n = (u - m) * rsqrt(v + 1e-5) * w + b; ",
        of, axes);
  };
  struct Line {
    std::string text;
    std::vector<Dims> shapes;
  };
  // Full tiles of rows, cut ones, and rows of two dimensions, which an operand that lacks one of them keeps apart.
  const std::vector<Line> lines = {
      {batch_norm("x", "0") + "n", {{16'384, 16}, {16}, {16}}},
      {batch_norm("x", "0") + "relu(n)", {{9001, 12}, {12}, {12}}},
      {batch_norm("x", "0") + "silu(n)", {{2000, 24}, {24}, {24}}},
      {batch_norm("x * where(r > 0, 1, 2)", "(0, 1)") + "n", {{30, 301, 8}, {301, 8}, {8}, {8}}},
  };
  std::vector<Case> cases;
  for (const DType type : {DType::f32, DType::bf16, DType::f64}) {
    for (const Line& line : lines) cases.push_back(*backward_case(case_of(line.text, line.shapes, type)));
  }
  return cases;
}

std::vector<Case> column_run_cases() {
  struct Line {
    std::string text;
    std::vector<Dims> shapes;
  };
  // Channels of a group that vectors divide, or not; one row, and fewer than there are multiprocessors.
  const std::vector<Line> backward = {
      {"group_norm(x, 2, w, b)", {{3, 6, 9001}, {6}, {6}}},
      {"group_norm(x, 2, w, b)", {{2, 4, 80, 205}, {4}, {4}}},
      {"group_norm(x, 1, w, b)", {{1, 3, 9000}, {3}, {3}}},
      {"silu(group_norm(x, 3, w, b))", {{5, 6, 14'336}, {6}, {6}}},
      {"group_norm(x * k, 2, w)", {{2, 40, 1500}, {40, 1}, {40}}},
      {"mean(group_norm(x, 2, w, b), axis=(1, 2))", {{4, 6, 9003}, {6}, {6}}},
  };
  const std::vector<Line> forward = {
      {"y = group_norm(x, 2); return y, amax(y, (0, 2)), mean(y * y, (0, 2)), any(y > 3, (0, 2))", {{3, 6, 9001}}},
      {"y = x - mean(x, (1, 2), true); return y, var(y, 2), amax(y, 2)", {{3, 5, 9001}}},
      // The rows of a result are neighbours, as far apart as there are results, or neither.
      {"y = x - mean(x, (2, 3), true); return y, sum(y * y, (1, 3))", {{3, 2, 3, 9001}}},
      {"y = x - mean(x, (2, 3), true); return y, sum(y * y, (0, 3))", {{3, 2, 3, 9001}}},
      {"y = x - mean(x, (3, 4), true); return y, sum(y * y, (1, 4)) * w", {{2, 2, 2, 3, 9001}, {2, 2, 3}}},
      {"y = group_norm(x, 2); return y, sum(y, (0, 2))", {{0, 6, 9001}}},
  };
  std::vector<Case> cases;
  for (const DType type : {DType::f32, DType::bf16}) {
    for (const Line& line : backward) cases.push_back(*backward_case(case_of(line.text, line.shapes, type)));
    for (const Line& line : forward) cases.push_back(case_of(line.text, line.shapes, type));
  }
  for (const DType type : {DType::f16, DType::f64}) {
    cases.push_back(*backward_case(case_of(backward.front().text, backward.front().shapes, type)));
    cases.push_back(case_of(forward.front().text, forward.front().shapes, type));
  }
  return cases;
}

}  // namespace epifuse::test
