// What is read at indices, on the CPU device: as PyTorch defines it, with sentences for what is out of range or does
// not fit.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <epifuse/epifuse.hpp>

#include "api/drawn_views.hpp"
#include "support/as_written.hpp"
#include "support/index_functions.hpp"
#include "support/row_view_functions.hpp"
#include "support/written_functions.hpp"

namespace epifuse::test {
namespace {

TEST(IndexFunctions, RandomCasesAgreeWithTheirDefinitions) {
  expect_definitions(test_seed(2031), 20'000, draw_index_function, index_functions(), 20'000 / 20);
}

// What stands behind whole rows, read through views.
TEST(RowViews, RandomCasesAgreeWithTheirDefinitions) {
  expect_definitions(test_seed(2810), 2'000, draw_row_view_function, row_view_functions(), 2'000 / 12);
}

// Windows and slices of them, which have other elements than the rows.
TEST(RowViews, WindowsAndSlicesAgreeWithTheirDefinitions) {
  expect_definitions(test_seed(2814), 2'000, draw_written_function, written_functions(), 2'000 / 12);
}

TEST(IndexFunctions, ExpressionsAndTextAreOneChain) {
  const Expr x = input("x");
  const Expr i = input("i");
  const std::vector<std::pair<Expr, std::string>> same = {
      {take(x, i), "take(x, i)"},
      {take(x, i, -1), "take(x, indices=i, axis=-1)"},
      {index_select(x, 1, i), "index_select(x, 1, i)"},
      {index_select(x, 1, i), "index_select(x, dim=1, index=i)"},
      {embedding(i, x), "embedding(i, x)"},
      {gather(x, 1, i), "gather(x, 1, i)"},
      {index_copy(x, -1, i, input("y")), "index_copy(x, dim=-1, index=i, source=y)"},
      {one_hot(i, 5), "one_hot(i, 5)"},
      {rope(x, input("c"), input("s"), i), "rope(x, c, s, i)"},
      {rope(x, input("c"), input("s"), i, true), "rope(x, c, s, positions=i, interleaved=true)"},
  };
  for (const auto& [expression, text] : same)
    EXPECT_EQ(Epilogue{expression}.str(), Epilogue::parse(text).str()) << text;
}

// A chain over a table of f32 and indices of i64.
class Launch {
 public:
  Launch(Dims table, std::vector<std::int64_t> indices, Dims shape, DType index_type = DType::i64)
      : indices_(std::move(indices)),
        in_{TensorView(nullptr, DType::f32, table), TensorView(nullptr, index_type, shape)} {
    std::int64_t elements = 1;
    for (const std::int64_t extent : table) elements *= extent;
    for (std::int64_t i = 0; i < elements; ++i) table_.push_back(static_cast<float>(i));
    in_[0].data = table_.data();
    in_[1].data = indices_.data();
  }

  // What the launch says; empty if it runs.
  std::string run(const std::string& chain) {
    try {
      const Epilogue tail = as_written(chain);
      const std::span<const TensorView> inputs(in_.data(), tail.inputs().size());
      const Dims shape = tail.result_shapes(inputs)[0];
      result.assign(64, 0.0F);
      const OutputView out(result.data(), DType::f32, shape);
      Engine(Device::cpu()).launch(tail, nullptr, std::span(&out, 1), inputs);
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  }

  std::vector<float> result;

 private:
  std::vector<float> table_;
  std::vector<std::int64_t> indices_;
  std::array<TensorView, 2> in_;
};

TEST(IndexFunctions, WhatIsOutOfRangeIsASentence) {
  EXPECT_EQ(Launch({4, 2}, {1, 4}, {2}).run("index_select(x, 0, i)"),
            "'index_select' is out of range: operand 'i' holds 4, and 'x[i]' has indices from 0 to 3");
  EXPECT_EQ(Launch({4, 2}, {0, -1}, {2}).run("index_select(x, 0, i)"),
            "'index_select' is out of range: operand 'i' holds -1, and 'x[i]' has indices from 0 to 3");
  EXPECT_EQ(Launch({4, 2}, {0, -5}, {2}).run("take(x, i)"),
            "'take' is out of range: operand 'i' holds -5, and 'x[i]' has indices from -4 to 3");
  EXPECT_EQ(Launch({3, 2}, {2, 0}, {1, 2}).run("gather(x, 1, i)"),
            "'gather' is out of range: operand 'i' holds 2, and 'gather(x[:1], 1, i)' has indices from 0 to 1");
  EXPECT_EQ(Launch({4, 2}, {1 << 20, 3}, {2}).run("layer_norm(take(x * 2, i))"),
            "'take' is out of range: operand 'i' holds 1048576, and 'x[i]' has indices from -4 to 3");
}

// Which of the indices count are those that a result needs.
TEST(IndexFunctions, IndicesThatNobodyReadsMayBeAnything) {
  Launch launch({4, 2}, {99, 3}, {2});
  EXPECT_EQ(launch.run("take(x, i)[1]"), "");
  EXPECT_EQ(std::vector<float>(launch.result.begin(), launch.result.begin() + 2), (std::vector<float>{6, 7}));
}

TEST(IndexFunctions, WhatDoesNotFitIsASentence) {
  const auto expect = [](const std::string& chain, Launch launch, const std::string& part) {
    const std::string found = launch.run(chain);
    EXPECT_NE(found.find(part), std::string::npos) << chain << "\n  said: " << found << "\n  wanted: " << part;
  };
  expect("take(x, i)", Launch({4, 2}, {0}, {1}, DType::f32), "'take' takes indices of i32 or i64; operand 'i' is f32");
  expect("take(x, i, 2)", Launch({4, 2}, {0}, {1}), "'take' reads dimension 2 at indices, but its argument has 2");
  expect("take(x, i, 9)", Launch({4, 2}, {0}, {1}), "axis 9 of 'take' is out of range");
  expect("take(x, i + 1)", Launch({4, 2}, {0}, {1}),
         "'take' takes an index that is an operand of the chain, or a view of one; found 'add(…)'");
  expect("take(softmax(x, 1), i)", Launch({4, 2}, {0}, {1}),
         "a view of 'softmax(…)' takes elements of shape [1, 2] that no operand has: there is a reduction before it");
  expect("gather(x, 1, i)", Launch({4, 2}, {0}, {1}), "the arguments of 'gather' have shapes [4, 2] and [1]");
  expect("gather(x, 0, i)", Launch({4, 2}, {0, 0, 0}, {1, 3}), "no more elements in any but dimension 0");
  expect("take(pad(x, (0, 0, 1, 1)), i)", Launch({4, 2}, {0}, {1}), "of which elements do not exist");
  expect("reshape(take(x, i), (4,))", Launch({4, 2}, {0, 1}, {2}),
         "merges or splits a dimension that is read at indices");
  expect("take(take(take(x, i), i, 1), i, 0)", Launch({4, 4}, {0, 1}, {2}), "at indices of more than 2 dimensions");
  expect("one_hot(i, 0)", Launch({4, 2}, {0}, {1}), "'one_hot' has one class or more, found num_classes=0");
  expect("one_hot(i, 3)", Launch({4, 2}, {0}, {1}, DType::f32),
         "'one_hot' takes classes of i32 or i64; found 'i', which is f32");
  expect("one_hot(x > 1, 3)", Launch({4, 2}, {0}, {1}), "found 'gt(…)', which is bool");
  expect("rope(x, x, x, true)", Launch({4, 2}, {0}, {1}), "'rope' takes an index that is an operand");
}

TEST(IndexFunctions, AResultMayNotLieInTheTable) {
  std::vector<float> memory = {0, 1, 2, 3, 4, 5, 6, 7};
  const std::vector<std::int32_t> ids = {1, 0};
  const std::array<TensorView, 2> in = {TensorView(memory.data(), DType::f32, {2, 2}),
                                        TensorView(ids.data(), DType::i32, {2})};
  const auto launch = [&](std::size_t first) {
    const OutputView out(memory.data() + first, DType::f32, {2, 2});
    Engine(Device::cpu()).launch(as_written("take(x, i)"), nullptr, std::span(&out, 1), in);
  };
  EXPECT_THROW(launch(0), Error);
  EXPECT_THROW(launch(3), Error);
  launch(4);
  EXPECT_EQ(memory, (std::vector<float>{0, 1, 2, 3, 2, 3, 0, 1}));
}

TEST(IndexFunctions, ResultsHaveTheirTypes) {
  const std::array<TensorView, 2> in = {TensorView(nullptr, DType::f16, {4, 6}), TensorView(nullptr, DType::i32, {3})};
  const auto type = [&](const char* chain) { return as_written(chain).result_types(in)[0]; };
  EXPECT_EQ(type("take(x, i)"), DType::f16);
  EXPECT_EQ(type("index_select(x > 0, 1, i)"), DType::boolean);
  EXPECT_EQ(type("x[0, 0] + one_hot(i, 6)"), DType::f16);
  EXPECT_EQ(type("gather(x, 0, i[None])"), DType::f16);
}

// A row is read at once: what bandwidth is spent on moves 16 bytes at a time, and an index is read for each vector.
TEST(IndexFunctions, RowsOfTablesAreReadInVectors) {
  const std::array<TensorView, 2> in = {TensorView(nullptr, DType::i64, {64, 128}),
                                        TensorView(nullptr, DType::f16, {50'000, 768})};
  for (const char* chain : {"embedding(i, w) * 2", "layer_norm(embedding(i, w))"}) {
    const Epilogue epilogue = as_written(chain);
    const OutputView out(nullptr, DType::f16, epilogue.result_shapes(in)[0]);
    const Inspection inspection(epilogue, std::span(&out, 1), in);
    const PlanSummary& plan = inspection.plan();
    EXPECT_EQ(plan.operands[1].access, "gathered") << chain;
    EXPECT_EQ(plan.operands[1].bytes_per_access, 16) << chain;
    EXPECT_EQ(plan.bytes_read, 64U * 128 * 8 + 64U * 128 * 768 * 2) << chain;
  }
}

// One kernel serves every shape of its class: how many rows there are reaches it as parameters.
TEST(IndexFunctions, TablesOfOtherShapesShareAKernel) {
  const Epilogue chain = as_written("relu(embedding(i, w))");
  const auto source = [&](std::int64_t rows, std::int64_t width) {
    const std::array<TensorView, 2> in = {TensorView(nullptr, DType::i64, {64}),
                                          TensorView(nullptr, DType::f16, {rows, width})};
    const OutputView out(nullptr, DType::f16, {64, width});
    return Inspection(chain, std::span(&out, 1), in).cuda();
  };
  EXPECT_EQ(source(100, 256), source(1000, 512));
}

}  // namespace
}  // namespace epifuse::test
