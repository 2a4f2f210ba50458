// What is said of chains that cannot be one kernel, and of results that cannot lie where they are asked for.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "plan/plans.hpp"

namespace epifuse::plan {
namespace {

TEST(Refusals, SayWhatToSplit) {
  struct Row {
    const char* chain;
    std::vector<Dims> operands;
    std::vector<std::string> says;
  };
  const std::vector<Row> rows = {
      {"softmax(softmax(x, 0), 1)", {{64, 64}}, {"broadcast back", "two chains"}},
      {"x - mean(x, 0, true) - mean(x, 1, true)", {{64, 64}}, {"'mean'", "different dimensions", "two chains"}},
      {"(x - mean(x, 1, true)) / amax(x)", {{64, 64}}, {"'mean'", "'amax'", "two chains"}},
      {"x * sum(w * w)", {{64, 32}, {7}}, {"'sum'", "launch of its own"}},
      // A statistic of everything beside one of each row, whose rows all are the same one.
      {"sum(x * w) * sum(w)", {{64, 32}, {32}}, {"'mul'", "statistic over many rows", "two chains"}},
      // Without elements: splits that do not agree, and a result that no row is there to write.
      {"return sum(unflatten(x, 0, (-1, 3)), 0), sum(unflatten(x, 0, (3, -1)), 1)",
       {{0}},
       {"'sum'", "launch of its own"}},
      {"return sum(x, 1), b", {{0, 4}, {}}, {"'out1'", "has elements", "chain of its own"}},
      {"return softmax(x, 1), exp(b) * 2", {{0, 4}, {1, 1}}, {"'out1'", "has elements", "chain of its own"}},
      {"x + sum(x, 1)", {{64, 64}}, {"two of its dimensions at once", "keepdim=true"}},
      // Parts of rows: outer ones, rows across memory, two sets of them, broadcast back, reduced again, too long to be held.
      {"sum(x - mean(x, (1, 2), true), 1)", {{8, 6, 40}}, {"'sum'", "not the innermost ones", "two chains"}},
      {"sum(x - mean(x, (0, 1), true), 1)", {{6, 8, 40}}, {"'sum'", "not the innermost ones", "two chains"}},
      {"y = x - mean(x, (1, 2, 3), true); return sum(y, 3), amax(y, (2, 3))",
       {{8, 6, 5, 40}},
       {"'sum' and 'amax'", "one way only", "chain of its own"}},
      {"y = x - mean(x, (1, 2), true); y - amax(y, 2, true)", {{8, 6, 40}}, {"'amax'", "broadcast back", "two chains"}},
      {"y = x - mean(x, (1, 2), true); amax(sum(y, 2), 1)", {{8, 6, 40}}, {"'amax'", "parts", "begins with 'amax'"}},
      {"y = x - mean(x, (1, 2), true); amax(sum(y, 2), 0)", {{8, 6, 40}}, {"'amax'", "parts", "begins with 'amax'"}},
      {"y = x - mean(x, (1, 2), true); var(abs(y), 2)",
       {{200, 6, 400'000}},
       {"'var'", "2400000 elements", "more than a cluster", "too few of them (200)", "two chains"}},
      {"y = x - mean(x, (1, 2), true); return y, var(y, 2)",
       {{300, 6, 400'000}},
       {"'var'", "2400000 elements", "other results need their elements", "two chains"}},
  };
  for (const Row& row : rows) {
    try {
      plan_of(row.chain, floats(row.operands));
      ADD_FAILURE() << row.chain << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unsupported) << row.chain;
      for (const std::string& part : row.says)
        EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << row.chain << "\n" << error.what();
    }
  }
}

TEST(Refusals, ResultsOverOperandsThatAreReadElsewhere) {
  const auto refusal = [](const char* chain, const Dims& result, const std::vector<Dims>& shapes, std::size_t over) {
    const ir::Program program = Epilogue::parse(chain).program();
    std::vector<TensorView> inputs = floats(shapes);
    for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i].data = reinterpret_cast<const void*>((i + 1) << 32U);
    try {
      make_plan(program, std::vector{OutputView(const_cast<void*>(inputs[over].data), DType::f32, result)}, inputs,
                Views::real);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string says = refusal("sum(x * v, axis=1)", {64}, {{64, 64}, {64}}, 1);
  EXPECT_NE(says.find("output 'out' is the memory of operand 'v'"), std::string::npos) << says;
  EXPECT_NE(says.find("memory of its own"), std::string::npos) << says;
  EXPECT_EQ(refusal("softmax(x, axis=1)", {64, 64}, {{64, 64}}, 0), "");
  EXPECT_EQ(refusal("sum(x, axis=1, keepdim=true) + r", {64, 1}, {{64, 64}, {64, 1}}, 1), "");
  EXPECT_EQ(refusal("maximum(amax(x), m)", {}, {{64, 64}, {}}, 1), "");
}

}  // namespace
}  // namespace epifuse::plan
