// The CPU device's reductions: every mask of axes against plain loops with exact expectations, long and empty rows,
// results of several shapes, in place, and the same bits on any number of threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <ctime>
#include <functional>
#include <limits>
#include <numeric>
#include <random>
#include <string>

#include <epifuse/epifuse.hpp>

#include "host/execute.hpp"
#include "ir/program.hpp"
#include "plan/bind/space.hpp"
#include "support/as_written.hpp"

namespace epifuse {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::int64_t count(const Dims& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

struct Tensor {
  Dims shape;
  std::vector<float> data;

  Tensor(const Dims& extents, std::vector<float> values) : shape(extents), data(std::move(values)) {}
  explicit Tensor(const Dims& extents, float value = -77)
      : shape(extents), data(static_cast<std::size_t>(count(extents)), value) {}
  TensorView view() const { return {data.data(), DType::f32, shape}; }
  OutputView out() { return {data.data(), DType::f32, shape}; }
};

// Through the public API.
void run(const std::string& chain, const std::vector<OutputView>& outputs, const std::vector<TensorView>& inputs) {
  Engine(Device::cpu()).launch(test::as_written(chain), nullptr, outputs, inputs);
}

std::vector<float> run(const std::string& chain, const Dims& shape, const std::vector<Tensor>& inputs) {
  Tensor out(shape);
  std::vector<TensorView> views;
  for (const Tensor& input : inputs) views.push_back(input.view());
  run(chain, {out.out()}, views);
  return out.data;
}

// On so many threads, which the public API leaves to the CPU.
std::vector<float> run_on(int threads, const std::string& chain, const Dims& shape, const Tensor& x) {
  Tensor out(shape);
  const ir::Program program = ir::parse(chain, {});
  const OutputView output = out.out();
  const TensorView input = x.view();
  host::execute(program, plan::bind(program, std::span(&output, 1), std::span(&input, 1)), {}, threads);
  return out.data;
}

Tensor integers(const Dims& shape, unsigned seed, int most = 8) {
  Tensor x(shape);
  std::mt19937 random(seed);
  for (float& value : x.data)
    value = static_cast<float>(static_cast<int>(random() % (2 * static_cast<unsigned>(most) + 1)) - most);
  return x;
}

Tensor normal(const Dims& shape, unsigned seed, float mean = 0) {
  Tensor x(shape);
  std::mt19937 random(seed);
  std::normal_distribution<float> distribution(mean, 1);
  for (float& value : x.data) value = distribution(random);
  return x;
}

// A reduction by plain loops over three dimensions.
struct Expected {
  Dims shape;  // with the reduced dimensions as ones
  std::vector<std::vector<double>> rows;

  Expected(const Tensor& x, unsigned mask) {
    for (int d = 0; d < 3; ++d) shape.push_back((mask >> d & 1U) != 0 ? 1 : x.shape[d]);
    rows.resize(static_cast<std::size_t>(count(shape)));
    std::size_t at = 0;
    for (std::int64_t i = 0; i < x.shape[0]; ++i) {
      for (std::int64_t j = 0; j < x.shape[1]; ++j) {
        for (std::int64_t k = 0; k < x.shape[2]; ++k) {
          const std::int64_t row = (i % shape[0] * shape[1] + j % shape[1]) * shape[2] + k % shape[2];
          rows[static_cast<std::size_t>(row)].push_back(static_cast<double>(x.data[at++]));
        }
      }
    }
  }

  std::vector<float> of(const std::function<double(const std::vector<double>&)>& function) const {
    std::vector<float> results;
    for (const auto& row : rows) results.push_back(static_cast<float>(function(row)));
    return results;
  }
};

double sum_of(const std::vector<double>& row) { return std::accumulate(row.begin(), row.end(), 0.0); }

double var_of(const std::vector<double>& row, double correction) {
  const auto n = static_cast<double>(row.size());
  const double mean = sum_of(row) / n;
  double squares = 0;
  for (const double value : row) squares += (value - mean) * (value - mean);
  return squares / (n - correction);
}

std::string axes_of(unsigned mask) {
  std::string text = "axis=(";
  for (int d = 0; d < 3; ++d) text += (mask >> d & 1U) != 0 ? std::to_string(d) + ", " : "";
  return text + "), keepdim=true";
}

// Sums of the integers are exact in any order, so that equality is meant to the bit.
void expect_all_masks(const Dims& shape, const Dims& strides) {
  const Tensor x = integers(shape, 11);
  Tensor stored(shape);  // the same elements where the strides say
  std::size_t at = 0;
  for (std::int64_t i = 0; i < shape[0]; ++i) {
    for (std::int64_t j = 0; j < shape[1]; ++j) {
      for (std::int64_t k = 0; k < shape[2]; ++k)
        stored.data[static_cast<std::size_t>(i * strides[0] + j * strides[1] + k * strides[2])] = x.data[at++];
    }
  }
  const TensorView view(stored.data.data(), DType::f32, shape, strides);
  for (unsigned mask = 1; mask < 8; ++mask) {
    SCOPED_TRACE(to_string(shape) + " by " + to_string(strides) + ", " + axes_of(mask));
    const Expected expected(x, mask);
    const auto check = [&](const std::string& chain,
                           const std::function<double(const std::vector<double>&)>& function) {
      std::string text = chain;
      text.replace(text.find('@'), 1, axes_of(mask));
      Tensor out(expected.shape);
      run(text, {out.out()}, {view});
      EXPECT_EQ(out.data, expected.of(function)) << text;
    };
    check("sum(x, @)", sum_of);
    check("mean(x, @)", [](const auto& row) { return sum_of(row) / static_cast<double>(row.size()); });
    check("amax(x, @)", [](const auto& row) { return *std::ranges::max_element(row); });
    check("amin(x, @)", [](const auto& row) { return *std::ranges::min_element(row); });
    check("any(x == 8, @)", [](const auto& row) { return std::ranges::count(row, 8) > 0; });
    check("all(x != 8, @)", [](const auto& row) { return std::ranges::count(row, 8) == 0; });
    check("prod(where(x > 6, -1, 1), @)", [](const auto& row) {
      return std::ranges::count_if(row, [](double value) { return value > 6; }) % 2 == 0 ? 1 : -1;
    });
    // What is reduced again, and a value computed from the reduction alone.
    check("sum(x, @) * 2 + 1", [](const auto& row) { return 2 * sum_of(row) + 1; });

    Tensor variance(expected.shape);
    run("var(x, correction=0, " + axes_of(mask) + ")", {variance.out()}, {view});
    const std::vector<float> exact = expected.of([](const auto& row) { return var_of(row, 0); });
    for (std::size_t i = 0; i < exact.size(); ++i) ASSERT_NEAR(variance.data[i], exact[i], 1e-6F * exact[i]) << i;
  }
}

TEST(Masks, OfSmallTensors) {
  expect_all_masks({3, 4, 5}, {20, 5, 1});
  expect_all_masks({3, 4, 5}, {1, 15, 3});
  expect_all_masks({3, 4, 5}, {5, 15, 1});
  expect_all_masks({1, 6, 1}, {6, 1, 1});
}

TEST(Masks, WhereRowsAndColumnsCrossBlocks) {
  expect_all_masks({2, 3, 1500}, {4500, 1500, 1});
  expect_all_masks({5, 700, 3}, {2100, 3, 1});
  expect_all_masks({1100, 2, 2}, {4, 2, 1});
  expect_all_masks({1100, 7, 9}, {1, 9900, 1100});
}

// More than one part for each result, and several threads.
TEST(Masks, OfTensorsThatAreCut) {
  expect_all_masks({3, 401, 1030}, {401 * 1030, 1030, 1});
  expect_all_masks({2, 700, 701}, {1, 1402, 2});
}

TEST(Chains, MixReductionsAndPointwiseWork) {
  const Tensor x({2, 3}, {1, 2, 6, 4, 4, 7});
  EXPECT_EQ(run("x - mean(x, axis=-1, keepdim=true)", {2, 3}, {x}), (std::vector<float>{-2, -1, 3, -1, -1, 2}));
  // A reduction without keepdim meets the last dimension.
  EXPECT_EQ(run("x - amax(x, axis=0)", {2, 3}, {x}), (std::vector<float>{-3, -2, -1, 0, 0, 0}));
  // Three stages.
  EXPECT_EQ(run("sum(amax(x - mean(x, axis=1, keepdim=true), axis=1))", {}, {x}), (std::vector<float>{5}));
  // A reduction of what another one left.
  EXPECT_EQ(run("x * amax(sum(x, axis=0, keepdim=true), axis=1, keepdim=true)", {2, 3}, {x}),
            (std::vector<float>{13, 26, 78, 52, 52, 91}));
  EXPECT_EQ(run("sum(x > 3)", {}, {x}), (std::vector<float>{4}));
}

// What one pass over rows cannot do: rows, columns and all at once.
TEST(Chains, CrossRowsAndColumns) {
  const int rows = 300;
  const int columns = 1100;
  Tensor x({rows, columns});
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < columns; ++j)
      x.data[static_cast<std::size_t>(i) * columns + static_cast<std::size_t>(j)] = static_cast<float>(i * 2 + j * 4);
  }
  const std::vector<float> y =
      run("x - mean(x, axis=0, keepdim=true) - mean(x, axis=1, keepdim=true) + mean(x)", {rows, columns}, {x});
  EXPECT_EQ(y, std::vector<float>(x.data.size(), 0));
}

TEST(Chains, SplitAndMergeDimensions) {
  // Two groups of two channels of three elements: means 3.5 and 9.5, deviations of 2.5, 1.5, 0.5, … both times.
  Tensor x({1, 4, 3});
  std::iota(x.data.begin(), x.data.end(), 1.0F);
  const std::vector<float> y =
      run("g = unflatten(x, 1, (2, -1)); c = g - mean(g, axis=(2, ...), keepdim=true);"
          "return flatten(c, 1, 2) * along(w, x, 1) + along(b, x, 1)",
          {1, 4, 3}, {x, Tensor({4}, {2, 2, 4, 4}), Tensor({4}, {0, 10, 0, 20})});
  EXPECT_EQ(y, (std::vector<float>{-5, -3, -1, 11, 13, 15, -10, -6, -2, 22, 26, 30}));
  EXPECT_EQ(run("flatten(x + 1, 0, 2)", {12}, {x}), (std::vector<float>{2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}));
}

TEST(Chains, GroupNormIsItsDefinition) {
  const Dims shape = {3, 12, 7, 50};
  const Tensor x = normal(shape, 5, 3);
  const Tensor w = normal({12}, 6);
  const Tensor b = normal({12}, 7);
  const std::vector<float> y = run("group_norm(x, 4, w, b, eps=1e-5)", shape, {x, w, b});
  const std::size_t group = 3 * 350;
  for (std::size_t g = 0; g < 12; ++g) {
    const std::vector<double> row(x.data.begin() + static_cast<std::ptrdiff_t>(g * group),
                                  x.data.begin() + static_cast<std::ptrdiff_t>((g + 1) * group));
    const double mean = sum_of(row) / static_cast<double>(group);
    const double rstd = 1 / std::sqrt(var_of(row, 0) + 1e-5);
    for (std::size_t i = 0; i < group; ++i) {
      const std::size_t channel = g % 4 * 3 + i / 350;
      const double exact = (row[i] - mean) * rstd * w.data[channel] + b.data[channel];
      ASSERT_NEAR(y[g * group + i], exact, 1e-5) << g << ", " << i;
    }
  }
}

TEST(Chains, GiveSeveralShapesAtOnce) {
  const Tensor x({2, 3}, {1, 2, 6, 4, 4, 7});
  Tensor y({2, 3});
  Tensor mean({2});
  Tensor largest({});
  run("m = mean(x, axis=1); y = x - unflatten(m, 0, (-1, 1)); return y, m, amax(abs(y))",
      {y.out(), mean.out(), largest.out()}, {x.view()});
  EXPECT_EQ(y.data, (std::vector<float>{-2, -1, 3, -1, -1, 2}));
  EXPECT_EQ(mean.data, (std::vector<float>{3, 5}));
  EXPECT_EQ(largest.data, (std::vector<float>{3}));
}

TEST(Types, AreReadAndWrittenAsTheyAre) {
  const std::vector<std::uint8_t> truths = {1, 0, 1, 1, 1, 1};
  std::vector<std::uint8_t> all(2);
  std::vector<std::int32_t> sums(2);
  run("return all(t, axis=1), sum(t, axis=1)",
      {OutputView(all.data(), DType::boolean, {2}), OutputView(sums.data(), DType::i32, {2})},
      {TensorView(truths.data(), DType::boolean, {2, 3})});
  EXPECT_EQ(all, (std::vector<std::uint8_t>{0, 1}));
  EXPECT_EQ(sums, (std::vector<std::int32_t>{2, 3}));

  const std::vector<double> wide = {1e300, 1, -1e300, 3};
  double largest = 0;
  double mean = 0;
  run("return amax(x), mean(x * 0 + 0.1)", {OutputView(&largest, DType::f64, {}), OutputView(&mean, DType::f64, {})},
      {TensorView(wide.data(), DType::f64, {4})});
  EXPECT_EQ(largest, 1e300);
  EXPECT_EQ(mean, 0.1);
}

TEST(Numbers, NaNAndInfinity) {
  const Tensor x({3, 4}, {1, kNaN, 3, 2, -kInf, 1, 0, 2, -kInf, -kInf, -kInf, -kInf});
  const std::vector<float> largest = run("amax(x, axis=1)", {3}, {x});
  EXPECT_TRUE(std::isnan(largest[0]));
  EXPECT_EQ(largest[1], 2);
  EXPECT_EQ(largest[2], -kInf);
  for (const char* chain : {"amax(x, axis=0)", "amin(x, axis=0)", "sum(x, axis=0)"}) {
    const std::vector<float> y = run(chain, {4}, {x});
    EXPECT_TRUE(std::isnan(y[1])) << chain;
    EXPECT_FALSE(std::isnan(y[2])) << chain;
  }
  EXPECT_EQ(run("any(x, axis=1)", {3}, {Tensor({3, 2}, {0, kNaN, 0, -0.0F, 0, 5})}), (std::vector<float>{1, 0, 1}));
  // NaN far from the end of a long row, and on a lane of its own.
  for (const std::size_t at : {0U, 5U, 1000U, 4095U, 70'000U, 99'999U}) {
    Tensor row({100'000}, 1);
    row.data[at] = kNaN;
    EXPECT_TRUE(std::isnan(run("amax(x)", {}, {row})[0])) << at;
    EXPECT_TRUE(std::isnan(run("amin(x)", {}, {row})[0])) << at;
  }
}

TEST(Numbers, VarianceDividesByWhatIsLeft) {
  const Tensor x({2, 4}, {1, 2, 3, 6, 5, 5, 5, 5});
  EXPECT_EQ(run("var(x, axis=1, correction=0)", {2}, {x}), (std::vector<float>{3.5, 0}));
  EXPECT_EQ(run("var(x, axis=1, correction=2)", {2}, {x}), (std::vector<float>{7, 0}));
  EXPECT_EQ(run("var(x, axis=1, correction=4)", {2}, {x})[0], kInf);
  EXPECT_TRUE(std::isnan(run("var(x, axis=1, correction=9)", {2}, {x})[1]));
  EXPECT_TRUE(std::isnan(run("var(x, axis=0)", {3}, {Tensor({1, 3}, 7)})[0]));
  EXPECT_EQ(run("var(x, axis=0, correction=0)", {3}, {Tensor({1, 3}, 7)}), (std::vector<float>{0, 0, 0}));
}

TEST(Numbers, LongRowsDoNotDrift) {
  constexpr std::int64_t kElements = 1 << 24;
  const Tensor x = normal({kElements}, 3, 10'000);
  double mean = 0;
  for (const float value : x.data) mean += static_cast<double>(value);
  mean /= kElements;
  double squares = 0;
  for (const float value : x.data) squares += (value - mean) * (value - mean);
  const double exact = squares / (kElements - 1);
  EXPECT_NEAR(run("var(x)", {}, {x})[0], exact, 1e-6 * exact);
  EXPECT_NEAR(run("mean(x)", {}, {x})[0], mean, 1e-3);  // half a unit in the last place of 10 000
  // As columns.
  const Tensor columns({kElements / 2, 2}, x.data);
  for (const float value : run("var(x, axis=0)", {2}, {columns})) EXPECT_NEAR(value, exact, 1e-3 * exact);
}

TEST(Empty, RowsGiveWhatNothingGives) {
  const Tensor x({3, 0});
  const Dims held = {3};
  EXPECT_EQ(run("sum(x, axis=1)", held, {x}), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(run("prod(x + 1, axis=1) * 2", held, {x}), (std::vector<float>{2, 2, 2}));
  EXPECT_EQ(run("any(x, axis=1)", held, {x}), (std::vector<float>{0, 0, 0}));
  EXPECT_EQ(run("all(x, axis=1)", held, {x}), (std::vector<float>{1, 1, 1}));
  for (const char* chain : {"mean(x, axis=1)", "var(x, axis=1)", "var(x, axis=1, correction=0)"}) {
    for (const float value : run(chain, held, {x})) EXPECT_TRUE(std::isnan(value)) << chain;
  }
  EXPECT_EQ(run("sum(x)", {}, {x}), (std::vector<float>{0}));
  EXPECT_EQ(run("sum(x, axis=0)", {0}, {x}), (std::vector<float>{}));
  // One result is empty, the other is not.
  Tensor y({3, 0});
  Tensor sums({3, 1});
  run("s = sum(x, axis=1, keepdim=true); return x - s, s + b", {y.out(), sums.out()},
      {x.view(), Tensor({1}, 5).view()});
  EXPECT_EQ(sums.data, (std::vector<float>{5, 5, 5}));
}

TEST(InPlace, Softmax) {
  for (const Dims& shape : {Dims{7, 5}, Dims{3, 3000}, Dims{2, 200'000}}) {
    Tensor x = normal(shape, 9);
    const std::vector<float> apart = run("softmax(x, axis=-1)", shape, {x});
    run("softmax(x, axis=-1)", {x.out()}, {x.view()});
    EXPECT_EQ(x.data, apart) << to_string(shape);
    const double total = std::accumulate(apart.begin(), apart.end(), 0.0);
    EXPECT_NEAR(total, static_cast<double>(shape[0]), 1e-5) << to_string(shape);
  }
  Tensor across = normal({3, 40, 2000}, 10);
  const std::vector<float> apart = run("softmax(x, axis=1)", across.shape, {across});
  run("softmax(x, axis=1)", {across.out()}, {across.view()});
  EXPECT_EQ(across.data, apart);
}

// An operand that more than its own output reads, in another shape or after it has been written over.
TEST(InPlace, OperandsThatSeveralResultsRead) {
  const Tensor z({3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});
  Tensor y({3, 3});
  Tensor b({3}, {10, 20, 30});
  run("return z + b, sum(z, axis=0) + b * 2", {y.out(), b.out()}, {z.view(), b.view()});
  EXPECT_EQ(y.data, (std::vector<float>{11, 22, 33, 14, 25, 36, 17, 28, 39}));
  EXPECT_EQ(b.data, (std::vector<float>{32, 55, 78}));

  Tensor x({3}, {100, 200, 300});  // read by row, written by column
  Tensor rows({3, 1});
  run("return sum(z, axis=0), along(x, z, 0) + sum(z, axis=1, keepdim=true)", {x.out(), rows.out()},
      {z.view(), x.view()});
  EXPECT_EQ(x.data, (std::vector<float>{12, 15, 18}));
  EXPECT_EQ(rows.data, (std::vector<float>{106, 215, 324}));
}

TEST(Threads, DoNotChangeABit) {
  struct Case {
    const char* chain;
    Dims shape, result;
  };
  const std::vector<Case> cases = {
      {"softmax(x, axis=-1)", {6, 150'000}, {6, 150'000}},
      {"softmax(x, axis=0)", {300, 3000}, {300, 3000}},
      {"(x - mean(x)) * rsqrt(var(x) + 1e-5)", {1'000'003}, {1'000'003}},
      {"var(x, axis=0)", {900, 1031}, {1031}},
      {"var(x, axis=1)", {200'000, 5}, {200'000}},
      {"sum(x, axis=0)", {300'000, 3}, {3}},
      {"mean(x, axis=(0, 2))", {40, 9, 3000}, {9}},
      {"prod(1 + x * 0.001, axis=(0, 2))", {40, 9, 3000}, {9}},
  };
  for (const Case& c : cases) {
    const Tensor x = normal(c.shape, 21, 1);
    const std::vector<float> one = run_on(1, c.chain, c.result, x);
    for (const int threads : {2, 3, 7, 64}) {
      const std::vector<float> many = run_on(threads, c.chain, c.result, x);
      EXPECT_EQ(0, std::memcmp(one.data(), many.data(), one.size() * sizeof(float))) << c.chain << ", " << threads;
    }
  }
}

// Passes of a long chain begin where others ended: each value is held as long as it is needed, and no longer.
std::string repeated(const std::string& statement, int times) {
  std::string text = "t = x; ";
  for (int i = 0; i < times; ++i) text += statement;
  return text + "return t";
}

TEST(LongChains, AreWhatTheirStepsGive) {
  Tensor x = normal({6, 10}, 33, 1);
  const std::vector<float> found =
      run_on(1, repeated("t = t * 0.5 + sum(t, axis=1, keepdim=true) * 0.0625 + x; ", 80).c_str(), {6, 10}, x);
  for (std::size_t row = 0; row < 6; ++row) {
    std::vector<double> t(x.data.begin() + static_cast<std::ptrdiff_t>(10 * row),
                          x.data.begin() + static_cast<std::ptrdiff_t>(10 * row + 10));
    const std::vector<double> first = t;
    for (int i = 0; i < 80; ++i) {
      const double sum = std::accumulate(t.begin(), t.end(), 0.0);
      for (std::size_t k = 0; k < t.size(); ++k) t[k] = t[k] * 0.5 + sum * 0.0625 + first[k];
    }
    for (std::size_t k = 0; k < t.size(); ++k) {
      const double scale = std::fabs(t[k]) + 1;
      EXPECT_NEAR(found[10 * row + k], t[k], 1e-4 * scale) << row << ", " << k;
    }
  }
}

// Of the processor, not of a clock: other programs run beside. Where each pass began at the operands it was 16 times as
// much.
TEST(LongChains, TakeTimeInProportion) {
  const Tensor x = normal({64, 128}, 34, 1);
  const auto seconds = [&](int times) {
    const std::string chain = repeated("t = softmax(t, axis=1) + t; ", times);
    double least = std::numeric_limits<double>::infinity();
    for (int i = 0; i < 3; ++i) {
      const std::clock_t start = std::clock();
      run_on(1, chain.c_str(), {64, 128}, x);
      least = std::min(least, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
    }
    return least;
  };
  EXPECT_LT(seconds(240), 10 * seconds(60));
}

}  // namespace
}  // namespace epifuse
