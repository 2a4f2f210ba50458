// The text language: what it accepts, what it means, and what it says of mistakes.
#include <gtest/gtest.h>

#include <epifuse/epifuse.hpp>

#include "ir/program.hpp"
#include "support/refusal.hpp"

namespace epifuse {
namespace {

std::string parsed(std::string_view text) { return Epilogue::parse(text).str(); }

std::string message_of(const std::string& text) {
  return test::refusal([&] { Epilogue::parse(text); });
}

TEST(Parser, PrecedenceIsPythons) {
  EXPECT_EQ(parsed("a + b * c"), parsed("a + (b * c)"));
  EXPECT_NE(parsed("a + b * c"), parsed("(a + b) * c"));
  EXPECT_EQ(parsed("-a ** b"), parsed("-(a ** b)"));
  EXPECT_EQ(parsed("a ** b ** c"), parsed("a ** (b ** c)"));
  EXPECT_EQ(parsed("a - b - c"), parsed("(a - b) - c"));
  EXPECT_EQ(parsed("a / b * c"), parsed("(a / b) * c"));
  EXPECT_EQ(parsed("not a == b"), parsed("not (a == b)"));
  EXPECT_EQ(parsed("a or b and c"), parsed("a or (b and c)"));
  EXPECT_EQ(parsed("2 ** -a"), parsed("2 ** (-a)"));
  EXPECT_EQ(parsed("+a"), "a");
}

// A truth value has no sign that its text could not say.
TEST(Parser, NegatedFalseIsFalse) {
  EXPECT_EQ(Epilogue::parse("x / -false").program().fingerprint(),
            Epilogue::parse("x / false").program().fingerprint());
  EXPECT_EQ(parsed("x - -true"), "x - -1");
}

TEST(Parser, KeywordsAndDefaultsArePyTorchs) {
  EXPECT_EQ(parsed("clamp(x, min=0, max=1)"), parsed("clamp(x, 0, 1)"));
  EXPECT_EQ(parsed("clamp(x, max=1)"), parsed("clamp(x, -inf, 1)"));
  EXPECT_EQ(parsed("leaky_relu(x)"), parsed("leaky_relu(x, negative_slope=0.01)"));
  EXPECT_EQ(parsed("gelu(x, approximate='none')"), parsed("gelu(x)"));
  EXPECT_EQ(parsed("gelu(x, approximate=\"tanh\")"), "gelu(x, approximate=\"tanh\")");
  EXPECT_EQ(parsed("gelu(input=x, approximate=\"tanh\")"), "gelu(x, approximate=\"tanh\")");
  EXPECT_EQ(parsed("cast(x, f16)"), parsed("cast(x, dtype=\"f16\")"));
  EXPECT_EQ(parsed("cast(x, f16)"), parsed("cast(dtype=f16, input=x)"));
  EXPECT_EQ(parsed("gelu(approximate=\"tanh\", input=x)"), parsed("gelu(x, approximate=\"tanh\")"));
}

TEST(Parser, TiesOfExtremesArePartOfTheText) {
  EXPECT_EQ(parsed("amax(x, axis=1, ties=\"share\")"), "amax(x, axis=1)");
  EXPECT_EQ(parsed("amin(x, 1, true, ties='first')"), "amin(x, axis=1, keepdim=true, ties=\"first\")");
  EXPECT_EQ(parsed("adaptive_max_pool1d(x, 2)"), "amax(unflatten(x, -1, (2, -1)), axis=-1, ties=\"pool\")");
  EXPECT_EQ(Epilogue(amin(input("x"), 1, false, Ties::first)).str(), parsed("amin(x, 1, ties='first')"));
  EXPECT_EQ(message_of("amax(x, ties=\"last\")").substr(0, 60),
            "'ties' of 'amax' is \"share\", \"first\" or \"pool\", found 'last'");
}

TEST(Parser, StatementsCommentsAndResults) {
  const auto tail = Epilogue::parse("# swish\nt = x + bias;\n y = t * sigmoid(t); return y, t > 0, t");
  EXPECT_EQ(tail.inputs(), (std::vector<std::string>{"x", "bias"}));
  EXPECT_EQ(tail.results(), (std::vector<std::string>{"y", "out1", "t"}));
  EXPECT_EQ(Epilogue::parse("t = x; t = t + 1; t").str(), "t = x + 1; t");
}

TEST(Parser, OrderOfOperandsIsThatOfFirstUse) {
  EXPECT_EQ(Epilogue::parse("b * a + b").inputs(), (std::vector<std::string>{"b", "a"}));
  EXPECT_EQ(Epilogue::parse("input a, b; b * a").inputs(), (std::vector<std::string>{"a", "b"}));
}

TEST(Parser, ScalarsAreDeclaredByTextOrByTheCaller) {
  const std::vector<std::string> names = {"alpha"};
  EXPECT_EQ(Epilogue::parse("alpha * x", names).str(), Epilogue::parse("scalar alpha; alpha * x").str());
  EXPECT_EQ(Epilogue::parse("alpha * x", names).scalars(), names);
  EXPECT_EQ(Epilogue::parse("alpha * x").scalars().size(), 0U);
}

TEST(Parser, ErrorsPointAtTheColumn) {
  EXPECT_EQ(message_of("sigmod(x)"), "unknown function 'sigmod'; did you mean 'sigmoid'? (column 1)\n  sigmod(x)\n  ^");
  EXPECT_EQ(message_of("relu(x) + sofplus(x)"),
            "unknown function 'sofplus'; did you mean 'softplus'? (column 11)\n  relu(x) + sofplus(x)\n            ^");
  EXPECT_EQ(message_of("t = x;\nt $ 2"),
            "this character is not part of the language (line 2, column 3)\n  t $ 2\n    ^");
}

TEST(Parser, MistakesAreExplained) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "the chain has no result"},
      {";;", "the chain has no result"},
      {"t = x", "the chain has no result"},
      {"x +", "expected a value, found the end"},
      {"x y", "expected ';'"},
      {"(x", "to close the parenthesis"},
      {"relu(x", "expected ',' or ')' in the call of 'relu', found the end"},
      {"relu()", "lacks its argument 'input': relu(input)"},
      {"relu(x, y)", "takes 1 argument, found 2"},
      {"clamp(x, 0, 1, 2)", "takes 3 arguments, found 4"},
      {"clamp(x, mn=0)", "has no argument 'mn'"},
      {"clamp(x, 0, min=1)", "'min' of 'clamp' is given twice"},
      {"clamp(min=0, x)", "positional argument cannot follow"},
      {"gelu(x, approximate=\"erf\")", "is \"none\" or \"tanh\", found 'erf'"},
      {"gelu(x, approximate=tanh)", "'approximate' of 'gelu' is a text in quotes, found 'tanh'"},
      {"cast(x, f17)", "'dtype' of 'cast' is a type (f64, "},
      {"cast(x, f17)", "found 'f17'"},
      {"cast(x)", "'cast' lacks its argument 'dtype': cast(input, dtype)"},
      {"input x; x = y + 1; x", "'x' already names an operand"},
      {"gelu(x, approximat=\"tanh\")", "'gelu' has no argument 'approximat': gelu(input, approximate=\"none\")"},
      {"gelu(x,)", "'approximate' of 'gelu' is a text in quotes, found ')'"},
      {"relu(x,)", "expected a value, found ')'"},
      {"a < b < c", "comparisons do not chain"},
      {"a == b != c", "comparisons do not chain"},
      {"2x", "an operator is missing"},
      {"1e999 * x", "does not fit an f64"},
      {"x & y", "write 'and' for '&'"},
      {"x | y", "write 'or' for '|'"},
      {"!x", "write 'not' for '!'"},
      {"x ^ 2", "write '**' for a power"},
      {"x % 2", "write 'remainder(a, b)'"},
      {"x * not y", "put 'not …' in parentheses"},
      {"x = x + 1; x", "'x' already names an operand"},
      {"y = x; x = y; x", "'x' already names an operand"},
      {"x = y; input x; x", "'x' already names a value"},
      {"x = y; scalar x; x", "'x' already names a value"},
      {"scalar a; input a; a", "used both as a tensor and as a scalar"},
      {"relu = x; relu", "(accepted)"},
      {"f32 + 1", "'f32' is a word of the language"},
      {"return", "expected a value"},
      {"return x; y", "nothing may follow 'return'"},
      {"-(x > 0)", "'neg' takes numbers"},
      {"floor(x == y)", "'floor' takes numbers"},
      {"'text'", "expected a value"},
      {"gelu(x, 'tanh", "no closing quote"},
      {std::string("x + \0y", 6), "not part of the language"},
      {"x + \xc3\xa9", "not part of the language"},
      {std::string(65, 'n'), "at most 64 are allowed"},
  };
  for (const auto& [text, expected] : cases) {
    EXPECT_NE(message_of(text).find(expected), std::string::npos)
        << "chain: " << text << "\nsaid: " << message_of(text);
  }
}

// What PyTorch has under a name that is nearly one of ours: a suggestion by spelling would compute something else.
TEST(Parser, FunctionsOfOthersAreExplained) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"max(x, 0)", "'maximum(a, b)' or 'clamp(x, min=b)'"},
      {"max(x + (y * 2), exp(y))", "'maximum(a, b)'"},
      {"max(x)", "write 'amax(x, axis=-1)'"},
      {"max((x + y))", "write 'amax(x, axis=-1)'"},
      {"max(x, axis=1)", "write 'amax(x, axis=-1)'"},
      {"max(x, dim=1, keepdim=true)", "write 'amax(x, axis=-1)'"},
      {"max(x, $)", "'maximum(a, b)'"},
      {"max(x, sum(y, axis=1))", "'maximum(a, b)'"},
      {"min(0, x)", "'minimum(a, b)' or 'clamp(x, max=b)'"},
      {"min(x, axis=1)", "write 'amin(x, axis=-1)'"},
      {"glu(x)", "'a * sigmoid(b)'"},
      {"tan(x)", "'sin(x) / cos(x)'"},
      {"median(x, 1)", "do not order elements"},
      {"log10(x)", "'log2(x) * 0.3010299956639812'"},
  };
  for (const auto& [text, expected] : cases) {
    const std::string said = message_of(text);
    EXPECT_TRUE(said.starts_with("unknown function '" + text.substr(0, text.find('(')) + "'; ")) << said;
    EXPECT_NE(said.find(expected), std::string::npos) << text << "\nsaid: " << said;
    EXPECT_EQ(said.find("did you mean"), std::string::npos) << said;
  }
}

// Advice is in the language: what stands in quotes parses, names aside.
TEST(Parser, AdviceCanBeFollowed) {
  for (const char* name : {"max", "min", "fmax", "glu", "prelu", "rrelu", "softmin", "logaddexp", "tan", "sinc",
                           "atanh", "sinh", "cosh", "erfc", "log10"}) {
    for (const char* arguments : {"(x)", "(x, y)"}) {
      std::string said = message_of(name + std::string(arguments));
      said = said.substr(said.find(';'), said.find(" (column") - said.find(';'));
      for (std::size_t at = said.find('\''); at != said.npos; at = said.find('\'', at + 1)) {
        const std::size_t end = said.find('\'', at + 1);
        EXPECT_EQ(message_of(said.substr(at + 1, end - at - 1)), "(accepted)") << said;
        at = end;
      }
    }
  }
}

TEST(Parser, HostileTextIsRefusedWithoutHarm) {
  EXPECT_NE(message_of(std::string(100'000, '(')).find("nested more than"), std::string::npos);
  EXPECT_NE(message_of(std::string(100'000, '-').append("x")).find("nested more than"), std::string::npos);
  EXPECT_NE(message_of(std::string(20'000'000, 'x')).find("bytes; at most"), std::string::npos);
  std::string wide = "x";
  for (int i = 0; i < 20'000; ++i) wide += " + y" + std::to_string(i);
  EXPECT_NE(message_of(wide).find("more than"), std::string::npos);
  std::string long_chain = "x";
  for (int i = 0; i < 500; ++i) long_chain = "relu(" + long_chain + " + 1)";
  EXPECT_EQ(Epilogue::parse(long_chain).program().operation_count(), 1000);
}

}  // namespace
}  // namespace epifuse
