// Parts of chains: cut at any of its values, a chain gives what it gives in one piece; names, types of computation,
// what is refused.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <epifuse/epifuse.hpp>

#include "support/as_written.hpp"

namespace epifuse {
namespace {

struct Array {
  Dims shape;
  std::vector<double> data;
};

std::vector<Array> run(const Epilogue& tail, const std::vector<Array>& inputs) {
  std::vector<TensorView> views;
  for (const Array& input : inputs) views.emplace_back(input.data.data(), DType::f64, input.shape);
  std::vector<Array> results;
  for (const Dims& shape : tail.result_shapes(views)) {
    std::size_t count = 1;
    for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
    results.push_back({shape, std::vector<double>(count, -77.0)});
  }
  std::vector<OutputView> outputs;
  for (Array& result : results) outputs.emplace_back(result.data.data(), DType::f64, result.shape);
  static Engine engine(Device::cpu());
  engine.launch(tail, nullptr, outputs, views);
  return results;
}

// Operands 2×6×5 "x", 5 "w" and "b", by name.
Array operand(const std::string& name) {
  Array array{name == "x" ? Dims{2, 6, 5} : Dims{5}, std::vector<double>(name == "x" ? 60 : 5)};
  for (std::size_t i = 0; i < array.data.size(); ++i)
    array.data[i] = static_cast<double>((i * 37 + static_cast<std::size_t>(name[0]) * 11) % 64) / 16 - 1.9;
  return array;
}

// The chain cut at the value at `at` alone: one part computes that, another the results from it.
std::vector<Array> run_cut(const Epilogue& whole, const std::vector<Array>& operands, int at) {
  const Chain chain = chain_of(whole);
  const auto given = [&](const Subchain& part, const Array& value) {
    std::vector<Array> inputs;
    for (const int position : part.reads) {
      if (position == at) {
        inputs.push_back(value);
        continue;
      }
      const std::string& name = chain.values[static_cast<std::size_t>(position)].name;
      for (std::size_t i = 0; i < operands.size(); ++i) {
        if (whole.inputs()[i] == name) inputs.push_back(operands[i]);
      }
    }
    return inputs;
  };
  const std::vector<int> cut = {at};
  const Subchain before = subchain_of(whole, cut, {});
  const Subchain behind = subchain_of(whole, chain.results, cut);
  const Array value = run(before.epilogue, given(before, {})).front();
  return run(behind.epilogue, given(behind, value));
}

TEST(Subchain, OfAChainCutAnywhereGivesTheSame) {
  int cuts = 0;
  for (const char* text :
       {"gelu(layer_norm(x + w, w, b))", "y = softmax(x * w, -1); return y, mean(y, 1)",
        "g = unflatten(x, 1, (2, 3)); mean(flatten(g * 2, 1, 2) ** 2, axis=(1, 2))", "rms_norm(x, w) + along(b, x, 2)",
        "m = amax(x, -1, keepdim=true); where(x == m, 1, 0) / sum(x == m, -1, keepdim=true) - count(x, -1)",
        "v = var(x, axis=-1, correction=0, keepdim=true); expand_as(w, x) * (x - b) / v",
        "sum_to(x * w, w) + cast(b, f32)",
        "s = sum(x, 1); return unsqueeze_as(s, x, 1) * x, reshape_as(flatten(x), x)"}) {
    const Epilogue whole = test::as_written(text);
    std::vector<Array> operands;
    for (const std::string& name : whole.inputs()) operands.push_back(operand(name));
    const std::vector<Array> expected = run(whole, operands);
    const Chain chain = chain_of(whole);
    for (std::size_t at = 0; at < chain.values.size(); ++at) {
      const ChainValue& value = chain.values[at];
      // Truth values are bool and no f64; constants have no operand, and a launch needs one.
      if (value.gives_truth || value.op == "constant" || value.op == "input" || value.op == "count") continue;
      std::vector<Array> found;
      try {
        found = run_cut(whole, operands, static_cast<int>(at));
      } catch (const Error& error) {
        ASSERT_EQ(error.code(), ErrorCode::unsupported) << error.what();
        continue;  // a part need not be one kernel
      }
      ++cuts;
      ASSERT_EQ(found.size(), expected.size()) << text;
      for (std::size_t i = 0; i < found.size(); ++i) {
        ASSERT_EQ(found[i].shape, expected[i].shape) << text << " at " << at;
        for (std::size_t k = 0; k < found[i].data.size(); ++k)  // sums of a stored value may run in another order
          ASSERT_NEAR(found[i].data[k], expected[i].data[k], 1e-12) << text << " at " << value.op << ", " << at;
      }
    }
  }
  EXPECT_GE(cuts, 40);
}

TEST(Subchain, SaysWhatItReadsByNamesThatAreFree) {
  const Epilogue whole = Epilogue::parse("scalar v3; input unused; t = v2 + b; return exp(t) * v3, t");
  const Chain chain = chain_of(whole);
  const std::vector<int> sum = {chain.results[1]};
  const Subchain before = subchain_of(whole, sum, {});
  EXPECT_EQ(before.epilogue.str(), "input v2, b; v2 + b");
  EXPECT_TRUE(before.epilogue.scalars().empty());
  const Subchain behind = subchain_of(whole, chain.results, sum);
  EXPECT_EQ(behind.reads, sum);
  EXPECT_EQ(behind.epilogue.scalars(), (std::vector<std::string>{"v3"}));
  for (const std::string& name : behind.epilogue.inputs())
    EXPECT_TRUE(name != "v2" && name != "v3" && name != "b") << name;  // is another value's
}

TEST(Subchain, KeepsMathAndComputesAsTheWholeDoes) {
  const Epilogue whole = Epilogue::parse("mean(x, -1, keepdim=true) * w").with(Math::precise);
  const std::vector<TensorView> x = {{nullptr, DType::f32, {4, 8}}};
  const std::vector<DType> stored = {DType::f64};
  const std::vector<int> mean = {1};
  ASSERT_EQ(chain_of(whole).values[1].op, "mean");
  const Subchain plain = subchain_of(whole, mean, {});
  EXPECT_EQ(plain.epilogue.math(), Math::precise);
  EXPECT_EQ(plain.epilogue.compute_type(x, stored), DType::f32);
  EXPECT_EQ(subchain_of(whole, mean, {}, {true}).epilogue.compute_type(x, stored), DType::f64);
}

TEST(Subchain, RefusesInSentences) {
  const Epilogue whole = Epilogue::parse("x * 2");
  const auto refusal = [&](const std::vector<int>& writes, const std::vector<int>& known) -> std::string {
    try {
      subchain_of(whole, writes, known);
      return "none";
    } catch (const Error& error) {
      return error.what();
    }
  };
  EXPECT_NE(refusal({7}, {}).find("the chain has no value 7: its 3 values count from 0"), std::string::npos);
  EXPECT_NE(refusal({2}, {-1}).find("the chain has no value -1"), std::string::npos);
  EXPECT_NE(refusal({}, {}).find("a part of a chain writes at least one value"), std::string::npos);
}

TEST(ComputeType, IsThatOfOperandsCastsAndIntegers) {
  const auto type = [](std::string_view chain, DType x, DType result) {
    const Epilogue tail = test::as_written(chain);
    const std::vector<TensorView> inputs(tail.inputs().size(), TensorView(nullptr, x, {4, 8}));
    return tail.compute_type(inputs, std::vector<DType>(tail.results().size(), result));
  };
  EXPECT_EQ(type("x + 1", DType::f16, DType::f16), DType::f32);
  EXPECT_EQ(type("x + 1", DType::f64, DType::f16), DType::f64);
  EXPECT_EQ(type("cast(x, f64) + 1", DType::f16, DType::f16), DType::f64);
  EXPECT_EQ(type("x + 1", DType::i64, DType::i64), DType::f64);
  EXPECT_EQ(type("x + 1", DType::i64, DType::f32), DType::f32);
  EXPECT_EQ(type("sum(x, 1)", DType::i8, DType::i64), DType::f32);  // 8 of them
  // No one kernel computes this; each sum may be of any length.
  EXPECT_EQ(type("s = sum(x, 1); t = sum(x, 0); return s, t, unsqueeze_as(s, x, 1) * 1.0", DType::f32, DType::f32),
            DType::f32);
}

}  // namespace
}  // namespace epifuse
