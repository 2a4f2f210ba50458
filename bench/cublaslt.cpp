// A product by each of the kernels that cuBLASLt proposes for it, for bench/bridge.py: which of them is the fastest is
// found by bench/products.py, with the clock that all its contestants have.
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "bridge.hpp"
#include "runtime/cublaslt.hpp"
#include "runtime/cublaslt_abi.hpp"

namespace epifuse {
namespace {

namespace cublaslt = runtime::cublaslt;
using Matrices = std::array<const TensorView*, 3>;

void check_status(int status, const char* what) {
  if (status == cublaslt::kSuccess) return;
  throw std::runtime_error(std::string("cuBLASLt could not ") + what + ": its status is " + std::to_string(status));
}

using Handle = std::unique_ptr<void, int (*)(void*)>;

template <class... Parameters, class... Arguments>
Handle made(int (*create)(void**, Parameters...), int (*destroy)(void*), Arguments... arguments) {
  void* handle = nullptr;
  check_status(create(&handle, static_cast<Parameters>(arguments)...), "make a descriptor");
  return {handle, destroy};
}

int type_of(const TensorView& matrix) {
  if (const auto type = runtime::cublaslt_type(matrix.dtype)) return *type;
  throw std::runtime_error("cuBLASLt has no products of " + std::string(to_string(matrix.dtype)));
}

void check_shapes(const TensorView& left, const TensorView& right, const OutputView& result) {
  for (const TensorView* const matrix : Matrices{&left, &right, &result}) {
    if (matrix->shape.size() != 2 || matrix->strides != row_major(matrix->shape)) {
      throw std::invalid_argument("expected contiguous matrices, found " + to_string(matrix->shape));
    }
  }
  if (left.shape[1] != right.shape[1] || result.shape != Dims{left.shape[0], right.shape[0]}) {
    throw std::invalid_argument("no product [rows, depth] @ [columns, depth]^T: " + to_string(left.shape) + ", " +
                                to_string(right.shape) + " and " + to_string(result.shape));
  }
}

// Of f32 factors a product in TF32 is asked for.
int accuracy_of(DType factor) {
  return factor == DType::i8    ? cublaslt::kComputeI32
         : factor == DType::f32 ? cublaslt::kComputeTf32
                                : cublaslt::kComputeF32;
}

// result = left @ right^T. cuBLASLt counts columns first and is given the transpose of it, as by the engine.
class Product {
 public:
  Product(const TensorView& left, const TensorView& right, const OutputView& result, const void* scale,
          std::size_t workspace_bytes, int most)
      : is_i8_(left.dtype == DType::i8),
        workspace_bytes_(workspace_bytes),
        operation_(made(api_.operation_create, api_.operation_destroy, accuracy_of(left.dtype),
                        is_i8_ ? cublaslt::kI32 : cublaslt::kF32)) {
    check_shapes(left, right, result);
    check_status(api_.operation_set(operation_.get(), cublaslt::kTransposeA, &cublaslt::kTransposed,
                                    sizeof cublaslt::kTransposed),
                 "describe a product");
    set_scale(scale);
    for (const TensorView* const matrix : Matrices{&right, &left, &result}) {
      layouts_.push_back(made(api_.layout_create, api_.layout_destroy, type_of(*matrix), matrix->shape[1],
                              matrix->shape[0], matrix->shape[1]));
    }
    const Handle preference = made(api_.preference_create, api_.preference_destroy);
    check_status(
        api_.preference_set(preference.get(), cublaslt::kMostWorkspace, &workspace_bytes_, sizeof workspace_bytes_),
        "describe a preference");
    std::vector<cublaslt::Heuristic> proposed(static_cast<std::size_t>(most));
    int found = 0;
    check_status(api_.heuristic(handle_.get(), operation_.get(), layouts_[0].get(), layouts_[1].get(),
                                layouts_[2].get(), layouts_[2].get(), preference.get(), most, proposed.data(), &found),
                 "propose a kernel for the product");
    for (const auto& one : std::span(proposed).first(static_cast<std::size_t>(found))) {
      if (one.state == cublaslt::kSuccess) kernels_.push_back(one);
    }
  }

  int kernels() const { return static_cast<int>(kernels_.size()); }

  // Queues it, with the kernel of that number, for operands of the types and shapes that the constructor was given.
  void run(int kernel, const TensorView& left, const TensorView& right, const OutputView& result, const void* scale,
           void* workspace, runtime::StreamHandle stream) {
    set_scale(scale);
    const float one_f32 = 1, zero_f32 = 0;
    const std::int32_t one_i32 = 1, zero_i32 = 0;
    const void* const one = is_i8_ ? static_cast<const void*>(&one_i32) : &one_f32;
    const void* const zero = is_i8_ ? static_cast<const void*>(&zero_i32) : &zero_f32;
    check_status(
        api_.matmul(handle_.get(), operation_.get(), one, right.data, layouts_[0].get(), left.data, layouts_[1].get(),
                    zero, result.data, layouts_[2].get(), result.writable(), layouts_[2].get(),
                    kernels_.at(static_cast<std::size_t>(kernel)).algorithm, workspace, workspace_bytes_, stream),
        "compute a product");
  }

 private:
  // An f32 number in device memory, of 8-bit floats; null is 1.
  void set_scale(const void* scale) {
    if (scale == nullptr) return;
    check_status(api_.operation_set(operation_.get(), cublaslt::kScaleA, &scale, sizeof scale), "take a scale");
  }

  const runtime::CublasLtApi& api_ = runtime::cublaslt_api();
  bool is_i8_;
  std::size_t workspace_bytes_;
  Handle handle_ = made(api_.create, api_.destroy);
  Handle operation_;
  std::vector<Handle> layouts_;  // of the right factor, the left one and the result
  std::vector<cublaslt::Heuristic> kernels_;
};

}  // namespace
}  // namespace epifuse

using epifuse::BridgeTensor;
using epifuse::OutputView;
using epifuse::Product;
using epifuse::TensorView;

/// Of the left factor [rows, depth], the right one [columns, depth] and the result, with at most so many kernels. The
/// device's context must be current.
EPIFUSE_BENCH_API Product* epifuse_bench_product(const BridgeTensor* matrices, const void* scale,
                                                 std::int64_t workspace_bytes, std::int32_t most) {
  return epifuse::guarded<Product*>(nullptr, [&] {
    return std::make_unique<Product>(
               epifuse::view_of<TensorView>(matrices[0]), epifuse::view_of<TensorView>(matrices[1]),
               epifuse::view_of<OutputView>(matrices[2]), scale, static_cast<std::size_t>(workspace_bytes), most)
        .release();
  });
}
EPIFUSE_BENCH_API void epifuse_bench_free_product(Product* product) { delete product; }

/// How many kernels cuBLASLt proposed, its first choice first.
EPIFUSE_BENCH_API std::int32_t epifuse_bench_product_kernels(const Product* product) { return product->kernels(); }

/// Queues the product: 0, or -1 after an error.
EPIFUSE_BENCH_API std::int32_t epifuse_bench_multiply(Product* product, std::int32_t kernel,
                                                      const BridgeTensor* matrices, const void* scale, void* workspace,
                                                      void* stream) {
  return epifuse::guarded<std::int32_t>(-1, [&] {
    product->run(kernel, epifuse::view_of<TensorView>(matrices[0]), epifuse::view_of<TensorView>(matrices[1]),
                 epifuse::view_of<OutputView>(matrices[2]), scale, workspace,
                 static_cast<epifuse::runtime::StreamHandle>(stream));
    return 0;
  });
}
