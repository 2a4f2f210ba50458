// Which formulas a chain's results allow, and what is claimed of their error.
#include "plan/analysis/accuracy.hpp"
#include "support/as_written.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include <epifuse/epilogue.hpp>

namespace epifuse::plan {
namespace {

struct Chosen {
  std::map<std::string, std::string> formulas;  ///< by operation; "" is its own
  std::vector<Error> errors;
};

// x and r are as large as the result, w is f32.
Chosen choose(const std::string& chain, DType in, const std::vector<DType>& results, Math math = Math::standard,
              Dims shape = {64, 512}) {
  const Epilogue tail = test::as_written(chain).with(math);
  std::vector<TensorView> inputs;
  for (const std::string& name : tail.inputs())
    inputs.emplace_back(nullptr, name == "w" ? DType::f32 : in, name == "w" ? Dims{shape[shape.size() - 1]} : shape);
  std::vector<OutputView> outputs;
  const std::vector<Dims> shapes = tail.result_shapes(inputs);
  for (std::size_t i = 0; i < results.size(); ++i) outputs.emplace_back(nullptr, results[i], shapes[i]);
  const Plan plan = make_plan(tail.program(), outputs, inputs, Views::abstract);
  const Arithmetic arithmetic = choose_arithmetic(tail.program(), plan.kernel_class);
  Chosen chosen{{}, arithmetic.errors};
  for (std::size_t i = 0; i < arithmetic.formulas.size(); ++i) {
    const ir::Op op = tail.program().nodes()[i].op;
    if (!ir::is_elementwise(op)) continue;
    const Formula* formula = arithmetic.formulas[i];
    chosen.formulas[std::string(ir::name_of(op))] = formula == nullptr ? "" : std::string(formula->name);
  }
  return chosen;
}

std::string formula_of(const std::string& op, const std::string& chain, DType in, DType out,
                       Math math = Math::standard) {
  return choose(chain, in, {out}, math).formulas.at(op);
}

TEST(Accuracy, ResultsInF32TakeNoCheaperFormulas) {
  for (const std::string op : {"gelu", "mish", "tanh", "exp", "sqrt", "reciprocal", "softplus"})
    EXPECT_EQ(formula_of(op, op + "(x)", DType::f16, DType::f32), "") << op;
  EXPECT_EQ(formula_of("div", "x / r", DType::f32, DType::f32), "");
}

TEST(Accuracy, PreciseTakesNone) {
  EXPECT_EQ(formula_of("gelu", "gelu(x)", DType::f16, DType::f16, Math::precise), "");
  EXPECT_EQ(formula_of("tanh", "tanh(x)", DType::bf16, DType::f8e4m3, Math::precise), "");
}

// `cast(…, bf16)` as the last operation is the rounding of the store, and hides what that hides.
TEST(Accuracy, ACastToTheTypeOfTheResultIsItsStore) {
  EXPECT_EQ(formula_of("gelu", "cast(gelu(x), bf16)", DType::f32, DType::bf16), "gelu_wide");
  EXPECT_EQ(formula_of("gelu", "cast(gelu(x), bf16)", DType::f32, DType::f32), "") << "here the cast is an operation";
  EXPECT_EQ(choose("y = cast(gelu(x), bf16); y, y * 3", DType::f32, {DType::bf16, DType::bf16}).formulas.at("gelu"), "")
      << "and here another result reads what it gives";
}

TEST(Accuracy, AnIntervalOfArgumentsMayHaveAFormulaOfItsOwn) {
  EXPECT_EQ(formula_of("gelu", "gelu(relu(x))", DType::f32, DType::f32), "gelu_positive");
  EXPECT_EQ(formula_of("gelu", "gelu(tanh(x))", DType::f32, DType::f32), "gelu_unit");
  EXPECT_EQ(formula_of("gelu", "gelu(clamp(x, -0.5, 1))", DType::f32, DType::f32), "gelu_unit");
  EXPECT_EQ(formula_of("gelu", "gelu(sigmoid(x))", DType::f32, DType::f32), "gelu_unit") << "the cheaper of two";
  EXPECT_EQ(formula_of("gelu", "gelu(fma(tanh(x), 0.25, 0.5))", DType::f32, DType::f32), "gelu_unit");
  EXPECT_EQ(formula_of("gelu", "gelu(fma(tanh(x), 0.25, 0.9))", DType::f32, DType::f32), "gelu_positive");
  EXPECT_EQ(formula_of("gelu", "gelu(clamp(x, -2, 2))", DType::f32, DType::f32), "");
  EXPECT_EQ(formula_of("gelu", "gelu(minimum(x, 0))", DType::f32, DType::f32), "");
  EXPECT_EQ(formula_of("gelu", "gelu(clamp(x, 0.5, -2))", DType::f32, DType::f32), "") << "that is -2";
  EXPECT_EQ(formula_of("gelu", "gelu(clamp(sigmoid(x), 5, 10))", DType::f32, DType::f32), "gelu_positive")
      << "that is 5";
  EXPECT_EQ(formula_of("gelu", "gelu(softplus(x, 1, 20))", DType::f32, DType::f32), "gelu_positive");
  EXPECT_EQ(formula_of("gelu", "gelu(softplus(x, -1, 20))", DType::f32, DType::f32), "") << "negative beta: below 0";
  EXPECT_EQ(formula_of("gelu", "gelu(softplus(x, 1, -3))", DType::f32, DType::f32), "")
      << "x itself above the threshold";
  EXPECT_EQ(formula_of("gelu", "gelu(relu(x))", DType::f32, DType::f32, Math::precise), "");
  EXPECT_EQ(formula_of("gelu", "gelu(relu(x))", DType::f16, DType::f16), "gelu") << "cheaper still, where it may err";
}

TEST(Accuracy, FastAllowsFourUlpOfF32) {
  EXPECT_EQ(formula_of("div", "x / r", DType::f32, DType::f32, Math::fast), "div");
  EXPECT_EQ(formula_of("sqrt", "sqrt(x)", DType::f32, DType::f32, Math::fast), "sqrt");
  EXPECT_EQ(formula_of("gelu", "gelu(x)", DType::f32, DType::f32, Math::fast), "");
}

TEST(Accuracy, TheFewerBitsTheCheaper) {
  EXPECT_EQ(formula_of("tanh", "tanh(x)", DType::f32, DType::f16), "tanh");
  EXPECT_EQ(formula_of("tanh", "tanh(x)", DType::f32, DType::bf16), "tanh_approx");
  EXPECT_EQ(formula_of("tanh", "tanh(x)", DType::f32, DType::f16, Math::fast), "tanh_approx");
  EXPECT_EQ(formula_of("gelu", "gelu(x)", DType::f32, DType::f16), "gelu");
}

// f16 ends at 2^-24, bf16 at 2^-133: a formula that is right beside 2^-36 will do for the one only.
TEST(Accuracy, SmallResultsOfBf16StayRight) {
  EXPECT_EQ(formula_of("gelu", "gelu(x)", DType::bf16, DType::bf16), "gelu_wide");
  EXPECT_EQ(formula_of("gelu", "layer_norm(gelu(x))", DType::bf16, DType::bf16), "gelu_fine");  // twice the error
}

TEST(Accuracy, WhatAmplifiesAnErrorIsSeen) {
  EXPECT_EQ(formula_of("tanh", "exp(tanh(x))", DType::f16, DType::f16), "tanh");
  EXPECT_EQ(formula_of("tanh", "exp(tanh(x) * 1000)", DType::f16, DType::f16), "");
  EXPECT_EQ(formula_of("tanh", "softmax(x * tanh(x), -1)", DType::f16, DType::f16), "");
  EXPECT_EQ(formula_of("tanh", "softmax(tanh(x), -1)", DType::f16, DType::f16), "tanh");
  EXPECT_EQ(formula_of("tanh", "prod(tanh(x), -1)", DType::f16, DType::f16), "");
}

// What "gelu" errs by below 2^-36 does not show in an f16, unless something makes it as large as it likes.
TEST(Accuracy, AFormulaThatIsRightDownToAFloorStandsBehindNoDivision) {
  EXPECT_EQ(formula_of("gelu", "gelu(x) / r", DType::f16, DType::f16), "gelu_fine");
  EXPECT_EQ(formula_of("gelu", "gelu(x) * reciprocal(r)", DType::f16, DType::f16), "gelu_fine");
  EXPECT_EQ(formula_of("gelu", "gelu(x) * w", DType::f16, DType::f16), "gelu_fine");
  EXPECT_EQ(formula_of("gelu", "gelu(x) * r", DType::f16, DType::f16), "gelu");
  EXPECT_EQ(formula_of("gelu", "gelu(x) / (abs(r) + 1)", DType::f16, DType::f16), "gelu");
  EXPECT_EQ(formula_of("gelu", "sum(gelu(x), -1)", DType::f16, DType::f16), "gelu");
}

TEST(Accuracy, NothingIsCheapBeforeAJump) {
  for (const std::string chain : {"floor(tanh(x) * 8)", "where(tanh(x) > 0.5, x, r)", "sign(tanh(x))",
                                  "cast(tanh(x), i8) * r", "fmod(tanh(x), 0.25)"})
    EXPECT_EQ(formula_of("tanh", chain, DType::f16, DType::f16), "") << chain;
  // Rounded to f16 on the way, it may round to the neighbour, and the result is an f16 too.
  EXPECT_EQ(formula_of("tanh", "cast(tanh(x), f16) * r", DType::f16, DType::f16), "");
}

TEST(Accuracy, AResultInF32KeepsWhatItDependsOnExact) {
  const Chosen chosen = choose("t = tanh(x); return t * sigmoid(r), t", DType::f16, {DType::f16, DType::f32});
  EXPECT_EQ(chosen.formulas.at("tanh"), "");
  EXPECT_EQ(chosen.formulas.at("sigmoid"), "sigmoid");
}

TEST(Accuracy, IntegersOfEightBitsMayBeHalfOff) {
  EXPECT_EQ(formula_of("tanh", "tanh(x) * 100", DType::f16, DType::i8), "tanh_approx");
  EXPECT_EQ(formula_of("tanh", "tanh(x) * 100", DType::f16, DType::i32), "");
  EXPECT_EQ(formula_of("tanh", "tanh(x) * 100000", DType::f16, DType::i8), "");
  EXPECT_EQ(formula_of("tanh", "tanh(x)", DType::f16, DType::boolean), "");
}

TEST(Accuracy, NormsAndSoftmaxPassItOn) {
  EXPECT_EQ(formula_of("gelu", "layer_norm(gelu(x)) * r + r", DType::f16, DType::f16), "gelu");
  EXPECT_EQ(formula_of("silu", "rms_norm(silu(x) * r, w)", DType::f16, DType::f16), "silu");
  EXPECT_EQ(formula_of("sigmoid", "sigmoid(softmax(x, -1))", DType::f16, DType::f16), "sigmoid");
  EXPECT_EQ(formula_of("exp", "sigmoid(softmax(x, -1))", DType::f16, DType::f16), "exp");
  EXPECT_EQ(formula_of("mish", "logsumexp(mish(x), -1)", DType::f16, DType::f16), "mish");
}

// Whatever is chosen, no result is off by more than a quarter of its type's spacing, or by 3.5 of them in `fast`.
TEST(Accuracy, ErrorsStayWithinTheAllowance) {
  for (const std::string chain :
       {"mish(mish(x))", "tanh(tanh(tanh(tanh(tanh(x)))))", "hardtanh(gelu(tanh(silu(x + r))), -1, 1)",
        "silu(x) * sigmoid(r) / (1 + exp(-x))", "elu(selu(celu(x)))", "exp(exp(tanh(x)))", "softmax(gelu(x), -1)"}) {
    for (const DType out : {DType::f16, DType::bf16, DType::f8e4m3, DType::f8e5m2, DType::f32}) {
      for (const Math math : {Math::precise, Math::standard, Math::fast}) {
        const Error error = choose(chain, DType::f16, {out}, math).errors[0];
        const double segment = math == Math::precise ? 0 : math == Math::standard ? (out == DType::f32 ? 0 : 0.25) : 4;
        EXPECT_LE(error.relative, segment * spacing_of(out).relative) << chain << " " << to_string(out);
        EXPECT_LE(error.absolute, segment * spacing_of(out).absolute) << chain << " " << to_string(out);
      }
    }
  }
}

// The search must end, and soon: chains of thousands of operations are legal.
TEST(Accuracy, LongChainsAreChosenForInTime) {
  std::string chain = "x";
  for (int i = 0; i < 400; ++i) chain = "tanh(" + chain + ")";
  EXPECT_EQ(formula_of("tanh", chain, DType::f16, DType::f16), "");
}

TEST(Accuracy, MathIsInTheFingerprint) {
  const Epilogue tail = Epilogue::parse("gelu(x)");
  EXPECT_EQ(tail.math(), Math::standard);
  EXPECT_EQ(tail.with(Math::fast).math(), Math::fast);
  EXPECT_NE(tail.with(Math::fast).program().fingerprint(), tail.program().fingerprint());
  EXPECT_EQ(tail.with(Math::fast).with(Math::standard).program().fingerprint(), tail.program().fingerprint());
}

}  // namespace
}  // namespace epifuse::plan
