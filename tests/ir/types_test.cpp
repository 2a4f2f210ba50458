// The types that results have by default: PyTorch's. Expected types are written down here, from what PyTorch 2.15
// gives; python/tests/test_result_types.py asks PyTorch itself.
#include <gtest/gtest.h>

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>
#include <epifuse/epifuse.hpp>

#include "ir/program.hpp"
#include "ir/result_types.hpp"
#include "support/as_written.hpp"

namespace epifuse {
namespace {

// "f16[2] i32[]" describes the operands: a type, and in brackets the number of dimensions where that is not 1.
std::string types(const Epilogue& tail, std::string_view operands) {
  std::vector<TensorView> views;
  while (!operands.empty()) {
    const std::string_view one = operands.substr(0, operands.find(' '));
    operands.remove_prefix(std::min(one.size() + 1, operands.size()));
    const bool has_dimensions = !one.ends_with("[]");
    const std::string_view name = has_dimensions ? one : one.substr(0, one.size() - 2);
    views.emplace_back(nullptr, parse_dtype(name).value(), has_dimensions ? Dims{2} : Dims{});
  }
  std::vector<std::string> names;
  for (const DType type : tail.result_types(views)) names.emplace_back(to_string(type));
  return fmt::format("{}", fmt::join(names, " "));
}
std::string types(std::string_view chain, std::string_view operands) {
  return types(test::as_written(chain), operands);
}

TEST(ResultTypes, AreThePromotionOfTheOperands) {
  EXPECT_EQ(types("x + y", "f16 f32"), "f32");
  EXPECT_EQ(types("x + y", "f16 bf16"), "f32");
  EXPECT_EQ(types("x + y", "f64 f32"), "f64");
  EXPECT_EQ(types("x + y", "i32 i32"), "i32");
  EXPECT_EQ(types("x + y", "i8 i32"), "i32");
  EXPECT_EQ(types("x + y", "i8 u8"), "i16");
  EXPECT_EQ(types("x + y", "u8 i16"), "i16");
  EXPECT_EQ(types("x * 2", "u32"), "u32");
  EXPECT_EQ(types("x / y", "i16 u16"), "f32");
  EXPECT_EQ(types("x + y", "i64 i32"), "i64");
  EXPECT_EQ(types("x + y", "bool u8"), "u8");
  EXPECT_EQ(types("x + y", "i64 f16"), "f16");
  EXPECT_EQ(types("x / y", "i32 i32"), "f32");
  EXPECT_EQ(types("x > y", "i32 f16"), "bool");
  EXPECT_EQ(types("where(x, y, z)", "f32 f16 f16"), "f16");  // the condition has no part in it
}

TEST(ResultTypes, OfNumbersAndElementsOnlyTheCategoryCounts) {
  EXPECT_EQ(types("x * 2", "i8"), "i8");
  EXPECT_EQ(types("x * 2.0", "i8"), "f32");
  EXPECT_EQ(types("x * 1e3", "i32"), "f32");
  EXPECT_EQ(types("x * 2.5", "f16"), "f16");
  EXPECT_EQ(types("x + true", "u8"), "u8");
  EXPECT_EQ(types("x + 1", "bool"), "i64");
  EXPECT_EQ(types("x + y", "f16 f64[]"), "f16");
  EXPECT_EQ(types("x + y", "i32 f16[]"), "f16");
  EXPECT_EQ(types("x + y", "i8 i64[]"), "i8");
  EXPECT_EQ(types("x + y", "f16[] f32[]"), "f32");
  EXPECT_EQ(types("scalar s; x * s", "f16"), "f16");
  EXPECT_EQ(types("scalar s; x * s", "i32"), "f32");  // a run-time scalar is a float
  EXPECT_EQ(types("x - amax(y)", "f16 f32"), "f16");  // amax(y) has no dimensions
  EXPECT_EQ(types("x - amax(y, 0, true)", "f16 f32"), "f32");
}

TEST(ResultTypes, ACastDecides) {
  EXPECT_EQ(types("cast(x + 1, f32)", "f16"), "f32");
  EXPECT_EQ(types("s = amax(x); return cast(x / s, f8e4m3), s", "f16"), "f8e4m3 f16");
  EXPECT_EQ(types("cast(x, i8) + 1", "f32"), "i8");
  EXPECT_EQ(types("cast(x, bool)", "f32"), "bool");
  EXPECT_EQ(types("return cast(x, float16), cast(x, half), cast(x, int), cast(x, uint16)", "f32"), "f16 f16 i32 u16");
  EXPECT_EQ(types("half + long + cast(int, e8m0)", "f8e8m0 f8e8m0 f32"), "f8e8m0");  // no words of the language
}

TEST(ResultTypes, OfReductions) {
  EXPECT_EQ(types("return sum(x), prod(x), amax(x), any(x)", "i8"), "i64 i64 i8 bool");
  EXPECT_EQ(types("return sum(x), amin(x), all(x)", "bool"), "i64 bool bool");
  EXPECT_EQ(types("return sum(x), mean(x), var(x), softmax(x, 0)", "f16"), "f16 f16 f16 f16");
  EXPECT_EQ(types("return mean(x), var(x), softmax(x, 0)", "i32"), "f32 f32 f32");  // PyTorch refuses these
}

TEST(ResultTypes, WherePyTorchRefuses) {
  EXPECT_EQ(types("x + y", "u16 i8"), "i32");
  EXPECT_EQ(types("x + y", "u16 u32"), "u32");
  EXPECT_EQ(types("x + y", "u4 i4"), "i8");
  EXPECT_EQ(types("x + y", "u4 u8"), "u8");
  EXPECT_EQ(types("x + y", "i4 u8"), "i16");
  EXPECT_EQ(types("x + y", "u16 u4"), "u16");
  EXPECT_EQ(types("x * 2", "i4"), "i4");
  EXPECT_EQ(types("x * y", "i4 f16"), "f16");
  EXPECT_EQ(types("x + y", "f4e2m1 f8e4m3"), "f16");
  EXPECT_EQ(types("x + y", "u16 i32"), "i32");
  EXPECT_EQ(types("x + y", "i16 u32"), "i64");
  EXPECT_EQ(types("x + y", "i64 u32"), "i64");
  EXPECT_EQ(types("x + y", "f8e8m0 f8e4m3"), "bf16");
  EXPECT_EQ(types("x + y", "f8e8m0 bf16"), "bf16");
  EXPECT_EQ(types("x + y", "f16 f8e8m0"), "f32");
  EXPECT_EQ(types("x + y", "f8e4m3 f8e5m2"), "f16");
  EXPECT_EQ(types("x + y", "f8e4m3 bf16"), "bf16");
  EXPECT_EQ(types("x + y", "f8e5m2 i32"), "f8e5m2");
  EXPECT_EQ(types("gelu(x)", "i32"), "f32");
  EXPECT_EQ(types("return x - y, abs(x), relu(x), x ** y", "bool bool"), "i64 i64 i64 bool");
  EXPECT_EQ(types("return any(x), all(x)", "u8"), "bool bool");  // PyTorch keeps u8 here, for history's sake
  EXPECT_EQ(types("x ** -2", "i32"), "f32");                     // as Python's integers
}

TEST(ResultTypes, BothFrontEndsAgree) {
  const Expr x = input("x");
  EXPECT_EQ(types(Epilogue{x * 2}, "i8"), "i8");
  EXPECT_EQ(types(Epilogue{x * 2.0}, "i8"), "f32");
  EXPECT_EQ(types(Epilogue{x + true}, "bool"), "bool");
  EXPECT_EQ(types(Epilogue{clamp(x, 0)}, "i8"), "i8");  // no upper bound, rather than one of infinity
  EXPECT_EQ(types("clamp(x, min=0)", "i8"), "i8");
  EXPECT_EQ(types("clamp(x, 0, 2.5)", "i8"), "f32");
}

// The chain computes the same with and without: only the type tells.
TEST(ResultTypes, OutliveSimplification) {
  EXPECT_EQ(types("x * 1", "bool"), "i64");
  EXPECT_EQ(types("x * 1.0", "i32"), "f32");
  EXPECT_EQ(types("x / 1", "i32"), "f32");
  EXPECT_EQ(types("x - 0.0", "i32"), "f32");
  EXPECT_EQ(types("x ** 2", "i32"), "i32");
  EXPECT_EQ(types("x ** 2.0", "i32"), "f32");
  EXPECT_EQ(types("where(true, x, 0.5)", "i32"), "f32");
  EXPECT_EQ(types("x + 3 / 2", "i32"), "f32");
  EXPECT_EQ(types("x + 3 * 2", "i32"), "i32");
  EXPECT_EQ(types("x + (2 > 1)", "bool"), "bool");
  EXPECT_EQ(types("x + 2 ** 63 * 2", "i32"), "f32");  // i64 does not hold it
}

TEST(ResultTypes, AreThoseOfThePrintedChain) {
  for (const std::string text : {"x * 2.0", "x * 2", "x + 1000000", "x + 1e6", "x + true", "clamp(x, 0)", "elu(x, 1)",
                                 "x ** 2.0", "x ** -2", "x * 9223372036854775808", "-x * -1.0"}) {
    const Epilogue tail = Epilogue::parse(text);
    for (const std::string operand : {"i8", "i32", "f16"})
      EXPECT_EQ(types(tail.str(), operand), types(tail, operand)) << text << ", printed " << tail.str();
  }
}

TEST(ResultTypes, PromotionIsCommutativeAndHoldsBoth) {
  for (const DType a : kAllDTypes) {
    EXPECT_EQ(ir::promoted(a, a), a);
    for (const DType b : kAllDTypes) {
      const DType both = ir::promoted(a, b);
      EXPECT_EQ(both, ir::promoted(b, a));
      EXPECT_EQ(ir::category_of(both), std::max(ir::category_of(a), ir::category_of(b)));
      if (ir::category_of(a) == ir::category_of(b)) {
        EXPECT_GE(size_of(both), std::max(size_of(a), size_of(b)));
      }
    }
  }
}

}  // namespace
}  // namespace epifuse
