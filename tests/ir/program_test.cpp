// The IR: both front ends agree, print and parse are inverse, simplification changes no bit.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include <epifuse/epifuse.hpp>

#include "ir/program.hpp"

namespace epifuse {
namespace {

const ir::Fingerprint& fingerprint(const Epilogue& tail) { return tail.program().fingerprint(); }

std::string simplified(std::string_view text) { return Epilogue::parse(text).str(); }

TEST(Program, BothFrontEndsBuildTheSame) {
  const Expr x = input("x");
  const Expr bias = input("bias");
  const Expr t = x + bias;
  EXPECT_EQ(fingerprint(Epilogue{sigmoid(t * 2) + gelu(t, "tanh")}),
            fingerprint(Epilogue::parse("t = x + bias; sigmoid(t * 2) + gelu(t, approximate='tanh')")));
  EXPECT_EQ(fingerprint(Epilogue{{where(x > 0 && !(bias == 1), x, scalar("s")), -x}}),
            fingerprint(Epilogue::parse("input x, bias; scalar s; return where(x > 0 and not bias == 1, x, s), -x")));
}

TEST(Program, EveryOperationHasACppFunctionOfItsName) {
  // Called by name here, so that a row without its function does not compile.
  const Expr x = input("x");
  const Expr y = input("y");
  const Epilogue tail{
      {pow(x, y),         fmod(x, y),      remainder(x, y),   abs(x),        sign(x),       square(x),
       sqrt(x),           rsqrt(x),        reciprocal(x),     minimum(x, y), maximum(x, y), clamp(x),
       floor(x),          ceil(x),         round(x),          trunc(x),      exp(x),        exp2(x),
       expm1(x),          log(x),          log1p(x),          log2(x),       sin(x),        cos(x),
       tanh(x),           erf(x),          logical_xor(x, y), isnan(x),      isinf(x),      where(x, x, y),
       relu(x),           relu6(x),        leaky_relu(x),     elu(x),        selu(x),       celu(x),
       gelu(x),           gelu(x, "tanh"), silu(x),           sigmoid(x),    logsigmoid(x), hardsigmoid(x),
       hardswish(x),      hardtanh(x),     mish(x),           softplus(x),   softsign(x),   tanhshrink(x),
       threshold(x, 1, y)}};
  EXPECT_EQ(Epilogue::parse(tail.str()).str(), tail.str());
}

TEST(Program, ConstantsFoldInF64) {
  EXPECT_EQ(simplified("x * (0.1 + 0.2)"), "x * 0.30000000000000004");
  EXPECT_EQ(simplified("x + 1 / 3"), "x + 0.3333333333333333");
  EXPECT_EQ(simplified("x * -(-2)"), "x * 2");
  EXPECT_EQ(simplified("x + cast(0.1, f16)"), "x + 0.0999755859375");
  EXPECT_EQ(simplified("x + cast(300.5, i8)"), "x + 127");
  EXPECT_EQ(simplified("where(1 < 2, x, 3)"), "x");
  EXPECT_EQ(simplified("x + sqrt(4) ** 3"), "x + 8");
}

TEST(Program, OnlyWhatChangesNoBitIsRemoved) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"x * 1", "x"},
      {"1 * x", "x"},
      {"x / 1", "x"},
      {"x - 0", "x"},
      {"x + (-0.0)", "x"},
      {"x ** 1", "x"},
      {"x ** 2", "square(x)"},
      {"x ** -1", "reciprocal(x)"},
      {"-(-x)", "x"},
      {"abs(-x)", "abs(x)"},
      {"relu(relu(x))", "relu(x)"},
      {"leaky_relu(relu(x), 0.01)", "relu(x)"},
      {"leaky_relu(square(x), 0)", "square(x)"},
      {"maximum(x, x)", "x"},
      {"where(1, x, 3)", "x"},
      // A constant is as true as it is in f64: in f32 this one would be 0, and false.
      {"where(1e-300, x, 3)", "x"},
      {"where(1e-300, x, y)", "where(1, x, y)"},
      {"logical_xor(x, -1e-300)", "logical_xor(x, 1)"},
      {"cast(cast(x, f16), f16)", "cast(x, f16)"},
      // These stay: each of them changes a result for some x.
      {"x * 0", "x * 0"},
      {"where(x > 0, y, y)", "where(x > 0, y, y)"},  // of the shape of both
      {"x + 0", "x + 0"},
      {"x - (-0.0)", "x - -0"},
      {"0 - x", "0 - x"},
      {"x - x", "x - x"},
      {"x / x", "x / x"},
      {"x * 2 / 2", "x * 2 / 2"},
      {"(x + 1) + 2", "x + 1 + 2"},
      {"where(x > 0, 2.5, 2.5)", "where(x > 0, 2.5, 2.5)"},
      {"not not x", "not not x"},
      {"floor((x > 0) * 1)", "floor((x > 0) * 1)"},
      {"x ** 0.5", "x ** 0.5"},
      {"leaky_relu(relu(x), -1)", "leaky_relu(relu(x), -1)"},    // of zeros
      {"leaky_relu(relu(x), inf)", "leaky_relu(relu(x), inf)"},  // NaN of zeros
      {"leaky_relu(sin(x), 0.01)", "leaky_relu(sin(x))"},
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(simplified(text), expected) << text;
}

TEST(Program, CommonSubexpressionsAreOneValueAndDeadOnesGo) {
  EXPECT_EQ(Epilogue::parse("(x + b) * sigmoid(b + x)").program().operation_count(), 3);
  EXPECT_EQ(Epilogue::parse("dead = exp(x); x + 1").program().operation_count(), 1);
  // x - b and b - x differ; minimum may choose either zero.
  EXPECT_EQ(Epilogue::parse("(x - b) * (b - x)").program().operation_count(), 3);
  EXPECT_EQ(Epilogue::parse("minimum(x, b) + minimum(b, x)").program().operation_count(), 3);
}

TEST(Program, NamesThatAreUsedKeepTheirPlaceEvenWhenTheirValueDoesNot) {
  EXPECT_EQ(Epilogue::parse("dead = exp(y); 2 * x").inputs(), (std::vector<std::string>{"y", "x"}));
  EXPECT_EQ(Epilogue::parse("dead = exp(y); 2 * x").str(), "input y, x; 2 * x");
}

TEST(Program, DeepGraphsNeedNoStack) {
  Expr deep = input("x");
  for (int i = 0; i < 1'000'000; ++i) deep = deep + 1;
  try {
    Epilogue tail(deep);
    FAIL() << "a million operations were taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
  }
}

// A random chain over all operations, built through the C++ front end's builder.
ir::Program random_program(std::mt19937& random) {
  ir::Builder builder;
  std::vector<ir::Value> values = {builder.input("x"), builder.input("bias"), builder.scalar("alpha")};
  const auto table = ir::op_table();
  const int count = 1 + static_cast<int>(random() % 30);
  for (int i = 0; i < count; ++i) {
    const ir::OpRow& op = table[random() % table.size()];
    std::array<ir::Value, ir::kMaxArity> args = {ir::kNone, ir::kNone, ir::kNone};
    for (std::size_t k = 0; k < op.parameters.size(); ++k) {
      const auto roll = random() % 8;
      if (roll == 0) {
        const double choices[] = {0.0, -0.0, 1, -1, 0.1, 1e300, -INFINITY, INFINITY, NAN, 3.5};
        args[k] = builder.constant(choices[random() % std::size(choices)]);
      } else {
        args[k] = values[random() % values.size()];
      }
      if (op.parameters[k].refuses_truth && ir::gives_truth(builder.node(args[k]))) args[k] = values[0];
    }
    values.push_back(random() % 12 == 0 ? builder.cast(values.back(), kAllDTypes[random() % kAllDTypes.size()])
                                        : builder.apply(op.op, args));
  }
  const char* names[] = {"", "y", "mask"};
  const int results = 1 + static_cast<int>(random() % 3);
  for (int i = 0; i < results; ++i)
    builder.result(names[random() % 3], values[values.size() - 1 - random() % std::min<std::size_t>(values.size(), 4)]);
  return std::move(builder).finish();
}

TEST(Program, PrintAndParseAreInverse) {
  for (unsigned seed = 0; seed < 5000; ++seed) {
    std::mt19937 random(seed);
    const ir::Program program = random_program(random);
    const std::string text = ir::print(program);
    try {
      const ir::Program again = ir::parse(text, {});
      ASSERT_EQ(again.fingerprint(), program.fingerprint()) << "seed " << seed << "\n"
                                                            << text << "\n"
                                                            << ir::print(again) << "\n"
                                                            << ir::print_ssa(program);
    } catch (const Error& error) {
      FAIL() << "seed " << seed << "\n" << text << "\n" << error.what();
    }
  }
}

TEST(Program, SsaAndDotListEveryValue) {
  const Epilogue tail = Epilogue::parse("scalar s; y = relu(x + s) * 2; return y");
  EXPECT_EQ(ir_text(tail),
            "%0   = input x\n%1   = scalar s\n%2   = add %0, %1\n%3   = relu %2\n%4   = constant 2\n%5   = mul %3, "
            "%4\nreturn %5 as y\n");
  const std::string dot = ir_dot(tail);
  EXPECT_NE(dot.find("v5 [label=\"mul\"]"), std::string::npos);
  EXPECT_NE(dot.find("v3 -> v5"), std::string::npos);
}

TEST(OpTable, RowsAreWellFormed) {
  for (const ir::OpRow& op : ir::op_table()) {
    EXPECT_FALSE(op.name.empty());
    EXPECT_GE(op.arity(), 1) << op.name;
    EXPECT_LE(op.arity(), ir::kMaxArity) << op.name;
    EXPECT_GE(op.cost, 1) << op.name;
    EXPECT_EQ(ir::find_op(op.name), &ir::row(op.op)) << op.name;
    for (const ir::Parameter& parameter : op.parameters) EXPECT_FALSE(parameter.name.empty()) << op.name;
  }
}

}  // namespace
}  // namespace epifuse
