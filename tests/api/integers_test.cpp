// Integer results on the CPU device: exact to 2^53, saturating, and of the types that result_types() gives.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <vector>

#include <epifuse/epifuse.hpp>

#include "support/as_written.hpp"

namespace epifuse {
namespace {

constexpr std::int64_t kExact = std::int64_t{1} << 53;

template <class T>
constexpr DType kType = DType::i64;
template <>
constexpr DType kType<std::int8_t> = DType::i8;
template <>
constexpr DType kType<std::uint8_t> = DType::u8;
template <>
constexpr DType kType<std::int32_t> = DType::i32;
template <>
constexpr DType kType<float> = DType::f32;

// The chain's only result, of the default type, which must be that of Out.
template <class Out, class In>
std::vector<Out> run(std::string_view chain, const std::vector<In>& values, DType dtype = kType<In>) {
  Engine engine{Device::cpu()};
  const Epilogue tail = test::as_written(chain);
  const std::vector<TensorView> x = {{values.data(), dtype, {static_cast<std::int64_t>(values.size())}}};
  EXPECT_EQ(tail.result_types(x)[0], kType<Out>) << chain;
  const Dims shape = tail.result_shapes(x)[0];
  std::vector<Out> out(shape.empty() ? 1 : values.size());
  const OutputView y(out.data(), kType<Out>, shape);
  engine.launch(tail, nullptr, std::span(&y, 1), x);
  return out;
}

TEST(Integers, AreExactUpTo2To53) {
  const std::vector<std::int64_t> x = {kExact - 1, -kExact + 1, (1 << 24) + 1, 0};
  EXPECT_EQ(run<std::int64_t>("x + 1", x), (std::vector<std::int64_t>{kExact, -kExact + 2, (1 << 24) + 2, 1}));
  EXPECT_EQ(run<std::int64_t>("-x", x), (std::vector<std::int64_t>{-kExact + 1, kExact - 1, -(1 << 24) - 1, 0}));
  const std::vector<std::int64_t> roots = {94906265, -94906265, 3, 1};  // the largest square below 2^53
  EXPECT_EQ(run<std::int64_t>("x ** 2", roots), (std::vector<std::int64_t>{9007199136250225, 9007199136250225, 9, 1}));
}

TEST(Integers, SaturateWherePyTorchsWrapAround) {
  constexpr std::int32_t kMost = std::numeric_limits<std::int32_t>::max();
  const std::vector<std::int32_t> x = {kMost, kMost - 1, -kMost, 5};
  EXPECT_EQ(run<std::int32_t>("x + 1", x), (std::vector<std::int32_t>{kMost, kMost, -kMost + 1, 6}));
  EXPECT_EQ(run<std::int8_t>("x * 2", std::vector<std::int8_t>{100, -100, 3}),
            (std::vector<std::int8_t>{127, -128, 6}));
  EXPECT_EQ(run<std::uint8_t>("x - 4", std::vector<std::uint8_t>{3, 255}), (std::vector<std::uint8_t>{0, 251}));
}

// f32 would lose the last bit of each: what sums and products come to decides what they are computed in.
TEST(Integers, OfSmallTypesAreSummedExactly) {
  std::vector<std::int8_t> x(200'001, 127);
  EXPECT_EQ(run<std::int64_t>("sum(x)", x)[0], 200'001 * 127);
  std::vector<std::uint8_t> ones((1 << 24) + 3, 1);
  EXPECT_EQ(run<std::int64_t>("sum(x)", ones, DType::boolean)[0], (1 << 24) + 3);
  EXPECT_EQ(run<std::int64_t>("sum(x == 1)", ones)[0], (1 << 24) + 3);
  EXPECT_EQ(run<std::int64_t>("prod(x)", std::vector<std::int8_t>{127, 127, 127, 127, 3})[0], 780433923);
  EXPECT_EQ(run<std::int64_t>("sum(x * x * x)", std::vector<std::int8_t>(9, 127))[0], 9 * 2048383);
  EXPECT_EQ(run<std::int64_t>("where(x, 16777217, 0)", std::vector<std::uint8_t>{1, 0}, DType::boolean),
            (std::vector<std::int64_t>{16777217, 0}));
}

// Two operands of one shape, and the chain's only result.
template <class Out, class In>
std::vector<Out> run(std::string_view chain, const std::vector<In>& n, const std::vector<In>& m, DType result) {
  Engine engine{Device::cpu()};
  const Dims shape = {static_cast<std::int64_t>(n.size())};
  const std::vector<TensorView> operands = {{n.data(), kType<In>, shape}, {m.data(), kType<In>, shape}};
  std::vector<Out> out(n.size());
  const OutputView y(out.data(), result, shape);
  engine.launch(test::as_written(chain), nullptr, std::span(&y, 1), operands);
  return out;
}

// f32 holds only every second integer from 2^24 on, and every 128th at 2^31.
TEST(Integers, ThatDecideAreExactWhateverTheResultIs) {
  const std::vector<std::int32_t> n = {16777216, 16777217, 16777219, 2147483647, -2147483648, 5};
  const std::vector<std::int32_t> m = {16777217, 16777216, 16777217, 2147483646, -2147483647, 5};
  using Bytes = std::vector<std::uint8_t>;
  const auto truth = [&](std::string_view chain) { return run<std::uint8_t>(chain, n, m, DType::boolean); };
  EXPECT_EQ(truth("n == m"), (Bytes{0, 0, 0, 0, 0, 1}));
  EXPECT_EQ(truth("n < m"), (Bytes{1, 0, 0, 0, 1, 0}));
  EXPECT_EQ(truth("n == 16777217 or m == 16777216"), (Bytes{0, 1, 0, 0, 0, 0}));
  EXPECT_EQ(truth("n - m == 1"), (Bytes{0, 1, 0, 1, 0, 0}));
  EXPECT_EQ(truth("remainder(n, 2) == remainder(m, 2)"), (Bytes{0, 0, 1, 0, 0, 1}));
  EXPECT_EQ(truth("cast(n - m, bool)"), (Bytes{1, 1, 1, 1, 1, 0}));
  EXPECT_EQ(run<std::int8_t>("cast(n - m, i8)", n, m, DType::i8), (std::vector<std::int8_t>{-1, 1, 2, 1, -1, 0}));
  EXPECT_EQ(run<std::int16_t>("n - m", n, m, DType::i16), (std::vector<std::int16_t>{-1, 1, 2, 1, -1, 0}));
  EXPECT_EQ(run<std::uint8_t>("cast(remainder(n, 7) + 0 * m, u8)", n, m, DType::u8), (Bytes{1, 2, 4, 1, 5, 5}));
  EXPECT_EQ(run<float>("where(n == m, 2.0, 0.0)", n, m, DType::f32), (std::vector<float>{0, 0, 0, 0, 0, 2}));
  EXPECT_EQ(run<float>("cast(remainder(n - m, 3), f32)", n, m, DType::f32), (std::vector<float>{2, 1, 2, 1, 2, 0}));
}

TEST(Integers, CountedBeyondF32DecideExactly) {
  std::vector<std::int8_t> x((1 << 24) + 1, 1);
  EXPECT_EQ(run<std::int8_t>("cast(sum(x > 0) == 16777217, i8)", x)[0], 1);
  EXPECT_EQ(run<std::int8_t>("cast(sum(x > 0) == 16777216, i8)", x)[0], 0);
  EXPECT_EQ(run<std::int8_t>("cast(remainder(sum(x), 2), i8)", x)[0], 1);
}

// As PyTorch does: 45736 ** 2 is 2091781696, which f32 rounds to 2091781632.
TEST(Integers, AreRoundedBeforeTheyMeetAFloat) {
  const std::vector<std::int32_t> n = {45736};
  EXPECT_EQ(run<float>("remainder(square(n), 2.25) + 0 * m", n, n, DType::f32), (std::vector<float>{0.75F}));
  EXPECT_EQ(run<float>("fmod(cast(n, f32), 16777217) + 0 * m", n, n, DType::f32), (std::vector<float>{45736}));
}

TEST(Integers, AreComputedInF64OnlyWhereF32WouldNotDo) {
  const auto computes_in = [](std::string_view chain, DType operand, DType result, const Dims& shape, const Dims& of) {
    const TensorView x(nullptr, operand, shape);
    const OutputView y(nullptr, result, of);
    return Inspection(Epilogue::parse(chain), std::span(&y, 1), std::span(&x, 1)).plan().compute_type;
  };
  EXPECT_EQ(computes_in("sum(x, -1)", DType::i8, DType::i64, {8, 131072}, {8}), "f32");
  EXPECT_EQ(computes_in("sum(x, -1)", DType::i8, DType::i64, {8, 131073}, {8}), "f64");
  EXPECT_EQ(computes_in("sum(x > 0, -1)", DType::f16, DType::i64, {8, 4096}, {8}), "f32");
  EXPECT_EQ(computes_in("x * x * x", DType::i8, DType::i32, {8}, {8}), "f32");
  EXPECT_EQ(computes_in("x * x * x * x", DType::i8, DType::i32, {8}, {8}), "f64");
  EXPECT_EQ(computes_in("clamp(x, 0)", DType::u8, DType::i32, {8}, {8}), "f32");
  EXPECT_EQ(computes_in("cast(x, i32)", DType::f32, DType::i32, {8}, {8}), "f32");
  EXPECT_EQ(computes_in("cast(x, i32) + 1", DType::f32, DType::i32, {8}, {8}), "f64");
  EXPECT_EQ(computes_in("x * 0.5", DType::i32, DType::i8, {8}, {8}), "f32");
  EXPECT_EQ(computes_in("x + 1", DType::i32, DType::i32, {8}, {8}), "f64");
  // What only becomes a float, saturates or is compared with a small number is rounded as it is read.
  EXPECT_EQ(computes_in("x - 3", DType::i32, DType::f32, {8}, {8}), "f32");
  EXPECT_EQ(computes_in("cast(clamp(x, -128, 127), i8)", DType::i32, DType::i8, {8}, {8}), "f32");
  EXPECT_EQ(computes_in("cast(sign(x), i8)", DType::i32, DType::i8, {8}, {8}), "f32");
  EXPECT_EQ(computes_in("x == 16777215", DType::i64, DType::boolean, {8}, {8}), "f32");
  EXPECT_EQ(computes_in("where(x == -100, 0.0, 1.0)", DType::i64, DType::f16, {8}, {8}), "f32");
  EXPECT_EQ(computes_in("x == 16777216", DType::i64, DType::boolean, {8}, {8}), "f64");
  EXPECT_EQ(computes_in("x * x == 9", DType::i16, DType::boolean, {8}, {8}), "f64");
  EXPECT_EQ(computes_in("x * x == 9", DType::i8, DType::boolean, {8}, {8}), "f32");
  EXPECT_EQ(computes_in("cast(x, i32) == cast(x * 2, i32)", DType::f32, DType::boolean, {8}, {8}), "f32");
  EXPECT_EQ(computes_in("cast(x, i32) == 16777217", DType::f32, DType::boolean, {8}, {8}), "f64");
  EXPECT_EQ(computes_in("tril(x)", DType::f16, DType::f16, {8, 8}, {8, 8}), "f32");
}

TEST(Integers, DividedOrScaledAreFloats) {
  EXPECT_EQ(run<float>("x / 2", std::vector<std::int32_t>{1, 3}), (std::vector<float>{0.5F, 1.5F}));
  EXPECT_EQ(run<float>("x * 1.0", std::vector<std::int32_t>{1, 3}), (std::vector<float>{1, 3}));
  EXPECT_EQ(run<float>("mean(x)", std::vector<std::int8_t>{1, 2})[0], 1.5F);
}

}  // namespace
}  // namespace epifuse
