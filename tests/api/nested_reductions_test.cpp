// Reductions of what other reductions give, on the CPU device beside their definitions; and how many kernels the tails
// of KernelBench take that reduce more than once.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <epifuse/epifuse.hpp>
#include <epifuse/inspect.hpp>

#include "api/drawn_views.hpp"
#include "support/as_written.hpp"
#include "support/nested_functions.hpp"

namespace epifuse::test {
namespace {

TEST(NestedReductions, RandomCasesAgreeWithTheirDefinitions) {
  expect_definitions(test_seed(2726), 1'000, draw_nested_function, nested_functions(), 1'000 / 8);
}

Inspection inspected(const std::string& chain, const std::vector<Dims>& operands, DType type = DType::f16) {
  const Epilogue tail = as_written(chain);
  std::vector<TensorView> inputs;
  for (const Dims& shape : operands) inputs.emplace_back(nullptr, type, shape);
  std::vector<OutputView> outputs;
  for (const Dims& shape : tail.result_shapes(inputs)) outputs.emplace_back(nullptr, type, shape);
  return Inspection(tail, outputs, inputs, PlanTarget{90, 132});
}

std::string refusal_of(const std::string& chain, const std::vector<Dims>& operands) {
  try {
    inspected(chain, operands);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

// At the shapes of the benchmark: nothing but the tail's operands is read, each element once.
TEST(NestedReductions, TailsOfKernelBenchAreOneKernel) {
  struct Tail {
    int problem;
    std::string chain;
    std::vector<Dims> operands;
  };
  const std::vector<Tail> tails = {
      {3, "gelu(avg_pool3d(layer_norm(x + 1.0, w, b), 2))", {{32, 64, 32, 64, 64}, {64}, {64}}},
      {13, "tanh(softmax(mean(x, axis=2, keepdim=true) + b, axis=1)) * 2.0", {{16, 64, 32, 128, 128}, {64, 1, 1, 1}}},
      {43, "relu(logsumexp(max_pool3d(x, 2), axis=1, keepdim=true))", {{4, 64, 32, 128, 128}}},
      {55, "sum(max_pool1d(x, 2), axis=1) * 0.5", {{128, 32768}}},
      {65, "sum(sigmoid(avg_pool2d(x, 4)), axis=(1, 2, 3))", {{128, 64, 382, 382}}},
      {79, "amax(clamp(instance_norm(x * m), -1, 1) * m, axis=1)", {{128, 16, 14, 30, 30}, {16, 1, 1, 1}}},
      {85, "clamp(max_pool2d(group_norm(x, 16, w, b) * s, 4), 0, 1)", {{128, 64, 126, 126}, {64}, {64}, {64, 1, 1}}},
      {89, "amax(silu(softmax(max_pool3d(x, 2), axis=1) - s), axis=1)", {{128, 16, 32, 64, 64}, {16, 1, 1, 1}}},
  };
  for (const Tail& tail : tails) {
    ASSERT_EQ(refusal_of(tail.chain, tail.operands), "") << tail.problem;
    const PlanSummary plan = inspected(tail.chain, tail.operands).plan();
    std::uint64_t least = 0;
    for (const Dims& shape : tail.operands) {
      std::uint64_t bytes = size_of(DType::f16);
      for (const std::int64_t extent : shape) bytes *= static_cast<std::uint64_t>(extent);
      least += bytes;
    }
    EXPECT_LE(static_cast<double>(plan.bytes_read), 1.05 * static_cast<double>(least)) << tail.problem;
    EXPECT_EQ(plan.bytes_read_again, 0U) << tail.problem;
    EXPECT_EQ(plan.bytes_from_caches != 0, tail.problem == 3) << tail.problem;  // of problem 3: rows of 128 bytes
  }
}

// A row's elements are read for results alone, and rows are cut in no other way beside.
TEST(NestedReductions, RowsThatResultsReadHaveNoSegments) {
  const std::string why = refusal_of("y = x - mean(x, (1, 2), true); return y[..., :4], mean(y, 2)", {{8, 6, 40}});
  EXPECT_NE(why.find("'mean' reduces other dimensions than these rows have"), std::string::npos) << why;
}

TEST(NestedReductions, PlansTellWhatIsTakenApart) {
  const std::string text = inspected("softmax(mean(x, axis=2), axis=1)", {{4, 8, 16, 32}}).plan_text();
  EXPECT_NE(text.find("'mean' adds up 16 views of its argument"), std::string::npos) << text;
  EXPECT_NE(text.find("x_0 is x[..., :1, :]"), std::string::npos) << text;
}

// What is not taken apart is planned as it stands: reductions of many elements, those that rows are made of, and those
// whose elements are needed again.
TEST(NestedReductions, OthersAreWhatTheyWere) {
  EXPECT_EQ(refusal_of("softmax(mean(x, axis=2), axis=1)", {{4, 8, 64, 32}}), "");
  EXPECT_NE(refusal_of("softmax(mean(x, axis=2), axis=1)", {{4, 8, 65, 32}}).find("Make it two chains"),
            std::string::npos);
  EXPECT_NE(refusal_of("softmax(mean(x * y, axis=2), axis=1)", {{4, 8, 33, 32}, {4, 8, 33, 32}}).find("two chains"),
            std::string::npos);
  EXPECT_NE(refusal_of("softmax(softmax(x, 0), 1)", {{8, 8}}).find("both broadcast back"), std::string::npos);
  for (const char* const chain : {"mean(group_norm(x, 2), (2, 3))", "sum(mean(x, (2, 3)), 1)",
                                  "y = group_norm(x, 2); return y, amax(abs(y), (0, 2, 3))"}) {
    const Inspection plan = inspected(chain, {{4, 8, 6, 6}});
    EXPECT_TRUE(plan.plan().views.empty()) << chain;
  }
}

}  // namespace
}  // namespace epifuse::test
