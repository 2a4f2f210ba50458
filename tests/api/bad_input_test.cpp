// Bad input through the public API: the lists for reductions, and text and names that somebody wrote to do harm.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include <epifuse/epifuse.hpp>

#include "support/as_written.hpp"
#include "support/refusal.hpp"

namespace epifuse {
namespace {

using test::refusal;

constexpr std::size_t kSize = 4096;

// What a launch on the CPU device says of operands of these shapes; nothing may be written.
std::string refused(const std::string& chain, const std::vector<Dims>& operands, const std::vector<Dims>& results) {
  Engine engine(Device::cpu());
  alignas(64) static float memory[kSize] = {};
  std::fill_n(memory, kSize, 1.5F);
  std::vector<TensorView> inputs;
  std::vector<OutputView> outputs;
  for (const Dims& shape : operands) inputs.emplace_back(memory, DType::f32, shape);
  for (const Dims& shape : results) outputs.emplace_back(memory + kSize / 2, DType::f32, shape);
  const std::string message = refusal([&] { engine.launch(test::as_written(chain), nullptr, outputs, inputs); });
  EXPECT_TRUE(std::ranges::all_of(memory, [](float value) { return value == 1.5F; })) << "something was written";
  return message;
}

void expect_says(const std::string& message, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) EXPECT_NE(message.find(part), std::string::npos) << part << "\nin: " << message;
}

// What Epilogue::parse says, with the column that it points at.
TEST(BadChains, PointAtTheirMistake) {
  struct Row {
    const char* chain;
    std::vector<std::string> says;
  };
  const std::vector<Row> rows = {
      {"x + sigmod(x)",
       {"unknown function 'sigmod'", "did you mean 'sigmoid'?", "column 5", "  x + sigmod(x)\n      ^"}},
      {"relu(x, 1)", {"'relu'", "column"}},
      {"where(x > 0, x)", {"'where'", "column"}},
      {"relu(input=x, nothing=1)", {"'nothing'", "column"}},
      {"clamp(x, min=0, min=1)", {"'min'", "column"}},
      {"x +", {"column 4"}},
      {"(x", {"column 3"}},
      {"x $ 2", {"column 3"}},
      {"", {"no result"}},
      {"cast(x, f17)", {"'f17'", "column"}},
      {"gelu(x, approximate='tan')", {"'tan'", "column"}},
      {"scalar a; input a; a", {"used both as a tensor and as a scalar"}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.chain);
    expect_says(refusal([&] { Epilogue::parse(row.chain); }), row.says);
  }
}

TEST(BadReductions, NameTheOperation) {
  struct Row {
    const char* chain;
    std::vector<Dims> operands, results;
    std::vector<std::string> says;
  };
  const std::vector<Row> rows = {
      {"sum(x, 2)", {{3, 4}}, {{3}}, {"axis 2 of 'sum' is out of range", "its argument has 2 dimensions"}},
      {"softmax(x, axis=-3)", {{3, 4}}, {{3, 4}}, {"axis -3 of 'softmax' is out of range"}},
      {"sum(x, (1, -1))", {{3, 4}}, {{3}}, {"'sum' names dimension 1 of its 2 twice"}},
      {"sum(x, (1, 1))", {{3, 4}}, {{3}}, {"axis 1 of 'sum' is given twice", "column 8"}},
      {"group_norm(x, 3)", {{2, 8, 4}}, {{2, 8, 4}}, {"dimension 1", "[2, 8, 4]", "8 is not divisible"}},
      {"group_norm(x, 0)", {{2, 8, 4}}, {{2, 8, 4}}, {"group_norm", "0"}},
      {"mean(x, 1)", {{3, 4}}, {{3, 4}}, {"output 'out' has shape [3, 4]", "the chain's result has shape [3]"}},
      {"mean(x, 1, keepdim=true)", {{3, 4}}, {{3}}, {"output 'out' has shape [3]", "has shape [3, 1]"}},
      {"return x, mean(x, 1)", {{3, 4}}, {{3, 4}, {4}}, {"output 'out1' has shape [4]"}},
      {"x - mean(x, 1)", {{3, 4}}, {{3, 4}}, {"'sub'", "[3, 4] and [3]", "keepdim=true"}},
      {"x + sum(y, 0)", {{3, 4}, {2, 5}}, {{3, 4}}, {"'add'", "[3, 4] and [5]"}},
      {"amax(x, 1)", {{3, 0}}, {{3}}, {"'amax' reduces a dimension without elements"}},
      {"flatten(x, 1, 0)", {{3, 4}}, {{12}}, {"'flatten' merges dimensions 1 to 0"}},
      {"unflatten(x, 0, (2, 3))", {{7}}, {{2, 3}}, {"'unflatten'", "7 is not divisible"}},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.chain);
    expect_says(refused(row.chain, row.operands, row.results), row.says);
  }
}

TEST(BadReductions, AChainThatIsNoOneKernelSaysWhatToSplit) {
  const Dims shape = {64, 64};
  const TensorView input(nullptr, DType::f32, shape);
  const OutputView output(nullptr, DType::f32, shape);
  try {
    const Inspection inspection(Epilogue::parse("softmax(softmax(x, 0), 1)"), std::span(&output, 1),
                                std::span(&input, 1));
    FAIL() << "planned";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    expect_says(error.what(), {"cannot be one kernel", "two chains"});
  }
}

TEST(BadShapes, RankOverEightSaysSo) {
  expect_says(refusal([] { Dims({1, 1, 1, 1, 1, 1, 1, 1, 1}); }), {"more than 8 dimensions"});
}

// ---- hostile names and text

const std::vector<std::string>& hostile() {
  static const std::vector<std::string> list = {"x\"",
                                                "x'",
                                                "x\\",
                                                "x\n",
                                                "x\r\n#include <x>",
                                                "x/*",
                                                "x*/",
                                                "x//",
                                                "#define x",
                                                "x\t",
                                                "x\x1b[31m",
                                                "x\x7f",
                                                "\xc3\xa9",
                                                "\xe2\x80\xaex",
                                                "\xff\xfe",
                                                "x?\?/",
                                                "x;y",
                                                "x y",
                                                "x) { } ",
                                                "x\\\nreturn",
                                                "1x",
                                                "R\"(x)\"",
                                                "%s%n",
                                                "{}",
                                                "x.y",
                                                "::x",
                                                "x$",
                                                "$(id)",
                                                "`id`",
                                                "",
                                                "__device__ ",
                                                "asm(\"trap;\")",
                                                std::string("x\0y", 3)};
  return list;
}

bool has_control_characters(const std::string& text) {
  return std::ranges::any_of(text, [](char c) { return (c >= 0 && c < ' ' && c != '\n') || c == '\x7f'; });
}

TEST(Hostile, NamesAreRefusedEverywhere) {
  for (const std::string& name : hostile()) {
    SCOPED_TRACE(name);
    for (const std::string& said : {refusal([&] { input(name); }), refusal([&] { scalar(name); }),
                                    refusal([&] { Epilogue::parse("x", std::vector<std::string>{name}); })}) {
      expect_says(said, {"is not a name"});
      EXPECT_FALSE(has_control_characters(said)) << said;
    }
    float value = 0;
    Engine engine(Device::cpu());
    const OutputView output(&value, DType::f32, {});
    const std::string said = refusal([&] {
      engine.launch(Epilogue::parse("x"), nullptr, std::span(&output, 1),
                    Arguments{{name, TensorView(&value, DType::f32, {})}});
    });
    expect_says(said, {"the chain has no operand"});
    EXPECT_FALSE(has_control_characters(said)) << said;
    EXPECT_FALSE(has_control_characters(refusal([&] { Device::parse(name); })));
  }
}

// Some of these texts make a chain, with a space or a comment for instance: it then holds nothing of theirs but names.
TEST(Hostile, TextGivesAChainInPlainWordsOrAnErrorInPlainWords) {
  std::size_t refused = 0;
  for (const std::string& text : hostile()) {
    SCOPED_TRACE(text);
    for (const std::string& chain : {"relu(x) + " + text, "gelu(x, approximate='" + text + "')",
                                     text + " = x; relu(" + text + ")", "input " + text + "; x", text + "(x)"}) {
      std::string printed;
      const std::string said = refusal([&] { printed = Epilogue::parse(chain).str(); });
      EXPECT_FALSE(has_control_characters(said)) << said;
      EXPECT_EQ(printed.find_first_of("\"'\\\n\t#{}$`%"), printed.npos) << printed;
      refused += printed.empty() ? 1 : 0;
    }
  }
  EXPECT_GT(refused, hostile().size() * 4);
}

// Comments of the chain's text are the one place where anything may stand. None of it gets into the source.
TEST(Hostile, NothingOfACommentReachesTheSource) {
  const OutputView output(nullptr, DType::f32, {6, 10});
  const TensorView input(nullptr, DType::f32, {6, 10});
  const auto source = [&](const std::string& chain) {
    return Inspection(Epilogue::parse(chain), std::span(&output, 1), std::span(&input, 1)).cuda();
  };
  const std::string plain = source("y = relu(x); y + 1");
  EXPECT_EQ(plain.find('\\'), plain.npos) << "no line of a source is continued";
  EXPECT_TRUE(std::ranges::all_of(plain, [](char c) { return c == '\n' || (c >= ' ' && c <= '~'); }));
  for (const std::string& text : hostile()) {
    if (text.find('\n') != text.npos) continue;  // what follows would be the chain's
    EXPECT_EQ(source("# " + text + "\ny = relu(x); # */ " + text + " \\\ny + 1 # " + text), plain) << text;
  }
}

TEST(Hostile, LengthAndDepthAreErrorsNotCrashes) {
  constexpr std::size_t kLength = 20'000'000;
  constexpr std::size_t kDepth = 100'000;
  expect_says(refusal([&] { Epilogue::parse(std::string(kLength, 'x')); }), {"20000000 bytes", "at most 16777216"});
  expect_says(refusal([&] { Epilogue::parse("#" + std::string(kLength, ' ') + "\nx"); }), {"at most 16777216"});
  expect_says(refusal([&] { input(std::string(kLength, 'x')); }), {"has 20000000 characters; at most 64"});
  expect_says(refusal([&] { scalar(std::string(kLength, '\\')); }), {"at most 64"});
  for (const std::string open : {"(", "-", "not ", "relu(", "2**", "sum(x, axis=(", "x + (", "clamp(x, min="}) {
    std::string text;
    for (std::size_t i = 0; i < kDepth && text.size() < 1'000'000; ++i) text += open;
    const std::string said = refusal([&] { Epilogue::parse(text); });
    expect_says(said, {"column"});
    EXPECT_LT(said.size(), 1000U) << "a message quotes the place, not the text";
  }
}

// The same through C++: 100 000 operations are a list, not a recursion.
TEST(Hostile, DeepExpressionsAreErrorsNotCrashes) {
  Expr deep = input("x");
  for (int i = 0; i < 100'000; ++i) deep = relu(deep + 1.5);
  expect_says(refusal([&] { Epilogue{deep}; }), {"more than 16384 values"});
}

}  // namespace
}  // namespace epifuse
