// The oracle against a second, straightforward evaluation in the compute type, which adds in another order each time:
// what it gives must be accepted, and what a typical mistake gives must not.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>

#include "support/engine_runner.hpp"
#include "support/lane_segment_cases.hpp"
#include "support/reduction_case.hpp"
#include "support/reduction_cases.hpp"
#include "support/reductions.hpp"
#include "support/regressions.hpp"
#include "support/segment_cases.hpp"
#include "support/storage.hpp"
#include "support/tensor_oracle.hpp"

namespace epifuse::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

enum class Mistake { none, misses_last, counts_first_twice, one_pass_variance, sample_variance };

double nan_or(double a, double b, double value) { return std::isnan(a) || std::isnan(b) ? kNaN : value; }

// T is the compute type: every operation rounds.
template <class T>
class Straightforward {
 public:
  Straightforward(const Chain& chain, const std::vector<double>& scalars, Mistake mistake, std::uint64_t seed)
      : chain_(chain), scalars_(scalars), mistake_(mistake), random_(seed) {}

  std::vector<Tensor<double>> run(const std::vector<Tensor<double>>& inputs) {
    std::vector<Dims> given;
    for (const Tensor<double>& input : inputs) given.push_back(input.shape);
    const std::vector<Dims> shapes = infer_shapes(chain_, given);
    std::vector<Tensor<double>> values;
    for (std::size_t i = 0; i < chain_.steps.size(); ++i) {
      const Step& step = chain_.steps[i];
      const auto arg = [&](std::size_t k) -> const Tensor<double>& {
        return values[static_cast<std::size_t>(step.args[k])];
      };
      Tensor<double> out{shapes[i], {}};
      if (step.kind == Step::Kind::input) out = inputs[static_cast<std::size_t>(step.ordinal)];
      if (step.kind == Step::Kind::scalar)
        out.values = {static_cast<T>(scalars_[static_cast<std::size_t>(step.ordinal)])};
      if (step.kind == Step::Kind::constant) out.values = {static_cast<T>(step.constant)};
      if (step.kind == Step::Kind::reduce) out.values = reduced(step, arg(0));
      if (step.kind >= Step::Kind::unflatten) out.values = arg(0).values;
      if (step.kind == Step::Kind::op) {
        for (std::size_t e = 0; e < static_cast<std::size_t>(elements_of(out.shape)); ++e) {
          double a[3] = {0, 0, 0};
          for (std::size_t k = 0; k < step.args.size(); ++k) a[k] = element(arg(k), out.shape, e);
          out.values.push_back(operation(*step.definition, a));
        }
      }
      values.push_back(out);
    }
    std::vector<Tensor<double>> results;
    for (const int result : chain_.results) results.push_back(values[static_cast<std::size_t>(result)]);
    return results;
  }

 private:
  static double operation(const Definition& d, const double* a) {
    if (!d.is_exact()) return static_cast<T>(d.real(a[0], a[1], a[2]));
    if constexpr (sizeof(T) == 4)
      return d.exact32(static_cast<float>(a[0]), static_cast<float>(a[1]), static_cast<float>(a[2]));
    return d.exact64(a[0], a[1], a[2]);
  }

  // Element `index` of `space` in a tensor that is broadcast to it.
  static double element(const Tensor<double>& tensor, const Dims& space, std::size_t index) {
    std::size_t at = 0, step = 1;
    for (int i = 1; i <= space.size(); ++i) {
      const auto extent = static_cast<std::size_t>(space[space.size() - i]);
      const std::size_t coordinate = index % extent;
      index /= extent;
      if (i > tensor.shape.size()) continue;
      const auto own = static_cast<std::size_t>(tensor.shape[tensor.shape.size() - i]);
      if (own != 1) at += coordinate * step;
      step *= own;
    }
    return tensor.values[at];
  }

  std::vector<double> reduced(const Step& step, const Tensor<double>& arg) {
    const unsigned mask = resolve(step.axes, arg.shape.size());
    std::vector<std::vector<double>> groups(1);
    std::size_t count = 1;
    for (int d = 0; d < arg.shape.size(); ++d) {
      if (((mask >> d) & 1u) == 0) count *= static_cast<std::size_t>(arg.shape[d]);
    }
    groups.resize(count);
    for (std::size_t e = 0; e < arg.values.size(); ++e) {
      std::size_t rest = e, group = 0, step_size = 1;
      for (int d = arg.shape.size(); d-- > 0;) {
        const auto extent = static_cast<std::size_t>(arg.shape[d]);
        if (((mask >> d) & 1u) == 0) {
          group += rest % extent * step_size;
          step_size *= extent;
        }
        rest /= extent;
      }
      groups[group].push_back(arg.values[e]);
    }
    std::vector<double> out;
    for (std::vector<double>& group : groups) out.push_back(reduced(step, group));
    return out;
  }

  double reduced(const Step& step, std::vector<double>& x) {
    if (mistake_ == Mistake::misses_last && x.size() > 1) x.pop_back();
    if (mistake_ == Mistake::counts_first_twice && !x.empty()) x.push_back(x[0]);
    const auto n = static_cast<T>(x.size());
    const auto add = [](double a, double b) -> double { return static_cast<T>(static_cast<T>(a) + static_cast<T>(b)); };
    const auto multiply = [](double a, double b) -> double {
      return static_cast<T>(static_cast<T>(a) * static_cast<T>(b));
    };
    switch (step.reduction) {
      case Reduction::sum:
        return tree(x, 0, add);
      case Reduction::mean:
        return static_cast<T>(static_cast<T>(tree(x, 0, add)) / n);
      case Reduction::prod:
        return tree(x, 1, multiply);
      case Reduction::amax:
        return tree(x, -kInf, [](double a, double b) { return nan_or(a, b, std::max(a, b)); });
      case Reduction::amin:
        return tree(x, kInf, [](double a, double b) { return nan_or(a, b, std::min(a, b)); });
      case Reduction::any:
        return std::ranges::any_of(x, [](double v) { return v != 0; }) ? 1 : 0;
      case Reduction::all:
        return std::ranges::all_of(x, [](double v) { return v != 0; }) ? 1 : 0;
      case Reduction::var:
        break;
    }
    if (mistake_ == Mistake::one_pass_variance) {
      std::vector<double> squares;
      for (const double v : x) squares.push_back(multiply(v, v));
      const T mean = static_cast<T>(tree(x, 0, add)) / n;
      return static_cast<T>(static_cast<T>(tree(squares, 0, add)) / n - mean * mean);
    }
    const double correction = mistake_ == Mistake::sample_variance ? step.constant + 1 : step.constant;
    return merged(x) / std::max<T>(n - static_cast<T>(correction), 0);
  }

  // Any binary tree, over any order.
  double tree(std::vector<double> x, double none, const std::function<double(double, double)>& combine) {
    if (x.empty()) return none;
    while (x.size() > 1) {
      const std::size_t width = random_.percent(30) ? 1 : (x.size() + 1) / 2;
      std::vector<double> next;
      if (width == 1) {  // eight in a row
        for (std::size_t i = 0; i < x.size(); i += 8) {
          double value = x[i];
          for (std::size_t k = i + 1; k < std::min(i + 8, x.size()); ++k) value = combine(value, x[k]);
          next.push_back(value);
        }
      } else {
        for (std::size_t i = 0; i < width; ++i)
          next.push_back(i + width < x.size() ? combine(x[i], x[i + width]) : x[i]);
      }
      x = next;
    }
    return x[0];
  }

  // M2 by Chan's merges of groups of up to 16.
  T merged(const std::vector<double>& x) {
    T n = 0, mean = 0, m2 = 0;
    for (std::size_t first = 0; first < x.size(); first += 16) {
      const std::size_t last = std::min(first + 16, x.size());
      T sum = 0, squares = 0;
      for (std::size_t i = first; i < last; ++i) sum += static_cast<T>(x[i]);
      const T count = static_cast<T>(last - first);
      const T own = sum / count;
      for (std::size_t i = first; i < last; ++i) squares += (static_cast<T>(x[i]) - own) * (static_cast<T>(x[i]) - own);
      if (first == 0) {
        n = count;
        mean = own;
        m2 = squares;
        continue;
      }
      const T delta = own - mean;
      const T total = n + count;
      m2 += squares + delta * delta * (n * count / total);
      mean += delta * (count / total);
      n = total;
    }
    return m2;
  }

  const Chain& chain_;
  const std::vector<double>& scalars_;
  Mistake mistake_;
  Random random_;
};

struct Verdict {
  std::uint64_t elements = 0, wrong = 0;
  Coverage coverage;
  std::string first;
};

// A case without outputs' memory: the inputs as numbers, evaluated twice.
Verdict compare(const Case& test, Mistake mistake) {
  const Compute compute = test.compute();
  const Memory memory(test);
  std::vector<Tensor<double>> inputs;
  for (std::size_t i = 0; i < test.inputs.size(); ++i) {
    const Operand& operand = test.inputs[i];
    inputs.push_back({operand.shape, {}});
    Walker walker(operand.shape);
    for (std::int64_t e = 0; e < operand.elements(); ++e, walker.next()) {
      const Image& image = memory.of_input(test, i);
      inputs.back().values.push_back(load(operand.dtype, image.bytes.data() + walker.offset(operand, image), compute));
    }
  }
  const auto expected = evaluate(test.chain, compute, test.scalars, inputs);
  const auto found = compute == Compute::f32
                         ? Straightforward<float>(test.chain, test.scalars, mistake, 1).run(inputs)
                         : Straightforward<double>(test.chain, test.scalars, mistake, 1).run(inputs);
  Verdict verdict;
  for (std::size_t r = 0; r < expected.size(); ++r) {
    EXPECT_EQ(expected[r].shape, test.outputs[r].shape);
    EXPECT_EQ(expected[r].values.size(), found[r].values.size()) << test.str();
    if (expected[r].values.size() != found[r].values.size()) continue;
    for (std::size_t e = 0; e < expected[r].values.size(); ++e) {
      unsigned char element[8];
      encode(test.outputs[r].dtype, found[r].values[e], element);
      ++verdict.elements;
      verdict.coverage.exact += expected[r].values[e].is_point() ? 1 : 0;
      verdict.coverage.anything += expected[r].values[e].is_anything() ? 1 : 0;
      if (accepts(expected[r].values[e], test.outputs[r].dtype, element)) continue;
      if (verdict.wrong++ == 0) {
        verdict.first = test.str() + "  result " + std::to_string(r) + ", element " + std::to_string(e) +
                        ": expected " + describe(expected[r].values[e], test.outputs[r].dtype) + ", found " +
                        describe_element(test.outputs[r].dtype, element) + "\n";
      }
    }
  }
  return verdict;
}

void expect_accepted(const std::vector<Case>& cases, double most_anything) {
  Verdict all;
  int shown = 0;
  for (const Case& test : cases) {
    const Verdict one = compare(test, Mistake::none);
    all.elements += one.elements;
    all.coverage.exact += one.coverage.exact;
    all.coverage.anything += one.coverage.anything;
    if (one.wrong > 0 && shown++ < 5) ADD_FAILURE() << one.first;
  }
  const auto percent = [&](std::uint64_t segment) {
    return 100.0 * static_cast<double>(segment) / static_cast<double>(all.elements);
  };
  std::printf("%zu cases, %llu results: %.0f%% judged to the bit, %.1f%% not at all\n", cases.size(),
              static_cast<unsigned long long>(all.elements), percent(all.coverage.exact),
              percent(all.coverage.anything));
  EXPECT_LT(percent(all.coverage.anything), most_anything);
}

double caught(const std::vector<Case>& cases, Mistake mistake) {
  double count = 0;
  for (const Case& test : cases) count += compare(test, mistake).wrong > 0 ? 1 : 0;
  return count / static_cast<double>(cases.size());
}

Case statistic(Reduction reduction, const Dims& shape) {
  Case test;
  const int x = test.chain.input(0);
  test.chain.results = {test.chain.reduce(reduction, x, {{1}}, false, 0)};
  test.inputs = {Operand::dense(DType::f32, shape)};
  test.outputs = {Operand::dense(DType::f32, {shape[0]})};
  test.in_place = {-1};
  return test;
}

TEST(Oracle, AcceptsStraightforwardEvaluationOfRandomChains) {
  const std::uint64_t seed = test_seed(31);
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  expect_accepted(random_reductions(seed, 600, 3, 1500), 20);
}

TEST(Oracle, AcceptsStraightforwardEvaluationOfFixedCases) { expect_accepted(reduction_cases(), 10); }

TEST(Oracle, AcceptsStraightforwardEvaluationOfSegmentsOfRows) { expect_accepted(segment_cases(), 10); }

TEST(Oracle, AcceptsStraightforwardEvaluationOfLaneSegments) { expect_accepted(lane_segment_cases(), 10); }

TEST(Oracle, AcceptsStraightforwardEvaluationOfSegmentMeans) { expect_accepted(segment_mean_cases(2), 10); }

TEST(Oracle, RefusesMistakes) {
  std::vector<Case> cases;
  for (const Reduction reduction : {Reduction::sum, Reduction::mean, Reduction::var})
    cases.push_back(statistic(reduction, {20, 1000}));
  EXPECT_EQ(caught(cases, Mistake::misses_last), 1);
  EXPECT_EQ(caught(cases, Mistake::counts_first_twice), 1);
  EXPECT_EQ(caught({cases[2]}, Mistake::sample_variance), 1);
  std::vector<Case> tails;
  for (const TailCase& tail : reduction_tails()) tails.push_back(tail.test);
  EXPECT_GT(caught(tails, Mistake::misses_last), 0.8);
}

TEST(Oracle, RefusesTheDifferenceOfSquares) {
  Random random(5);
  std::vector<Range> elements;
  std::vector<double> numbers;
  for (int i = 0; i < 4096; ++i) {
    double unit = -6;  // the sum of twelve uniform numbers: deviation 1
    for (int k = 0; k < 12; ++k) unit += random.uniform(0, 1);
    numbers.push_back(static_cast<float>(10000 + unit));
    elements.push_back(Range::of(numbers.back()));
  }
  const Range range = reduce(Reduction::var, elements, 0, Compute::f32);
  long double mean = 0, squares = 0;
  for (const double x : numbers) mean += x / 4096.0L;
  for (const double x : numbers) squares += (x - mean) * (x - mean) / 4096;
  EXPECT_LT(range.low, static_cast<double>(squares));
  EXPECT_GT(range.high, static_cast<double>(squares));
  EXPECT_LT(range.high / range.low, 1.2);
  // Exact sums, rounded to f32 only once each.
  long double mean_of_squares = 0;
  for (const double x : numbers) mean_of_squares += static_cast<long double>(x) * x / 4096;
  const float one_pass = static_cast<float>(mean_of_squares) - static_cast<float>(mean) * static_cast<float>(mean);
  EXPECT_FALSE(range.low <= one_pass && one_pass <= range.high) << one_pass;
}

TEST(Oracle, SpecialRows) {
  const auto of = [](Reduction reduction, const std::vector<double>& values, double correction = 0) {
    std::vector<Range> elements;
    for (const double value : values) elements.push_back(Range::of(value));
    return reduce(reduction, elements, correction, Compute::f32);
  };
  const auto is = [](const Range& range, double value) {
    return std::isnan(value) ? range.nan && !range.has_number()
                             : !range.nan && range.low == value && range.high == value;
  };
  EXPECT_TRUE(is(of(Reduction::sum, {}), 0));
  EXPECT_TRUE(is(of(Reduction::mean, {}), kNaN));
  EXPECT_TRUE(is(of(Reduction::prod, {}), 1));
  EXPECT_TRUE(is(of(Reduction::var, {}), kNaN));
  EXPECT_TRUE(is(of(Reduction::any, {}), 0));
  EXPECT_TRUE(is(of(Reduction::all, {}), 1));
  EXPECT_TRUE(is(of(Reduction::sum, {1, 2, 3, 0.5}), 6.5));
  EXPECT_TRUE(is(of(Reduction::sum, {1, kInf, -2}), kInf));
  EXPECT_TRUE(is(of(Reduction::sum, {kInf, -kInf}), kNaN));
  EXPECT_TRUE(is(of(Reduction::sum, {1, kNaN}), kNaN));
  EXPECT_TRUE(is(of(Reduction::amax, {-kInf, -kInf}), -kInf));
  EXPECT_TRUE(is(of(Reduction::amax, {3, kNaN, 5}), kNaN));
  EXPECT_TRUE(is(of(Reduction::amin, {3, 5, -1}), -1));
  EXPECT_TRUE(is(of(Reduction::var, {7}, 0), 0));
  EXPECT_TRUE(is(of(Reduction::var, {7}, 1), kNaN));
  EXPECT_TRUE(is(of(Reduction::var, {7, 9}, 2), kInf));
  EXPECT_TRUE(is(of(Reduction::var, {kInf, 1}), kNaN));
  EXPECT_TRUE(is(of(Reduction::any, {0, kNaN}), 1));
  EXPECT_TRUE(is(of(Reduction::all, {1, 0}), 0));
  EXPECT_TRUE(of(Reduction::sum, {3e38, 3e38, -3e38}).high == kInf);  // in that order
  EXPECT_TRUE(of(Reduction::prod, {1e30, 1e30, 1e-30, 1e-30}).high == kInf);
}

// What ./dev soak writes into tests/regressions is the case that failed.
TEST(Regressions, ALineHoldsAllOfACase) {
  std::vector<Case> cases = random_reductions(3, 300, 2, 100);
  for (Case& test : random_cases(4, 300, 2, 100)) cases.push_back(std::move(test));
  for (const Case& test : cases) {
    const std::string line = to_line(test);
    const Case again = from_line(line);
    EXPECT_EQ(again.str(), test.str());
    EXPECT_EQ(to_line(again), line);
    EXPECT_EQ(line.find('\n'), line.npos);
    EXPECT_EQ(again.row_dims, test.row_dims);
    const Memory memory(test), memory_again(again);
    for (std::size_t i = 0; i < memory.inputs.size(); ++i)
      EXPECT_EQ(memory.inputs[i].bytes, memory_again.inputs[i].bytes) << test.str();
  }
  EXPECT_THROW(from_line("{}"), std::exception);
  EXPECT_THROW(from_line("x + 1"), std::exception);
}

TEST(Oracle, ShapesAreThoseOfPyTorch) {
  Chain chain;
  const int x = chain.input(0), w = chain.input(1);
  const int g = chain.unflatten(x, 1, {4, -1});
  chain.reduce(Reduction::mean, g, {{2}, true}, true);
  chain.reduce(Reduction::sum, g, {{-1, 0}}, false);
  chain.reduce(Reduction::sum, g, {}, false);
  chain.flatten(g, 1, 2);
  chain.flatten(x, 0, -1);
  chain.along(w, x, 1);
  const std::vector<Dims> inputs = {{2, 12, 5}, {12}};
  const std::vector<Dims> shapes = infer_shapes(chain, inputs);
  const std::vector<Dims> expected = {{2, 12, 5}, {12},       {2, 4, 3, 5}, {2, 4, 1, 1}, {4, 3},
                                      {},         {2, 12, 5}, {120},        {1, 12, 1}};
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(shapes[i], expected[i]) << i;
}

}  // namespace
}  // namespace epifuse::test
