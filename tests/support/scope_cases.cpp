// A line each: the chain, and its operands in the order in which it names them. Results are dense.
#include "support/scope_cases.hpp"

#include <string_view>

namespace epifuse::test {
namespace {

struct Line {
  std::string_view text;
  std::vector<Dims> shapes;
  DType type = DType::f32;
};

Case made(const Line& line) {
  Case test;
  test.chain = from_epilogue(Epilogue::parse(line.text));
  for (const Dims& shape : line.shapes) test.inputs.push_back(Operand::dense(line.type, shape));
  for (int i = 0; i < test.chain.scalars; ++i) test.scalars.push_back(1.5 + i);
  for (const Dims& shape : test.result_shapes()) {
    test.outputs.push_back(Operand::dense(line.type, shape));
    test.in_place.push_back(-1);
  }
  return test;
}

std::vector<Case> made(const std::vector<Line>& lines) {
  std::vector<Case> cases;
  for (const Line& line : lines) cases.push_back(made(line));
  return cases;
}

}  // namespace

std::vector<Case> scope_cases() {
  const Dims kRows = {48, 1601};
  const Dims kOne = {};
  return made({
      // Results of grid reductions, and expressions that no row decides.
      {"scalar a; y = rms_norm(x); return y, amax(abs(y)) * exp(a)", {kRows}},
      {"scalar a; y = rms_norm(x); return y, amax(abs(y)) / sqrt(a)", {kRows}},
      {"scalar a; y = rms_norm(x); return y, maximum(amax(abs(y)), 1 / a)", {kRows}},
      {"scalar a; y = rms_norm(x); return y, amax(abs(y)) * (a * 2)", {kRows}},
      {"scalar a, b; y = rms_norm(x) * exp(a); return y, mean(y) * exp(a) + (b - a)", {kRows}},
      {"mean(rms_norm(x)) * exp(b)", {kRows, kOne}},
      {"mean(rms_norm(x)) * exp(b)", {kRows, kOne}, DType::f64},
      {"mean(rms_norm(x), axis=(0, 1), keepdim=true) * exp(b) + b", {kRows, {1, 1}}},
      {"mean(log_softmax(x / exp(s), axis=-1)) * exp(s)", {kRows, kOne}},
      {"y = softmax(x, axis=1); return y, sum(y) * where(b > 0, exp(b), -b)", {{33, 40}, kOne}},
      {"sum(x) * sum(b) + mean(b)", {{5, 300}, {1}}},
      // Operands of a group of rows, of which the result is one.
      {"y = rms_norm(x); return y, amax(abs(y), axis=(1, 2)) * exp(g) / (1 + g * g)", {{5, 4, 128}, {5}}},
      {"y = softmax(x, axis=2) * g; return y, sum(y, axis=(1, 2), keepdim=true) / (2 + abs(g))",
       {{5, 7, 33}, {5, 1, 1}}},
      {"y = softmax(x, axis=1) - g; return sum(y, axis=(0, 1)) * exp(g), g", {{6, 40, 9}, {9}}},
      {"scalar a; y = group_norm(x, 4) * exp(a); return mean(y, axis=(2, 3)) * exp(a), mean(y) * exp(a) + a",
       {{3, 8, 5, 7}}},
      // Operands that are results as they are, beside reductions of every kind.
      {"return sum(x, axis=-1), b", {{4, 128}, kOne}},
      {"return sum(x, axis=-1), b, b", {{4, 128}, {1, 1}}},
      {"return amax(x), b, x", {{40, 33}, kOne}},
      {"return sum(x, axis=0), b, exp(b)", {{40, 33}, kOne}},
      {"scalar a; return mean(x, axis=-1), a, b, a + b, 3", {{4, 128}, kOne}},
      {"return softmax(x + v, axis=-1), v, b", {{7, 300}, {7, 1}, kOne}},
      {"return mean(group_norm(x, 2), axis=(2, 3)), b, mean(b)", {{2, 4, 6, 6}, kOne}},
  });
}

std::vector<Case> infinite_segment_mean_cases() {
  const Dims kImages = {4, 16, 3601};
  const std::vector<Line> lines = {
      {"tanh(mean(group_norm(x, 4, w, b), axis=2))", {kImages, {16}, {16}}},
      {"mean(flatten(unflatten(x, 1, (4, -1)) * var(unflatten(x, 1, (4, -1)), axis=(2, 3), keepdim=true), 1, 2) * w, "
       "axis=2)",
       {kImages, {4, 16, 1}}},
      {"mean(group_norm(hardswish(x), 4, w, b), axis=(1, 2))", {kImages, {16}, {16}}},
      {"y = group_norm(relu(x), 4) * w; return mean(y, axis=2), mean(y + b, axis=2)", {kImages, {16, 1}, {16, 1}}},
  };
  std::vector<Case> cases;
  for (const Line& line : lines) {
    for (const std::uint64_t seed : {1, 2, 3}) {
      Case test = made(line);
      test.fill = Fill::rows;
      test.row_dims = 4;
      test.data_seed = seed;
      cases.push_back(test);
    }
  }
  return cases;
}

std::vector<Case> empty_cases() {
  return made({
      // As many results of no rows as there are; what no row decides is there all the same.
      {"y = x / (1 + sum(x, axis=1, keepdim=true)); return y, mean(y, axis=(1, 2))", {{0, 3, 4}}},
      {"y = x / (1 + sum(x, axis=1, keepdim=true)); return y, mean(y, axis=(0, 1))", {{0, 3, 4}}},
      // Dimensions without elements, split and merged, beside the same ones as they were.
      {"return unflatten(x, 0, (8, -1)) + x, sum(x)", {{0}}},
      {"y = unflatten(x, 0, (-1, 3)); return y, mean(y, axis=0), prod(y)", {{0}}},
      {"y = flatten(x, 0, 1); return y + z, sum(y), all(y)", {{0, 4}, {0}}},
      {"y = group_norm(x, 2); return y, sum(y)", {{0, 4, 5}}},
  });
}

}  // namespace epifuse::test
