// A source that is made lean computes what its draft does: NVRTC makes the same PTX of both. Loops of one turn and
// functions that branch stay here as they are; ./dev same compares the instructions of kernels without them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <regex>
#include <string>
#include <vector>

#include "codegen/emit.hpp"
#include "jit/nvrtc.hpp"
#include "plan/plan.hpp"
#include "support/engine_runner.hpp"
#include "support/fixed_cases.hpp"
#include "support/gradient_cases.hpp"
#include "support/lane_segment_cases.hpp"
#include "support/reduction_case.hpp"
#include "support/segment_cases.hpp"

namespace epifuse::test {
namespace {

// An instruction with its comparison turned to "equal", and what is selected in one order.
std::string comparable(const std::string& line) {
  static const std::regex kDiffers(R"(setp\.neu?\.)");
  static const std::regex kSelects(R"((\s*selp\.\w+\s+%\w+, )([^,]+), ([^,]+)(, .*\s*))");
  if (line.find("setp.ne") == line.npos && line.find("selp.") == line.npos) return line;
  std::smatch selects;
  if (!std::regex_match(line, selects, kSelects)) return std::regex_replace(line, kDiffers, "setp.eq.");
  const std::string first = std::min(selects[2].str(), selects[3].str());
  const std::string second = std::max(selects[2].str(), selects[3].str());
  return selects[1].str() + first + ", " + second + selects[4].str();
}

// PTX as a set of instructions, whatever registers and variables are called: the compiler numbers and orders by the
// names of functions, which hold their parameters. Constants in device memory are left out: a draft has some that
// nothing reads. The compiler may ask whether numbers differ, and exchange what it selects, where it asked whether they
// are equal: that is the same.
std::string instructions(const std::string& ptx) {
  static const std::regex kNames("%([a-z]+)[0-9]+|_ZZ[0-9A-Za-z_]+");
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < ptx.size();) {
    const std::size_t end = std::min(ptx.find('\n', begin), ptx.size() - 1) + 1;
    const std::string line = ptx.substr(begin, end - begin);
    const bool declares = line.starts_with(".global") || line.find(".reg ") != line.npos;
    if (!declares) lines.push_back(comparable(std::regex_replace(line, kNames, "%$1")));
    begin = end;
  }
  std::ranges::sort(lines);
  std::string left;
  for (const std::string& line : lines) left += line;
  return left;
}

class LeanCode : public testing::Test {
 protected:
  void SetUp() override {
    try {
      nvrtc_ = &jit::Nvrtc::get();
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }

  void expect_same_code(const Case& test, std::uint64_t seed) {
    if (test.elements() == 0) return;
    const Epilogue tail = to_epilogue(test.chain);
    Memory memory(test);
    const Views views = views_apart(test, tail, memory);
    const plan::Plan plan = plan::make_plan(tail.program(), views.outputs, views.inputs);
    compare(tail, plan, seed);
  }

  // Of a chain that draws random numbers, beside operands in other layouts than its result's.
  void expect_same_code_of_random(const char* chain, const Dims& strides) {
    const Epilogue tail = Epilogue::parse(chain);
    const Dims shape = {12, 34, 64};
    auto* const nowhere = reinterpret_cast<std::byte*>(0x1000);  // nothing is read
    const TensorView x(nowhere, DType::f16, shape, strides);
    const OutputView out(nowhere + (1 << 20), DType::f16, shape);
    compare(tail, plan::make_plan(tail.program(), std::span(&out, 1), std::span(&x, 1)), 0);
  }

  std::size_t kernels() const { return seen_.size(); }

 private:
  void compare(const Epilogue& tail, const plan::Plan& plan, std::uint64_t seed) {
    const auto kinds = plan.space.input_kinds();
    const std::string draft = codegen::draft(tail.program(), plan.kernel_class, kinds);
    if (!seen_.try_emplace(draft, true).second) return;
    const std::string name = codegen::kernel_name(tail.program(), plan.kernel_class);
    const std::string lean = codegen::made_lean(draft, name, codegen::Compilers::cuda, codegen::Leanness::known);
    const jit::Target target{90, jit::ImageKind::ptx};
    EXPECT_LT(lean.size(), draft.size());
    const std::string code = instructions(nvrtc_->compile(lean, "lean", target));
    EXPECT_FALSE(code.empty());
    EXPECT_TRUE(code == instructions(nvrtc_->compile(draft, "draft", target)))
        << tail.str() << "\n"
        << plan::to_text(plan.kernel_class) << "\nEPIFUSE_TEST_SEED=" << seed;
  }

  const jit::Nvrtc* nvrtc_ = nullptr;
  std::map<std::string, bool> seen_;
};

TEST_F(LeanCode, IsThatOfTheDraft) {
  const std::uint64_t seed = test_seed(20261130);
  for (const Case& test : random_cases(seed, 100, 1, 600)) expect_same_code(test, seed);
  for (const Case& test : random_reductions(seed, 100, 1, 1500)) expect_same_code(test, seed);
  for (const Case& test : random_segment_cases(seed, 25, 1, 4000)) expect_same_code(test, seed);
  for (const Case& test : random_lane_segment_cases(seed, 20, 1, 3000)) expect_same_code(test, seed);
  for (const Case& test : random_gradients(seed, 40, 1500)) expect_same_code(test, seed);
  for (const char* chain : {"dropout(x, 0.1, 5, 1)", "x * rand_like(x, 5, 1)", "dropout(softmax(x, -1), 0.1, 5, 1)"}) {
    expect_same_code_of_random(chain, {34 * 64, 64, 1});
    expect_same_code_of_random(chain, {1, 12, 12 * 34});
  }
  std::printf("%zu kernels; seed %llu\n", kernels(), static_cast<unsigned long long>(seed));
  EXPECT_GE(kernels(), 230U);
}

}  // namespace
}  // namespace epifuse::test
