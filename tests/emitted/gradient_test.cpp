// Backward passes as emitted text, against the CPU device, whose gradients python/tests/test_gradient.py holds against
// PyTorch's. Which of them are one kernel, and why the others are not.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <string>

#include <epifuse/epifuse.hpp>

#include "emitted/workshop.hpp"
#include "support/as_written.hpp"

namespace epifuse::test {
namespace {

struct Tensor {
  Dims shape;
  std::vector<float> data;

  Tensor() = default;
  explicit Tensor(const Dims& extents) : shape(extents) {
    std::int64_t count = 1;
    for (const std::int64_t extent : shape) count *= extent;
    data.assign(static_cast<std::size_t>(count), -77);
  }
  TensorView view() const { return {data.data(), DType::f32, shape}; }
  OutputView out() { return {data.data(), DType::f32, shape}; }
};

std::vector<TensorView> views_of(const std::vector<Tensor>& tensors) {
  std::vector<TensorView> views;
  for (const Tensor& tensor : tensors) views.push_back(tensor.view());
  return views;
}

std::vector<OutputView> outputs_of(std::vector<Tensor>& tensors) {
  std::vector<OutputView> views;
  for (Tensor& tensor : tensors) views.push_back(tensor.out());
  return views;
}

std::vector<Tensor> results_of(const Epilogue& tail, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> results;
  for (const Dims& shape : tail.result_shapes(views_of(inputs))) results.emplace_back(shape);
  return results;
}

std::vector<Tensor> on_cpu(const Epilogue& tail, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> results = results_of(tail, inputs);
  Engine(Device::cpu()).launch(tail, nullptr, outputs_of(results), views_of(inputs));
  return results;
}

Tensor normal(const Dims& shape, unsigned seed) {
  Tensor tensor(shape);
  std::mt19937 random(seed);
  std::normal_distribution<float> distribution;
  for (float& value : tensor.data) value = distribution(random);
  return tensor;
}

struct Backward {
  Epilogue tail;
  std::vector<Tensor> inputs;
};

Backward backward_of(const std::string& chain, const std::vector<std::string>& wrt,
                     const std::map<std::string, Dims>& shapes) {
  const Gradient found = gradient(as_written(chain), wrt);
  std::vector<Tensor> inputs;
  for (const std::string& name : found.forward.inputs())
    inputs.push_back(normal(shapes.at(name), static_cast<unsigned>(name[0])));
  const std::vector<Tensor> results = on_cpu(found.forward, inputs);
  Backward backward{found.backward, {}};
  for (const GradientOperand& operand : found.operands) {
    const bool is_input = operand.source == GradientSource::operand || operand.source == GradientSource::shape;
    if (operand.source == GradientSource::gradient) {
      backward.inputs.push_back(normal(results[operand.index].shape, 99));
    } else {
      backward.inputs.push_back(is_input ? inputs[operand.index] : results[operand.index]);
    }
  }
  return backward;
}

struct Example {
  std::string chain;
  std::vector<std::string> wrt;
  std::string refused = {};  ///< words of the reason why it is not one kernel
};

const std::map<std::string, Dims> kRows = {{"x", {6, 70}}, {"r", {6, 70}}, {"w", {70}}, {"b", {70}}, {"c", {6, 1}}};
const std::map<std::string, Dims> kImages = {{"x", {2, 6, 3, 5}}, {"w", {6}}, {"b", {6}}, {"k", {6, 1, 1}}};

void expect(const Example& example, const std::map<std::string, Dims>& shapes) {
  SCOPED_TRACE(example.chain);
  const Backward backward = backward_of(example.chain, example.wrt, shapes);
  const std::vector<Tensor> expected = on_cpu(backward.tail, backward.inputs);
  std::vector<Tensor> found = results_of(backward.tail, backward.inputs);
  try {
    run_emitted(backward.tail, outputs_of(found), views_of(backward.inputs));
    EXPECT_EQ(example.refused, "") << "is one kernel now";
  } catch (const Error& error) {
    EXPECT_NE(example.refused, "") << error.what();
    EXPECT_NE(std::string(error.what()).find(example.refused), std::string::npos) << error.what();
    return;
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    for (std::size_t k = 0; k < found[i].data.size(); ++k) {
      const float want = expected[i].data[k];
      ASSERT_NEAR(found[i].data[k], want, 2e-5F * std::max(1.0F, std::abs(want)))
          << backward.tail.results()[i] << " at " << k;
    }
  }
}

TEST(EmittedGradients, OfRows) {
  const std::vector<Example> examples = {
      {"gelu(x + b)", {"x"}},
      {"gelu(x + b)", {"x", "b"}},
      {"silu(x) * r", {"x", "r"}},
      {"relu(x + b) * w", {"x", "b", "w"}},
      {"x * w + b", {"w", "b"}},
      {"x * c", {"x", "c"}},
      {"tanh(x) + r", {"x", "r"}},
      {"softmax(x, -1)", {"x"}},
      {"softmax(x * c, -1)", {"x", "c"}},
      {"log_softmax(x, -1)", {"x"}},
      {"logsumexp(x, -1)", {"x"}},
      {"mean(x, -1)", {"x"}},
      {"amax(x, -1)", {"x"}},
      {"var(x, -1)", {"x"}},
      {"prod(x * 0.5, -1)", {"x"}},
      {"mean(x)", {"x"}},
      {"layer_norm(x)", {"x"}},
      {"layer_norm(x, w, b)", {"x"}},
      {"layer_norm(x + r, w, b)", {"x", "r"}},
      {"rms_norm(x, w)", {"x"}},
      {"rms_norm(x, w)", {"w"}},
      {"layer_norm(x, w, b)", {"w", "b"}},
      {"gelu(layer_norm(x, w, b))", {"x"}},
      {"relu(layer_norm(x, w, b))", {"x", "w", "b"}},
      {"layer_norm(x, w, b)", {"x", "w", "b"}},
      {"rms_norm(x, w)", {"x", "w"}},
      {"softmax(x * w, -1)", {"x", "w"}},
      {"x * w * c", {"w", "c"}},
  };
  for (const Example& example : examples) expect(example, kRows);
}

TEST(EmittedGradients, OfImages) {
  const std::vector<Example> examples = {
      {"relu(x + k)", {"x", "k"}},
      {"hardswish(x * k)", {"x"}},
      {"group_norm(x, 3, w, b)", {"x"}},
      {"instance_norm(x, w, b)", {"x"}},
      {"silu(group_norm(x, 3, w, b))", {"x"}},
      {"mean(relu(x), (2, 3))", {"x"}},
      {"group_norm(x, 3, w, b)", {"w", "b"}},
      {"group_norm(x, 3, w, b)", {"x", "w", "b"}},
      {"instance_norm(x, w, b)", {"x", "w", "b"}},
      {"silu(group_norm(x + k, 3, w, b))", {"x", "k", "w", "b"}},
      {"relu(group_norm(x, 3, w, b))", {"x", "w", "b"}},
      {"softmax(x + k, 1)", {"x", "k"}},
      {"softmax(x, 1)", {"x"}},
  };
  for (const Example& example : examples) expect(example, kImages);
}

TEST(EmittedGradients, OfWindowsOfManyElements) {
  const std::vector<Example> examples = {
      {"relu(max_pool2d(x * k, 9, 4, 4))", {"x"}},
      {"max_pool2d(x, 9, 1, 4)", {"x"}},
      {"max_pool2d(x, (5, 13), (1, 2), (2, 6), (2, 1), ceil_mode=true)", {"x"}},
      {"avg_pool2d(x, 9, 3, 2, ceil_mode=true)", {"x"}},
      {"gelu(avg_pool2d(x, 9, 1, 4))", {"x"}},
      {"avg_pool2d(x, (12, 10), (2, 1), (5, 2), ceil_mode=true, count_include_pad=false)", {"x"}},
      {"lp_pool2d(abs(x) + 1, 2, 9, 1)", {"x"}},
      {"sum(unfold(x * k, -1, 9, 2), -1)", {"x"}},
      {"unfold(x, 2, 4, 2, padding=1, value=2) * 2", {"x"}},
  };
  const std::map<std::string, Dims> images = {{"x", {2, 3, 12, 13}}, {"k", {3, 1, 1}}};
  for (const Example& example : examples) expect(example, images);
}

TEST(EmittedGradients, OfWindows) {
  const std::vector<Example> examples = {
      {"max_pool2d(x, 2)", {"x"}},
      {"relu(max_pool2d(x * k, 3, 2, 1))", {"x"}},
      {"max_pool2d(x + k, 3, 2, 1)", {"k"}},
      {"max_pool2d(x, 2, 2, 0, 2)", {"x"}},
      {"avg_pool2d(x, 2)", {"x"}},
      {"gelu(avg_pool2d(x, 3, 2, 1))", {"x"}},
      {"avg_pool2d(x, 3, 2, 1, count_include_pad=false)", {"x"}},
      {"avg_pool2d(x, 2, 3)", {"x"}},
      {"lp_pool2d(abs(x) + 1, 2, 3, 2)", {"x"}},
      {"adaptive_max_pool2d(x, (3, 1))", {"x"}},
      {"x[:, 1::2] * 2", {"x"}},
      {"x[1, :, 2]", {"x"}},
      {"cat((x, w), 1)", {"x"}},
      {"max_pool3d(x, 3, 2, 1)", {"x"}},
      {"sum(max_pool2d(x, 2), (2, 3))", {"x"}},
      {"mean(avg_pool2d(x, 3, 2, 1), (2, 3))", {"x"}},
      {"sum(max_pool2d(x, 3, 2, 1) * k, 1)", {"x"}},
  };
  const std::map<std::string, Dims> images = {{"x", {2, 6, 9, 10}}, {"w", {2, 1, 9, 10}}, {"k", {6, 1, 1}}};
  for (const Example& example : examples) expect(example, images);
}

// What reductions give to windows that cover their operand is written slice by slice, in the same launch.
TEST(EmittedGradients, OfPoolsBeforeReductions) {
  const std::vector<Example> examples = {
      {"softmax(max_pool2d(x, 2), 1)", {"x"}},
      {"log_softmax(avg_pool2d(x, 2), 1) * 2", {"x"}},
      {"softmax(max_pool2d(tanh(x), (4, 2)), -1)", {"x"}},
      {"softmax(x[..., ::3] * k, 1)", {"x"}},
      {"group_norm(max_pool2d(tanh(x), 2), 3, w, b)", {"x"}},
      {"group_norm(max_pool2d(tanh(x), 2), 3, w, b)", {"x", "w", "b"}},
      {"rms_norm(avg_pool2d(x * k, (2, 3)), v)", {"x"}},
      {"rms_norm(max_pool2d(x, (2, 3)), v)", {"x", "v"}},
      {"amax(silu(softmax(max_pool3d(y, 2), 1) - s), 1)", {"y"}},
      {"amax(silu(softmax(max_pool3d(y, 2), 1) - s), 1)", {"y", "s"}},
  };
  const std::map<std::string, Dims> shapes = {{"x", {2, 6, 8, 12}}, {"y", {2, 3, 4, 6, 8}}, {"w", {6}}, {"b", {6}},
                                              {"k", {6, 1, 1}},     {"s", {3, 1, 1, 1}},    {"v", {4}}};
  for (const Example& example : examples) expect(example, shapes);
}

// What is summed up again, and windows beside which there are other elements, take a launch more.
TEST(EmittedGradients, OfPoolsBeforeReductionsThatAreNotOneKernel) {
  const std::map<std::string, Dims> shapes = {{"x", {2, 6, 8, 12}}, {"k", {6, 1, 1}}};
  for (const Example& example :
       {Example{"softmax(max_pool2d(x * k, 2), 1)", {"k"}}, Example{"softmax(max_pool2d(x, 5), 1)", {"x"}}}) {
    const Backward backward = backward_of(example.chain, example.wrt, shapes);
    try {
      on_cpu(backward.tail, backward.inputs);
      ADD_FAILURE() << example.chain << " is one kernel now";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("in a launch of its own"), std::string::npos) << error.what();
    }
  }
}

// Each row stands several times, since the gradient of a mean does; a sum over other dimensions counts it once.
TEST(EmittedGradients, OfMeansBeforeRows) {
  const std::vector<Example> examples = {
      {"tanh(softmax(mean(x, 2, keepdim=true) + k, 1))", {"x"}},
      {"tanh(softmax(mean(x, 2, keepdim=true) + k, 1))", {"x", "k"}},
      {"layer_norm(mean(x, 1, keepdim=true), w, b)", {"x", "w", "b"}},
      {"softmax(sum(x, (2, 3), keepdim=true) * k, 1)", {"x", "k"}},
  };
  const std::map<std::string, Dims> shapes = {{"x", {3, 6, 4, 5}}, {"k", {6, 1, 1}}, {"w", {5}}, {"b", {5}}};
  for (const Example& example : examples) expect(example, shapes);
}

}  // namespace
}  // namespace epifuse::test
