// Shapes and axes of chains with reductions: what results have, and what is refused.
#include <gtest/gtest.h>

#include <epifuse/epifuse.hpp>

#include "ir/program.hpp"
#include "plan/plan.hpp"
#include "plan/plans.hpp"

namespace epifuse::plan {
namespace {

std::vector<Dims> shapes_of(const std::string& chain, const std::vector<Dims>& shapes) {
  return result_shapes(Epilogue::parse(chain).program(), floats(shapes));
}

TEST(Shapes, OfResultsArePyTorchs) {
  struct Row {
    const char* chain;
    std::vector<Dims> operands;
    std::vector<Dims> results;
  };
  const std::vector<Row> rows = {
      {"sum(x)", {{2, 3, 4}}, {{}}},
      {"sum(x, keepdim=true)", {{2, 3, 4}}, {{1, 1, 1}}},
      {"sum(x, 1)", {{2, 3, 4}}, {{2, 4}}},
      {"sum(x, -1, true)", {{2, 3, 4}}, {{2, 3, 1}}},
      {"sum(x, (0, -1))", {{2, 3, 4}}, {{3}}},
      {"amax(x, (1, ...), true)", {{2, 3, 4, 5}}, {{2, 1, 1, 1}}},
      {"mean(x, (1, ...))", {{2, 3, 4, 5}}, {{2}}},
      {"var(x, 0)", {{1, 3}}, {{3}}},
      {"sum(x)", {{}}, {{}}},
      {"sum(x, 1)", {{3, 0, 2}}, {{3, 2}}},
      {"sum(x + b, 0)", {{4, 1}, {5}}, {{5}}},
      {"softmax(x, 1)", {{2, 3, 4}}, {{2, 3, 4}}},
      {"logsumexp(x, (0, 1))", {{2, 3, 4}}, {{4}}},
      {"unflatten(x, 1, (3, -1))", {{2, 12}}, {{2, 3, 4}}},
      {"unflatten(x, -2, (-1, 2))", {{2, 12, 5}}, {{2, 6, 2, 5}}},
      {"flatten(x)", {{2, 3, 4}}, {{24}}},
      {"sum_to(x, b)", {{2, 3, 4}, {3, 1}}, {{3, 1}}},
      {"sum_to(x, b)", {{2, 3, 4}, {}}, {{}}},
      {"sum_to(x, b)", {{3, 4}, {3, 4}}, {{3, 4}}},
      {"expand_as(x, b)", {{3, 1}, {2, 3, 4}}, {{2, 3, 4}}},
      {"reshape_as(x, b)", {{6, 4}, {2, 3, 4}}, {{2, 3, 4}}},
      {"unsqueeze_as(x, b, (0, 2))", {{3}, {2, 3, 4}}, {{1, 3, 1}}},
      {"repeat_as(x, b, -1, 3, 1)", {{2, 3}, {2, 8}}, {{2, 8}}},
      {"count(x, (0, -1))", {{2, 3, 4}}, {{}}},
      {"flatten(x, 1)", {{2, 3, 4}}, {{2, 12}}},
      {"flatten(x, 0, 1)", {{2, 3, 4}}, {{6, 4}}},
      {"x * along(w, x, 1)", {{2, 3, 4, 5}, {3}}, {{2, 3, 4, 5}}},
      {"along(w, x, 1)", {{3}, {2, 3, 4}}, {{1, 3, 1}}},
      {"group_norm(x, 4, w, b)", {{2, 8, 3, 5}, {8}, {8}}, {{2, 8, 3, 5}}},
      {"group_norm(x, 8)", {{2, 8}}, {{2, 8}}},
      {"m = mean(x, -1, true); return x - m, m, amax(x)", {{6, 7}}, {{6, 7}, {6, 1}, {}}},
  };
  for (const Row& row : rows) EXPECT_EQ(shapes_of(row.chain, row.operands), row.results) << row.chain;
}

TEST(Shapes, MistakesNameTheOperation) {
  struct Row {
    const char* chain;
    std::vector<Dims> operands;
    std::vector<std::string> says;
  };
  const std::vector<Row> rows = {
      {"sum(x, 2)", {{3, 4}}, {"axis 2 of 'sum'", "2 dimensions"}},
      {"mean(x, -3)", {{3, 4}}, {"axis -3 of 'mean'", "2 dimensions"}},
      {"amax(x, 0)", {{}}, {"axis 0 of 'amax'", "0 dimensions"}},
      {"sum(x, (1, -1))", {{3, 4}}, {"'sum'", "dimension 1", "twice"}},
      {"x - mean(x, 1)", {{3, 4}}, {"'sub'", "[3, 4] and [3]", "keepdim=true"}},
      {"x + b", {{3, 4}, {3}}, {"operand 'b'", "does not broadcast"}},
      {"sum(x + b, 0)", {{3, 4}, {3}}, {"'add'", "[3, 4] and [3]"}},
      {"group_norm(x, 3)", {{2, 8, 4}}, {"'group_norm'", "dimension 1", "[2, 8, 4]", "8 is not divisible"}},
      {"unflatten(x, 0, (2, 3))", {{7}}, {"'unflatten'", "7 is not divisible"}},
      {"flatten(x, 1, 0)", {{3, 4}}, {"'flatten'", "1 to 0"}},
      {"x + along(w, x, 1)", {{3, 4}, {2, 2}}, {"'along'", "[2, 2]"}},
      {"x + along(w, x, 1)", {{3, 4}, {5}}, {"'add'", "[3, 4] and [1, 5]"}},
      {"x + along(w, x, 2)", {{3, 4}, {5}}, {"axis 2 of 'along'"}},
      {"amax(x, 1)", {{3, 0}}, {"'amax'", "without elements", "[3, 0]"}},
      {"softmax(x, 1)", {{3, 0}}, {"'softmax'", "without elements"}},
      {"sum_to(x, b)", {{3, 4}, {3}}, {"'sum_to'", "[3, 4]", "[3]"}},
      {"sum_to(x, b)", {{4}, {3, 4}}, {"'sum_to'", "[4]", "[3, 4]"}},
      {"expand_as(x, b)", {{3, 4}, {4}}, {"'expand_as'", "[3, 4]", "[4]"}},
      {"reshape_as(x, b)", {{3, 4}, {5}}, {"'reshape_as'", "[3, 4]", "[5]", "number of elements"}},
      {"repeat_as(x, b, 1, 2)", {{3, 3}, {2, 8}}, {"'repeat_as'", "[3, 3]", "[2, 8]", "dimension 1"}},
      {"unsqueeze_as(x, b, 1)", {{4}, {3, 4}}, {"'unsqueeze_as'", "[3, 4]", "axis=1", "[4]"}},
      {"x * count(b, 2)", {{3, 4}, {3, 4}}, {"axis 2 of 'count'", "2 dimensions"}},
  };
  for (const Row& row : rows) {
    try {
      shapes_of(row.chain, row.operands);
      ADD_FAILURE() << row.chain << " was accepted";
    } catch (const Error& error) {
      EXPECT_TRUE(error.is_bad_input()) << row.chain;
      for (const std::string& segment : row.says)
        EXPECT_NE(std::string(error.what()).find(segment), std::string::npos) << row.chain << "\n" << error.what();
    }
  }
}

TEST(Shapes, AnOutputOfAnotherShapeIsRefused) {
  const ir::Program program = Epilogue::parse("mean(x, 1, true)").program();
  const std::vector<TensorView> inputs = floats({{3, 4}});
  for (const Dims& shape : {Dims{3}, Dims{3, 4}, Dims{1, 3}}) {
    const OutputView output(nullptr, DType::f32, shape);
    try {
      make_plan(program, std::span(&output, 1), inputs, Views::abstract);
      ADD_FAILURE() << to_string(shape);
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("the chain's result has shape [3, 1]"), std::string::npos)
          << error.what();
    }
  }
}

}  // namespace
}  // namespace epifuse::plan
