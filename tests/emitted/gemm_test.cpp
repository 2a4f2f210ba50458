// Emitted products that host a chain, run on the CPU by the model of what sm_90a does asynchronously, against sums in f64; and what the model must find in
// kernels that were broken on purpose.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <random>

#include <spdlog/fmt/fmt.h>

#include <epifuse/epifuse.hpp>

#include "codegen/gemm/gemm.hpp"
#include "emitted/workshop.hpp"
#include "plan/gemm/gemm.hpp"
#include "support/host_map.hpp"
#include "support/storage.hpp"

namespace epifuse::test {
namespace {

// Two multiprocessors: one cluster, or two blocks, take all tiles one after the other.
plan::Machine small_machine() { return plan::Machine(90, 2); }

// A tensor [batches, rows, columns] of small multiples of 1/8, which integers round, among NaN where no element is.
struct Matrix {
  Matrix(std::mt19937& random, DType kind, const Dims& extents, std::int64_t padding, bool transposed)
      : type(kind), shape(extents) {
    const std::int64_t inner = transposed ? shape[1] : shape[2];
    const std::int64_t outer = transposed ? shape[2] : shape[1];
    const std::int64_t row = inner + padding;
    strides = transposed ? Dims{outer * row, 1, row} : Dims{outer * row, row, 1};
    memory.assign(static_cast<std::size_t>(shape[0] * outer * row) * size_of(type), std::byte{0x7f});
    std::uniform_int_distribution<int> value(-16, 16);
    for (std::int64_t b = 0; b < shape[0]; ++b) {
      for (std::int64_t r = 0; r < shape[1]; ++r) {
        for (std::int64_t c = 0; c < shape[2]; ++c) encode(type, value(random) / 8.0, memory.data() + at(b, r, c));
      }
    }
  }
  // In bytes.
  std::size_t at(std::int64_t b, std::int64_t r, std::int64_t c) const {
    return static_cast<std::size_t>((shape[0] == 1 ? 0 : b * strides[0]) + (shape[1] == 1 ? 0 : r * strides[1]) +
                                    (shape[2] == 1 ? 0 : c * strides[2])) *
           size_of(type);
  }
  double value(std::int64_t b, std::int64_t r, std::int64_t c) const {
    return static_cast<double>(decode(type, memory.data() + at(b, r, c)));
  }
  TensorView view() const { return {memory.data(), type, shape, strides}; }

  DType type;
  Dims shape, strides;
  // TMA wants addresses that are multiples of 16: the allocator gives them.
  std::vector<std::byte> memory;
};

// Of a problem: of both factors, of operands and of the result.
struct Types {
  DType factor, operand, result;
};

struct Shape {
  std::int64_t rows, columns, depth, batches = 1;
  std::int64_t padding = 0;
  bool left_transposed = false, right_transposed = false;
};

struct Chain {
  const char* text;
  std::vector<Dims> operands;  ///< 0 for the extent of the result
  double (*value)(double x, double y, const double* operands);
  bool is_gated = false;  ///< y is another product of the same left factor
};
const std::vector<Chain>& chains() {
  static const std::vector<Chain> all = {
      {"x", {}, [](double x, double, const double*) { return x; }},
      {"relu(x + b)", {{1, 1, 0}}, [](double x, double, const double* o) { return std::fmax(x + o[0], 0); }},
      {"x * 0.5 + r", {{0, 0, 0}}, [](double x, double, const double* o) { return x * 0.5 + o[0]; }},
      {"(x * c + b) * r + s",
       {{1, 0, 1}, {1, 1, 0}, {0, 0, 0}, {0, 0, 0}},
       [](double x, double, const double* o) { return (x * o[0] + o[1]) * o[2] + o[3]; }},
      {"x * a - b * c",
       {{1, 1, 1}, {1, 1, 0}, {0, 0, 1}},
       [](double x, double, const double* o) { return x * o[0] - o[1] * o[2]; }},
      {"relu(x) * y", {}, [](double x, double y, const double*) { return std::fmax(x, 0) * y; }, true},
      {"(x + b) * y * c + r",
       {{1, 1, 0}, {1, 0, 1}, {0, 0, 0}},
       [](double x, double y, const double* o) { return (x + o[0]) * y * o[1] + o[2]; },
       true},
  };
  return all;
}

class Problem {
 public:
  Problem(const Chain& chain, const Shape& shape, const Types& types, unsigned seed)
      : chain_(chain),
        shape_(shape),
        random_(seed),
        left_(random_, types.factor, {shape.batches, shape.rows, shape.depth}, shape.padding, shape.left_transposed),
        right_(random_, types.factor, {shape.batches, shape.columns, shape.depth}, shape.padding,
               shape.right_transposed),
        other_(random_, types.factor, {shape.batches, shape.columns, shape.depth}, shape.padding,
               shape.right_transposed),
        result_(random_, types.result, {shape.batches, shape.rows, shape.columns}, shape.padding, false),
        tail_(Epilogue::parse(chain.text)) {
    for (const Dims& operand : chain.operands) {
      const Dims extents = {operand[0] == 0 ? shape.batches : 1, operand[1] == 0 ? shape.rows : 1,
                            operand[2] == 0 ? shape.columns : 1};
      const bool is_full = extents == result_.shape;
      operands_.emplace_back(random_, types.operand, extents, is_full ? shape.padding : 0, false);
    }
    before_ = result_.memory;
    // In the order in which the chain names them.
    const std::vector<std::string> names = tail_.inputs();
    std::vector<TensorView> inputs(names.size());
    std::size_t next = 0;
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (names[i] != "x" && names[i] != "y") inputs[i] = operands_[next++].view();
    }
    const std::vector<std::string_view> products = {"x", "y"};
    const std::vector<TensorView> rights = {right_.view(), other_.view()};
    const std::size_t count = chain.is_gated ? 2 : 1;
    plan_ = plan::plan_gemm(
        tail_.program(), std::span(products).first(count), left_.view(), std::span(rights).first(count),
        OutputView(result_.memory.data(), types.result, result_.shape, result_.strides), inputs, small_machine());
  }

  std::string source() const { return codegen::emit_gemm(tail_.program(), plan_, codegen::Compilers::both); }

  /// What went wrong, or nothing.
  std::optional<std::string> run(const CompiledText& text, bool late) {
    result_.memory = before_;
    std::vector<codegen::EncodedMap> maps;
    for (const plan::GemmMap& map : plan_.maps) {
      shim::HostMap host{static_cast<const unsigned char*>(map.data), {},          {}, {}, map.swizzle,
                         static_cast<int>(size_of(map.dtype)),        late ? 1 : 0};
      for (std::size_t i = 0; i < 3; ++i) host.extents[i] = map.extents[i], host.box[i] = map.box[i];
      for (std::size_t i = 0; i < 2; ++i) host.strides[i] = map.strides[i];
      maps.emplace_back();
      std::memcpy(maps.back().data(), &host, sizeof host);
    }
    const std::vector<std::byte> params = codegen::pack_gemm(tail_.program(), plan_, maps, {});
    const auto problem = text.run(static_cast<unsigned>(plan_.blocks), 384,
                                  static_cast<unsigned>(plan_.gemm_class.tile.cluster), params);
    return problem ? problem : judge();
  }

 private:
  std::optional<std::string> judge() const {
    std::vector<bool> is_element(before_.size(), false);
    const std::size_t bytes = size_of(result_.type);
    for (std::int64_t b = 0; b < shape_.batches; ++b) {
      for (std::int64_t r = 0; r < shape_.rows; ++r) {
        for (std::int64_t c = 0; c < shape_.columns; ++c) {
          for (std::size_t i = 0; i < bytes; ++i) is_element[result_.at(b, r, c) + i] = true;
          const auto want = static_cast<double>(stored(result_.type, expected(b, r, c)));
          const double got = result_.value(b, r, c);
          const double neighbour = is_floating(result_.type) ? static_cast<double>(spacing(result_.type, want)) : 0;
          if (std::abs(got - want) <= std::max(neighbour, std::abs(want) * 0x1p-20) + 1e-4) continue;
          return fmt::format("at [{}, {}, {}] found {}, expected {}", b, r, c, got, want);
        }
      }
    }
    for (std::size_t i = 0; i < before_.size(); ++i) {
      if (!is_element[i] && result_.memory[i] != before_[i]) return "memory between the rows of the result was written";
    }
    return std::nullopt;
  }
  double expected(std::int64_t b, std::int64_t r, std::int64_t c) const {
    double sum = 0, other = 0;
    for (std::int64_t k = 0; k < shape_.depth; ++k) {
      sum += left_.value(b, r, k) * right_.value(b, c, k);
      other += left_.value(b, r, k) * other_.value(b, c, k);
    }
    double operands[4] = {};
    for (std::size_t i = 0; i < operands_.size(); ++i) operands[i] = operands_[i].value(b, r, c);
    return chain_.value(sum, other, operands);
  }

  const Chain& chain_;
  Shape shape_;
  std::mt19937 random_;
  Matrix left_, right_, other_, result_;
  std::vector<Matrix> operands_;
  std::vector<std::byte> before_;
  Epilogue tail_;
  plan::GemmPlan plan_;
};

constexpr Types kTypes[] = {
    {DType::bf16, DType::bf16, DType::bf16},  {DType::f16, DType::f16, DType::f16},
    {DType::f8e4m3, DType::f32, DType::bf16}, {DType::i8, DType::f32, DType::f32},
    {DType::f8e5m2, DType::f16, DType::f16},  {DType::bf16, DType::f32, DType::f8e4m3},
    {DType::i8, DType::bf16, DType::i8},      {DType::f8e4m3, DType::f8e4m3, DType::f8e5m2},
    {DType::f16, DType::i8, DType::f32},
};

TEST(GemmEmitted, IsTheChainOfTheProduct) {
  std::mt19937 random(29);
  const auto draw = [&](int most) { return std::uniform_int_distribution<int>(1, most)(random); };
  std::map<std::string, CompiledText> compiled;
  int runs = 0;
  for (int number = 0; number < 56; ++number) {
    const Chain& chain = chains()[static_cast<std::size_t>(number) % chains().size()];
    Shape shape{.rows = draw(300),
                .columns = 8 * draw(40),
                .depth = 8 * draw(24),
                .batches = number % 7 == 0 ? 2 : 1,
                .padding = 8 * (number % 2)};
    // More tiles along the depth than there are stages, and a third tile for the first warp group.
    if (number % 9 == 4) shape.rows = 200, shape.columns = 264, shape.depth = 64 * 7 + 8 * draw(16), shape.batches = 1;
    if (number % 6 == 1) shape.rows = 128 + draw(120), shape.columns = 120;
    if (number % 6 == 2) shape.rows = draw(128), shape.columns = 248;
    if (number % 5 == 3) shape.left_transposed = true, shape.rows = (shape.rows + 7) / 8 * 8;
    shape.right_transposed = number % 4 == 2;
    const Types types = kTypes[static_cast<std::size_t>(number / 2) % std::size(kTypes)];
    if (size_of(types.factor) == 1)
      shape.depth *= 2, shape.padding *= 2, shape.left_transposed = shape.right_transposed = false;
    if (size_of(types.result) == 1 || size_of(types.operand) == 1)
      shape.columns = (shape.columns + 15) / 16 * 16, shape.padding = (shape.padding + 15) / 16 * 16;
    Problem problem(chain, shape, types, static_cast<unsigned>(number));
    const std::string source = problem.source();
    const CompiledText& text = compiled.try_emplace(source, source).first->second;
    for (const bool late : {false, true}) {
      const auto wrong = problem.run(text, late);
      ++runs;
      ASSERT_FALSE(wrong) << *wrong << "\n"
                          << chain.text << ", " << to_string(types.factor) << ", " << to_string(types.operand) << ", "
                          << to_string(types.result) << ", " << shape.rows << " x " << shape.columns << " x "
                          << shape.depth << ", " << (late ? "late" : "early") << ", case " << number;
    }
  }
  EXPECT_EQ(runs, 112);
}

// What the model finds in kernels that lack something.
struct Fault {
  const char* from;
  const char* to;
  const char* says;  ///< part of the report; empty: a wrong result
};

TEST(GemmModel, FindsPlantedFaults) {
  const std::vector<Fault> faults = {
      {"    show_to_copies();\n    meet(group);\n", "    meet(group);\n", "did not show to copies"},
      {"    wait_products<0>();\n    release(before);\n", "    release(before);\n",
       "before their products were waited for"},
      {"      expect_bytes(full, kStageBytes);\n", "      expect_bytes(full, kStageBytes - 64);\n", ""},
      {"    wait_barrier(barriers.full(ring.at), ring.parity);\n", "", ""},
      {"init_barrier(barriers.full(stage), 1);", "init_barrier(barriers.full(stage), 2);", "never passes parity"},
      {"init_barrier(barriers.empty(stage), kCluster * 4", "init_barrier(barriers.empty(stage), kCluster * 2", ""},
      {"((at >> 7 & (", "((at >> 6 & (", ""},
      {"    if (kTakesTurns) wait_for_turn(group);\n", "", "more arrivals"},
  };
  const Chain& chain = chains()[1];
  const Shape shape{.rows = 200, .columns = 264, .depth = 400};
  Problem problem(chain, shape, {DType::bf16, DType::bf16, DType::bf16}, 7);
  const std::string source = problem.source();
  const auto sound = problem.run(CompiledText(source), true);
  ASSERT_FALSE(sound) << *sound;
  for (const Fault& fault : faults) {
    std::string broken = source;
    const auto at = broken.find(fault.from);
    ASSERT_NE(at, std::string::npos) << fault.from;
    broken.replace(at, std::strlen(fault.from), fault.to);
    const auto wrong = problem.run(CompiledText(broken), true);
    ASSERT_TRUE(wrong) << fault.from;
    EXPECT_NE(wrong->find(fault.says), std::string::npos) << *wrong << "\n" << fault.from;
  }
}

}  // namespace
}  // namespace epifuse::test
