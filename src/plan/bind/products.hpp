// Matrix products and convolutions are taken out of a chain: what is left reads each as an operand. A product's factors
// are strided views of the user's tensors. Called by api/ before views are lowered; no stage behind it sees a product.
// docs/internals/plan/gemm.md explains it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <epifuse/tensor.hpp>

#include "base/inline_vector.hpp"
#include "ir/program.hpp"
#include "plan/bind/space.hpp"

namespace epifuse::plan {

/// Elements of one of the user's tensors. Of a product: matrices in the last two dimensions, batches of them in those
/// before; of a convolution images [N, C, H, W], or filters [K, C, R, S].
struct Factor {
  std::size_t input = 0;    ///< of the chain with products
  std::int64_t offset = 0;  ///< of its first element, in bytes from the input's
  DType dtype = DType::f32;
  Dims shape;
  Dims strides;      ///< in elements
  std::string text;  ///< as people write it: "transpose(w, -2, -1)"

  TensorView view(std::span<const TensorView> inputs) const;
};

/// Scales in memory of a factor's blocks: f32 [lines, blocks of the depth], with strides of 0 where one is for all.
/// Lines are rows of a left factor and columns of a right one.
struct ScaleView {
  TensorView values;
  bool is_of_each;  ///< line; else of each 128 lines
};

/// The same as elements of one of the user's tensors.
struct BlockScales {
  Factor values;
  bool is_of_each;

  ScaleView view(std::span<const TensorView> inputs) const { return {values.view(inputs), is_of_each}; }
};

/// left @ right: [..., rows, depth] times [..., depth, columns]. The dimensions in front broadcast. Or a convolution of
/// images with filters.
struct Product {
  Factor left, right;
  Dims shape;                                           ///< of the result: [..., rows, columns], or [N, K, OH, OW]
  DType dtype = DType::f32;                             ///< of the result by default
  std::string text;                                     ///< as people write it: "x @ transpose(w, -2, -1)"
  bool tf32 = false;                                    ///< f32 may be multiplied as TF32
  std::optional<ir::Windows2d> windows = std::nullopt;  ///< of a convolution
  /// Of blocks, by which sums of 128 numbers of the depth are multiplied. What does not vary along the depth is part of
  /// the chain instead.
  std::optional<BlockScales> left_scales = std::nullopt, right_scales = std::nullopt;

  bool has_scales() const { return left_scales || right_scales; }
  /// The result in no memory: dense, that of a convolution channels-last.
  TensorView result(DType type) const;
};

/// The chain of a product alone: of its factors as they lie in memory, then of the scales that vary along the depth.
ir::Program program_of(const Product& product);
std::vector<TensorView> operands_of(const Product& product, std::span<const TensorView> inputs);

/// A chain without products that computes the same, and what it reads.
struct WithoutProducts {
  /// What an operand of `chain` is.
  struct Read {
    bool is_product = false;
    std::size_t index = 0;  ///< among the products, or among the operands of the chain with products
    std::optional<Factor> view = std::nullopt;  ///< of that operand, if it is not read as a whole

    TensorView of(std::span<const TensorView> inputs) const;
  };
  ir::Program chain;
  std::vector<Read> reads;  ///< in the order of chain.inputs()
  std::vector<Product> products;

  /// The operands of `chain`; `results` are those of the products.
  base::InlineVector<TensorView, 8> operands(std::span<const TensorView> inputs,
                                             std::span<const TensorView> results) const;
};

/// For a chain that has products. Depends on the inputs' types, shapes and strides, and on no address. Throws
/// Error(invalid_argument) for shapes that do not fit, Error(unsupported) for factors that are computed, and for types
/// that no product has.
WithoutProducts split_products(const ir::Program& program, std::span<const TensorView> inputs,
                               Views views = Views::real);

/// What the products give, in no memory, in the types that they have by default.
std::vector<TensorView> abstract_results(const WithoutProducts& split);

/// The stride of dimensions first … last - 1 as one, if they lie in one line; those of one element lie in any.
std::optional<std::int64_t> merged_stride(const Dims& shape, const Dims& strides, int first, int last);

/// The shape of a node of Op::matmul or Op::conv2d. Throws Error(invalid_argument) for factors that do not fit.
Dims shape_of_product(const ir::Node& node, const Dims& left, const Dims& right);

}  // namespace epifuse::plan
