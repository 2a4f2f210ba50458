// Marks in templates: what of a source stays, by its constants.
#include "codegen/select.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace epifuse::codegen {
namespace {

const std::string kConstants =
    "constexpr int kSteps = 3;  // of a tile\nconstexpr bool kFull = false;\n"
    "constexpr int kLanes = kSteps > 2 ? 2 * kSteps : 1;\nconstexpr bool kEither = kFull || !(kLanes == 6);\n";

std::string rest_of(const std::string& text) { return selected(kConstants + text).substr(kConstants.size()); }

TEST(Select, KeepsWhatHolds) {
  EXPECT_EQ(rest_of("a\n//@if kSteps > 1\nb\n//@else\nc\n//@endif\nd\n"), "a\nb\nd\n");
  EXPECT_EQ(rest_of("a\n  //@if kFull\nb\n  //@else\nc\n  //@endif\nd"), "a\nc\nd") << "a mark may be indented";
  EXPECT_EQ(rest_of("//@if kFull\nb\n//@endif\n"), "");
}

TEST(Select, KnowsTheOperatorsOfConstants) {
  for (const std::string condition :
       {"kLanes == 6", "!kEither", "kSteps != 2 && kSteps <= 3", "kSteps % 2 == 1 && kLanes / 2 - 1 == 2 * 1",
        "kFull || (kSteps + 1) * 2 >= 8", "kFull ? kSteps == 2 : kSteps == 3", "-kSteps < 0", "true && !false",
        "7 / 0 == 0"})
    EXPECT_EQ(rest_of("//@if " + condition + "\nyes\n//@endif\n"), "yes\n") << condition;
}

TEST(Select, MarksNest) {
  const std::string text =
      "//@if kFull\n//@if kUnknown\na\n//@else\nb\n//@endif\n//@else\n//@if kSteps == "
      "3\nc\n//@else\nd\n//@endif\ne\n//@endif\n";
  EXPECT_EQ(rest_of(text), "c\ne\n") << "what does not stay is not asked";
}

TEST(Select, BitsOfALineHaveMarksToo) {
  EXPECT_EQ(rest_of("f(a, /*@if kFull*/b, /*@endif*/c/*@if kSteps > 1*/, d/*@endif*/);\n"), "f(a, c, d);\n");
}

// A part may define what the next condition asks, and a part that goes defines nothing.
TEST(Select, ConstantsComeFromWhatStays) {
  EXPECT_EQ(rest_of("//@if kFull\nconstexpr int kMore = 1;\n//@else\nconstexpr int kMore = 2;\n//@endif\n//@if kMore "
                    "== 2\nyes\n//@endif\n"),
            "constexpr int kMore = 2;\nyes\n");
}

TEST(Select, ConstantsOfConditionsAloneGo) {
  EXPECT_EQ(rest_of("//@let kMore = kSteps == 3\n//@if kMore\nyes\n//@endif\n"), "yes\n");
}

TEST(Select, RefusesWhatItCannotResolve) {
  for (const std::string text :
       {"//@if kUnknown\n//@endif\n", "//@if sizeof(int) == 4\n//@endif\n", "//@if kSteps >\n//@endif\n",
        "//@if kFull\n", "//@else\n", "//@endif\n", "f(/*@if kFull*/);\n"})
    EXPECT_THROW(rest_of(text), std::logic_error) << text;
}

}  // namespace
}  // namespace epifuse::codegen
