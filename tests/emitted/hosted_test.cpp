// Chains with reductions that the kernel of a product hosts: the emitted text runs on the CPU by the model of sm_90a or
// of warps that multiply, the chains of its partial results on the CPU device, and all results are compared with chains
// of one result each, which the CPU device computes behind the product. And what must be found in kernels that were
// broken on purpose.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "emitted/gemm_run.hpp"
#include "plan/gemm/inside.hpp"
#include "support/as_written.hpp"

namespace epifuse::test {
namespace {

// An operand by its name: x is the left factor, w and v are right ones, u is one with a batch where rows have one, b
// varies along columns, c along rows, r along both.
struct HostedChain {
  const char* values;                ///< what the results are made of
  std::vector<const char*> results;  ///< the tensor may stand anywhere
  std::vector<DType> types;
  int groups = 1;  ///< columns are multiples of this
};

const std::vector<HostedChain>& hosted_chains() {
  using enum DType;
  static const std::vector<HostedChain> all = {
      {"y = relu(linear(x, w, b)) + r; ", {"y", "rsqrt(mean(square(y), axis=-1, keepdim=true) + 0.001)"}, {bf16, f32}},
      {"y = linear(x, w); ", {"y", "amax(abs(y))", "sum(y, axis=ROWS)"}, {f16, f32, f32}},
      {"y = linear(x, w) * c; ",
       {"sum(y, axis=-1, keepdim=true) * c", "y", "amin(y, axis=-1, keepdim=true) + 1", "amax(y, axis=ROWS)"},
       {f32, bf16, f16, f32}},
      {"y = linear(x, w) * linear(x, v); ", {"y", "mean(y)"}, {bf16, f32}},
      {"q, s = quantize(relu(linear(x, w, b)), f8e4m3, 128); ", {"q", "s"}, {f8e4m3, f32}, 128},
      {"q, s = quantize(linear(x, w) * c + r, f8e4m3, 32); ", {"s", "q"}, {f32, f8e4m3}, 32},
      {"q, s = quantize(linear(x, w) + r, i8, 64); ", {"q", "s"}, {i8, f32}, 64},
      {"q, s = quantize(linear(x, w) * linear(x, v), f8e5m2, 64); ", {"q", "s"}, {f8e5m2, f32}, 64},
      {"q, s = mx_quantize(linear(x, w) * c + r, f8e4m3); ", {"s", "q"}, {f8e8m0, f8e4m3}, 32},
      {"y = linear(x, w) + b; m = amax(abs(unflatten(y, -1, (-1, 128))), axis=-1, keepdim=true); ",
       {"flatten(unflatten(y, -1, (-1, 128)) / (m + 1), -2, -1)"},
       {bf16},
       128},
      {"y = matmul(x, transpose(u, -2, -1)) + r; ",
       {"y", "mean(abs(y), axis=-1)", "sum(y, axis=ROWS)"},
       {f16, f32, f32}},
      {"q, s = quantize(matmul(x, transpose(u, -2, -1)) * c, f8e4m3, 64); ", {"q", "s"}, {f8e4m3, f32}, 64},
  };
  return all;
}

struct Tensor {
  DType type;
  Dims shape;
  std::vector<std::byte> memory;

  TensorView view() const { return {memory.data(), type, shape}; }
  OutputView output() { return {memory.data(), type, shape}; }
  double at(std::size_t i) const { return static_cast<double>(decode(type, memory.data() + i * size_of(type))); }
  std::size_t elements() const { return memory.size() / size_of(type); }
};

Tensor filled(DType type, const Dims& shape, std::byte byte) {
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape) elements *= extent;
  return {type, shape, std::vector<std::byte>(static_cast<std::size_t>(elements) * size_of(type), byte)};
}

// Small multiples of 1/8, whose products f32 sums without rounding.
Tensor drawn(std::mt19937& random, DType type, const Dims& shape) {
  Tensor made = filled(type, shape, {});
  std::uniform_int_distribution<int> value(-16, 16);
  for (std::size_t i = 0; i < made.elements(); ++i)
    encode(type, value(random) / 8.0, made.memory.data() + i * size_of(type));
  return made;
}

class HostedProblem {
 public:
  HostedProblem(const HostedChain& chain, const Dims& rows, std::int64_t columns, std::int64_t depth, unsigned seed,
                DType factor = DType::bf16)
      : chain_(chain), rows_(rows), random_(seed), whole_(as_written(text(chain.results))) {
    const auto with = [&](std::int64_t last) {
      Dims shape = rows;
      shape.push_back(last);
      return shape;
    };
    for (const std::string& name : whole_.inputs()) {
      const bool is_right = name == "w" || name == "v" || name == "u";
      const Dims shape = name == "u" && rows.size() > 1 ? Dims{rows[0], columns, depth}
                         : is_right                     ? Dims{columns, depth}
                         : name == "x"                  ? with(depth)
                         : name == "b"                  ? Dims{columns}
                         : name == "c"                  ? with(1)
                                                        : with(columns);
      operands_.push_back(drawn(random_, is_right || name == "x" ? factor : DType::bf16, shape));
      views_.push_back(operands_.back().view());
    }
    for (std::size_t i = 0; i < chain.results.size(); ++i) {
      const Epilogue one = as_written(text({chain.results[i]}));
      const auto operands = operands_of(one);
      const std::vector<Dims> shapes = one.result_shapes(operands);
      expected_.push_back(filled(chain.types[i], shapes.at(0), {}));
      found_.push_back(filled(chain.types[i], shapes.at(0), std::byte{0x7f}));
      Engine(Device::cpu()).launch(one, nullptr, expected_.back().output(), operands);
    }
  }

  plan::Inside inside(const plan::Machine& machine) {
    const plan::WithoutProducts split = plan::split_products(whole_.program(), views_);
    auto planned = plan::plan_one_kernel(split, outputs(), views_, machine);
    if (auto* const why = std::get_if<std::string>(&planned)) throw std::runtime_error(*why);
    return std::get<plan::Inside>(std::move(planned));
  }

  std::optional<std::string> run(plan::Inside& inside, const CompiledText& compiled, When when) {
    std::vector<std::byte> partials(static_cast<std::size_t>(inside.plan.partial_bytes()), std::byte{0xff});
    inside.plan.workspace = partials.data();
    if (const auto wrong = test::run(inside.plan, inside.chain(), compiled, when)) return wrong;
    for (const plan::Finish& finish : inside.hosted.finishes) {
      const auto operands = inside.operands(finish, partials.data(), views_);
      const Epilogue tail = as_written(ir::print(finish.program));
      Engine(Device::cpu())
          .launch(tail, nullptr, inside.outputs(finish, outputs()),
                  std::vector<TensorView>(operands.begin(), operands.end()));
    }
    return judge();
  }

 private:
  std::string text(const std::vector<const char*>& results) const {
    std::string made = std::string(chain_.values) + "return ";
    for (const char* const result : results) made += (result == results[0] ? "" : ", ") + std::string(result);
    const std::string others = rows_.size() == 1 ? "0" : "(0, 1)";
    for (auto at = made.find("ROWS"); at != made.npos; at = made.find("ROWS")) made.replace(at, 4, others);
    return made;
  }
  std::vector<TensorView> operands_of(const Epilogue& tail) const {
    std::vector<TensorView> own;
    for (const std::string& name : tail.inputs()) {
      for (std::size_t i = 0; i < views_.size(); ++i) {
        if (whole_.inputs()[i] == name) own.push_back(views_[i]);
      }
    }
    return own;
  }
  std::vector<OutputView> outputs() {
    std::vector<OutputView> all;
    for (Tensor& result : found_) all.push_back(result.output());
    return all;
  }
  std::optional<std::string> judge() const {
    for (std::size_t k = 0; k < found_.size(); ++k) {
      for (std::size_t i = 0; i < found_[k].elements(); ++i) {
        const double got = found_[k].at(i);
        const double want = expected_[k].at(i);
        const double unit = is_floating(found_[k].type) ? static_cast<double>(spacing(found_[k].type, want)) : 1;
        if (std::abs(got - want) <= unit + std::abs(want) * 1e-5 + 1e-6) continue;
        return fmt::format("result {} at {} is {}, expected {}", k, i, got, want);
      }
    }
    return std::nullopt;
  }

  const HostedChain& chain_;
  Dims rows_;
  std::mt19937 random_;
  Epilogue whole_;
  std::vector<Tensor> operands_;
  std::vector<TensorView> views_;
  std::vector<Tensor> expected_, found_;
};

TEST(GemmEmitted, HostsReductions) {
  std::mt19937 random(30);
  const auto draw = [&](int most) { return std::uniform_int_distribution<int>(1, most)(random); };
  std::set<std::string_view> tiles;
  for (int number = 0; number < 50; ++number) {
    const HostedChain& chain = hosted_chains()[static_cast<std::size_t>(number) % hosted_chains().size()];
    const Dims rows = number % 4 == 3 ? Dims{3, draw(90)} : Dims{draw(number % 3 == 0 ? 600 : 280)};
    std::int64_t columns = 8 * draw(40);
    columns = (columns + chain.groups - 1) / chain.groups * chain.groups;
    if (chain.types[0] == DType::f8e4m3 || chain.groups > 1) columns = (columns + 15) / 16 * 16;
    const std::int64_t depth = 8 * draw(60);
    HostedProblem problem(chain, rows, columns, depth, static_cast<unsigned>(number));
    plan::Inside inside = problem.inside(plan::Machine(90, 2));
    tiles.insert(inside.plan.gemm_class.tile_name());
    const CompiledText compiled(codegen::emit_gemm(inside.chain(), inside.plan, codegen::Compilers::both));
    for (const When when : kAllTimes) {
      const auto wrong = problem.run(inside, compiled, when);
      EXPECT_FALSE(wrong) << *wrong << "\n"
                          << chain.values << chain.results[0] << ", rows " << to_string(rows) << ", " << columns
                          << " columns, depth " << depth << ", " << to_string(when) << ", case " << number << ", "
                          << inside.plan.gemm_class.tile_name();
    }
  }
  EXPECT_GE(tiles.size(), 3U);
}

// GPUs of which a product of few tiles has one or more for each multiprocessor.
plan::Machine warps_for(DType factor, int number) {
  static constexpr int kAll[] = {80, 86, 120, 89};
  return {factor == DType::f8e4m3 ? kAll[2 + number % 2] : kAll[number % 4], 1 + number % 7};
}

TEST(WarpGemmEmitted, HostsReductions) {
  static constexpr DType kFactors[] = {DType::bf16, DType::f16, DType::f8e4m3, DType::i8};
  std::mt19937 random(31);
  const auto draw = [&](int most) { return std::uniform_int_distribution<int>(1, most)(random); };
  std::set<std::string> seen;
  for (int number = 0; number < 60; ++number) {
    const HostedChain& chain = hosted_chains()[static_cast<std::size_t>(number) % hosted_chains().size()];
    // Sums of i8 leave no partial results.
    DType factor = kFactors[number / 12 % 4];
    if (factor == DType::i8 && chain.groups == 1) factor = DType::bf16;
    const Dims rows = number % 4 == 3 ? Dims{3, draw(90)} : Dims{draw(number % 3 == 0 ? 300 : 150)};
    const std::int64_t unit = chain.groups > 1 ? chain.groups : 8;
    const std::int64_t columns = (8 * draw(number % 5 == 0 ? 60 : 30) + unit - 1) / unit * unit;
    const std::int64_t depth = 16 * draw(20);
    HostedProblem problem(chain, rows, columns, depth, static_cast<unsigned>(number), factor);
    plan::Inside inside = problem.inside(warps_for(factor, number));
    const plan::GemmClass& made = inside.plan.gemm_class;
    ASSERT_NE(made.warp_tile(), nullptr);
    seen.insert(std::string(made.tile_name()) + (made.joins_warps()          ? ", groups of two warps"
                                                 : made.group_columns() != 0 ? ", groups of a warp"
                                                                             : ", partial results"));
    const CompiledText compiled(codegen::emit_gemm(inside.chain(), inside.plan, codegen::Compilers::both));
    for (const When when : kAllTimes) {
      const auto wrong = problem.run(inside, compiled, when);
      EXPECT_FALSE(wrong) << *wrong << "\n"
                          << chain.values << chain.results[0] << ", " << to_string(factor) << ", rows "
                          << to_string(rows) << ", " << columns << " columns, depth " << depth << ", "
                          << to_string(when) << ", case " << number << ", " << made.tile_name();
    }
  }
  EXPECT_EQ(seen.size(), 9U) << "each tile with all three";
}

struct ReductionFault {
  const HostedChain& chain;
  Fault fault;
};

// Each in the kernel of a chain that it changes.
TEST(WarpGemmModel, FindsFaultsInReductions) {
  // Elements beyond the last row and column are 40.
  const HostedChain partials{
      "y = linear(x, w) + 40; ", {"y", "sum(y, axis=-1)", "sum(y, axis=ROWS)"}, {DType::f32, DType::f32, DType::f32}};
  const HostedChain& of_warp = hosted_chains()[6];
  const HostedChain& of_two_warps = hosted_chains()[4];
  const std::vector<ReductionFault> faults = {
      {partials, {"if (column < p.n) partial", "partial"}},
      {partials, {"row < p.m ? reduced", "true ? reduced"}},
      {partials, {"if (row + 8 < p.m) partial", "partial"}},
      {partials, {"block == 0 ? partial", "true ? partial"}},
      {of_warp, {"value, 1)", "value, 0)"}},
      {of_two_warps, {"    meet_beside(warp_row);\n", ""}},
      {of_two_warps, {"meet_beside(warp_row)", "__syncwarp()"}},
  };
  for (const auto& [chain, fault] : faults) {
    HostedProblem problem(chain, {90}, chain.groups > 1 ? 256 : 200, 80, 3);
    plan::Inside inside = problem.inside(plan::Machine(80, 2));
    expect_found(codegen::emit_gemm(inside.chain(), inside.plan, codegen::Compilers::both), std::span(&fault, 1),
                 [&](const CompiledText& text, When when) { return problem.run(inside, text, when); });
  }
}

}  // namespace
}  // namespace epifuse::test
