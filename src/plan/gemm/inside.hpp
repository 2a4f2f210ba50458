// Whether a product hosts the chain around it, or is computed apart from it. Called by api/, for devices and for
// explanations.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/inline_vector.hpp"
#include "plan/bind/products.hpp"
#include "plan/gemm/gemm.hpp"
#include "plan/gemm/hosted.hpp"
#include "plan/gemm/time.hpp"

namespace epifuse::plan {

/// What the kernel of one or two products reads and writes: matrices, or one batch of them, of which other dimensions
/// were merged; of a convolution all in the order that plan_convolution() takes.
struct ProductOperands {
  TensorView left;                                       ///< [rows, depth], or with a batch in front
  base::InlineVector<TensorView, kMostProducts> rights;  ///< [columns, depth] likewise
  OutputView output;                                     ///< [rows, columns], or with a batch in front
  base::InlineVector<TensorView, 8> all;  ///< of the chain, in the result's shape; of the product the shape alone
  std::vector<OutputView> scales;         ///< results with a value for each group: [rows, groups] likewise
  GemmScaling scaling = {};               ///< of the factors
};

/// A product of matrices, or of one batch of them.
struct Matrices {
  TensorView left, right, result;  ///< [rows, depth], [columns, depth] and [rows, columns], or with a batch in front
};
/// Dimensions before the last two as one, of [..., rows, depth] and [..., depth, columns]; nothing if they do not lie
/// in one line. Where all matrices share the right factor, they are rows of one.
std::optional<Matrices> matrices_of(const TensorView& left, const TensorView& right, const OutputView& result);
/// The same, each with a batch in front; as many products as that takes.
std::vector<Matrices> all_matrices_of(const TensorView& left, const TensorView& right, const OutputView& result);

/// The same launch in the form that plan_gemm() takes, or why it has none: a sentence. Its products and shapes are
/// those of a launch that plan_inside() looked at: strides and addresses count here. `outputs` are those of the whole
/// chain.
std::variant<ProductOperands, std::string> operands_of_product(const Hosted& hosted,
                                                               std::span<const OutputView> outputs,
                                                               std::span<const TensorView> inputs);

/// One kernel for a product, or two of one left factor, and the chain around it.
struct Inside {
  Hosted hosted;  ///< of a chain without views
  GemmPlan plan;
  ProductTimes times;

  const ir::Program& chain() const { return hosted.split.chain; }
  /// What a finish reads and writes, of a launch whose partial results lie in `memory`.
  base::InlineVector<TensorView, 8> operands(const Finish& finish, const void* memory,
                                             std::span<const TensorView> inputs) const;
  std::vector<OutputView> outputs(const Finish& finish, std::span<const OutputView> outputs) const;
};

/// The kernel, or why products and the chain run one after the other: a sentence. Throws Error(invalid_argument) for
/// what does not fit.
std::variant<Inside, std::string> plan_one_kernel(const WithoutProducts& split, std::span<const OutputView> outputs,
                                                  std::span<const TensorView> inputs, const Machine& machine);
/// The same. One kernel that would take longer than the two is none.
std::variant<Inside, std::string> plan_inside(const WithoutProducts& split, std::span<const OutputView> outputs,
                                              std::span<const TensorView> inputs, const Machine& machine);

/// A product without its chain: nobody else multiplies by scales that vary along the depth (Product::has_scales).
struct ProductAlone {
  ir::Program program;                        ///< of the product
  std::variant<Inside, std::string> planned;  ///< its kernel, or why it has none: a sentence
};
/// Of tensors that need not exist; `inputs` are those of the whole chain.
ProductAlone plan_alone(const Product& product, std::span<const TensorView> inputs, const Machine& machine);

/// The plan of one kernel for people.
std::string to_text(const GemmPlan& plan, const ProductTimes& times, const ir::Program& chain, const Machine& machine);

}  // namespace epifuse::plan
