// Results that are written at indices into an operand's memory, on the CPU device and as plans: where they go, what
// they cost, and sentences for what cannot be.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <epifuse/epifuse.hpp>

#include "support/as_written.hpp"
#include "support/copy_cases.hpp"

namespace epifuse::test {
namespace {

// What is written at indices, byte by byte.
TEST(IndexCopy, RandomCasesAreWhereIndicesSay) {
  const std::uint64_t seed = test_seed(2805);
  Random seeds(seed);
  Engine engine(Device::cpu());
  std::map<std::string, int> counts;
  for (int i = 0; i < 4'000; ++i) {
    const std::uint64_t own = seeds.bits();
    const CopyCase test(own);
    ++counts[test.kind()];
    try {
      engine.launch(test.tail(), nullptr, test.outputs(), test.inputs());
    } catch (const Error& error) {
      FAIL() << error.what() << "\n  " << test.text() << "\n  case " << own << ", EPIFUSE_TEST_SEED=" << seed;
    }
    ASSERT_EQ(test.judge(), "") << test.text() << "\n  case " << own << ", EPIFUSE_TEST_SEED=" << seed;
  }
  for (const std::string& kind : CopyCase::kinds()) EXPECT_GT(counts[kind], 200) << kind;
}

// A cache of three rows of two in f32, slots, and rows for it.
struct Cache {
  std::vector<float> memory = {0, 1, 2, 3, 4, 5};
  std::vector<std::int64_t> slots = {2, -1};
  std::vector<float> rows = {10, 20, 30, 40};
  TensorView cache{memory.data(), DType::f32, {3, 2}};
  TensorView index{slots.data(), DType::i64, {2}};
  TensorView x{rows.data(), DType::f32, {2, 2}};

  OutputView over() { return {memory.data(), DType::f32, {3, 2}}; }
  // What the launch says; empty if it runs. Operands are c, i and x.
  std::string run(const std::string& chain, const OutputView& out) {
    try {
      const Epilogue tail = Epilogue::parse("input c, i, x; " + chain);
      const std::array<TensorView, 3> in = {cache, index, x};
      Engine(Device::cpu()).launch(tail, nullptr, std::span(&out, 1), in);
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  }
};

TEST(IndexCopy, RowsGoWhereIndicesSayAndNothingElseIsWritten) {
  Cache test;
  EXPECT_EQ(test.run("index_copy(c, 0, i, x * 2)", test.over()), "");
  EXPECT_EQ(test.memory, (std::vector<float>{0, 1, 2, 3, 20, 40}));
}

TEST(IndexCopy, WhatCannotBeIsASentence) {
  const auto expect = [](const std::string& chain, Cache test, const std::string& part) {
    test.cache.data = test.memory.data();
    test.index.data = test.slots.data();
    test.x.data = test.rows.data();
    const std::string found = test.run(chain, test.over());
    EXPECT_NE(found.find(part), std::string::npos) << chain << "\n  said: " << found << "\n  wanted: " << part;
    EXPECT_EQ(test.memory, Cache().memory) << chain;
  };
  expect("index_copy(c, 0, i, x) + 1", {}, "it is a result and nothing computes with it");
  expect("index_copy(c * 2, 0, i, x)", {}, "'index_copy' writes into the memory of an operand; found 'mul(…)'");
  expect("index_copy(c, 0, i, x + c[:2])", {}, "is written at indices, and lies among the memory of operand 'c[:2]'");
  expect("index_copy(c, 2, i, x)", {}, "'index_copy' writes dimension 2 at indices, but its argument has 2 dimensions");
  expect("index_copy(c, 1, i, x)", {}, "found shapes [2] and [2, 2]");
  expect("index_copy(c, 0, i, x[0])", {}, "takes an index of one dimension and a source of the same shape");
  Cache floats;
  floats.index = TensorView(nullptr, DType::f32, {2});
  expect("index_copy(c, 0, i, x)", floats, "takes indices of i32 or i64; operand 'i' is f32");
  Cache test;
  std::vector<float> other(6);
  const std::string elsewhere = test.run("index_copy(c, 0, i, x)", OutputView(other.data(), DType::f32, {3, 2}));
  EXPECT_NE(elsewhere.find("must be the memory of operand 'c', which it writes into"), std::string::npos) << elsewhere;
  EXPECT_NE(elsewhere.find("Pass the tensor 'c' as the output, too"), std::string::npos) << elsewhere;
}

TEST(IndexCopy, HasNoGradient) {
  try {
    gradient(Epilogue::parse("index_copy(c, 0, i, x * 2)"), {"x"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'index_copy' writes into the memory of an operand, and has no gradient"),
              std::string::npos)
        << error.what();
  }
}

TEST(IndexCopy, TellsWhoseMemoryAResultIs) {
  const Epilogue tail = as_written("y = x * 2; return y, index_copy(c, 0, i, y)");
  EXPECT_EQ(tail.destinations(), (std::vector<std::string>{"", "c"}));
  const std::array<TensorView, 3> in = {TensorView(nullptr, DType::bf16, {4, 8}),
                                        TensorView(nullptr, DType::f8e4m3, {100, 8}),
                                        TensorView(nullptr, DType::i64, {4})};
  EXPECT_EQ(tail.result_types(in)[1], DType::f8e4m3);
  EXPECT_EQ(tail.result_shapes(in)[1], (Dims{100, 8}));
}

constexpr const char* kKeys =
    "input k, w, cos, sin, positions, keys, scales, slots; q, s = quantize(rope(rms_norm(k, w, eps=1e-6), cos, sin, "
    "positions), f8e4m3); return index_copy(keys, 0, slots, q), index_copy(scales, 0, slots, s)";

// Norm of heads, rotary embedding, quantisation and both caches.
Inspection inspect_keys(std::int64_t tokens, std::int64_t slots) {
  const std::int64_t heads = 8;
  const std::int64_t head = 128;
  const std::vector<TensorView> in = {TensorView(nullptr, DType::bf16, {tokens, heads, head}),
                                      TensorView(nullptr, DType::bf16, {head}),
                                      TensorView(nullptr, DType::f32, {8192, head / 2}),
                                      TensorView(nullptr, DType::f32, {8192, head / 2}),
                                      TensorView(nullptr, DType::i64, {tokens, 1}),
                                      TensorView(nullptr, DType::f8e4m3, {slots, heads, head}),
                                      TensorView(nullptr, DType::f32, {slots, heads, 1}),
                                      TensorView(nullptr, DType::i64, {tokens})};
  const std::array<OutputView, 2> out = {OutputView(nullptr, DType::f8e4m3, {slots, heads, head}),
                                         OutputView(nullptr, DType::f32, {slots, heads, 1})};
  return {as_written(kKeys), out, in};
}

// Every byte once: keys are read once, and written once with one scale for each head. Caches of all sizes share a
// kernel.
TEST(IndexCopy, KeysGoIntoAPagedCacheInOneKernel) {
  const Inspection inspection = inspect_keys(4096, 65'536);
  const PlanSummary& plan = inspection.plan();
  EXPECT_EQ(plan.schedule, "resident");
  EXPECT_EQ(plan.bytes_written, 4096U * 8 * 128 + 4096U * 8 * 4);
  const std::uint64_t tables =
      4096U * 64 * 4 * 2 + 4096U * 8 * 2 + 128U * 2;  // a row for each token, positions, slots, weights
  EXPECT_EQ(plan.bytes_read, 4096U * 8 * 128 * 2 + tables);
  EXPECT_EQ(inspection.cuda(), inspect_keys(512, 1024).cuda());
  const auto written = [&](const char* name) {
    return std::ranges::find(plan.operands, name, &OperandSummary::name)->why;
  };
  EXPECT_NE(written("out0").find("where 'slots' says"), std::string::npos) << written("out0");
  EXPECT_NE(written("slots").find("says where 'out"), std::string::npos) << written("slots");
}

}  // namespace
}  // namespace epifuse::test
