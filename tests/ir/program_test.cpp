// The IR: both front ends agree, print and parse are inverse, simplification changes no bit.
#include <gtest/gtest.h>

#include <algorithm>
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
  const Expr s = fma(x, y, x);
  const Epilogue tail{
      {pow(x, y),         fmod(x, y),      remainder(x, y),   abs(x),        sign(x),       square(x),
       sqrt(x),           rsqrt(x),        reciprocal(x),     minimum(x, y), maximum(x, y), clamp(x),
       floor(x),          ceil(x),         round(x),          trunc(x),      exp(x),        exp2(x),
       expm1(x),          log(x),          log1p(x),          log2(x),       sin(x),        cos(x),
       tanh(x),           erf(x),          logical_xor(x, y), isnan(x),      isinf(x),      where(x, x, y),
       relu(x),           relu6(x),        leaky_relu(x),     elu(x),        selu(x),       celu(x),
       gelu(x),           gelu(x, "tanh"), silu(x),           sigmoid(x),    logsigmoid(x), hardsigmoid(x),
       hardswish(x),      hardtanh(x),     mish(x),           softplus(x),   softsign(x),   tanhshrink(x),
       threshold(s, 1, y)}};
  EXPECT_EQ(Epilogue::parse(tail.str()).str(), tail.str());
}

TEST(Program, ConstantsFoldInF64) {
  EXPECT_EQ(simplified("x * (0.1 + 0.2)"), "x * 0.30000000000000004");
  EXPECT_EQ(simplified("x + 1 / 3"), "x + 0.3333333333333333");
  EXPECT_EQ(simplified("x * -(-2)"), "x * 2");
  EXPECT_EQ(simplified("x + cast(0.1, f16)"), "x + 0.0999755859375");
  EXPECT_EQ(simplified("x + cast(300.5, i8)"), "x + 127");
  EXPECT_EQ(simplified("where(1 < 2, exp(x), 3)"), "exp(x)");
  EXPECT_EQ(simplified("x + sqrt(4) ** 3"), "x + 8.0");
}

TEST(Program, OnlyWhatChangesNoBitAndNoTypeIsRemoved) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"exp(x) * 1", "exp(x)"},
      {"1 * exp(x)", "exp(x)"},
      {"exp(x) / 1", "exp(x)"},
      {"exp(x) - 0", "exp(x)"},
      {"exp(x) + (-0.0)", "exp(x)"},
      {"exp(x) ** 1", "exp(x)"},
      {"round(x * 2) * 1", "round(x * 2)"},
      {"x ** 2", "square(x)"},
      {"exp(x) ** 2.0", "square(exp(x))"},
      {"x ** -1", "reciprocal(x)"},
      {"-(-x)", "x"},
      {"abs(-x)", "abs(x)"},
      {"relu(relu(x))", "relu(x)"},
      {"leaky_relu(relu(x), 0.01)", "relu(x)"},
      {"leaky_relu(square(x), 0)", "square(x)"},
      {"maximum(x, x)", "x"},
      {"where(1, exp(x), 3)", "exp(x)"},
      // A constant is as true as it is in f64: in f32 this one would be 0, and false.
      {"where(1e-300, exp(x), 3)", "exp(x)"},
      {"where(1e-300, x, y)", "where(true, x, y)"},
      {"logical_xor(x, -1e-300)", "logical_xor(x, true)"},
      {"cast(cast(x, f16), f16)", "cast(x, f16)"},
      // These stay: each of them changes a result for some x.
      {"x * 0", "x * 0"},
      {"where(x > 0, y, y)", "where(x > 0, y, y)"},  // of the shape of both
      {"x + 0", "x + 0"},
      {"x - (-0.0)", "x - -0.0"},
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
      // And each of these the type of a result for some x: of integers or truth values.
      {"x * 1", "x * 1"},
      {"x * 1.0", "x * 1.0"},
      {"round(x) * 1.0", "round(x) * 1.0"},
      {"x / 1", "x / 1"},
      {"x - 0", "x - 0"},
      {"x ** 1", "x ** 1"},
      {"x ** 2.0", "square(x * 1.0)"},
      {"where(1, x, 0.5)", "where(true, x, 0.5)"},
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

// Names that the printer makes itself, that functions and parameters have, and of the largest length.
std::vector<std::string> names_in_random_order(std::mt19937& random) {
  std::vector<std::string> names = {"x",   "t0",   "t1",     "t2", "t3",    "t10",  "T0",  "_",    "bias", "sum",
                                    "abs", "axis", "input_", "e1", "where", "cast", "out", "out0", "none"};
  names.emplace_back(ir::kMaxNameLength, 'n');
  names.push_back("t" + std::string(ir::kMaxNameLength - 1, '0'));
  std::ranges::shuffle(names, random);
  return names;
}

ir::Axes random_axes(std::mt19937& random) {
  std::vector<std::int64_t> axes;
  for (std::int64_t axis = -3; axis < 3; ++axis) {
    if (random() % 4 == 0) axes.push_back(axis);
  }
  std::ranges::shuffle(axes, random);
  return ir::axes_of("random", axes, random() % 3 == 0);
}

double random_constant(std::mt19937& random) {
  const double choices[] = {0.0, -0.0, 1, -1, 0.1, 1e300, -INFINITY, INFINITY, NAN, 3.5, 5e-324};
  return choices[random() % std::size(choices)];
}

ir::Value random_operation(ir::Builder& builder, const std::vector<ir::Value>& values, std::mt19937& random) {
  const auto any = [&] { return values[random() % values.size()]; };
  const auto dim = [&] { return static_cast<int>(random() % 6) - 3; };
  switch (random() % 10) {
    case 0:
      return builder.cast(any(), kAllDTypes[random() % kAllDTypes.size()]);
    case 1:
    case 2: {
      const auto table = ir::reduction_table();
      const ir::Op op = table[random() % table.size()].op;
      return builder.reduce(op, any(), random_axes(random), random() % 2 == 0, random_constant(random));
    }
    case 3:
      return builder.unflatten(any(), dim(), {1 + static_cast<std::int64_t>(random() % 4), -1});
    case 4:
      return builder.flatten(any(), dim(), dim());
    case 5:
      return builder.along(any(), any(), dim());
    default:
      break;
  }
  const auto table = ir::op_table();
  const ir::OpRow& op = table[random() % table.size()];
  std::array<ir::Value, ir::kMaxArity> args = {ir::kNone, ir::kNone, ir::kNone};
  for (std::size_t k = 0; k < op.parameters.size(); ++k) {
    args[k] = random() % 8 == 0 ? builder.constant(random_constant(random)) : any();
    if (op.parameters[k].refuses_truth && ir::gives_truth(builder.node(args[k]))) args[k] = values[0];
  }
  return builder.apply(op.op, args);
}

// A random chain over all operations, built value by value: operands that nothing uses, results that are operands or
// constants, several names for one value, one name for several.
ir::Program random_program(std::mt19937& random) {
  ir::Builder builder;
  std::vector<std::string> names = names_in_random_order(random);
  std::vector<ir::Value> values;
  const auto declare = [&](bool scalar) {
    values.push_back(scalar ? builder.scalar(names.back()) : builder.input(names.back()));
    names.pop_back();
  };
  declare(false);
  for (std::size_t i = random() % 4; i > 0; --i) declare(random() % 2 == 0);
  for (std::size_t i = random() % 30; i > 0; --i) values.push_back(random_operation(builder, values, random));
  if (random() % 4 == 0) values.push_back(builder.constant(random_constant(random)));
  for (std::size_t i = 1 + random() % 5; i > 0; --i) {
    const std::size_t back = random() % 3 == 0 ? values.size() : std::min<std::size_t>(values.size(), 4);
    const std::string& name = names[random() % std::min<std::size_t>(names.size(), 8)];
    builder.result(random() % 2 == 0 ? "" : name, values[values.size() - 1 - random() % back]);
  }
  return std::move(builder).finish();
}

// The check itself is linked into this test, as into all others: tests/support/round_trip.cpp ends the process.
TEST(Program, PrintAndParseAreInverse) {
  ASSERT_NE(ir::on_finished_program, nullptr);
  for (unsigned seed = 0; seed < 3000; ++seed) {
    std::mt19937 random(seed);
    SCOPED_TRACE(seed);
    const ir::Program program = random_program(random);
    const std::string text = ir::print(program);
    ASSERT_EQ(ir::parse(text, {}).fingerprint(), program.fingerprint()) << text;
    ASSERT_EQ(ir::parse(text, {}).with(Math::fast).fingerprint(), program.with(Math::fast).fingerprint()) << text;
  }
}

TEST(Program, NoNameOfAResultMeansTwoThings) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"t0 = x; e = exp(y); return e*(e+1), t0", "input x, y; t1 = exp(y); t0 = x; return t1 * (t1 + 1), t0"},
      {"t0 = 3; e = exp(y); return e*(e+1), t0", "t1 = exp(y); t0 = 3; return t1 * (t1 + 1), t0"},
      {"t1 = exp(y); t0 = t1; return t0, t1, t0 * t1", "t0 = exp(y); t1 = t0; return t0, t1, t0 * t0"},
      {"e = exp(y); t0 = e; t1 = e; return t1, e * e, (e * e) + 1, t0",
       "t1 = exp(y); t2 = t1 * t1; t0 = t1; return t1, (t2), t2 + 1, t0"},
      {"input t0; e = exp(t0); return e*(e+1)", "t1 = exp(t0); t1 * (t1 + 1)"},
      {"scalar t0; e = exp(x); return e*(e+1), t0", "scalar t0; t1 = exp(x); return t1 * (t1 + 1), t0"},
      {"t1 = x; t0 = x; return t0, t1, x", "t0 = x; t1 = x; return t0, t1, x"},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_EQ(Epilogue::parse(text).str(), expected) << text;
  }
}

TEST(Program, AResultIsNotCalledAsAnOperand) {
  ir::Builder builder;
  const ir::Value x = builder.input("x");
  builder.result("x", builder.apply(ir::Op::exp, {x, ir::kNone, ir::kNone}));
  EXPECT_THROW(std::move(builder).finish(), Error);
  EXPECT_THROW(Epilogue::parse("x = exp(y); input x; x"), Error);
  EXPECT_THROW(Epilogue::parse("x = exp(y); scalar x; x"), Error);
}

// As much text as a Program can be: all names of the largest length, all values with names.
TEST(Program, TheLargestProgramsCanBeRead) {
  const auto name = [](char kind, std::size_t i) {
    std::string text = std::to_string(i);
    return kind + std::string(ir::kMaxNameLength - 1 - text.size(), '_') + text;
  };
  ir::Builder builder;
  for (std::size_t i = 0; i < ir::kMaxNodes; ++i) builder.scalar(name('s', i));
  for (std::size_t i = 0; i < ir::kMaxNodes; ++i) builder.input(name('i', i));
  ir::Value last = builder.input(name('i', ir::kMaxNodes - 1));
  const ir::Value a = builder.input(name('i', 0));
  const ir::Value b = builder.input(name('i', 1));
  for (std::size_t i = 3; i < ir::kMaxNodes; ++i) {
    last = builder.apply(ir::Op::where, {last, i % 2 == 0 ? a : last, i % 2 == 0 ? last : b});
    builder.result(name('r', i), last);
  }
  EXPECT_EQ(std::move(builder).finish().nodes().size(), ir::kMaxNodes);
}

// Of a Program with as many values as one may have, all constants negative: text writes these as the negation of
// another one.
TEST(Program, ConstantsThatAreFoldedDoNotCount) {
  ir::Builder builder;
  ir::Value last = builder.input("x");
  for (std::size_t i = 1; i + 1 < ir::kMaxNodes; i += 2) {
    last = builder.apply(ir::Op::add, {last, builder.constant(-static_cast<double>(i)), ir::kNone});
  }
  builder.result("", last);
  const ir::Program program = std::move(builder).finish();
  EXPECT_EQ(ir::parse(ir::print(program), {}).fingerprint(), program.fingerprint());
}

// 'true' equals the default of beta, 1, and is no number.
TEST(Text, HasTruthValuesThatEqualADefault) {
  const ir::Program program = ir::parse("softplus(true or x, true) * y", {});
  EXPECT_EQ(ir::print_ssa(ir::parse(ir::print(program), {})), ir::print_ssa(program)) << ir::print(program);
}

TEST(Program, SizesThatTextCannotHoldAreRefused) {
  const Expr x = input("x");
  EXPECT_NO_THROW(Epilogue{unflatten(x, 0, {ir::kMaxSize, -1})});
  EXPECT_THROW((Epilogue{unflatten(x, 0, {ir::kMaxSize + 1, -1})}), Error);
  EXPECT_THROW((Epilogue{group_norm(x, ir::kMaxSize + 1)}), Error);
  EXPECT_EQ(Epilogue{sum(x, Axes(std::vector<int>{}))}.str(), "sum(x)");
  EXPECT_EQ(Epilogue{var(x, {}, -NAN)}.str(), "var(x, correction=nan)");
}

TEST(Program, NodesKnowWhatWasCalled) {
  const auto written = [](const Epilogue& tail) {
    std::vector<std::string> names;
    for (const ir::Node& node : tail.program().nodes()) {
      if (node.arity() > 0) names.emplace_back(ir::written_name(node));
    }
    return names;
  };
  using Names = std::vector<std::string>;
  const Expr x = input("x");
  for (const Epilogue& tail : {Epilogue::parse("exp(normalize(x ** 2))"), Epilogue{exp(normalize(pow(x, 2)))}}) {
    EXPECT_EQ(written(tail), (Names{"pow", "normalize", "normalize", "normalize", "normalize", "normalize", "exp"}));
  }
  EXPECT_EQ(written(Epilogue::parse("gelu(x, approximate='tanh')")), Names{"gelu"});
  EXPECT_EQ(written(Epilogue{gelu(x, "tanh")}), Names{"gelu"});
  // Of what several calls give, the first counts; equal Programs they are all the same.
  const Epilogue first = Epilogue::parse("m = amax(x, -1, true); return m, softmax(x, -1)");
  EXPECT_EQ(written(first), (Names{"amax", "softmax", "softmax", "softmax", "softmax"}));
  EXPECT_EQ(fingerprint(Epilogue::parse("e = exp(x - amax(x, -1, true)); e / sum(e, -1, true)")),
            fingerprint(Epilogue::parse("softmax(x, -1)")));
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
