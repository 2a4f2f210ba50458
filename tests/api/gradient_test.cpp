// Gradients through the public API, on the CPU device: each operation and each reduction against differences of the
// chain itself in f64, what connects the two passes, and what is refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <string>

#include <epifuse/epifuse.hpp>

#include "support/as_written.hpp"

namespace epifuse {
namespace {

struct Tensor {
  Dims shape;
  std::vector<double> data;

  TensorView view() const { return {data.data(), DType::f64, shape}; }
  OutputView out() { return {data.data(), DType::f64, shape}; }
};

Tensor empty_tensor(const Dims& shape) {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return {shape, std::vector<double>(static_cast<std::size_t>(count), -77.0)};
}

using Tensors = std::map<std::string, Tensor>;

std::vector<Tensor> run(const Epilogue& tail, const std::vector<Tensor>& inputs) {
  std::vector<TensorView> views;
  for (const Tensor& input : inputs) views.push_back(input.view());
  std::vector<Tensor> results;
  for (const Dims& shape : tail.result_shapes(views)) results.push_back(empty_tensor(shape));
  std::vector<OutputView> outputs;
  for (Tensor& result : results) outputs.push_back(result.out());
  static Engine engine(Device::cpu());
  engine.launch(tail, nullptr, outputs, views);
  return results;
}

std::vector<Tensor> in_order(const Epilogue& tail, const Tensors& operands) {
  std::vector<Tensor> inputs;
  for (const std::string& name : tail.inputs()) inputs.push_back(operands.at(name));
  return inputs;
}

// The gradients of sum(weights * result) for one result.
std::vector<Tensor> backward(const Gradient& gradient, const Tensors& operands, const Tensor& weights) {
  const std::vector<Tensor> inputs = in_order(gradient.forward, operands);
  const std::vector<Tensor> results = run(gradient.forward, inputs);
  std::vector<Tensor> arguments;
  for (const GradientOperand& operand : gradient.operands) {
    const bool is_input = operand.source == GradientSource::operand || operand.source == GradientSource::shape;
    arguments.push_back(operand.source == GradientSource::gradient ? weights
                        : is_input                                 ? inputs[operand.index]
                                                                   : results[operand.index]);
  }
  return run(gradient.backward, arguments);
}

double weighted(const Epilogue& tail, const Tensors& operands, const Tensor& weights) {
  const Tensor result = run(tail, in_order(tail, operands)).front();
  double sum = 0;
  for (std::size_t i = 0; i < result.data.size(); ++i) sum += weights.data[i] * result.data[i];
  return sum;
}

// Symmetric, of two widths, whose errors of second order cancel: where these disagree, the function has a kink there,
// or no value.
struct Difference {
  double value = 0;
  bool is_smooth = false;
};
Difference difference(const Epilogue& tail, Tensors operands, const Tensor& weights, const std::string& name,
                      std::size_t at) {
  double& element = operands.at(name).data[at];
  const double here = element;
  const auto of_width = [&](double width) {
    element = here + width;
    const double above = weighted(tail, operands, weights);
    element = here - width;
    const double below = weighted(tail, operands, weights);
    element = here;
    return (above - below) / (2 * width);
  };
  const double narrow = of_width(1e-5);
  const double wide = of_width(3e-5);
  return {narrow + (narrow - wide) / 8, std::abs(narrow - wide) <= 1e-6 * std::max(1.0, std::abs(narrow))};
}

Tensor random_tensor(const Dims& shape, unsigned seed, double low, double high) {
  Tensor tensor = empty_tensor(shape);
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> distribution(low, high);
  for (double& value : tensor.data) value = distribution(random);
  return tensor;
}

// How many elements could be judged.
int expect_differences(const std::string& chain, const std::string& name, const Tensors& operands) {
  const Epilogue tail = test::as_written(chain);
  const Tensor result = run(tail, in_order(tail, operands)).front();
  Tensor weights = random_tensor(result.shape, 5, 0.5, 1.5);
  std::vector<double> slopes(operands.at(name).data.size(), 0);
  try {
    slopes = backward(gradient(tail, {name}), operands, weights).front().data;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("the chain has no gradient"), std::string::npos) << error.what();
  }
  int judged = 0;
  for (std::size_t i = 0; i < slopes.size(); ++i) {
    const Difference expected = difference(tail, operands, weights, name, i);
    if (!expected.is_smooth || std::isnan(expected.value)) continue;
    ++judged;
    EXPECT_NEAR(slopes[i], expected.value, 1e-7 * std::max(1.0, std::abs(expected.value)))
        << chain << ", d" << name << " at element " << i << ", " << operands.at(name).data[i];
  }
  return judged;
}

// "clamp(input, min=-inf, max=inf)": clamp(a, b, c)
std::string call_of(const OpInfo& op, std::vector<std::string>& names) {
  const auto open = op.signature.find('(');
  const auto arguments = static_cast<std::size_t>(std::ranges::count(op.signature, ',')) + 1;
  std::string text = op.signature.substr(0, open + 1);
  for (std::size_t i = 0; i < arguments; ++i) {
    names.emplace_back(1, static_cast<char>('a' + i));
    text += (i == 0 ? "" : ", ") + names.back();
  }
  return text + ")";
}

TEST(Gradient, OfEachOperationIsItsSlope) {
  // These take more than tensors, and have tests of their own.
  const std::set<std::string> other = {"cast", "gelu"};
  const std::set<std::string> groups = {"arithmetic", "rounding", "exponentials", "comparisons and logic",
                                        "activations"};
  int operations = 0;
  for (const OpInfo& op : list_operations()) {
    const std::string function = op.signature.substr(0, op.signature.find('('));
    if (!groups.contains(op.group) || other.contains(function)) continue;
    std::vector<std::string> names;
    const std::string chain = call_of(op, names);
    ++operations;
    for (const std::string& name : names) {
      int judged = 0;
      unsigned seed = 1;
      for (const auto& [low, high] : {std::pair(0.3, 2.5), std::pair(-2.5, -0.3), std::pair(-7.0, 7.0)}) {
        Tensors operands;
        for (const std::string& other_name : names) operands[other_name] = random_tensor({40}, ++seed, low, high);
        judged += expect_differences(chain, name, operands);
      }
      EXPECT_GE(judged, 40) << chain << ", d" << name;
    }
  }
  EXPECT_GE(operations, 60);
  EXPECT_GE(expect_differences("gelu(a)", "a", {{"a", random_tensor({40}, 3, -4, 4)}}), 40);
  EXPECT_GE(expect_differences("gelu(a, approximate=\"tanh\")", "a", {{"a", random_tensor({40}, 3, -4, 4)}}), 40);
}

TEST(Gradient, OfReductionsAndShapeOperations) {
  const Tensors operands = {{"x", random_tensor({2, 6, 3}, 1, 0.2, 2)},
                            {"r", random_tensor({3}, 2, 0.5, 1.5)},
                            {"c", random_tensor({6}, 3, 0.5, 1.5)},
                            {"k", random_tensor({6, 1}, 4, 0.5, 1.5)}};
  for (const std::string chain : {"sum(x * r, 1)",
                                  "mean(x * k, (0, 2))",
                                  "prod(x, 1)",
                                  "amax(x * r, 2)",
                                  "amin(x, (1, 2))",
                                  "var(x * r, 1)",
                                  "std(x, (1, 2), correction=0)",
                                  "x * var(x, 1, keepdim=true) * r",
                                  "logsumexp(x * r, 2)",
                                  "softmax(x * k, 1)",
                                  "log_softmax(x, (1, 2))",
                                  "layer_norm(x, r, r)",
                                  "rms_norm(x * k, r)",
                                  "group_norm(x, 3, c, c)",
                                  "instance_norm(x, c)",
                                  "normalize(x)",
                                  "norm(x, p=3, axis=1)",
                                  "flatten(unflatten(x, 1, (2, 3)) * 2, 0, 1)",
                                  "along(c, x, 1) * x",
                                  "sum_to(x, k) * k",
                                  "expand_as(r, x) * x",
                                  "unsqueeze_as(sum(x, 1), x, 1) * x",
                                  "reshape_as(flatten(x), x) * r",
                                  "x / count(x, 1)"}) {
    const std::vector<std::string> names = Epilogue::parse(chain).inputs();
    for (const std::string& name : names)
      EXPECT_GE(expect_differences(chain, name, operands), static_cast<int>(operands.at(name).data.size()))
          << chain << ", d" << name;
  }
}

// Windows that begin at every element, and what is rolled, give gradients that read theirs elsewhere.
TEST(Gradient, OfViews) {
  const Tensors operands = {{"x", random_tensor({2, 6, 5}, 1, 0.2, 2)}, {"r", random_tensor({5}, 2, 0.5, 1.5)}};
  for (const std::string chain :
       {"roll(x * r, (1, -2), (1, 2)) * x", "roll(x, 2, 0)", "roll(x, 7, -1) * r", "pad(x * r, (1, 2, 0, 1), value=3)",
        "window(x, -2, 3, 1)[1] * r", "window(x * r, -1, 3, 1, padding=1)[0]", "avg_pool1d(x * r, 2, 1)",
        "avg_pool2d(x * r, 3, 1, 1)", "avg_pool2d(x, (2, 3), 1, (0, 1), count_include_pad=false)",
        "lp_pool1d(x * r, 2, 3, 1)", "sum(avg_pool1d(x, 3, 1, 1) * x, 1)"}) {
    const std::vector<std::string> names = Epilogue::parse(chain).inputs();
    for (const std::string& name : names)
      EXPECT_GE(expect_differences(chain, name, operands), static_cast<int>(operands.at(name).data.size()))
          << chain << ", d" << name;
  }
}

// Windows with steps, slices, and what is joined of tensors of several sizes: an element may be in several windows, in
// one, or in none.
TEST(Gradient, OfWindowsWithStepsAndOfSlices) {
  const Tensors operands = {{"x", random_tensor({2, 6, 7}, 1, 0.2, 2)},
                            {"r", random_tensor({7}, 2, 0.5, 1.5)},
                            {"z", random_tensor({2, 3, 7}, 3, 0.5, 1.5)}};
  for (const std::string chain : {"max_pool2d(x * r, 2)",
                                  "max_pool2d(x, 3, 2, 1)",
                                  "tanh(max_pool2d(x * r, (3, 2), (2, 1), (1, 0)))",
                                  "max_pool1d(x, 3, 2, 1, ceil_mode=true)",
                                  "max_pool1d(x, 2, 3, 0, 2) * 3",
                                  "max_pool1d(x, 2, 2)",
                                  "max_pool1d(max_pool1d(x * r, 2, 1), 2, 2)",
                                  "sum(max_pool2d(x, 2), 2)",
                                  "adaptive_max_pool2d(x * r, (2, 1))",
                                  "avg_pool2d(x * r, 2)",
                                  "gelu(avg_pool2d(x * r, 3, 2, 1)) * 2",
                                  "avg_pool2d(x, 3, 2, 1, count_include_pad=false)",
                                  "avg_pool2d(x, 3, 2, 1, ceil_mode=true)",
                                  "avg_pool1d(x * r, 2, 3)",
                                  "avg_pool1d(avg_pool1d(x, 3, 1, 1), 2)",
                                  "lp_pool2d(x * r, 2, 3, 2)",
                                  "lp_pool1d(x, 3, 2)",
                                  "window(x * r, -1, 3, 2)[1] * 2",
                                  "window(x, 1, 2, 2, padding=1)[0]",
                                  "x[:, ::2] * r",
                                  "x[1, 1:5:3, None]",
                                  "x[:, ::2, 0]",
                                  "x[:, 1::3, 2::2]",
                                  "x[..., 2] * 2",
                                  "x[:, -1] * r",
                                  "x[-2, :, -3]",
                                  "split(x * r, 4, 1)[1]",
                                  "cat((x * r, z), 1) * 2",
                                  "cat((z, x), -2)",
                                  "softmax(x, 1)[:, 2:]",
                                  "tril(x, 1)[:1]",
                                  "pad(x, (1, -2), value=3)",
                                  "lp_pool2d(x, 2, 4, ceil_mode=true)"}) {
    const std::vector<std::string> names = Epilogue::parse(chain).inputs();
    for (const std::string& name : names)
      EXPECT_GE(expect_differences(chain, name, operands), static_cast<int>(operands.at(name).data.size()))
          << chain << ", d" << name;
  }
}

// Windows whose elements are a dimension: an element asks the windows that hold it one after the other, or, of more
// than 64, as a row.
TEST(Gradient, OfWindowsOfManyElements) {
  const Tensors images = {{"x", random_tensor({2, 13, 14}, 1, 0.2, 2)}, {"r", random_tensor({14}, 2, 0.5, 1.5)}};
  const Tensors lines = {{"x", random_tensor({2, 80}, 3, 0.2, 2)}, {"r", random_tensor({80}, 4, 0.5, 1.5)}};
  for (const std::string chain : {"max_pool2d(x * r, 9, 4)",
                                  "max_pool2d(x, 9, 2, 4)",
                                  "max_pool2d(x * r, 9)",
                                  "tanh(max_pool2d(x, (9, 8), (5, 3), (3, 2), ceil_mode=true))",
                                  "max_pool2d(x, 9, 1, 4)",
                                  "max_pool2d(x * r, (9, 10), 1)",
                                  "max_pool2d(x, (5, 13), 1, (2, 6), (3, 1))",
                                  "max_pool2d(x, 9, (1, 5), 0, (1, 1)) * 2",
                                  "avg_pool2d(x * r, 9, 4)",
                                  "avg_pool2d(x * r, 9, 1)",
                                  "avg_pool2d(x, 9, 1, 4)",
                                  "avg_pool2d(x, (13, 10), (2, 1), (5, 2), ceil_mode=true)",
                                  "avg_pool2d(x * r, 9, 2, 3, count_include_pad=false)",
                                  "avg_pool2d(x, 9, 1, 3, divisor_override=5) * 3",
                                  "lp_pool2d(x * r, 2, 9, 1)",
                                  "lp_pool2d(x, 3, (13, 7), 2)",
                                  "mean(unfold(x, 1, 5, 2), -1)",
                                  "sum(unfold(x * r, -1, 3, 2), -1)",
                                  "sum(unfold(x, -1, 9, 1)[..., ::3], -1)",
                                  "sum(unfold(unfold(x, -1, 8, 2), -3, 9, 1), axis=(-2, -1))",
                                  "amax(unfold(x * r, -1, 4, 3), -1)",
                                  "unfold(x * r, 1, 3, 2, padding=1, value=2) * 2",
                                  "sum(exp(unfold(x, 2, 4, 1)) * 2, -1)"}) {
    const std::vector<std::string> names = Epilogue::parse(chain).inputs();
    for (const std::string& name : names)
      EXPECT_GE(expect_differences(chain, name, images), static_cast<int>(images.at(name).data.size())) << chain;
  }
  for (const std::string chain :
       {"max_pool1d(x * r, 66, 1)", "max_pool1d(x, 70, 1, 30)", "avg_pool1d(x * r, 70, 1, 20)",
        "avg_pool1d(x, 66, 5, 33, ceil_mode=true)", "lp_pool1d(x, 2, 67, 1, ceil_mode=true)",
        "sum(unfold(x, -1, 70, 1), -1)", "sum(unfold(x, 1, 70, 2), -1)"}) {
    const std::vector<std::string> names = Epilogue::parse(chain).inputs();
    for (const std::string& name : names)
      EXPECT_GE(expect_differences(chain, name, lines), static_cast<int>(lines.at(name).data.size())) << chain;
  }
}

TEST(Gradient, OfWindowsOfManyElementsThatEachGaveSomethingIsRefused) {
  for (const char* chain :
       {"sum(exp(unfold(x, -1, 65, 1)), -1)", "unfold(x, -1, 65, 1) * 2", "amax(unfold(x, 1, 65, 1), -1)"}) {
    try {
      gradient(Epilogue::parse(chain), {"x"});
      ADD_FAILURE() << chain;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("' adds up windows of more than 64 elements"), std::string::npos)
          << error.what();
      EXPECT_NE(std::string(error.what()).find("unfold("), std::string::npos) << error.what();
    }
  }
}

// The first of equal elements has the gradient of its window, as in PyTorch.
TEST(Gradient, OfTiesInWindowsGoesToTheFirst) {
  const Tensors operands = {{"x", {{1, 6}, {1, 1, 1, 0, 2, 2}}}};
  const auto found = [&](const std::string& chain, const Tensor& weights) {
    return backward(gradient(Epilogue::parse(chain), {"x"}), operands, weights).front().data;
  };
  EXPECT_EQ(found("max_pool1d(x, 2)", {{1, 3}, {1, 2, 3}}), (std::vector<double>{1, 0, 2, 0, 3, 0}));
  EXPECT_EQ(found("max_pool1d(x, 3, 2, 1)", {{1, 3}, {1, 2, 3}}), (std::vector<double>{1, 2, 0, 0, 3, 0}));
  EXPECT_EQ(found("max_pool1d(x, 2, 1)", {{1, 5}, {1, 2, 3, 4, 5}}), (std::vector<double>{1, 2, 3, 0, 9, 0}));
  EXPECT_EQ(found("adaptive_max_pool1d(x, 2)", {{1, 2}, {1, 2}}), (std::vector<double>{1, 0, 0, 0, 2, 0}));
}

TEST(Gradient, OfTiesInRowsGoesWhereTheTextSays) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  const Tensors operands = {{"x", {{3, 4}, {1, 2, 2, 0, 1, 1, 1, 1, kNan, 3, kNan, 0}}}};
  const auto found = [&](const std::string& chain, const Dims& shape) {
    const Epilogue as_printed = Epilogue::parse(Epilogue::parse(chain).str());
    return backward(gradient(as_printed, {"x"}), operands, {shape, {1, 2, 3}}).front().data;
  };
  EXPECT_EQ(found("amax(x, 1, ties=\"first\")", {3}), (std::vector<double>{0, 1, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0}));
  EXPECT_EQ(found("amax(x, 1, ties=\"pool\")", {3}), (std::vector<double>{0, 1, 0, 0, 2, 0, 0, 0, 0, 0, 3, 0}));
  EXPECT_EQ(found("amin(x, 1, ties=\"first\")", {3}), (std::vector<double>{0, 0, 0, 1, 2, 0, 0, 0, 3, 0, 0, 0}));
  EXPECT_EQ(found("adaptive_max_pool1d(x, 1)", {3, 1}), (std::vector<double>{0, 1, 0, 0, 2, 0, 0, 0, 0, 0, 3, 0}));
}

// The same of windows of more than 64 elements. The last NaN counts as the largest, and padding never does.
TEST(Gradient, OfTiesInWindowsOfManyElements) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kLeast = -std::numeric_limits<double>::infinity();
  const auto found = [&](const std::string& chain, std::vector<std::pair<std::size_t, double>> given, double rest) {
    Tensors operands = {{"x", {{1, 70}, std::vector<double>(70, rest)}}};
    for (const auto& [place, value] : given) operands["x"].data[place] = value;
    const Gradient made = gradient(Epilogue::parse(Epilogue::parse(chain).str()), {"x"});
    const auto all = backward(made, operands, {{1, 2}, {3, 5}}).front().data;
    std::vector<std::pair<std::size_t, double>> shares;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (all[i] != 0) shares.emplace_back(i, all[i]);
    return shares;
  };
  using Shares = std::vector<std::pair<std::size_t, double>>;
  EXPECT_EQ(found("max_pool1d(x, 69, 1)", {}, 1), (Shares{{0, 3}, {1, 5}}));
  EXPECT_EQ(found("max_pool1d(x, 69, 1)", {{7, 2}, {9, 2}}, 1), (Shares{{7, 8}}));
  EXPECT_EQ(found("max_pool1d(x, 66, 4)", {{2, kNan}, {9, kNan}, {68, kNan}}, 1), (Shares{{9, 3}, {68, 5}}));
  EXPECT_EQ(found("max_pool1d(x, 80, 50, 30)", {}, kLeast), (Shares{{0, 3}, {20, 5}}));
  EXPECT_EQ(found("max_pool1d(x, 71, 1, 1)", {}, kLeast), (Shares{{0, 8}}));
}

// A classifier's pool of all there is: no value but the operand itself has the gradient's shape.
TEST(Gradient, OfOneWindowFillsTheOperand) {
  const Tensors operands = {{"x", random_tensor({2, 3, 4, 4}, 1, -2, 2)}};
  EXPECT_GE(expect_differences("flatten(avg_pool2d(x, 4), 1)", "x", operands), 96);
  EXPECT_GE(expect_differences("sum(avg_pool2d(x, 4), 1)", "x", operands), 96);
}

// Neither of two operands has the other's dimensions: one loop goes over both.
TEST(Gradient, OfWhatIsJoinedIsOneKernelForBoth) {
  const Gradient found = gradient(Epilogue::parse("input x, y; cat((x * 2, relu(y)), 0)"), {"x", "y"});
  const Tensors operands = {{"x", {{1, 3}, {1, 2, 3}}}, {"y", {{1, 3}, {1, -1, 2}}}};
  const auto gradients = backward(found, operands, {{2, 3}, {1, 2, 3, 4, 5, 6}});
  EXPECT_EQ(gradients[0].data, (std::vector<double>{2, 4, 6}));
  EXPECT_EQ(gradients[1].data, (std::vector<double>{4, 0, 6}));
}

// What the user wrote stands in errors of a backward pass, not what its gradient is made of.
TEST(Gradient, NamesTheOperationInErrors) {
  const Gradient found = gradient(Epilogue::parse("softmax(x[::3], 1)"), {"x"});
  const Tensors operands = {{"x", random_tensor({10, 4}, 1, -2, 2)}};  // of 9 rows it is one kernel
  try {
    backward(found, operands, random_tensor({4, 4}, 2, -2, 2));
    ADD_FAILURE() << "one kernel";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'the gradient of softmax'"), std::string::npos) << error.what();
  }
}

// A byte for each window says which element is the largest, so that backward reads neither the operand nor overlapping
// windows.
TEST(Gradient, OfPoolsReadsWhichElementIsTheLargest) {
  const Gradient found = gradient(Epilogue::parse("relu(max_pool2d(x, 3, 2, 1))"), {"x"});
  EXPECT_EQ(found.forward.results(), (std::vector<std::string>{"out", "saved_cast"}));
  using enum GradientSource;
  std::vector<GradientSource> sources;
  for (const GradientOperand& operand : found.operands) sources.push_back(operand.source);
  EXPECT_EQ(sources, (std::vector{gradient, result, saved, shape}));
}

TEST(Gradient, SaysWhatConnectsThePasses) {
  const Gradient found = gradient(Epilogue::parse("y = layer_norm(x, w, b); return y"), {"x", "w", "b"});
  EXPECT_EQ(found.forward.results(), (std::vector<std::string>{"y", "saved_mean", "saved_rsqrt"}));
  EXPECT_EQ(found.saved, 2u);
  EXPECT_EQ(found.backward.results(), (std::vector<std::string>{"dx", "dw", "db"}));
  ASSERT_EQ(found.operands.size(), found.backward.inputs().size());
  std::vector<GradientSource> sources;
  for (std::size_t i = 0; i < found.operands.size(); ++i) {
    EXPECT_EQ(found.operands[i].name, found.backward.inputs()[i]);
    sources.push_back(found.operands[i].source);
  }
  using enum GradientSource;
  EXPECT_EQ(sources, (std::vector{GradientSource::gradient, saved, saved, operand, operand, shape}));
  EXPECT_EQ(found.operands[0].index, 0u);
  EXPECT_EQ(found.operands[1].index, 1u);
  EXPECT_EQ(found.operands[2].index, 2u);
  EXPECT_EQ(found.operands[5].name, "b");
  EXPECT_EQ(found.operands[5].index, 2u);
}

// The stored result would save the bias, which may be smaller. Where it saves the one operand of its shape, it is read.
TEST(Gradient, ReadsAResultOnlyInPlaceOfWhatIsAsLarge) {
  const auto reads_result = [](const char* chain) {
    const Gradient found = gradient(Epilogue::parse(chain), {"x"});
    return std::ranges::any_of(found.operands, [](const auto& one) { return one.source == GradientSource::result; });
  };
  EXPECT_FALSE(reads_result("relu(layer_norm(x, w, b))"));
  EXPECT_FALSE(reads_result("relu(group_norm(x, 2, w, b))"));
  EXPECT_FALSE(reads_result("sigmoid((softmax(x, 1) + b) * 2)"));
  EXPECT_TRUE(reads_result("relu(x + b)"));
  EXPECT_TRUE(reads_result("sigmoid(x)"));
  EXPECT_TRUE(reads_result("tanh(x) * 1"));
  EXPECT_TRUE(reads_result("softmax(x, -1)"));
}

// As PyTorch saves them: a mean of halves that is stored as a half loses what the gradient is made of.
TEST(Gradient, SaysInWhichTypesTheForwardPassStores) {
  const auto types = [](const char* chain, DType x) {
    const Gradient found = gradient(test::as_written(chain), {"x"});
    return found.forward_types(std::vector<TensorView>(found.forward.inputs().size(), {nullptr, x, {4, 8}}));
  };
  using enum DType;
  EXPECT_EQ(types("layer_norm(x)", f16), (std::vector{f16, f32, f32}));
  EXPECT_EQ(types("layer_norm(x)", f64), (std::vector{f64, f64, f64}));
  EXPECT_EQ(types("layer_norm(cast(x, f64))", bf16), (std::vector{f64, f64, f64}));
  EXPECT_EQ(types("where(a + b > 0, x, 0)", bf16), (std::vector{bf16, boolean}));
  EXPECT_EQ(types("sigmoid(x)", f16), (std::vector{f16}));
}

// Elements are compared with the largest one. Stored as a half it would equal none of them.
TEST(Gradient, OfTheLargestIsNotAskedOfARoundedResult) {
  const Gradient found = gradient(test::as_written("amax(x * b, 1)"), {"x"});
  ASSERT_EQ(found.saved, 1u);
  const std::vector<float> x = {0.1F, 0.7F, 0.3F, -0.2F};
  const std::vector<float> b = {0.3F, 0.9F, -0.1F, 0.4F};
  const std::vector<std::uint16_t> one = {0x3c00, 0x3c00};  // as halves
  std::vector<std::uint16_t> largest(2);
  std::vector<float> saved(2);
  std::vector<float> dx(4, -1.0F);
  Engine engine(Device::cpu());
  const std::vector<TensorView> operands = {{x.data(), DType::f32, {2, 2}}, {b.data(), DType::f32, {2, 2}}};
  const std::vector<Dims> shapes = found.forward.result_shapes(operands);
  const std::vector<OutputView> stored = {{largest.data(), DType::f16, shapes[0]},
                                          {saved.data(), DType::f32, shapes[1]}};
  ASSERT_EQ(found.forward.results()[1], "saved_amax");
  engine.launch(found.forward, nullptr, stored, operands);
  std::vector<TensorView> arguments;
  for (const GradientOperand& operand : found.operands) {
    const bool is_input = operand.source == GradientSource::operand || operand.source == GradientSource::shape;
    if (operand.source == GradientSource::gradient)
      arguments.emplace_back(one.data(), DType::f16, Dims{2});
    else if (is_input)
      arguments.push_back(operands[operand.index]);
    else
      arguments.emplace_back(saved.data(), DType::f32, stored[operand.index].shape);
  }
  engine.launch(found.backward, nullptr, std::vector<OutputView>{{dx.data(), DType::f32, {2, 2}}}, arguments);
  EXPECT_EQ(dx, (std::vector<float>{0, 0.9F, -0.1F, 0}));
}

// Names that the backward chain would give are taken.
TEST(Gradient, FindsNamesThatAreFree) {
  const Gradient found = gradient(Epilogue::parse("out = dx * x + dout; return out"), {"x", "dx"});
  std::set<std::string> names;
  for (const auto& list : {found.backward.inputs(), found.backward.results()}) names.insert(list.begin(), list.end());
  EXPECT_EQ(names.size(), found.backward.inputs().size() + found.backward.results().size());
}

TEST(Gradient, KeepsMathAndScalars) {
  const Epilogue tail = Epilogue::parse("scalar s; silu(x * s) * t", {}).with(Math::fast);
  const Gradient found = gradient(tail, {"x"});
  EXPECT_EQ(found.backward.math(), Math::fast);
  EXPECT_EQ(found.forward.math(), Math::fast);
  EXPECT_EQ(found.backward.scalars(), (std::vector<std::string>{"s"}));
}

// The memory of an operand that is there for its shape alone is not touched.
TEST(Gradient, ReadsNoElementOfWhatOnlyHasAShape) {
  const Gradient found = gradient(Epilogue::parse("x + b"), {"b"});
  ASSERT_EQ(found.backward.inputs(), (std::vector<std::string>{"dout", "b"}));
  std::vector<double> dout(6, 1.0);
  std::vector<double> db(3);
  const double* const nowhere = reinterpret_cast<const double*>(std::uintptr_t{8});
  const std::vector<TensorView> inputs = {{dout.data(), DType::f64, {2, 3}}, {nowhere, DType::f64, {3}, {0}}};
  const OutputView out(db.data(), DType::f64, {3});
  Engine(Device::cpu()).launch(found.backward, nullptr, std::span(&out, 1), inputs);
  EXPECT_EQ(db, (std::vector<double>{2, 2, 2}));
}

void expect_refused(const std::string& chain, const std::vector<std::string>& wrt, const std::string& message,
                    const GradientOptions& options = {}) {
  try {
    gradient(Epilogue::parse(chain), wrt, options);
    ADD_FAILURE() << chain << " has a gradient";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(message), std::string::npos) << error.what();
  }
}

TEST(Gradient, RefusesInSentences) {
  expect_refused("x * 2", {"weight"},
                 "the chain has no operand 'weight' to take the gradient with respect to; it has: x");
  expect_refused("x * 2", {}, "a gradient is taken with respect to at least one operand; none was named");
  expect_refused("x * 2", {"x", "x"}, "the gradient with respect to 'x' is asked for twice");
  expect_refused("scalar s; x * s", {"s"}, "'s' is a run-time scalar: gradients are taken with respect to tensors");
  expect_refused("x > 0", {"x"},
                 "the chain has no gradient with respect to 'x': no result depends on it, or only through comparisons");
  expect_refused("argmax(x, 1)", {"x"}, "no result depends on it, or only through comparisons");
  expect_refused("x[:, -5:-1:2]", {"x"}, "where slices count from the back: count from the front");
  expect_refused("repeat_as(x, y, 0, 2)", {"x"}, "the gradient of 'repeat_as' is not known to chains");
  expect_refused("take(x, i)", {"x"}, "the gradient of 'take' adds up elements wherever indices are equal");
  expect_refused("take(x, i)", {"i"}, "the chain has no gradient with respect to 'i'");
  expect_refused("take(x, i)", {"x"}, "index_add_");
  expect_refused("any(x)", {"x"}, "the chain has no gradient with respect to 'x'");
  expect_refused("cast(x, i8) * 2", {"x"}, "casts to integers");
  expect_refused("gelu(x)", {"x"}, "the backward pass needs operand 'x', which the forward pass writes a result over",
                 {{"x"}});
  expect_refused("gelu(x)", {"x"}, "the chain has no operand 'y' that could be overwritten", {.overwritten = {"y"}});
}

TEST(Gradient, OfWhatIsFlatIsZero) {
  const Tensors operands = {{"x", random_tensor({5}, 1, -3, 3)}};
  const Gradient found = gradient(Epilogue::parse("floor(x)"), {"x"});
  EXPECT_EQ(backward(found, operands, random_tensor({5}, 2, 1, 2)).front().data, std::vector<double>(5, 0.0));
}

// Results stand for the operands that they were written over.
TEST(Gradient, InPlace) {
  const Gradient found =
      gradient(Epilogue::parse("relu(x + b)"), std::vector<std::string>{"x", "b"}, {.overwritten = {"x"}});
  for (const GradientOperand& operand : found.operands)
    EXPECT_NE(operand.source, GradientSource::operand) << operand.name;
}

}  // namespace
}  // namespace epifuse
