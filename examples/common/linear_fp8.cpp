// cuBLASLt's product with scales of blocks, the same in f32 by EpiFuse, and one plain loop to check both against.
#include "common/linear_fp8.hpp"

#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "common/cublas.hpp"

namespace examples {
namespace {

/// Of the weights as they are stored: few of them reach 448, the largest number of f8e4m3.
constexpr double kStoredDeviation = 100;
/// The first release of cuBLASLt with scales of 1×128 and 128×128.
constexpr std::size_t kFirstWithBlocks = 120900;

/// cuBLASLt wants as many scales in a row of blocks of w as a multiple of 4 has; those behind the last block are not
/// used.
std::int64_t padded_blocks(std::int64_t inputs) { return (inputs / kScaleBlock + 3) / 4 * 4; }

/// Between a half and three halves of what gives the weights their deviation: no two blocks may change places unseen.
ef::Array random_scales(ef::Engine& engine, const LinearShape& shape, std::uint64_t seed) {
  const std::int64_t pitch = padded_blocks(shape.inputs);
  const ef::Dims dims{shape.outputs / kScaleBlock, pitch};
  std::mt19937_64 generator(seed);
  std::uniform_real_distribution<double> around(0.5, 1.5);
  const double middle = 1 / (kStoredDeviation * std::sqrt(static_cast<double>(shape.inputs)));
  std::vector<float> host(static_cast<std::size_t>(count_of(dims)));
  for (std::size_t i = 0; i < host.size(); ++i) {
    const bool used = static_cast<std::int64_t>(i) % pitch < shape.inputs / kScaleBlock;
    host[i] = used ? static_cast<float>(middle * around(generator)) : 0;
  }
  return engine.array(ef::DType::f32, dims, host.data());
}

const LinearShape& checked(const LinearShape& shape) {
  if (shape.batches == 1 && shape.rows % 16 == 0 && shape.inputs % kScaleBlock == 0 && shape.outputs % kScaleBlock == 0)
    return shape;
  throw Failure(
      "the fp8 layer of the examples takes one product, rows in multiples of 16, inputs and outputs in multiples of "
      "128, not " +
      std::to_string(shape.batches) + " times " + std::to_string(shape.rows) + "×" + std::to_string(shape.inputs) +
      " to " + std::to_string(shape.outputs));
}

/// Why this machine's cuBLASLt has no such products; empty where nothing is known against them.
std::string known_refusal() {
  if (!has_gpu()) return "there is no GPU for cuBLASLt";
  if (cublasLtGetVersion() < kFirstWithBlocks) {
    return cublas_library() + " was found, and scales of 1×128 and 128×128 need 12.9 or later";
  }
  int major = 0;
  int minor = 0;
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), "asking for the GPU's architecture");
  check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0), "asking for the GPU's architecture");
  if (major == 9 && minor == 0) return {};
  return "cuBLASLt takes scales of 1×128 and 128×128 on sm_90 alone, and this GPU is of sm_" + std::to_string(major) +
         std::to_string(minor);
}

}  // namespace

/// The product's description, and the algorithm that cuBLASLt chose for it.
struct LinearFp8::Cublas {
  Cublas(ef::Engine& engine, const LinearShape& shape, const ef::TensorView& w_scales)
      : workspace(engine.empty(ef::DType::u8, {kCublasWorkspaceBytes})),
        handle(open_cublas()),
        product(describe_product(CUBLAS_COMPUTE_32F, CUDA_R_32F)),
        x(describe_matrix(CUDA_R_8F_E4M3, 1, shape.rows, shape.inputs)),
        w(describe_matrix(CUDA_R_8F_E4M3, 1, shape.outputs, shape.inputs)),
        y(describe_matrix(CUDA_R_16BF, 1, shape.rows, shape.outputs)) {
    // To cuBLASLt, w is A and x is B.
    set_attribute(product, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F,
                  "asking for scales of 128×128 for w");
    set_attribute(product, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F,
                  "asking for scales of 1×128 for x");
    set_attribute(product, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, w_scales.data, "giving the scales of w");
    // Each call has an x of its own. The choice needs a pointer, and the workspace's is aligned as theirs are.
    give_x_scales(workspace.view());
    status = choose_algorithm(handle, product, w, x, y, algorithm);
  }

  void give_x_scales(const ef::TensorView& scales) {
    set_attribute(product, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, scales.data, "giving the scales of x");
  }

  ef::Array workspace;
  CublasHandle handle;
  CublasProduct product;
  CublasMatrix x;
  CublasMatrix w;
  CublasMatrix y;
  cublasLtMatmulHeuristicResult_t algorithm{};
  cublasStatus_t status = CUBLAS_STATUS_NOT_INITIALIZED;
};

LinearFp8::LinearFp8(ef::Engine& engine, const LinearShape& shape, std::uint64_t seed)
    : engine_(engine),
      shape_(checked(shape)),
      w_(normal(engine, ef::DType::f8e4m3, {shape.outputs, shape.inputs}, kStoredDeviation, seed)),
      w_scales_(random_scales(engine, shape, seed)),
      refusal_(known_refusal()) {
  if (refusal_.empty()) {
    cublas_ = std::make_unique<Cublas>(engine, shape, w_scales_.view());
    if (cublas_->status == CUBLAS_STATUS_SUCCESS) return;
    refusal_ = cublas_library() + " has no algorithm for " + describe() + ": " + cublas_status(cublas_->status);
    cublas_.reset();
  }
  plain_ = Plain{.w = engine.empty(ef::DType::f32, {shape.outputs, shape.inputs}),
                 .x = engine.empty(ef::DType::f32, {shape.rows, shape.inputs})};
}

LinearFp8::~LinearFp8() = default;

ef::OutputView LinearFp8::result() const { return {nullptr, ef::DType::bf16, {shape_.rows, shape_.outputs}}; }

void LinearFp8::forward(const Fp8& x, const ef::OutputView& y, ef::Stream stream) {
  if (!cublas_) return forward_plain(x, y, stream);
  Cublas& with = *cublas_;
  with.give_x_scales(x.scales);
  const float one = 1;
  const float zero = 0;
  check_cublas(
      cublasLtMatmul(with.handle.get(), with.product.get(), &one, w_.view().data, with.w.get(), x.values.data,
                     with.x.get(), &zero, y.data, with.y.get(), y.writable(), with.y.get(), &with.algorithm.algo,
                     with.workspace.view().writable(), with.workspace.size_bytes(), stream),
      "cublasLtMatmul");
}

void LinearFp8::forward_plain(const Fp8& x, const ef::OutputView& y, ef::Stream stream) {
  static const ef::Epilogue dequantize{ef::dequantize(ef::input("values"), ef::input("scales"))};
  static const ef::Epilogue multiply{ef::linear(ef::input("x"), ef::input("w"))};
  const std::int64_t blocks = shape_.inputs / kScaleBlock;
  const std::int64_t bands = shape_.outputs / kScaleBlock;
  // One dimension more for each that has blocks; a scale repeats along that dimension.
  const ef::Dims x_blocks{shape_.rows, blocks, kScaleBlock};
  const ef::Dims w_blocks{bands, kScaleBlock, blocks, kScaleBlock};
  const ef::TensorView x_scales(x.scales.data, ef::DType::f32, {shape_.rows, blocks, 1},
                                {x.scales.strides[0], x.scales.strides[1], 1});
  const ef::TensorView w_scales(w_scales_.view().data, ef::DType::f32, {bands, 1, blocks, 1},
                                {padded_blocks(shape_.inputs), 1, 1, 1});
  const auto plain = [&](const ef::Array& to, const ef::Dims& dims, const void* values, const ef::TensorView& scales) {
    engine_.launch(dequantize, stream, ef::OutputView(to.view().writable(), ef::DType::f32, dims),
                   {{"values", ef::TensorView(values, ef::DType::f8e4m3, dims)}, {"scales", scales}});
  };
  plain(plain_->w, w_blocks, w_.view().data, w_scales);
  plain(plain_->x, x_blocks, x.values.data, x_scales);
  engine_.launch(multiply, stream, y, {{"x", plain_->x.view()}, {"w", plain_->w.view()}});
}

double LinearFp8::expected(const Fp8& x, const ef::Dims& at) const {
  const std::int64_t inputs = shape_.inputs;
  const std::int64_t blocks = inputs / kScaleBlock;
  const std::vector<double> a = download(x.values.data, ef::DType::f8e4m3, at[0] * inputs, inputs);
  const std::vector<double> b = download(w_.view().data, ef::DType::f8e4m3, at[1] * inputs, inputs);
  const std::vector<double> a_scales = gather_box(x.scales, {at[0], 0}, {1, blocks});
  const std::vector<double> b_scales =
      download(w_scales_.view().data, ef::DType::f32, at[1] / kScaleBlock * padded_blocks(inputs), blocks);
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::size_t block = i / kScaleBlock;
    sum += a[i] * a_scales[block] * b[i] * b_scales[block];
  }
  return sum;
}

std::string LinearFp8::describe() const {
  return "fp8 linear " + std::to_string(shape_.rows) + "×" + std::to_string(shape_.inputs) + " to " +
         std::to_string(shape_.outputs);
}

std::string LinearFp8::library() const { return cublas_ ? cublas_library() : std::string("EpiFuse ") + ef::version(); }

}  // namespace examples
