// The public API as programs use it: operands by name and in a stated order, arrays of the program's own containers,
// views, the log.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <vector>

#include <epifuse/epifuse.hpp>

#include "support/refusal.hpp"

namespace epifuse {
namespace {

using test::refusal;

std::vector<float> downloaded(const Array& array) {
  std::vector<float> values(array.size_bytes() / sizeof(float));
  array.download(values);
  return values;
}

// ---- the order of operands

TEST(OrderOfOperands, IsWhatTheEpilogueStates) {
  Engine engine(Device::cpu());
  const Expr x = input("x"), bias = input("bias");
  const Array a = engine.array({3}, std::vector<float>{1, 2, 3});
  const Array b = engine.array({3}, std::vector<float>{10, 20, 30});
  const Array y = engine.empty(DType::f32, {3});
  // x - bias, however it is written: the order of first use differs, the stated order does not.
  for (const Expr& written : {x - bias, -bias + x}) {
    const Epilogue tail = Epilogue{written}.inputs({"x", "bias"});
    EXPECT_EQ(tail.inputs(), (std::vector<std::string>{"x", "bias"}));
    engine.launch(tail, nullptr, y, {a, b});
    EXPECT_EQ(downloaded(y), (std::vector<float>{-9, -18, -27})) << tail.str();
    // Text keeps the order, and so does what is made of the epilogue.
    EXPECT_EQ(Epilogue::parse(tail.str()).inputs(), tail.inputs()) << tail.str();
    EXPECT_EQ(tail.with(Math::precise).inputs(), tail.inputs());
  }
}

TEST(OrderOfOperands, NamesEachOperandOnce) {
  const Epilogue tail = Epilogue::parse("x + bias");
  EXPECT_EQ(refusal([&] {
              tail.inputs({"x", "bais"});
            }),
            "inputs: the chain has no operand 'bais' (did you mean 'bias'?); it has: x, bias");
  EXPECT_EQ(refusal([&] { tail.inputs({"x", "x"}); }), "inputs: the operand 'x' is named twice");
  EXPECT_EQ(refusal([&] { tail.inputs({"bias"}); }),
            "inputs: the operand 'x' of the chain is not named; name each once: x, bias");
}

TEST(OrderOfOperands, DoesNotChangeViewsAndRandomNumbers) {
  Engine engine(Device::cpu());
  const std::string text = "scalar s; t = a[::-1] * 2 + b; return t + rand_like(t, s, 0), sum(t)";
  const Epilogue first = Epilogue::parse(text).inputs({"a", "b"});
  const Epilogue other = first.inputs({"b", "a"});
  std::vector<float> a(12), b(12);
  std::iota(a.begin(), a.end(), 1.0F);
  std::iota(b.begin(), b.end(), 100.0F);
  const TensorView va(a.data(), DType::f32, {12}), vb(b.data(), DType::f32, {12});
  std::vector<float> y1(12), y2(12), s1(1), s2(1);
  engine.launch(first, nullptr, {{y1.data(), DType::f32, {12}}, {s1.data(), DType::f32, {}}}, {va, vb}, {7});
  engine.launch(other, nullptr, {{y2.data(), DType::f32, {12}}, {s2.data(), DType::f32, {}}}, {vb, va}, {7});
  EXPECT_EQ(y1, y2);
  EXPECT_EQ(s1, s2);
  EXPECT_EQ(s1[0], 2 * 78 + 12 * 100 + 66);
}

// ---- launches by name

TEST(NamedArguments, StandInAnyOrder) {
  Engine engine(Device::cpu());
  const Epilogue tail = Epilogue::parse("scalar alpha; return x * alpha + bias, x > bias");
  const std::vector<float> x = {1, 2, 3}, bias = {2, 2, 2};
  std::vector<float> y(3);
  std::array<bool, 3> mask{};
  const TensorView vx(x.data(), DType::f32, {3}), vb(bias.data(), DType::f32, {3});
  const OutputView vy(y.data(), DType::f32, {3}), vm(mask.data(), DType::boolean, {3});
  const int ten = 10;
  engine.launch(tail, nullptr, {vy, vm}, {{"bias", vb}, {"alpha", ten}, {"x", vx}});
  EXPECT_EQ(y, (std::vector<float>{12, 22, 32}));
  EXPECT_EQ(mask, (std::array{false, false, true}));
  // Scalars change no kernel: what launches nothing does without them, and takes them.
  EXPECT_EQ(engine.workspace_bytes(tail, {vy, vm}, {{"bias", vb}, {"x", vx}}), 0U);
  engine.prepare(tail, {vy, vm}, {{"x", vx}, {"bias", vb}});
  engine.prepare(tail, {vy, vm}, {{"x", vx}, {"bias", vb}, {"alpha", 2}});
  EXPECT_EQ(refusal([&] {
              engine.prepare(tail, {vy, vm}, {{"x", vx}});
            }),
            "the operand 'bias' of the chain is missing");
  EXPECT_EQ(refusal([&] {
              engine.workspace_bytes(tail, {vy, vm}, {{"x", vx}, {"weight", vb}});
            }),
            "the chain has no operand 'weight'; it has: x, bias");
}

TEST(NamedArguments, TakeAWorkspace) {
  Engine engine(Device::cpu());
  const std::vector<float> x = {1, 2, 3};
  const Array total = engine.empty(DType::f32, {});
  alignas(256) std::array<std::byte, 512> memory{};
  engine.launch(Epilogue::parse("sum(x)"), nullptr, total, {{"x", TensorView(x.data(), DType::f32, {3})}},
                Workspace{memory.data(), memory.size()});
  EXPECT_EQ(downloaded(total), std::vector<float>{6});
}

TEST(Outputs, AreAViewAListOrARange) {
  Engine engine(Device::cpu());
  const Epilogue tail = Epilogue::parse("x + 1");
  const Array x = engine.array({2}, std::vector<float>{1, 2});
  const Array y = engine.empty(DType::f32, {2});
  const OutputView view = y;
  const std::vector<OutputView> list = {view};
  const std::array<OutputView, 1> array = {view};
  const OutputView plain[] = {view};
  const auto computes = [&](const Outputs& outputs) {
    std::ranges::fill(std::span(static_cast<float*>(view.writable()), 2), 0.0F);
    engine.launch(tail, nullptr, outputs, {x});
    return downloaded(y) == std::vector<float>{2, 3};
  };
  EXPECT_TRUE(computes(y));
  EXPECT_TRUE(computes(view));
  EXPECT_TRUE(computes({y}));
  EXPECT_TRUE(computes(list));
  EXPECT_TRUE(computes(array));
  EXPECT_TRUE(computes(plain));
  EXPECT_TRUE(computes(std::span(list)));
}

// ---- arrays

TEST(Arrays, TakeTheTypeOfTheProgramsElements) {
  Engine engine(Device::cpu());
  const std::vector<std::int32_t> whole = {1, -2, 3, -4};
  const Array array = engine.array({2, 2}, whole);
  EXPECT_EQ(array.view().dtype, DType::i32);
  std::array<std::int32_t, 4> back{};
  array.download(back);
  EXPECT_TRUE(std::ranges::equal(back, whole));
  EXPECT_EQ(engine.array({2}, std::span<const double>(std::array<double, 2>{1, 2})).view().dtype, DType::f64);
  EXPECT_EQ(engine.array({1}, std::array<bool, 1>{true}).view().dtype, DType::boolean);
  EXPECT_EQ(engine.array({1}, std::vector<std::int64_t>{5}).view().dtype, DType::i64);
  EXPECT_EQ(engine.array({1}, std::vector<std::uint8_t>{5}).view().dtype, DType::u8);
}

TEST(Arrays, RefuseAnotherTypeOrCount) {
  Engine engine(Device::cpu());
  const std::vector<float> three = {1, 2, 3};
  EXPECT_EQ(refusal([&] {
              engine.array({2, 2}, three);
            }),
            "an array of shape [2, 2] has 4 elements of type f32; found 3 of type f32");
  Array array = engine.array({3}, three);
  std::vector<double> wide(3);
  EXPECT_EQ(refusal([&] { array.download(wide); }),
            "an array of shape [3] has 3 elements of type f32; found 3 of type f64");
  EXPECT_EQ(refusal([&] { array.upload(wide); }),
            "an array of shape [3] has 3 elements of type f32; found 3 of type f64");
  EXPECT_EQ(downloaded(array), three) << "something was written";
}

// ---- views

// The values of a view of f32, row-major.
std::vector<float> values_of(Engine& engine, const TensorView& view) {
  const Array dense = engine.empty(DType::f32, view.shape);
  engine.launch(Epilogue{input("x") * 1.0}, nullptr, dense, {view});
  return downloaded(dense);
}

class Views : public testing::Test {
 protected:
  Views() : x_(24) { std::iota(x_.begin(), x_.end(), 0.0F); }
  std::vector<float> x_;
  Engine engine_{Device::cpu()};
};

TEST_F(Views, SliceAsNumpyDoes) {
  const TensorView x(x_.data(), DType::f32, {6});
  struct Row {
    Slice range;
    std::vector<float> expected;  // NumPy's np.arange(6)[start:stop:step]
  };
  const std::vector<Row> rows = {
      {{}, {0, 1, 2, 3, 4, 5}},
      {{.start = 2}, {2, 3, 4, 5}},
      {{.stop = -1}, {0, 1, 2, 3, 4}},
      {{.start = -2}, {4, 5}},
      {{.start = 1, .stop = 6, .step = 2}, {1, 3, 5}},
      {{.start = 1, .stop = 100}, {1, 2, 3, 4, 5}},
      {{.start = -100, .stop = 2}, {0, 1}},
      {{.step = -1}, {5, 4, 3, 2, 1, 0}},
      {{.start = 4, .stop = 1, .step = -2}, {4, 2}},
      {{.start = 100, .step = -3}, {5, 2}},
      {{.stop = -100, .step = -2}, {5, 3, 1}},
      {{.start = 4, .stop = 2}, {}},
      {{.start = 9}, {}},
      {{.step = 7}, {0}},
      {{.start = 1, .step = INT64_MIN}, {1}},
      {{.start = 1, .step = INT64_MAX}, {1}},
  };
  for (const Row& row : rows) {
    const TensorView view = x.slice(0, row.range);
    EXPECT_EQ(values_of(engine_, view), row.expected) << &row - rows.data();
    EXPECT_EQ(x.slice(-1, row.range).shape, view.shape);
  }
  EXPECT_EQ(refusal([&] { x.slice(0, {.step = 0}); }),
            "slice: found a step of 0 along dimension 0; expected 1, 2, -1, …");
  EXPECT_EQ(refusal([&] { x.slice(1, {}); }),
            "slice: a view of shape [6] has no dimension 1; expected one from -1 to 0");
}

TEST_F(Views, PermuteAndComposeWithSlices) {
  const TensorView x(x_.data(), DType::f32, {2, 3, 4});
  const TensorView y = x.permute({2, 0, 1});
  EXPECT_EQ(y.shape, (Dims{4, 2, 3}));
  EXPECT_EQ(y.strides, (Dims{1, 12, 4}));
  EXPECT_EQ(x.permute({-1, 0, 1}).strides, y.strides);
  EXPECT_EQ(values_of(engine_, y.slice(0, {.start = 1, .stop = 2}).slice(2, {.step = -1})),
            (std::vector<float>{9, 5, 1, 21, 17, 13}));
  for (const Dims& wrong : {Dims{0, 1}, Dims{0, 1, 1}, Dims{0, 1, 3}}) EXPECT_THROW(x.permute(wrong), Error);
  EXPECT_EQ(refusal([&] {
              x.permute({0, 1, 1});
            }),
            "permute: found the order [0, 1, 1] for a view of shape [2, 3, 4]; expected each of its 3 dimensions once");
}

TEST_F(Views, OfResultsAreWritten) {
  std::vector<float> y(12, -1);
  const OutputView out(y.data(), DType::f32, {3, 4});
  const float values[] = {7, 8, 9};
  engine_.launch(Epilogue{input("x") * 1.0}, nullptr, out.permute({1, 0}).slice(0, {.start = 1, .stop = 2}),
                 {TensorView(values, DType::f32, {1, 3})});
  EXPECT_EQ(y, (std::vector<float>{-1, 7, -1, -1, -1, 8, -1, -1, -1, 9, -1, -1}));
}

TEST_F(Views, ChannelsLastAndLikeKeepTheOrderInMemory) {
  EXPECT_EQ(channels_last({2, 3, 4, 5}), (Dims{60, 1, 15, 3}));
  EXPECT_EQ(channels_last({2, 3, 4}), (Dims{12, 1, 3}));
  EXPECT_EQ(channels_last({2, 3}), row_major({2, 3}));
  const TensorView nhwc(x_.data(), DType::f32, {1, 2, 3, 4}, channels_last({1, 2, 3, 4}));
  const Array same = engine_.empty_like(nhwc);
  EXPECT_EQ(same.view().strides, nhwc.strides);
  // Gaps go, the order stays; negative strides count by their size.
  const TensorView padded(x_.data(), DType::f32, {2, 3}, {-1, 4});
  EXPECT_EQ(OutputView::like(padded, x_.data()).strides, (Dims{1, 2}));
  // What repeats elements has no order.
  const TensorView repeated(x_.data(), DType::f32, {2, 3}, {1, 0});
  EXPECT_EQ(OutputView::like(repeated, x_.data()).strides, (Dims{3, 1}));
  EXPECT_EQ(OutputView::like(repeated, x_.data()).data, x_.data());
}

// ---- operators

TEST(Operators, ThatAssignBuildTheSameChain) {
  Expr t = input("x");
  t += input("a");
  t -= 2;
  t *= input("b");
  t /= 3.0;
  EXPECT_EQ(Epilogue{t}.str(), Epilogue::parse("(x + a - 2) * b / 3.0").str());
}

// ---- the log, and why the CPU

class Log : public testing::Test {
 protected:
  ~Log() override { set_log(LogLevel::off); }
};

TEST_F(Log, GoesWhereTheApplicationWants) {
  std::vector<std::string> lines;
  set_log(LogLevel::info, [&](LogLevel level, std::string_view line) {
    if (level == LogLevel::info) lines.emplace_back(line);
  });
  std::string why = "left from before";
  const Device device = Device::automatic(&why);
  if (device.kind == Device::Kind::cuda) {
    EXPECT_EQ(why, "");
    GTEST_SKIP() << "this machine has a GPU";
  }
  EXPECT_NE(why, "");
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0], "the CPU device is chosen: " + why);
  // Nothing below the level, and nothing after the writer is gone.
  set_log(LogLevel::warn, [&](LogLevel, std::string_view line) { lines.emplace_back(line); });
  Device::automatic();
  set_log(LogLevel::off);
  Device::automatic();
  EXPECT_EQ(lines.size(), 1U);
}

TEST_F(Log, ThatFailsFailsNothing) {
  set_log(LogLevel::debug, [](LogLevel, std::string_view) { throw std::runtime_error("no disk"); });
  EXPECT_NO_THROW(Device::automatic());
}

}  // namespace
}  // namespace epifuse
