// Chains of products whose factors have scales of blocks: their plan as one kernel, and the results in f64. For tests
// of emitted kernels.
#pragma once

#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "emitted/gemm_run.hpp"
#include "plan/gemm/inside.hpp"
#include "support/as_written.hpp"
#include "support/scaled_product.hpp"

namespace epifuse::test {

// x is the left factor, w and v are right ones, sx, sw and sv their scales; b varies along columns, c along rows, r
// along both.
struct ScaledChain {
  const char* text;
  double (*value)(double p, double q, double b, double c, double r);
  bool is_gated = false;       ///< q counts
  bool is_normalised = false;  ///< by the root of the mean square of a row
};
inline const std::vector<ScaledChain>& scaled_chains() {
  static const std::vector<ScaledChain> all = {
      {"scaled_mm(x, transpose(w, 0, 1), sx, sw)", [](double p, double, double, double, double) { return p; }},
      {"relu(scaled_mm(x, transpose(w, 0, 1), sx, sw) + b) * c + r",
       [](double p, double, double b, double c, double r) { return std::fmax(p + b, 0) * c + r; }},
      {"relu(scaled_mm(x, transpose(w, 0, 1), sx, sw)) * scaled_mm(x, transpose(v, 0, 1), sx, sv)",
       [](double p, double q, double, double, double) { return std::fmax(p, 0) * q; }, true},
  };
  return all;
}

class ScaledProblem {
 public:
  ScaledProblem(const ScaledChain& chain, const ScaledExtents& extents, DType result, unsigned seed)
      : chain_(chain), product_(extents, seed), tail_(as_written(chain.text)) {
    auto& random = product_.random;
    const std::int64_t rows = extents.rows, columns = extents.columns;
    operands_.emplace_back(random, DType::f32, Dims{1, 1, columns}, 0, false);
    operands_.emplace_back(random, DType::f32, Dims{1, rows, 1}, 0, false);
    operands_.emplace_back(random, DType::bf16, Dims{1, rows, columns}, 0, false);
    result_.emplace_back(random, result, Dims{1, rows, columns}, 0, false);
    for (const std::string& name : tail_.inputs()) views_.push_back(view_of(name));
    before_ = result_[0].memory;
    make_expected();
  }

  plan::Inside inside(const plan::Machine& machine) {
    const OutputView out = output();
    auto planned =
        plan::plan_one_kernel(plan::split_products(tail_.program(), views_), std::span(&out, 1), views_, machine);
    if (auto* const why = std::get_if<std::string>(&planned)) throw std::runtime_error(*why);
    return std::get<plan::Inside>(std::move(planned));
  }

  std::optional<std::string> run(const plan::Inside& inside, const CompiledText& compiled, When when) {
    result_[0].memory = before_;
    if (const auto wrong = test::run(inside.plan, inside.chain(), compiled, when)) return wrong;
    return judge();
  }

 private:
  TensorView view_of(const std::string& name) const {
    if (name == "x") return ScaledProduct::matrix(product_.left);
    if (name == "w" || name == "v") return ScaledProduct::matrix(product_.rights[name == "w" ? 0 : 1]);
    if (name == "sx") return product_.left_scales.view(false);
    if (name == "sw" || name == "sv") return product_.right_scales[name == "sw" ? 0 : 1].view(true);
    return ScaledProduct::matrix(operands_[name == "b" ? 0 : name == "c" ? 1 : 2]);
  }
  OutputView output() {
    const TensorView view = ScaledProduct::matrix(result_[0]);
    return {result_[0].memory.data(), view.dtype, view.shape, view.strides};
  }

  void make_expected() {
    const auto& [rows, columns, depth, left, right, factor, padding, neighbours] = product_.extents;
    const std::vector<double> p = product_.values(0), q = chain_.is_gated ? product_.values(1) : p;
    // Of each 128 numbers a sum of 512 times the scales at most, which f32 rounds a few times.
    const double of_a_sum = static_cast<double>((depth + 127) / 128) * 128 * ScaledProduct::kLargest * 0x1p-22;
    for (std::int64_t row = 0; row < rows; ++row) {
      double squares = 0;
      for (std::int64_t column = 0; column < columns; ++column) {
        const auto at = static_cast<std::size_t>(row * columns + column);
        expected_.push_back(chain_.value(p[at], q[at], operands_[0].value(0, 0, column), operands_[1].value(0, row, 0),
                                         operands_[2].value(0, row, column)));
        allowed_.push_back(of_a_sum * (chain_.is_gated ? std::fabs(p[at]) + std::fabs(q[at]) + 1 : 2));
        squares += expected_.back() * expected_.back();
      }
      if (!chain_.is_normalised) continue;
      const double by = 1 / std::sqrt(squares / static_cast<double>(columns) + 1e-6);
      for (std::size_t at = expected_.size() - static_cast<std::size_t>(columns); at < expected_.size(); ++at) {
        expected_[at] *= by;
        allowed_[at] = allowed_[at] * by + 1e-4;
      }
    }
  }

  std::optional<std::string> judge() const {
    const GemmMatrix& made = result_[0];
    auto want = expected_.begin();
    auto allowed = allowed_.begin();
    for (std::int64_t row = 0; row < made.shape[1]; ++row) {
      for (std::int64_t column = 0; column < made.shape[2]; ++column, ++want, ++allowed) {
        const double got = made.value(0, row, column);
        const double unit = static_cast<double>(spacing(made.type, *want));
        if (!(std::abs(got - *want) <= *allowed + unit))
          return fmt::format("at [{}, {}] found {}, expected {} within {}", row, column, got, *want, *allowed + unit);
      }
    }
    return std::nullopt;
  }

  const ScaledChain& chain_;
  ScaledProduct product_;
  Epilogue tail_;
  std::vector<GemmMatrix> operands_, result_;
  std::vector<TensorView> views_;
  std::vector<std::byte> before_;
  std::vector<double> expected_, allowed_;
};

}  // namespace epifuse::test
