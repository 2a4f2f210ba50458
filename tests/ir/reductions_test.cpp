// Reductions, shape operations and composites in both front ends: a composite is what one writes by hand, text and C++
// agree, what is printed reads back, mistakes are explained.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include <epifuse/epifuse.hpp>

#include "base/text.hpp"
#include "ir/composites.hpp"
#include "ir/functions.hpp"
#include "ir/program.hpp"
#include "support/refusal.hpp"

// Nothing that epifuse adds may hide std from who writes this, not even a function of that name.
namespace user {
using namespace epifuse;
double twice(const std::vector<double>& values) { return 2 * std::abs(values[0]); }
Expr deviation(const Expr& x) { return epifuse::std(x, -1) + norm(x, 2, -1) + any(x, -1); }
}  // namespace user

namespace epifuse {
namespace {

const ir::Fingerprint& fingerprint(const Epilogue& tail) { return tail.program().fingerprint(); }

std::string message_of(const std::string& text) {
  return test::refusal([&] { Epilogue::parse(text); });
}

using Pairs = std::vector<std::pair<std::string, std::string>>;

void expect_equal(const Pairs& pairs) {
  for (const auto& [left, right] : pairs) {
    const Epilogue a = Epilogue::parse(left);
    const Epilogue b = Epilogue::parse(right);
    EXPECT_EQ(fingerprint(a), fingerprint(b)) << left << "\nis   " << a.str() << "\nnot  " << b.str();
  }
}

TEST(Composites, AreWhatOneWritesByHand) {
  const std::string group_norm =
      "g = unflatten(x, 1, (8, -1)); flatten((g - mean(g, axis=(2, ...), keepdim=true)) * "
      "rsqrt(var(g, axis=(2, ...), correction=0, keepdim=true) + 1e-5), 1, 2)";
  const std::string instance_norm =
      "(x - mean(x, axis=(2, ...), keepdim=true)) * rsqrt(var(x, axis=(2, ...), correction=0, keepdim=true) + 1e-5)";
  const std::string layer_norm =
      "(x - mean(x, axis=-1, keepdim=true)) * rsqrt(var(x, axis=-1, correction=0, keepdim=true) + 1e-5)";
  expect_equal({
      {"std(x)", "sqrt(var(x))"},
      {"std(x, (0, 2), correction=0, keepdim=true)", "sqrt(var(x, (0, 2), correction=0, keepdim=true))"},
      {"norm(x)", "sqrt(sum(square(x)))"},
      {"norm(x, 2, -1, true)", "sqrt(sum(x ** 2, -1, true))"},
      {"norm(x, 1, axis=1)", "sum(abs(x), axis=1)"},
      {"norm(x, inf, axis=1)", "amax(abs(x), axis=1)"},
      {"norm(x, -inf, axis=1)", "amin(abs(x), axis=1)"},
      {"norm(x, 0, axis=1)", "sum(x != 0, axis=1)"},
      {"norm(x, 3, axis=1)", "sum(abs(x) ** 3, axis=1) ** (1 / 3)"},
      {"norm(x, 0.5)", "square(sum(abs(x) ** 0.5))"},
      {"logsumexp(x, -1, true)",
       "m = amax(x, -1, true); z = where(isinf(m), 0, m); log(sum(exp(x - z), -1, keepdim=true)) + z"},
      {"logsumexp(x, axis=(1, 2))",
       "m = amax(x, (1, 2), true); n = amax(x, (1, 2)); "
       "log(sum(exp(x - where(isinf(m), 0, m)), (1, 2))) + where(isinf(n), 0, n)"},
      {"softmax(x, axis=1)", "e = exp(x - amax(x, axis=1, keepdim=true)); e / sum(e, axis=1, keepdim=true)"},
      {"softmax(where(mask, x * scale, -inf), axis=-1)",
       "t = where(mask, x * scale, -inf); e = exp(t - amax(t, axis=-1, keepdim=true)); "
       "e / sum(e, axis=-1, keepdim=true)"},
      {"log_softmax(x, -1)", "d = x - amax(x, axis=-1, keepdim=true); d - log(sum(exp(d), axis=-1, keepdim=true))"},
      {"layer_norm(x)", layer_norm},
      {"layer_norm(x, w, b)", layer_norm + " * w + b"},
      {"layer_norm(x, bias=b)", layer_norm + " + b"},
      {"layer_norm(x, none, b)", layer_norm + " + b"},
      {"layer_norm(x, w, axis=(-2, -1), eps=1)",
       "(x - mean(x, axis=(-2, -1), keepdim=true)) * rsqrt(var(x, (-2, -1), correction=0, keepdim=true) + 1) * w"},
      {"rms_norm(x)", "x * rsqrt(mean(square(x), axis=-1, keepdim=true) + 2 ** -23)"},
      {"rms_norm(x, w, 1e-6)", "x * rsqrt(mean(x ** 2, axis=-1, keepdim=true) + 1e-6) * w"},
      {"group_norm(x, 8)", group_norm},
      {"group_norm(x, 8, w, b)", group_norm + " * along(w, x, 1) + along(b, x, 1)"},
      {"group_norm(x, num_groups=8, bias=b)", group_norm + " + along(b, x, 1)"},
      {"instance_norm(x)", instance_norm},
      {"instance_norm(x, weight=w, bias=b)", instance_norm + " * along(w, x, 1) + along(b, x, 1)"},
      {"normalize(x)", "x / maximum(sqrt(sum(square(x), axis=1, keepdim=true)), 1e-12)"},
      {"normalize(x, 1, -1, 0.5)", "x / maximum(sum(abs(x), axis=-1, keepdim=true), 0.5)"},
  });
}

TEST(Composites, ShareWhatTheyHaveInCommon) {
  // The largest, the exponentials and their sum are one value each.
  EXPECT_EQ(Epilogue::parse("return softmax(x, -1), log(sum(exp(x - amax(x, -1, true)), -1, true))")
                .program()
                .operation_count(),
            6);
}

TEST(Calls, NamesAndDefaultsArePyTorchs) {
  expect_equal({
      {"sum(x, dim=1)", "sum(x, axis=1)"},
      {"sum(input=x, keepdim=true, axis=(1,))", "sum(x, 1, true)"},
      {"amax(x, (-1, -2))", "amax(x, axis=(-1, -2), keepdim=false)"},
      {"mean(x, none)", "mean(x)"},
      {"var(x, 1)", "var(x, 1, correction=1, keepdim=false)"},
      {"flatten(x)", "flatten(x, start_dim=0, end_dim=-1)"},
      {"unflatten(x, axis=1, sizes=(2, -1))", "unflatten(x, 1, (2, -1))"},
      {"along(vector=b, other=x, dim=1)", "along(b, x, 1)"},
      {"softmax(x, 2 - 3)", "softmax(x, -1)"},
      {"k = 1; sum(x, k)", "sum(x, 1)"},
      {"layer_norm(x, eps=1 / 8)", "layer_norm(x, eps=0.125)"},
      {"none = x; relu(none) + layer_norm(x, (none))", "relu(x) + layer_norm(x, x)"},
      {"sum(x, axis=(1, ...))", "sum(x,axis=(1,...))"},
  });
  // Names of functions are not reserved.
  EXPECT_EQ(Epilogue::parse("sum = sum(any, axis=0); sum + std").str(), "sum(any, axis=0) + std");
}

TEST(Calls, DifferentAttributesAreDifferentPrograms) {
  const std::vector<std::string> texts = {
      "sum(x)",
      "sum(x, 1)",
      "sum(x, -1)",
      "sum(x, (1, ...))",
      "sum(x, (1, 2))",
      "sum(x, (2, 1))",
      "sum(x, 1, true)",
      "mean(x)",
      "var(x)",
      "var(x, correction=0)",
      "flatten(x)",
      "flatten(x, 1)",
      "flatten(x, 0, 1)",
      "unflatten(x, 1, (2, 3))",
      "unflatten(x, 1, (3, 2))",
      "unflatten(x, 0, (2, 3))",
      "along(x, x, 0)",
      "along(x, x, 1)",
  };
  for (std::size_t i = 0; i < texts.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      EXPECT_NE(fingerprint(Epilogue::parse(texts[i])), fingerprint(Epilogue::parse(texts[k]))) << texts[i] << texts[k];
      const auto both = Epilogue::parse(fmt::format("return {}, {}", texts[i], texts[k]));
      EXPECT_EQ(both.program().operation_count(), 2) << both.str();
    }
  }
}

TEST(CppFrontEnd, BuildsWhatTheTextDoes) {
  const Expr x = input("x");
  const Expr w = input("w");
  const Expr b = input("b");
  const std::vector<std::pair<Expr, std::string>> cases = {
      {sum(x), "sum(x)"},
      {sum(x, -1, true), "sum(x, axis=-1, keepdim=true)"},
      {mean(x, {1, 2}), "mean(x, axis=(1, 2))"},
      {mean(x, Axes::all(), true), "mean(x, keepdim=true)"},
      {prod(x, Axes::from(2)), "prod(x, axis=(2, ...))"},
      {amax(abs(x)), "amax(abs(x))"},
      {amin(x, std::vector<int>{0}), "amin(x, axis=0)"},
      {var(x, -1, 0, true), "var(x, axis=-1, correction=0, keepdim=true)"},
      {std(x, {0, -1}), "std(x, axis=(0, -1))"},
      {any(x > 0, 1), "any(x > 0, axis=1)"},
      {all(x), "all(x)"},
      {logsumexp(x, 1), "logsumexp(x, 1)"},
      {norm(x), "norm(x)"},
      {norm(x, kInfinity, 1, true), "norm(x, inf, 1, true)"},
      {softmax(x, 1), "softmax(x, 1)"},
      {log_softmax(x * 2, {-2, -1}), "log_softmax(x * 2, (-2, -1))"},
      {layer_norm(x), "layer_norm(x)"},
      {layer_norm(x, w, b), "layer_norm(x, w, b)"},
      {layer_norm(x, std::nullopt, b, 0.1, {-2, -1}), "layer_norm(x, bias=b, eps=0.1, axis=(-2, -1))"},
      {rms_norm(x), "rms_norm(x)"},
      {rms_norm(x, w + 1, 1e-6), "rms_norm(x, w + 1, 1e-6)"},
      {group_norm(x, 8), "group_norm(x, 8)"},
      {group_norm(gelu(x), 8, w, b), "group_norm(gelu(x), 8, w, b)"},
      {instance_norm(x, w, b, 1e-3), "instance_norm(x, w, b, 1e-3)"},
      {normalize(x), "normalize(x)"},
      {normalize(x, 1, -1), "normalize(x, 1, -1)"},
      {unflatten(x, 1, {-1, 4}), "unflatten(x, 1, (-1, 4))"},
      {flatten(x), "flatten(x)"},
      {flatten(x, 1, 2), "flatten(x, 1, 2)"},
      {along(b, x, 1) + x, "along(b, x, 1) + x"},
      {user::deviation(x), "std(x, -1) + norm(x, 2, -1) + any(x, -1)"},
  };
  for (const auto& [expression, text] : cases)
    EXPECT_EQ(fingerprint(Epilogue{expression}), fingerprint(Epilogue::parse(text))) << text;
  EXPECT_EQ(user::twice({-2}), 4);
}

TEST(CppFrontEnd, RefusesWhatTheTextRefuses) {
  const Expr x = input("x");
  const auto said = [](const Expr& expression) -> std::string {
    try {
      const Epilogue tail(expression);
    } catch (const Error& error) {
      return error.what();
    }
    return "(accepted)";
  };
  EXPECT_EQ(said(sum(x, 8)), "axis 8 of 'sum' is out of range: values have at most 8 dimensions");
  EXPECT_EQ(said(softmax(x, -1000)), "axis -1000 of 'softmax' is out of range: values have at most 8 dimensions");
  EXPECT_EQ(said(mean(x, {1, 1})), "axis 1 of 'mean' is given twice");
  EXPECT_EQ(said(flatten(x, 0, 300)), "axis 300 of 'flatten' is out of range: values have at most 8 dimensions");
  EXPECT_EQ(said(group_norm(x, 0)), "'groups' of 'group_norm' is at least 1, found 0");
  EXPECT_NE(said(unflatten(x, 1, {-1, -1})).find("found (-1, -1)"), std::string::npos);
}

TEST(Printer, WritesReductionsAsPeopleDo) {
  for (const char* text : {
           "mean(x, axis=(2, ...), keepdim=true)",
           "var(x, axis=-1, correction=0, keepdim=true)",
           "var(x)",
           "sum(x)",
           "amax(x, keepdim=true)",
           "any(x > 0, axis=(0, -1))",
           "flatten(unflatten(x, 1, (8, -1)), 1, 2)",
           "x * along(weight, x, 1)",
           "input bias, x; along(x, bias, -1)",
           "(x - mean(x, axis=1, keepdim=true)) * rsqrt(var(x, axis=1, correction=0, keepdim=true) + 0.5)",
       })
    EXPECT_EQ(Epilogue::parse(text).str(), text);
  // An order of first mention that differs from that of the operands is declared.
  EXPECT_EQ(Epilogue::parse("input weight, x; x * along(weight, x, 1)").str(),
            "input weight, x; x * along(weight, x, 1)");
  EXPECT_EQ(Epilogue::parse("group_norm(x, 4, bias=b)").inputs(), (std::vector<std::string>{"x", "b"}));
}

TEST(Printer, ShowsAttributesInTheListAndTheGraph) {
  const Epilogue tail =
      Epilogue::parse("along(b, flatten(unflatten(x, 1, (2, -1)), 1, 2), 1) + var(x, 1, correction=0)");
  EXPECT_EQ(ir_text(tail),
            "%0   = input b\n%1   = input x\n%2   = unflatten %1, 1, (2, -1)\n%3   = flatten %2, 1, 2\n"
            "%4   = along %0, %3, 1\n%5   = var %1, axis=1, correction=0\n%6   = add %4, %5\nreturn %6 as out\n");
  EXPECT_NE(ir_dot(tail).find("v2 [label=\"unflatten 1, (2, -1)\"]"), std::string::npos) << ir_dot(tail);
  EXPECT_NE(ir_dot(tail).find("v5 [label=\"var axis=1, correction=0\"]"), std::string::npos);
}

ir::Axes random_axes(std::mt19937& random) {
  ir::Axes axes;
  const int count = static_cast<int>(random() % 4);
  std::vector<std::int8_t> all;
  for (int axis = -ir::kMaxDimensions; axis < ir::kMaxDimensions; ++axis) all.push_back(static_cast<std::int8_t>(axis));
  std::shuffle(all.begin(), all.end(), random);
  for (int i = 0; i < count; ++i) axes.at[axes.count++] = all[static_cast<std::size_t>(i)];
  axes.rest = count > 0 && random() % 4 == 0;
  return axes;
}

// One random value of those of this test: a reduction, a shape operation, a composite or something element-wise
// between.
ir::Value random_value(ir::Builder& b, std::mt19937& random, const std::vector<ir::Value>& values) {
  const auto any = [&] { return values[random() % values.size()]; };
  const auto axis = [&] { return static_cast<int>(random() % 16) - 8; };
  const auto axes = random_axes(random);
  const bool keepdim = random() % 2 == 0;
  const double corrections[] = {0, 1, -0.0, 0.5, -3, INFINITY, NAN, 1e300};
  switch (random() % 12) {
    case 0:
      return b.unflatten(any(), axis(), {static_cast<std::int64_t>(1 + random()), -1});
    case 1:
      return b.flatten(any(), axis(), axis());
    case 2:
      return b.along(any(), any(), axis());
    case 3:
      return ir::softmax(b, any(), axes);
    case 4:
      return ir::group_norm(b, any(), 1 + random() % 64, any(), random() % 2 == 0 ? ir::kNone : any(), 1e-5);
    case 5:
      return ir::logsumexp(b, any(), axes, keepdim);
    case 6:
      return ir::norm(b, any(), static_cast<double>(random() % 4), axes, keepdim);
    case 7:
    case 8: {
      const ir::Op ops[] = {ir::Op::add, ir::Op::mul, ir::Op::sub, ir::Op::maximum, ir::Op::lt};
      return b.apply(ops[random() % std::size(ops)], {any(), any(), ir::kNone});
    }
    default: {
      const auto& row = ir::reduction_table()[random() % ir::reduction_table().size()];
      return b.reduce(row.op, any(), axes, keepdim, corrections[random() % std::size(corrections)]);
    }
  }
}

TEST(Printer, PrintAndParseAreInverseWithReductions) {
  const char* names[] = {"", "y", "mask"};
  for (unsigned seed = 0; seed < 3000; ++seed) {
    std::mt19937 random(seed);
    ir::Builder builder;
    std::vector<ir::Value> values = {builder.input("x"), builder.input("sum"), builder.scalar("axis")};
    const int count = 1 + static_cast<int>(random() % 12);
    for (int i = 0; i < count; ++i) values.push_back(random_value(builder, random, values));
    for (unsigned i = 0; i <= random() % 3; ++i)
      builder.result(names[random() % 3], values[values.size() - 1 - random() % 2]);
    const ir::Program program = std::move(builder).finish();
    const std::string text = ir::print(program);
    try {
      const ir::Program again = ir::parse(text, {});
      ASSERT_EQ(again.fingerprint(), program.fingerprint()) << "seed " << seed << "\n"
                                                            << text << "\n"
                                                            << ir::print(again);
    } catch (const Error& error) {
      FAIL() << "seed " << seed << "\n" << text << "\n" << error.what();
    }
  }
}

TEST(Calls, ErrorsPointAtTheArgument) {
  EXPECT_EQ(message_of("sum(x, axis=(1, 1))"),
            "axis 1 of 'sum' is given twice (column 13)\n  sum(x, axis=(1, 1))\n              ^");
  EXPECT_EQ(message_of("softmax(x, axis=9)"),
            "axis 9 of 'softmax' is out of range: values have at most 8 dimensions (column 17)\n  softmax(x, axis=9)\n"
            "                  ^");
  EXPECT_EQ(message_of("layer_norm(x, eps=y)"),
            "'eps' of 'layer_norm' is a number that the text gives, found 'y' (column 19)\n  layer_norm(x, eps=y)\n"
            "                    ^");
}

TEST(Calls, MistakesAreExplained) {
  const Pairs cases = {
      {"sum(x, axes=1)", "'sum' has no argument 'axes': sum(input, axis=none, keepdim=false)"},
      {"sum(x, axis=1.5)", "'axis' of 'sum' is an integer, a list of them as (1, 2), or (2, ...)"},
      {"sum(x, axis=1.5)", "found 1.5"},
      {"sum(x, axis=y)", "found 'y'"},
      {"scalar k; sum(x, axis=k)", "found 'k'"},
      {"sum(x, axis=(1, y))", "found 'y'"},
      {"sum(x, axis=nan)", "found nan"},
      {"sum(x, axis=inf)", "found inf"},
      {"sum(x, axis=1e300)", "found 1e+300"},
      {"sum(x, axis=300)", "axis 300 of 'sum' is out of range"},
      {"sum(x, axis=-9)", "axis -9 of 'sum' is out of range"},
      {"sum(x, axis=(0, 1, 2, 3, 4, 5, 6, 7, -1))", "'sum' has more than 8 axes"},
      {"sum(x, axis=(1, 2)", "expected ',' or ')' in the call of 'sum', found the end"},
      {"sum(x, axis=(1 2))", "expected ')' to close the list of axes, found '2'"},
      {"sum(x, axis=())", "expected a value, found ')'"},
      {"sum(x, axis=(...))", "expected a value, found '...'"},
      {"sum(x, axis=...)", "expected a value, found '...'"},
      {"sum(x, axis=(2, ..., 3))", "expected ')' to close the list of axes, found ','"},
      {"sum(x, axis=[1, 2])", "write '(1, 2)' for a list"},
      {"sum(x, 1, axis=2)", "'axis' of 'sum' is given twice"},
      {"sum(x, dim=1, axis=2)", "'axis' of 'sum' is given twice"},
      {"sum(x, 1, true, 3)", "'sum' takes 3 arguments, found 4"},
      {"sum(axis=1)", "'sum' lacks its argument 'input'"},
      {"sum(x, keepdim=1)", "'keepdim' of 'sum' is true or false, found '1'"},
      {"sum(x, keepdim='true')", "'keepdim' of 'sum' is true or false"},
      {"var(x, 1, 0)", "'var' takes 2 positional arguments, found 3"},
      {"std(x, correction=x)", "'correction' of 'std' is a number that the text gives, found 'x'"},
      {"softmax(x)", "'softmax' lacks its argument 'axis': softmax(input, axis)"},
      {"softmax(x, none + 1)", "found 'none'"},
      {"norm(x, nan)", "'p' of 'norm' is a number, found nan"},
      {"norm(x, p=y)", "'p' of 'norm' is a number that the text gives, found 'y'"},
      {"group_norm(x)", "'group_norm' lacks its argument 'groups'"},
      {"group_norm(x, 0)", "'groups' of 'group_norm' is at least 1, found 0"},
      {"group_norm(x, -2)", "'groups' of 'group_norm' is at least 1, found -2"},
      {"group_norm(x, 2.5)", "'groups' of 'group_norm' is an integer that the text gives, found 2.5"},
      {"group_norm(x, w)", "'groups' of 'group_norm' is an integer that the text gives, found 'w'"},
      {"unflatten(x, 1, 2)", "'sizes' of 'unflatten' is two integers as (8, -1), found '2'"},
      {"unflatten(x, 1, (2, 3, 4))", "expected ')' to close the two sizes, found ','"},
      {"unflatten(x, 1, (-1, -1))", "one of which may be -1; found (-1, -1)"},
      {"unflatten(x, 1, (0, 2))", "found (0, 2)"},
      {"unflatten(x, 1, (2, y))", "found 'y'"},
      {"unflatten(x, 300, (2, -1))", "axis 300 of 'unflatten' is out of range"},
      {"flatten(x, -9)", "axis -9 of 'flatten' is out of range"},
      {"along(b, x)", "'along' lacks its argument 'dim'"},
      {"along(b, x, 2000000000000)", "axis 2000000000000 of 'along' is out of range"},
      {"logsumexpr(x, 1)", "unknown function 'logsumexpr'; did you mean 'logsumexp'?"},
      {"-any(x)", "'neg' takes numbers"},
      {"x + ...", "expected a value, found '...'"},
  };
  for (const auto& [text, expected] : cases) {
    const std::string said = message_of(text);
    EXPECT_NE(said.find(expected), std::string::npos) << "chain: " << text << "\nsaid: " << said;
  }
}

TEST(Calls, HostileTextIsRefusedWithoutHarm) {
  for (const std::string open :
       {"sum(", "layer_norm(x, eps=", "sum(x, axis=(", "unflatten(x, 1, (", "softmax(x, axis=-("}) {
    std::string text;
    while (text.size() < 500'000) text += open;
    EXPECT_NE(message_of(text).find("nested more than 1000 deep"), std::string::npos) << open;
  }
  std::string axes = "sum(x, axis=(0";
  while (axes.size() < 500'000) axes += ", 0";
  EXPECT_NE(message_of(axes + "))").find("axis 0 of 'sum' is given twice"), std::string::npos);
  std::string many = "relu(x";
  while (many.size() < 500'000) many += ", x";
  EXPECT_NE(message_of(many + ")").find("takes 1 argument, found"), std::string::npos);
  std::string nested = "x";
  for (int i = 0; i < 900; ++i) nested = "sum(" + nested + ", axis=-1, keepdim=true)";
  EXPECT_EQ(Epilogue::parse(nested).program().operation_count(), 900);
}

TEST(Simplify, KeepsTensorsThatAReductionCounts) {
  // sum(where(c, x, x)) has as many elements as c and x broadcast to.
  EXPECT_EQ(Epilogue::parse("sum(where(c > 0, x, x))").str(), "sum(where(c > 0, x, x))");
  EXPECT_EQ(Epilogue::parse("sum(where(true, x, y))").str(), "sum(where(true, x, y))");
  EXPECT_EQ(Epilogue::parse("scalar c; sum(where(c, x, x))").str(), "scalar c; sum(x)");
  // A truth value that is only indexed in another way is still one.
  EXPECT_EQ(Epilogue::parse("flatten(x > 0) * 1").str(), "flatten(x > 0, 0, -1) * 1");
}

TEST(Functions, RowsAreWellFormed) {
  for (const ir::Function& function : ir::function_table()) {
    EXPECT_NE(ir::find_function(function.name), nullptr);
    EXPECT_FALSE(function.parameters.empty()) << function.name;
    for (const auto& parameter : function.parameters) {
      EXPECT_FALSE(parameter.name.empty()) << function.name;
      EXPECT_LE(parameter.type, ir::ArgumentType::kept_list) << function.name;
    }
  }
  EXPECT_EQ(ir::find_function("softmax")->cost(), 31);  // amax 2, sub 1, exp 17, sum 1, div 10
  EXPECT_EQ(ir::find_function("clamp")->cost(), 4);
  EXPECT_EQ(ir::find_function("flatten")->cost(), 0);
  EXPECT_TRUE(ir::find_function("any")->gives_truth());
  EXPECT_FALSE(ir::find_function("sum")->gives_truth());
}

}  // namespace
}  // namespace epifuse
