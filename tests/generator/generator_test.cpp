// What the generator promises of itself: that it leaves nothing out, and that a program follows from its number.
#include <gtest/gtest.h>

#include <set>

#include "generator/check.hpp"
#include "generator/meaning.hpp"
#include "generator/wording.hpp"
#include "ir/functions.hpp"
#include "support/regressions.hpp"

namespace epifuse::test {
namespace {

constexpr std::uint64_t kSeed = 5;
constexpr std::uint64_t kPrograms = 3000;

std::set<std::string> names_of_calls(const Program& program) {
  std::set<std::string> names;
  for (const auto& [step, text] : program.calls) names.insert(text.pieces[0].substr(0, text.pieces[0].find('(')));
  for (const Step& step : program.test.chain.steps) {
    if (step.kind == Step::Kind::op) names.insert(std::string(step.definition->name));
    if (step.kind == Step::Kind::reduce) names.insert(std::string(to_string(step.reduction)));
    if (step.kind == Step::Kind::cast) names.insert("cast");
    if (step.kind == Step::Kind::unflatten) names.insert("unflatten");
    if (step.kind == Step::Kind::flatten) names.insert("flatten");
    if (step.kind == Step::Kind::along) names.insert("along");
  }
  return names;
}

TEST(Generator, AProgramFollowsFromItsNumber) {
  for (std::uint64_t number = 0; number < 200; ++number) {
    const std::string line = to_line(draw_program(kSeed, number).test);
    EXPECT_EQ(to_line(draw_program(kSeed, number).test), line);
    EXPECT_EQ(to_line(from_line(line)), line);
  }
  EXPECT_NE(to_line(draw_program(kSeed, 1).test), to_line(draw_program(kSeed, 2).test));
  EXPECT_NE(to_line(draw_program(kSeed, 1).test), to_line(draw_program(kSeed + 1, 1).test));
}

TEST(Generator, EveryFunctionIsCalled) {
  std::set<std::string> called;
  for (std::uint64_t number = 0; number < kPrograms; ++number)
    called.merge(names_of_calls(draw_program(kSeed, number)));
  for (const ir::Function& function : ir::function_table())
    EXPECT_EQ(called.contains(std::string(function.name)), is_drawn(function.name)) << function.signature;
}

TEST(Generator, EveryKindOfTensorIsDrawn) {
  std::set<DType> inputs, outputs;
  std::set<Fill> fills;
  int empty = 0, one = 0, none = 0, in_place = 0, bound_twice = 0, returned_twice = 0, returned_operand = 0,
      scalars = 0;
  for (std::uint64_t number = 0; number < kPrograms; ++number) {
    const Case test = draw_program(kSeed, number).test;
    for (const Operand& input : test.inputs) {
      inputs.insert(input.dtype);
      empty += input.elements() == 0;
      one += input.elements() == 1 && input.shape.size() > 0;
      none += input.shape.size() == 0;
    }
    for (const Operand& output : test.outputs) outputs.insert(output.dtype);
    fills.insert(test.fill);
    for (const int input : test.in_place) in_place += input >= 0;
    bound_twice += !test.same.empty();
    scalars += test.chain.scalars > 0;
    returned_twice +=
        std::set<int>(test.chain.results.begin(), test.chain.results.end()).size() < test.chain.results.size();
    for (const int result : test.chain.results)
      returned_operand += test.chain.steps[static_cast<std::size_t>(result)].kind == Step::Kind::input;
  }
  EXPECT_EQ(inputs.size(), kAllDTypes.size());
  EXPECT_EQ(outputs.size(), kAllDTypes.size());
  EXPECT_EQ(fills.size(), 4u);
  for (const int count : {empty, one, none, in_place, bound_twice, returned_twice, returned_operand, scalars})
    EXPECT_GT(count, static_cast<int>(kPrograms / 200));
}

// `s` at position 0 and `s0` at launch would be two things: the text with clashing names says which name is whose.
TEST(Generator, NamedTextsAreTheProgramsThatTheySay) {
  Checker checker({.compile = [](const std::string&, int) { return Effort::none; }});
  const auto is_about_text = [](const Finding& finding) { return finding.stage == Stage::parse; };
  for (std::uint64_t number = 0; number < 300; ++number) {
    Program program = draw_program(kSeed, number);
    program.size = Size::large;  // planned, not run
    const std::optional<Finding> finding = checker.check(program);
    EXPECT_FALSE(finding && is_about_text(*finding)) << finding->message;
  }
}

TEST(Generator, ARefusalNamesWhatIsWritten) {
  const NamedText named{"y = softmax(x, -1); return y + amax(x)", {"x"}, {}, {"out"}};
  EXPECT_FALSE(misnamed("the results of 'softmax' (axis=-1) and 'amax' differ in the chain's rows; 'add'", named));
  EXPECT_FALSE(misnamed("output 'out' is the memory of operand 'x'", named));
  EXPECT_TRUE(misnamed("the results of 'sum' and 'amax' differ", named));
  EXPECT_TRUE(misnamed("'x' has 18446744073709551615 elements", named));
}

TEST(Generator, SentencesLoseWhatIsTheProgramsOwn) {
  EXPECT_EQ(common_sentence("'sum' of shape [3, 4] has 12 elements\nand more"), "'_' of shape [_] has N elements");
}

}  // namespace
}  // namespace epifuse::test
