// The public API without a GPU: the CPU device, every sentence of the bad-input list, and what each error leaves
// behind.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>
#include <epifuse/epifuse.hpp>

#include "support/as_written.hpp"
#include "support/refusal.hpp"

namespace epifuse {
namespace {

class BadInput : public testing::Test {
 protected:
  // The message of a launch that must be refused, having written nothing.
  std::string refused(const std::string& chain, const OutputView& output, const std::vector<TensorView>& inputs,
                      std::vector<double> scalars = {}) {
    const std::vector<float> before(memory_, memory_ + kSize);
    const std::string message = test::refusal(
        [&] { engine_.launch(test::as_written(chain), nullptr, std::span(&output, 1), inputs, scalars); });
    EXPECT_TRUE(std::equal(before.begin(), before.end(), memory_)) << "something was written";
    return message;
  }
  TensorView x(const Dims& shape) { return {memory_, DType::f32, shape}; }
  TensorView y(const Dims& shape) { return {memory_ + 256, DType::f32, shape}; }
  OutputView out(const Dims& shape) { return {memory_ + 512, DType::f32, shape}; }

  static constexpr std::size_t kSize = 1024;
  Engine engine_{Device::cpu()};
  alignas(64) float memory_[kSize] = {};
};

#define EXPECT_SAYS(message, part) EXPECT_NE((message).find(part), std::string::npos) << (message)

TEST_F(BadInput, IsNamedWithWhatWasFoundAndExpected) {
  EXPECT_SAYS(refused("x + y", out({4}), {x({4})}), "the chain takes 2 operands (x, y), but 1 was given");
  EXPECT_SAYS(refused("x", out({4}), {x({4}), y({4})}), "the chain takes 1 operand (x), but 2 were given");
  EXPECT_SAYS(refused("return x, x + 1", out({4}), {x({4})}), "the chain has 2 results, but 1 output was given");
  EXPECT_SAYS(refused("x + y", out({2, 3}), {x({2, 3}), y({2})}),
              "operand 'y' has shape [2], which does not broadcast with [2, 3]");
  EXPECT_SAYS(refused("x + y", out({2, 3}), {x({2, 3}), y({2})}), "2 against 3 in dimension -1");
  EXPECT_SAYS(refused("x", out({2, 4}), {x({2, 3})}),
              "output 'out' has shape [2, 4]; the operands broadcast to [2, 3]");
  EXPECT_SAYS(refused("x", out({5, 3}), {x({1, 3})}), "every output has exactly that shape");
  EXPECT_SAYS(refused("x", out({-1}), {x({-1})}), "operand 'x' has a negative extent: shape [-1]");
  EXPECT_SAYS(refused("x", out({1LL << 41}), {x({1LL << 41})}), "operand 'x' has more than 2^40 elements");
  EXPECT_SAYS(refused("x", out({1LL << 40, 1LL << 40}), {x({1LL << 40, 1LL << 40})}),
              "operand 'x' has more than 2^40 elements");
  EXPECT_SAYS(refused("x", out({2}), {TensorView(memory_, DType::f32, {2}, {INT64_MAX})}),
              "operand 'x' reaches further than 2^60 bytes");
  EXPECT_SAYS(refused("x", out({2}), {TensorView(memory_, DType::f32, {2}, {INT64_MIN})}),
              "operand 'x' reaches further than 2^60 bytes");
  EXPECT_SAYS(refused("x", out({4}), {TensorView(nullptr, DType::f32, {4})}),
              "operand 'x' has a null pointer, but its shape [4] is not empty");
  EXPECT_SAYS(refused("x", OutputView(nullptr, DType::f32, {4}), {x({4})}), "output 'out' has a null pointer");
  EXPECT_SAYS(refused("x", out({4}), {TensorView(memory_, DType::f32, {4}, {1, 1})}),
              "operand 'x' has 2 strides for 1 dimensions");
  EXPECT_SAYS(refused("x", out({4}), {TensorView(reinterpret_cast<const std::byte*>(memory_) + 2, DType::f32, {4})}),
              "not a multiple of its element's 4 bytes (f32)");
  EXPECT_SAYS(refused("x", OutputView(memory_ + 2, DType::f32, {8}), {x({8})}),
              "output 'out' overlaps operand 'x' without being the same view");
  EXPECT_SAYS(refused("x", OutputView(memory_, DType::f16, {8}), {x({8})}), "output 'out' overlaps operand 'x'");
  EXPECT_SAYS(refused("x", OutputView(memory_ + 512, DType::f32, {8, 8}, {4, 1}), {x({8, 8})}),
              "writes some addresses more than once");
  EXPECT_SAYS(refused("x", OutputView(memory_ + 512, DType::f32, {8, 8}, {0, 1}), {x({8, 8})}),
              "writes some addresses more than once");
  EXPECT_SAYS(refused("-x", out({4}), {TensorView(memory_, DType::boolean, {4})}),
              "'neg' takes numbers, but operand 'x' (bool) is a truth value");
  EXPECT_SAYS(refused("scalar a; x * a", out({4}), {x({4})}),
              "the chain takes 1 run-time scalar (a), but 0 were given");
  EXPECT_SAYS(refused("x", out({4}), {x({4})}, {1.0}), "the chain takes 0 run-time scalars (), but 1 was given");
}

TEST_F(BadInput, ResultsMayNotShareMemory) {
  const OutputView outputs[] = {out({8}), OutputView(memory_ + 516, DType::f32, {8})};
  const TensorView inputs[] = {x({8})};
  try {
    engine_.launch(Epilogue::parse("return x, x + 1"), nullptr, outputs, inputs);
    FAIL();
  } catch (const Error& error) {
    EXPECT_SAYS(std::string(error.what()), "output 'out1' overlaps output 'out0'");
  }
}

TEST_F(BadInput, RankOverEightIsRefused) {
  EXPECT_THROW(Dims({1, 1, 1, 1, 1, 1, 1, 1, 1}), Error);
  EXPECT_NO_THROW(Dims({1, 1, 1, 1, 1, 1, 1, 1}));
}

TEST_F(BadInput, NamesAreSuggested) {
  const OutputView output = out({4});
  const auto said = [&](const Arguments& arguments) {
    return test::refusal([&] {
      engine_.launch(Epilogue::parse("scalar alpha; x * alpha + bias"), nullptr, std::span(&output, 1), arguments);
    });
  };
  EXPECT_SAYS(said({{"x", x({4})}, {"bais", y({4})}, {"alpha", 2}}),
              "the chain has no operand 'bais' (did you mean 'bias'?); it has: x, bias");
  EXPECT_SAYS(said({{"x", x({4})}, {"alpha", 2}}), "the operand 'bias' of the chain is missing");
  EXPECT_SAYS(said({{"x", x({4})}, {"x", x({4})}, {"bias", y({4})}, {"alpha", 2}}), "the operand 'x' is given twice");
  EXPECT_SAYS(said({{"x", x({4})}, {"bias", y({4})}}), "the scalar 'alpha' of the chain is missing");
  EXPECT_SAYS(said({{"x", x({4})}, {"bias", y({4})}, {"alpha", y({})}}),
              "'alpha' is a run-time scalar of the chain, but a tensor is given for it; expected a number");
  EXPECT_SAYS(
      said({{"x", x({4})}, {"bias", 1.5}, {"alpha", 2}}),
      "'bias' is a tensor operand of the chain, but a number is given for it; give a view, or make it a scalar");
  EXPECT_EQ(said({{"alpha", 2}, {"bias", y({4})}, {"x", x({4})}}), "(accepted)");
}

TEST(Engine, WhatIsMissingIsToldApart) {
  if (Device::automatic().kind == Device::Kind::cuda)
    GTEST_SKIP() << "this machine has a GPU; the messages are those of one without";
  try {
    const Engine engine;
    FAIL() << "an engine without a GPU";
  } catch (const Error& error) {
    EXPECT_FALSE(error.is_bad_input());
    EXPECT_TRUE(error.code() == ErrorCode::no_driver || error.code() == ErrorCode::no_device) << error.what();
  }
}

TEST(Engine, DevicesHaveNames) {
  EXPECT_EQ(Device::parse("cpu"), Device::cpu());
  EXPECT_EQ(Device::parse("cuda"), Device::cuda(0));
  EXPECT_EQ(Device::parse("cuda:3"), Device::cuda(3));
  EXPECT_EQ(to_string(Device::cuda(3)), "cuda:3");
  for (const char* wrong : {"", "gpu", "cuda:", "cuda:-1", "cuda:x", "cuda:1x", "cuda3", "cuda:99999999999"})
    EXPECT_THROW(Device::parse(wrong), Error) << wrong;
}

TEST(Cpu, ComputesInPlaceAndIntoViews) {
  Engine engine(Device::cpu());
  std::vector<float> x(24);
  std::iota(x.begin(), x.end(), -12.0F);
  const std::vector<float> bias = {100, 200};
  const OutputView view(x.data(), DType::f32, {3, 2, 4});
  engine.launch(test::as_written("relu(x) + bias"), nullptr, view, {view, TensorView(bias.data(), DType::f32, {2, 1})});
  for (int i = 0; i < 24; ++i)
    EXPECT_EQ(x[static_cast<std::size_t>(i)], std::max(0, i - 12) + (i / 4 % 2 == 0 ? 100 : 200));
}

TEST(Cpu, ConstantsOutliveTheValuesBeforeThem) {
  // A constant that first appears after an operand has died must not share its buffer: it is filled once, before all
  // blocks.
  Engine engine(Device::cpu());
  std::vector<float> x(5000, 3);
  std::vector<float> bias(5000, 10);
  std::vector<float> out(5000);
  engine.launch(test::as_written("scalar a; ((x + bias) * 2 + a) * 4"), nullptr,
                OutputView(out.data(), DType::f32, {5000}),
                {TensorView(x.data(), DType::f32, {5000}), TensorView(bias.data(), DType::f32, {5000})}, {1});
  EXPECT_EQ(out, std::vector<float>(5000, 108));
}

TEST(Cpu, RequantisesAnInt8Gemm) {
  Engine engine(Device::cpu());
  const std::vector<std::int32_t> acc = {1000, -1000, 100000, -100000, 5, 15};
  const std::vector<float> scale = {0.1F, 0.5F};
  std::vector<std::int8_t> out(6);
  engine.launch(test::as_written("x * scale"), nullptr, OutputView(out.data(), DType::i8, {3, 2}),
                {TensorView(acc.data(), DType::i32, {3, 2}), TensorView(scale.data(), DType::f32, {2})});
  EXPECT_EQ(out, (std::vector<std::int8_t>{100, -128, 127, -128, 0, 8}));  // 0.5 to even, 7.5 to even, saturated
}

TEST(Cpu, LargeTensorsUseAllThreadsAndAgreeWithSmallOnes) {
  Engine engine(Device::cpu());
  const std::int64_t n = 1'000'003;
  std::vector<float> x(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 1000) / 100 - 5;
  std::vector<float> whole(x.size());
  std::vector<float> parts(x.size());
  const Epilogue tail = Epilogue::parse("sigmoid(x) * x");
  engine.launch(tail, nullptr, OutputView(whole.data(), DType::f32, {n}), {TensorView(x.data(), DType::f32, {n})});
  for (std::int64_t at = 0; at < n; at += 777) {
    const std::int64_t size = std::min<std::int64_t>(777, n - at);
    engine.launch(tail, nullptr, OutputView(parts.data() + at, DType::f32, {size}),
                  {TensorView(x.data() + at, DType::f32, {size})});
  }
  EXPECT_EQ(whole, parts);
}

TEST(Cpu, ZeroSizesAndScalarsWork) {
  Engine engine(Device::cpu());
  engine.launch(Epilogue::parse("x + 1"), nullptr, OutputView(nullptr, DType::f32, {0, 5}),
                {TensorView(nullptr, DType::f32, {0, 5})});
  double out = 0;
  engine.launch(Epilogue::parse("scalar a; a * 3"), nullptr, OutputView(&out, DType::f64, {}), {}, {2.5});
  EXPECT_EQ(out, 7.5);
}

TEST(Cpu, AWorkspaceIsNotNeededButMustBeAligned) {
  Engine engine(Device::cpu());
  const float data[4] = {1, 2, 3, 4};
  float total = 0;
  const Epilogue tail = Epilogue::parse("sum(x)");
  const TensorView x(data, DType::f32, {4});
  const OutputView out(&total, DType::f32, {});
  EXPECT_EQ(engine.workspace_bytes(tail, std::span(&out, 1), std::span(&x, 1)), 0U);
  alignas(256) std::byte memory[512];
  try {
    engine.launch(tail, nullptr, std::span(&out, 1), std::span(&x, 1), {}, Workspace{memory + 1, 256});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    EXPECT_SAYS(std::string(error.what()), "is not a multiple of 256");
  }
  EXPECT_EQ(total, 0) << "something was written";
  for (const Workspace& workspace : {Workspace{memory, 512}, Workspace{}}) {
    total = 0;
    engine.launch(tail, nullptr, std::span(&out, 1), std::span(&x, 1), {}, workspace);
    EXPECT_EQ(total, 10);
  }
}

TEST(Cpu, ArraysHoldWhatWasUploaded) {
  Engine engine(Device::cpu());
  const std::vector<float> host = {1, 2, 3};
  Array array = engine.array(DType::f32, {3}, host.data());
  std::vector<float> back(3);
  array.download(back.data());
  EXPECT_EQ(back, host);
  EXPECT_THROW(engine.empty(DType::f32, {-1}), Error);
  EXPECT_THROW(engine.empty(DType::f64, {1LL << 40, 1LL << 40}), Error);
}

TEST(Inspect, EveryStageCanBeSeenWithoutAGpu) {
  const Epilogue tail = test::as_written("sigmoid((x + bias) * scale)");
  const OutputView out(nullptr, DType::f16, {128, 32, 254, 254});
  const TensorView in[] = {
      {nullptr, DType::f16, {128, 32, 254, 254}}, {nullptr, DType::f32, {32, 1, 1}}, {nullptr, DType::f32, {32, 1, 1}}};
  const Inspection inspection(tail, std::span(&out, 1), in);
  EXPECT_EQ(inspection.plan().bytes_read, 128ULL * 32 * 254 * 254 * 2 + 2 * 32 * 4);
  EXPECT_EQ(inspection.plan().bytes_written, 128ULL * 32 * 254 * 254 * 2);
  const std::string text = inspection.plan_text(3e12, 40);
  for (const char* part : {"schedule", "iteration space", "[128, 32, 64516]", "linear", "row", "16 bytes per access",
                           "registers        40", "grid", "traffic", "µs at"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  EXPECT_NE(inspection.ptx(90).find(".target sm_90"), std::string::npos);
  EXPECT_EQ(inspection.cubin(90).substr(1, 3), "ELF");
  EXPECT_GT(inspection.registers(90), 8);
  EXPECT_LT(inspection.registers(90), 256);
}

TEST(Inspect, TheMachineIsDescribed) {
  const SystemReport report = system_report();
  EXPECT_EQ(report.version, version());
  EXPECT_GT(report.cpu_threads, 0);
  if (!report.driver) {
    EXPECT_FALSE(report.problems.empty()) << "no driver, and no word about it";
  }
}

TEST(Inspect, OperationsAreListed) {
  const auto list = list_operations();
  EXPECT_GE(list.size(), 60U);
  const auto listed = [&](std::string_view signature) {
    const auto op = std::find_if(list.begin(), list.end(), [&](const OpInfo& o) { return o.signature == signature; });
    return op == list.end() ? "(nothing)"
                            : fmt::format("{}, {}, {}, {}", op->group, op->cost, op->gives_truth, op->type);
  };
  EXPECT_EQ(listed("leaky_relu(input, negative_slope=0.01)"), "activations, 2, false, promoted, f32 for integers");
  EXPECT_EQ(listed("any(input, axis=none, keepdim=false)"), "reductions, 1, true, bool");
  EXPECT_EQ(listed("softmax(input, axis)"), "normalisation, 31, false, of the input, f32 for integers");
  EXPECT_EQ(listed("flatten(input, start_dim=0, end_dim=-1)"), "shape, 0, false, of the input");
}

TEST(Inspect, AChainIsData) {
  const Chain chain = chain_of(Epilogue::parse(
      "scalar alpha; g = unflatten(x, 1, (4, -1)); v = var(g, axis=(2, ...), correction=0, keepdim=true); "
      "return cast(v * alpha, f16), flatten(g, 1, 2) > 2"));
  std::string text;
  for (const ChainValue& value : chain.values) {
    text += fmt::format("{}({}){}{}{}{}{} ", value.op, fmt::join(value.arguments, " "), value.name,
                        value.axes.empty() ? "" : fmt::format("@{}", value.axes[0]), value.axes_rest ? "+" : "",
                        value.keepdim ? "k" : "", fmt::join(value.sizes, ":"));
  }
  EXPECT_EQ(text,
            "input()x unflatten(0)@14:-1 var(1)@2+k scalar()alpha mul(2 3) cast(4) flatten(1)1:2 constant() gt(6 7) ");
  EXPECT_EQ(chain.values[2].constant, 0);
  EXPECT_EQ(chain.values[5].dtype, DType::f16);
  EXPECT_EQ(chain.values[7].constant, 2);
  EXPECT_TRUE(chain.values[8].gives_truth);
  EXPECT_FALSE(chain.values[5].gives_truth);
  EXPECT_EQ(chain.results, (std::vector<int>{5, 8}));
}

// log(1 + exp(beta * x)) / beta as it stands, which is infinite for a beta of 0. By a literal, a scalar and a tensor.
TEST(Softplus, IsDefinedForEveryBeta) {
  Engine engine{Device::cpu()};
  const std::vector<float> x = {0.5F, -1, 3, 0, -1e-3F, -40};
  const float kInf = std::numeric_limits<float>::infinity();
  const auto count = static_cast<std::int64_t>(x.size());
  for (const float beta :
       {0.0F, -0.0F, 1e-30F, -1e-30F, 1e-12F, 0x1p-30F, 0x1p-31F, 1e3F, 0x1p60F, 0x1p61F, -1e30F, kInf}) {
    std::vector<float> literal(x.size());
    std::vector<float> scalar(x.size());
    std::vector<float> tensor(x.size());
    const TensorView input(x.data(), DType::f32, {count});
    const auto out = [&](std::vector<float>& values) { return OutputView(values.data(), DType::f32, {count}); };
    const auto text = beta == kInf ? "inf" : fmt::format("{:.9g}", beta);
    engine.launch(Epilogue::parse(fmt::format("softplus(x, {}, inf)", text)), nullptr, out(literal), {input});
    engine.launch(Epilogue::parse("scalar b; softplus(x, b, inf)"), nullptr, out(scalar), {input}, {beta});
    engine.launch(test::as_written("softplus(x, b, inf)"), nullptr, out(tensor), {input, {&beta, DType::f32, {}}});
    for (std::size_t i = 0; i < x.size(); ++i) {
      const long double y = static_cast<long double>(beta) * x[i];
      const long double log = y > 0 ? y + std::log1p(std::exp(-y)) : std::log1p(std::exp(y));
      // Of a positive x and an infinite beta Inf / Inf is left, of 0 NaN.
      if (std::isinf(beta) && x[i] >= 0) continue;
      const auto expected = static_cast<float>(log / beta);
      for (const float found : {literal[i], scalar[i], tensor[i]}) {
        if (std::isinf(expected)) {
          EXPECT_EQ(found, expected) << beta << " " << x[i];
        } else {
          EXPECT_NEAR(found, expected, 4e-7F * std::fabs(expected)) << beta << " " << x[i];
        }
      }
    }
  }
}

TEST(Inspection, TakesNoArchitectureThatCannotBe) {
  const Epilogue tail = Epilogue::parse("x + 1");
  const OutputView output(nullptr, DType::f16, {8});
  const TensorView input(nullptr, DType::f16, {8});
  const auto inspect = [&](const PlanTarget& target) {
    return Inspection(tail, std::span(&output, 1), std::span(&input, 1), target);
  };
  EXPECT_THROW(inspect({.architecture = -5}), Error);
  EXPECT_THROW(inspect({.architecture = 0}), Error);
  EXPECT_THROW(inspect({.architecture = 90, .multiprocessors = -1}), Error);
  EXPECT_THROW(inspect({.bandwidth = -1.0}), Error);
  EXPECT_THROW(inspect({.bandwidth = std::nan("")}), Error);
  const Inspection inspection = inspect({});
  EXPECT_THROW(inspection.ptx(-5), Error);
  EXPECT_THROW(inspection.cubin(100'000), Error);
  EXPECT_THROW(inspection.resources(-1), Error);
}

}  // namespace
}  // namespace epifuse
