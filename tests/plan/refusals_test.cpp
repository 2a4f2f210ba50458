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
      {"(x - mean(x, 1, true)) / amax(x)", {{4096, 64}}, {"'mean'", "262144 elements", "what 'amax' is taken of"}},
      {"x * sum(w * w)", {{64, 32}, {7}}, {"'sum'", "launch of its own"}},
      // Elements of rows behind their statistics: of several sizes, reduced again, of rows that no cluster holds.
      {"y = softmax(x, 1); return y[:, :4], y[:, 4:7]", {{64, 64}}, {"'softmax'", "launch of its own"}},
      {"sum(max_pool1d(softmax(x, 2), 2), 2)", {{8, 4, 64}}, {"'softmax'", "launch of its own"}},
      {"softmax(x, 1)[:, :4]", {{4, 4'000'000}}, {"'softmax'", "4000000 elements", "too few rows (4)", "two chains"}},
      // Rows that are combined element by element.
      {"y = softmax(x, 1); return y, var(y, 0)", {{64, 64}}, {"'var'", "one number of each element", "two chains"}},
      {"y = softmax(x, 0); return y, amax(y, 1)",
       {{2'000'000, 64}},
       {"combines its rows", "not the innermost ones", "reductions over rows"}},
      {"y = softmax(x, 1); return y, sum(y, 0)",
       {{64, 64, 64}},
       {"not the innermost ones", "side by side are combined"}},
      {"y = softmax(x, 1); return y, sum(y, 0), sum(y)", {{64, 64}}, {"'sum'", "chain of its own"}},
      {"y = softmax(x, 1); return y, y - sum(y, 0)", {{64, 64}}, {"'softmax' and 'sum'", "broadcast back"}},
      {"y = softmax(x + w, 1); return y, sum(y, 0) * mean(w)",
       {{64, 64}, {64}},
       {"statistic over many rows", "two chains"}},
      {"y = softmax(x, 1); return y, sum(y, 0)", {{4, 4'000'000}}, {"4000000 elements", "chain of their own"}},
      // A statistic of everything beside one of each row, whose rows all are the same one.
      {"sum(x * w) * sum(w)", {{64, 32}, {32}}, {"'mul'", "statistic over many rows", "two chains"}},
      // Without elements: splits that do not agree, and a result that no row is there to write.
      {"return sum(unflatten(x, 0, (-1, 3)), 0), sum(unflatten(x, 0, (3, -1)), 1)",
       {{0}},
       {"'sum'", "launch of its own"}},
      {"return sum(x, 1), b", {{0, 4}, {}}, {"'out1'", "has elements", "chain of its own"}},
      {"return softmax(x, 1), exp(b) * 2", {{0, 4}, {1, 1}}, {"'out1'", "has elements", "chain of its own"}},
      {"x + sum(x, 1)", {{64, 64}}, {"two of its dimensions at once", "keepdim=true"}},
      // Segments of rows: outer ones, rows of outer reductions, two sets of them, broadcast back, reduced again, too
      // long to be held.
      {"sum(x - mean(x, (1, 2), true), 1)", {{8, 6, 40}}, {"'sum'", "not the innermost ones", "two chains"}},
      {"sum(x - mean(x, (0, 1), true), 1)", {{6, 8, 40}}, {"'sum'", "not the innermost ones", "two chains"}},
      {"y = x - mean(x, (1, 2, 3), true); return sum(y, 3), amax(y, (2, 3))",
       {{8, 6, 5, 40}},
       {"'sum' and 'amax'", "one way only", "chain of its own"}},
      {"y = x - mean(x, (1, 2), true); y - amax(y, 2, true)",
       {{8, 6, 40}},
       {"'amax'", "segments of 40 elements", "power of two", "two chains"}},
      {"y = x - mean(x, (1, 2), true); y - amax(y, 2, true)", {{8, 6, 1024}}, {"'amax'", "512 at most", "two chains"}},
      {"y = x - mean(x, (1, 2, 3), true); return y - amax(y, 3, true), y - sum(y, (2, 3), true)",
       {{8, 6, 4, 32}},
       {"'amax' and 'sum'", "one way only", "chain of its own"}},
      {"y = x - mean(x, (1, 2), true); return y - amax(y, 2, true), amax(amax(y, 2), 1)",
       {{8, 6, 32}},
       {"'amax'", "segments", "begins with 'amax'"}},
      {"y = x - mean(x, (1, 2), true); return y - amax(y, 2, true), sum(y, (0, 2))",
       {{8, 6, 32}},
       {"'sum'", "'amax' reduces segments", "chain of its own"}},
      {"y = x - mean(x, (1, 2), true); y - amax(y, 2, true)",
       {{300, 60'000, 32}},
       {"'amax'", "1920000 elements", "needed again with its result", "two chains"}},
      {"y = x - mean(x, (1, 2), true); amax(sum(y, 2), 1)", {{8, 6, 40}}, {"'amax'", "segments", "begins with 'amax'"}},
      {"y = x - mean(x, (1, 2), true); amax(sum(y, 2), 0)", {{8, 6, 40}}, {"'amax'", "segments", "begins with 'amax'"}},
      {"y = x - mean(x, (1, 2), true); var(abs(y), 2)",
       {{200, 6, 1'400'000}},
       {"'var'", "8400000 elements", "more than a cluster", "too few of them (200)", "two chains"}},
      {"y = x - mean(x, (1, 2), true); return y, var(y, 2)",
       {{300, 6, 1'400'000}},
       {"'var'", "8400000 elements", "other results need their elements", "two chains"}},
  };
  for (const Row& row : rows) {
    try {
      plan_of(row.chain, floats(row.operands));
      ADD_FAILURE() << row.chain << " was accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unsupported) << row.chain;
      for (const std::string& segment : row.says)
        EXPECT_NE(std::string(error.what()).find(segment), std::string::npos) << row.chain << "\n" << error.what();
    }
  }
}

// Composites become primitives, which nobody wrote: errors name the call, whoever built the chain.
TEST(Refusals, NameWhatWasCalled) {
  const Expr x = input("x");
  const Expr w = input("w");
  struct Row {
    std::string called;
    std::vector<Epilogue> chains;
    std::vector<Dims> operands;
  };
  const std::vector<Row> rows = {
      {"softmax", {Epilogue::parse("softmax(softmax(x, 0), 1)"), Epilogue{softmax(softmax(x, 0), 1)}}, {{64, 64}}},
      {"softmax", {Epilogue::parse("softmax(x, 1)"), Epilogue{softmax(x, 1)}}, {{3, 0}}},
      {"softmax", {Epilogue::parse("softmax(x, -3)"), Epilogue{softmax(x, -3)}}, {{3, 4}}},
      {"log_softmax", {Epilogue::parse("log_softmax(x, 2)"), Epilogue{log_softmax(x, 2)}}, {{3, 4}}},
      {"logsumexp", {Epilogue::parse("logsumexp(x, 2)"), Epilogue{logsumexp(x, 2)}}, {{3, 4}}},
      {"layer_norm", {Epilogue::parse("layer_norm(x, w)"), Epilogue{layer_norm(x, w)}}, {{3, 4}, {5}}},
      {"rms_norm", {Epilogue::parse("rms_norm(x, w)"), Epilogue{rms_norm(x, w)}}, {{3, 4}, {5}}},
      {"group_norm", {Epilogue::parse("group_norm(x, 3)"), Epilogue{group_norm(x, 3)}}, {{2, 32, 5}}},
      {"group_norm", {Epilogue::parse("group_norm(x, 4, w)"), Epilogue{group_norm(x, 4, w)}}, {{2, 32, 5}, {2, 32}}},
      {"instance_norm", {Epilogue::parse("instance_norm(x)"), Epilogue{instance_norm(x)}}, {{2, 32}}},
      {"normalize", {Epilogue::parse("normalize(x)"), Epilogue{normalize(x)}}, {{32}}},
      {"norm", {Epilogue::parse("norm(x, 3, 1)"), Epilogue{norm(x, 3, 1)}}, {{32}}},
      {"std", {Epilogue::parse("std(x, 1)"), Epilogue{std(x, 1)}}, {{32}}},
      {"unflatten", {Epilogue::parse("unflatten(x, 1, (3, -1))"), Epilogue{unflatten(x, 1, {3, -1})}}, {{2, 32}}},
  };
  for (const Row& row : rows) {
    for (const Epilogue& tail : row.chains) {
      try {
        const ir::Program& program = tail.program();
        const std::vector<TensorView> inputs = floats(row.operands);
        make_plan(program, results_of(program, inputs), inputs, Views::abstract);
        ADD_FAILURE() << tail.str() << " was accepted";
      } catch (const Error& error) {
        const std::string said = error.what();
        EXPECT_NE(said.find("'" + row.called + "'"), std::string::npos) << said;
        for (const std::string other : {"sum", "mean", "amax", "var", "unflatten", "flatten", "along", "mul", "sub"}) {
          EXPECT_TRUE(other == row.called || said.find("'" + other + "'") == std::string::npos) << said;
        }
      }
    }
  }
}

TEST(Refusals, ResultsOverOperandsThatAreReadElsewhere) {
  // The last result lies over the operand `over`, those before it have memory of their own.
  const auto refusal = [](const char* chain, const std::vector<Dims>& results, const std::vector<Dims>& shapes,
                          std::size_t over) {
    const ir::Program program = Epilogue::parse(chain).program();
    std::vector<TensorView> inputs = floats(shapes);
    for (std::size_t i = 0; i < inputs.size(); ++i) inputs[i].data = reinterpret_cast<const void*>((i + 1) << 32U);
    std::vector<OutputView> outputs;
    for (const Dims& result : results)
      outputs.emplace_back(reinterpret_cast<void*>((outputs.size() + 100) << 32U), DType::f32, result);
    outputs.back().data = inputs[over].data;
    try {
      make_plan(program, outputs, inputs, Views::real);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string says = refusal("sum(x * v, axis=1)", {{64}}, {{64, 64}, {64}}, 1);
  EXPECT_NE(says.find("output 'out' is the memory of operand 'v'"), std::string::npos) << says;
  EXPECT_NE(says.find("memory of its own"), std::string::npos) << says;
  EXPECT_EQ(refusal("softmax(x, axis=1)", {{64, 64}}, {{64, 64}}, 0), "");
  EXPECT_EQ(refusal("sum(x, axis=1, keepdim=true) + r", {{64, 1}}, {{64, 64}, {64, 1}}, 1), "");
  EXPECT_EQ(refusal("maximum(amax(x), m)", {Dims{}}, {{64, 64}, {}}, 1), "");
  // One row writes what all rows read.
  const std::string second = refusal("return sum(x * b, axis=-1), b + 1", {{64}, {32}}, {{64, 32}, {32}}, 1);
  EXPECT_NE(second.find("output 'out1' is the memory of operand 'b'"), std::string::npos) << second;
  EXPECT_NE(refusal("return softmax(x * s, axis=-1), s * 2", {{64, 32}, {}}, {{64, 32}, {}}, 1), "");
  EXPECT_EQ(refusal("return x * amax(x), amax(x) + s", {{64, 32}, {}}, {{64, 32}, {}}, 1), "");
}

}  // namespace
}  // namespace epifuse::plan
