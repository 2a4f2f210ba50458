// Problems of products that host a chain: random tensors, their plan, and the results as sums in f64. For tests that
// run emitted products on the CPU and on a GPU.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include <spdlog/fmt/fmt.h>

#include <epifuse/epifuse.hpp>

#include "codegen/gemm/gemm.hpp"
#include "plan/gemm/gemm.hpp"
#include "support/as_written.hpp"
#include "support/storage.hpp"

namespace epifuse::test {

/// A tensor [batches, rows, columns] of small multiples of 1/8, which integers round, among NaN where no element is.
/// Its rows are multiples of 16 bytes apart.
struct GemmMatrix {
  GemmMatrix(std::mt19937& random, DType kind, const Dims& extents, std::int64_t padding, bool transposed)
      : type(kind), shape(extents) {
    const std::int64_t inner = transposed ? shape[1] : shape[2];
    const std::int64_t outer = transposed ? shape[2] : shape[1];
    const std::int64_t unit = 16 / static_cast<std::int64_t>(size_of(type));
    const std::int64_t row = (inner + padding + unit - 1) / unit * unit;
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
  /// All elements, the last dimension's beside each other: whoever reads each many times decodes it once.
  std::vector<double> values() const {
    std::vector<double> all;
    for (std::int64_t b = 0; b < shape[0]; ++b) {
      for (std::int64_t r = 0; r < shape[1]; ++r) {
        for (std::int64_t c = 0; c < shape[2]; ++c) all.push_back(value(b, r, c));
      }
    }
    return all;
  }
  TensorView view() const { return {memory.data(), type, shape, strides}; }

  DType type;
  Dims shape, strides;
  // Kernels want addresses that are multiples of 16: the allocator gives them.
  std::vector<std::byte> memory;
};

/// Of a problem: of both factors, of operands and of the result.
struct GemmTypes {
  DType factor, operand, result;
};

struct GemmExtents {
  std::int64_t rows, columns, depth, batches = 1;
  std::int64_t padding = 0;
  bool left_transposed = false, right_transposed = false;
};

/// Of factors, operands and results in all sizes.
inline constexpr GemmTypes kGemmTypes[] = {
    {DType::bf16, DType::bf16, DType::bf16},  {DType::f16, DType::f16, DType::f16},
    {DType::f8e4m3, DType::f32, DType::bf16}, {DType::i8, DType::f32, DType::f32},
    {DType::f8e5m2, DType::f16, DType::f16},  {DType::bf16, DType::f32, DType::f8e4m3},
    {DType::i8, DType::bf16, DType::i8},      {DType::f8e4m3, DType::f8e4m3, DType::f8e5m2},
    {DType::f16, DType::i8, DType::f32},      {DType::f32, DType::bf16, DType::f32},
};

/// The chain with products of `linear` that may be computed in TF32.
inline std::string in_tf32(const std::string& chain) {
  return std::regex_replace(chain, std::regex(R"(linear\(([^)]*)\))"), "linear($1, tf32=true)");
}

/// Odd extents in two of three, and rows that begin at multiples of 16 bytes all the same. `most`: of rows, columns and
/// depth.
inline GemmExtents drawn_extents(std::mt19937& random, int number, DType factor, int most) {
  const auto draw = [&](int limit) { return std::uniform_int_distribution<int>(1, limit)(random); };
  GemmExtents shape{.rows = draw(most),
                    .columns = draw(most),
                    .depth = draw(most),
                    .batches = number % 7 == 0 ? 2 : 1,
                    .padding = 8 * (number % 2)};
  if (number % 3 == 0) shape.columns = (shape.columns + 15) / 16 * 16, shape.depth = (shape.depth + 15) / 16 * 16;
  // More tiles along the depth than there are stages.
  if (number % 9 == 4) shape.rows = 260, shape.columns = 264, shape.depth = 500 + draw(200), shape.batches = 1;
  if (size_of(factor) == 2) shape.left_transposed = number % 5 == 3, shape.right_transposed = number % 4 == 2;
  // A factor is transposed if its innermost stride says so, and that of one row says nothing.
  if (shape.left_transposed) shape.rows = std::max<std::int64_t>(shape.rows, 2);
  if (shape.right_transposed) shape.columns = std::max<std::int64_t>(shape.columns, 2);
  return shape;
}

/// What a product's kernel reduces: a function of the chain's value.
struct GemmReduced {
  plan::GemmReduction how;
  double (*of)(double value);
};

struct GemmChain {
  const char* text;
  std::vector<Dims> operands;  ///< 0 for the extent of the result
  double (*value)(double x, double y, const double* operands);
  bool is_gated = false;                  ///< y is another product of the same left factor
  std::vector<GemmReduced> reduced = {};  ///< a result of the chain each, behind the first
};
/// Chains of a product `x`, and of another one `y`.
inline const std::vector<GemmChain>& gemm_chains() {
  static const std::vector<GemmChain> all = {
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

/// Chains of which the kernel leaves partial results.
inline const std::vector<GemmChain>& reducing_gemm_chains() {
  using enum plan::GemmScope;
  static constexpr auto same = [](double v) { return v; };
  static constexpr auto square = [](double v) { return v * v; };
  static constexpr auto magnitude = [](double v) { return std::fabs(v); };
  static const std::vector<GemmChain> all = {
      {"return x, square(x)",
       {},
       [](double x, double, const double*) { return x; },
       false,
       {{{ir::Op::sum, row}, square}}},
      {"y = x * 0.5 + r; return y, y, abs(y)",
       {{0, 0, 0}},
       [](double x, double, const double* o) { return x * 0.5 + o[0]; },
       false,
       {{{ir::Op::sum, column}, same}, {{ir::Op::amax, row}, magnitude}}},
      {"z = exp(x * 0.0625 + b) * c; return z, z, z, square(z), z",
       {{1, 1, 0}, {1, 0, 1}},
       [](double x, double, const double* o) { return std::exp(x * 0.0625 + o[0]) * o[1]; },
       false,
       {{{ir::Op::amin, row}, same},
        {{ir::Op::amax, column}, same},
        {{ir::Op::sum, row}, square},
        {{ir::Op::sum, column}, same}}},
      {"z = relu(x) * y; return z, z",
       {},
       [](double x, double y, const double*) { return std::fmax(x, 0) * y; },
       true,
       {{{ir::Op::sum, column}, same}}},
  };
  return all;
}

/// One chain, with factors, operands and a result in host memory.
class GemmProblem {
 public:
  GemmProblem(const GemmChain& chain, const GemmExtents& shape, const GemmTypes& types, unsigned seed,
              const plan::Machine& machine)
      : chain_(chain),
        shape_(shape),
        random_(seed),
        left_(random_, types.factor, {shape.batches, shape.rows, shape.depth}, shape.padding, shape.left_transposed),
        right_(random_, types.factor, {shape.batches, shape.columns, shape.depth}, shape.padding,
               shape.right_transposed),
        other_(random_, types.factor, {shape.batches, shape.columns, shape.depth}, shape.padding,
               shape.right_transposed),
        result_(random_, types.result, {shape.batches, shape.rows, shape.columns}, shape.padding, false),
        tail_(as_written(chain.text)) {
    for (const Dims& operand : chain.operands) {
      const Dims extents = {operand[0] == 0 ? shape.batches : 1, operand[1] == 0 ? shape.rows : 1,
                            operand[2] == 0 ? shape.columns : 1};
      const bool is_full = extents == result_.shape;
      operands_.emplace_back(random_, types.operand, extents, is_full ? shape.padding : 0, false);
    }
    before_ = result_.memory;
    const std::vector<std::string_view> products = {"x", "y"};
    const Views views = views_at(addresses());
    plan::GemmReductions reductions;
    for (const GemmReduced& reduced : chain.reduced) reductions.push_back(reduced.how);
    plan_ = plan::plan_gemm(tail_.program(), std::span(products).first(views.rights.size()), views.left, views.rights,
                            views.output, views.inputs, machine, {reductions, nullptr, {}});
    partials_.resize(static_cast<std::size_t>(plan_.partial_bytes()) / sizeof(float));
    plan_.workspace = reinterpret_cast<std::byte*>(partials_.data());
    expected_ = expected();
  }

  std::string source(codegen::Compilers compilers) const {
    return codegen::emit_gemm(tail_.program(), plan_, compilers);
  }
  const ir::Program& program() const { return tail_.program(); }
  const plan::GemmPlan& plan() const { return plan_; }

  /// All that a launch reads or writes, the result last, as it is before the launch.
  std::vector<const std::vector<std::byte>*> memory() const {
    std::vector<const std::vector<std::byte>*> all = {&left_.memory, &right_.memory, &other_.memory};
    for (const GemmMatrix& operand : operands_) all.push_back(&operand.memory);
    all.push_back(&before_);
    return all;
  }
  /// The plan of the same launch on copies of memory(), which lie at these addresses.
  plan::GemmPlan plan_at(const std::vector<const void*>& addresses) const {
    const Views views = views_at(addresses);
    plan::GemmPlan moved = plan_;
    moved.move_to(views.left, views.rights, views.output, views.inputs, tail_.program());
    return moved;
  }
  /// The result's own memory, where a launch of plan() writes.
  std::vector<std::byte>& result() { return result_.memory; }
  /// And what it leaves in the workspace.
  std::vector<float>& partials() { return partials_; }
  void reset() {
    result_.memory = before_;
    std::ranges::fill(partials_, std::numeric_limits<float>::quiet_NaN());
  }

  /// What is wrong with result(), or nothing.
  std::optional<std::string> judge() const {
    std::vector<bool> is_element(before_.size(), false);
    const std::size_t bytes = size_of(result_.type);
    auto want = expected_.begin();
    for (std::int64_t b = 0; b < shape_.batches; ++b) {
      for (std::int64_t r = 0; r < shape_.rows; ++r) {
        for (std::int64_t c = 0; c < shape_.columns; ++c, ++want) {
          for (std::size_t i = 0; i < bytes; ++i) is_element[result_.at(b, r, c) + i] = true;
          const double got = result_.value(b, r, c);
          const double neighbour = is_floating(result_.type) ? static_cast<double>(spacing(result_.type, *want)) : 0;
          if (got == *want) continue;  // infinities, too
          if (std::abs(got - *want) <= std::max(neighbour, std::abs(*want) * 0x1p-20) + 1e-4) continue;
          return fmt::format("at [{}, {}, {}] found {}, expected {}", b, r, c, got, *want);
        }
      }
    }
    for (std::size_t i = 0; i < before_.size(); ++i) {
      if (!is_element[i] && result_.memory[i] != before_[i]) return "memory between the rows of the result was written";
    }
    for (std::size_t i = 0; i < chain_.reduced.size(); ++i) {
      if (const auto wrong = judge_partials(i)) return wrong;
    }
    return std::nullopt;
  }

 private:
  // All partial results of a row or a column together, against those of all its elements.
  std::optional<std::string> judge_partials(std::size_t number) const {
    const auto& [how, of] = chain_.reduced[number];
    const bool is_row = how.scope == plan::GemmScope::row;
    const plan::GemmPartials& partials = plan_.partials[number];
    const float* const first = partials_.data() + static_cast<std::size_t>(plan_.partials_at(number)) / sizeof(float);
    const std::int64_t rows = shape_.batches * shape_.rows;
    if (partials.extent != (is_row ? rows : shape_.columns)) return "partial results of another extent";
    const auto combined = [&](double a, double b) {
      if (how.op == ir::Op::sum) return a + b;
      return how.op == ir::Op::amax ? std::fmax(a, b) : std::fmin(a, b);
    };
    const auto combined_of = [&](std::int64_t count, const auto& value) {
      double made = value(0);
      for (std::int64_t i = 1; i < count; ++i) made = combined(made, value(i));
      return made;
    };
    for (std::int64_t at = 0; at < partials.extent; ++at) {
      double magnitude = 0;
      const double want = combined_of(is_row ? shape_.columns : rows, [&](std::int64_t i) {
        const double value =
            of(values_[static_cast<std::size_t>(is_row ? at * shape_.columns + i : i * shape_.columns + at)]);
        magnitude += std::fabs(value);
        return value;
      });
      for (std::int64_t i = 0; i < partials.count; ++i) {
        if (std::isnan(first[i * partials.extent + at]))
          return fmt::format("partial result {} of {} is missing", i, at);
      }
      const double got = combined_of(partials.count, [&](std::int64_t i) { return first[i * partials.extent + at]; });
      if (std::abs(got - want) <= magnitude * 0x1p-18 + 1e-4) continue;
      return fmt::format("reduction {} of {} {} is {}, expected {}", number, is_row ? "row" : "column", at, got, want);
    }
    return std::nullopt;
  }

  struct Views {
    TensorView left;
    std::vector<TensorView> rights, inputs;
    OutputView output;
  };
  std::vector<const void*> addresses() const {
    std::vector<const void*> all = {left_.memory.data(), right_.memory.data(), other_.memory.data()};
    for (const GemmMatrix& operand : operands_) all.push_back(operand.memory.data());
    all.push_back(result_.memory.data());
    return all;
  }
  Views views_at(const std::vector<const void*>& addresses) const {
    const auto view = [](const GemmMatrix& matrix, const void* data) {
      return TensorView(data, matrix.type, matrix.shape, matrix.strides);
    };
    Views views{view(left_, addresses[0]),
                {view(right_, addresses[1])},
                {},
                OutputView(const_cast<void*>(addresses.back()), result_.type, result_.shape, result_.strides)};
    if (chain_.is_gated) views.rights.push_back(view(other_, addresses[2]));
    // In the order in which the chain names them.
    std::size_t next = 0;
    for (const std::string& name : tail_.inputs()) {
      const bool is_product = name == "x" || name == "y";
      views.inputs.push_back(is_product ? TensorView{} : view(operands_[next], addresses[3 + next]));
      next += is_product ? 0 : 1;
    }
    return views;
  }
  // By element of the result: sums in f64, the chain's value, and what the result's type makes of it.
  std::vector<double> expected() {
    const std::vector<double> left = left_.values();
    const std::vector<double> right = right_.values();
    const std::vector<double> other = other_.values();
    const auto sum = [&](const std::vector<double>& factor, std::int64_t row, std::int64_t column) {
      const auto first = left.begin() + row * shape_.depth;
      return std::inner_product(first, first + shape_.depth, factor.begin() + column * shape_.depth, 0.0);
    };
    std::vector<double> all;
    for (std::int64_t b = 0; b < shape_.batches; ++b) {
      for (std::int64_t r = 0; r < shape_.rows; ++r) {
        for (std::int64_t c = 0; c < shape_.columns; ++c) {
          const std::int64_t row = b * shape_.rows + r;
          const std::int64_t column = b * shape_.columns + c;
          double operands[4] = {};
          for (std::size_t i = 0; i < operands_.size(); ++i) operands[i] = operands_[i].value(b, r, c);
          const double y = chain_.is_gated ? sum(other, row, column) : 0;
          const double value = chain_.value(sum(right, row, column), y, operands);
          values_.push_back(value);
          all.push_back(static_cast<double>(stored(result_.type, value)));
        }
      }
    }
    return all;
  }

  const GemmChain& chain_;
  GemmExtents shape_;
  std::mt19937 random_;
  GemmMatrix left_, right_, other_, result_;
  std::vector<GemmMatrix> operands_;
  std::vector<std::byte> before_;
  std::vector<double> expected_;  // computed once: a problem is run several times
  std::vector<double> values_;    // before they are stored
  std::vector<float> partials_;   // what the kernel leaves
  Epilogue tail_;
  plan::GemmPlan plan_;
};

}  // namespace epifuse::test
