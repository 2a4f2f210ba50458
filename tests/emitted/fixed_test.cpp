// The deterministic cases from emitted text, and what needs memory that no other case has: strides beyond 32 bits.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstdio>

#include "codegen/emit.hpp"
#include "emitted/workshop.hpp"
#include "support/fixed_cases.hpp"

namespace epifuse::test {
namespace {

void run_and_report(const std::vector<Case>& cases) {
  Workshop workshop;
  for (const Case& test : cases) workshop.add(test);
  EXPECT_EQ(workshop.ambiguous_classes(), 0u);
  const WorkshopReport report = workshop.run();
  std::printf("%zu cases, %zu kernels (%.0f s of compiler), %llu results\n", report.cases, report.kernels,
              report.compile_seconds, static_cast<unsigned long long>(report.coverage.elements));
  for (const std::string& failure : report.failures) ADD_FAILURE() << failure;
}

TEST(EmittedText, TailsOfPublicModels) {
  std::vector<Case> cases;
  for (const TailCase& tail : tail_cases()) cases.push_back(tail.test);
  run_and_report(cases);
}

TEST(EmittedText, TextOfTailsIsTheChainBuiltByHand) {
  for (const TailCase& tail : tail_cases()) {
    std::string text;
    for (std::size_t i = 0; i < tail.names.size(); ++i)
      text += std::string(tail.names[i]) + " = x" + std::to_string(i) + "; ";
    text += tail.text;
    EXPECT_EQ(to_text(from_epilogue(Epilogue::parse(text))), to_text(from_epilogue(to_epilogue(tail.test.chain))))
        << tail.id << ": " << text;
  }
}

TEST(EmittedText, EveryOperationOverSpecialValues) { run_and_report(special_value_cases(0)); }

TEST(EmittedText, EveryConversion) { run_and_report(conversion_cases()); }

TEST(EmittedText, LongChainsAndManyOperands) { run_and_report(long_cases()); }

TEST(EmittedText, EveryWidthAlignmentAndTail) { run_and_report(alignment_cases()); }

TEST(EmittedText, TruthValuesAsNumbers) { run_and_report(truth_cases()); }

TEST(EmittedText, OddInnerExtents) { run_and_report(odd_extent_cases()); }

}  // namespace
}  // namespace epifuse::test
