// cuDNN's convolution with bias: its descriptors, its call, and seven plain loops to check it against.
#include "common/convolution.hpp"

#include <cmath>
#include <cstdint>

namespace examples {
namespace {

/// The one algorithm that adds a bias without also applying an activation.
constexpr cudnnConvolutionFwdAlgo_t kAlgorithm = CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;

void check_cudnn(cudnnStatus_t status, const char* what) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  char details[512] = "";
  cudnnGetLastErrorString(details, sizeof details);
  throw Failure(std::string(what) + " failed: cuDNN reports " + cudnnGetErrorString(status) + " (" + details + ")");
}

cudnnDataType_t data_type(ef::DType dtype) { return dtype == ef::DType::f16 ? CUDNN_DATA_HALF : CUDNN_DATA_FLOAT; }

cudnnTensorFormat_t format(Layout layout) { return layout == Layout::nchw ? CUDNN_TENSOR_NCHW : CUDNN_TENSOR_NHWC; }

/// Strides of [n, c, h, w] in the layout's memory order.
ef::Dims strides(Layout layout, std::int64_t c, std::int64_t h, std::int64_t w) {
  return layout == Layout::nchw ? ef::Dims{c * h * w, h * w, w, 1} : ef::Dims{c * h * w, 1, w * c, c};
}

}  // namespace

Convolution::Convolution(ef::Engine& engine, const ConvolutionShape& shape, ef::DType dtype, Layout layout)
    : shape_(shape),
      dtype_(dtype),
      layout_(layout),
      x_(normal(engine, dtype, {shape.batch, shape.channels, shape.height, shape.width}, 1, 1)),
      w_(normal(engine, dtype, {shape.filters, shape.channels, shape.kernel, shape.kernel},
                1 / std::sqrt(shape.channels * shape.kernel * shape.kernel), 2)),
      bias_(normal(engine, dtype, {shape.filters}, 0.1, 3)),
      cudnn_(create<decltype(cudnn_)>(cudnnCreate, check_cudnn, "cudnnCreate")),
      x_layout_(create<decltype(x_layout_)>(cudnnCreateTensorDescriptor, check_cudnn, "describing x")),
      y_layout_(create<decltype(y_layout_)>(cudnnCreateTensorDescriptor, check_cudnn, "describing y")),
      bias_layout_(create<decltype(bias_layout_)>(cudnnCreateTensorDescriptor, check_cudnn, "describing the bias")),
      w_layout_(create<decltype(w_layout_)>(cudnnCreateFilterDescriptor, check_cudnn, "describing w")),
      convolution_(
          create<decltype(convolution_)>(cudnnCreateConvolutionDescriptor, check_cudnn, "describing the convolution")),
      no_activation_(
          create<decltype(no_activation_)>(cudnnCreateActivationDescriptor, check_cudnn, "describing no activation")) {
  describe_tensors();
  describe_convolution();
  std::size_t bytes = 0;
  check_cudnn(cudnnGetConvolutionForwardWorkspaceSize(cudnn_.get(), x_layout_.get(), w_layout_.get(),
                                                      convolution_.get(), y_layout_.get(), kAlgorithm, &bytes),
              "asking for the workspace's size");
  if (bytes > 0) workspace_ = engine.empty(ef::DType::u8, {static_cast<std::int64_t>(bytes)});
}

void Convolution::describe_tensors() {
  const cudnnDataType_t type = data_type(dtype_);
  const cudnnTensorFormat_t order = format(layout_);
  const ef::Dims y = result().shape;
  check_cudnn(cudnnSetTensor4dDescriptor(x_layout_.get(), order, type, shape_.batch, shape_.channels, shape_.height,
                                         shape_.width),
              "describing x");
  check_cudnn(cudnnSetFilter4dDescriptor(w_layout_.get(), type, order, shape_.filters, shape_.channels, shape_.kernel,
                                         shape_.kernel),
              "describing w");
  check_cudnn(cudnnSetTensor4dDescriptor(bias_layout_.get(), order, type, 1, shape_.filters, 1, 1),
              "describing the bias");
  check_cudnn(cudnnSetTensor4dDescriptor(y_layout_.get(), order, type, shape_.batch, shape_.filters,
                                         static_cast<int>(y[2]), static_cast<int>(y[3])),
              "describing y");
}

void Convolution::describe_convolution() {
  check_cudnn(
      cudnnSetConvolution2dDescriptor(convolution_.get(), 0, 0, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
      "describing the convolution");
  // In f32, plain f32: cuDNN's default would allow TF32, which keeps 10 bits of each factor.
  check_cudnn(
      cudnnSetConvolutionMathType(convolution_.get(), dtype_ == ef::DType::f16 ? CUDNN_TENSOR_OP_MATH : CUDNN_FMA_MATH),
      "choosing the convolution's arithmetic");
  check_cudnn(cudnnSetActivationDescriptor(no_activation_.get(), CUDNN_ACTIVATION_IDENTITY, CUDNN_NOT_PROPAGATE_NAN, 0),
              "describing no activation");
}

ef::OutputView Convolution::result() const {
  const std::int64_t h = shape_.height - shape_.kernel + 1;
  const std::int64_t w = shape_.width - shape_.kernel + 1;
  return {nullptr, dtype_, {shape_.batch, shape_.filters, h, w}, strides(layout_, shape_.filters, h, w)};
}

ef::TensorView Convolution::x() const {
  return {x_.view().data, dtype_, x_.view().shape, strides(layout_, shape_.channels, shape_.height, shape_.width)};
}

ef::TensorView Convolution::w() const {
  return {w_.view().data, dtype_, w_.view().shape, strides(layout_, shape_.channels, shape_.kernel, shape_.kernel)};
}

void Convolution::forward(const ef::OutputView& y, ef::Stream stream) {
  const float one = 1;
  const float zero = 0;  // the second summand is unused: y stands in for it
  check_cudnn(cudnnSetStream(cudnn_.get(), stream), "giving cuDNN the stream");
  check_cudnn(cudnnConvolutionBiasActivationForward(
                  cudnn_.get(), &one, x_layout_.get(), x_.view().data, w_layout_.get(), w_.view().data,
                  convolution_.get(), kAlgorithm, workspace_ ? workspace_->view().writable() : nullptr,
                  workspace_ ? workspace_->size_bytes() : 0, &zero, y_layout_.get(), y.data, bias_layout_.get(),
                  bias_.view().data, no_activation_.get(), y_layout_.get(), y.writable()),
              "cudnnConvolutionBiasActivationForward");
}

double Convolution::expected(const ef::Dims& at) {
  const std::int64_t channels = shape_.channels;
  const std::int64_t kernel = shape_.kernel;
  if (host_w_.empty()) {
    host_w_ = download(w_.view().data, dtype_, 0, count_of(w_.view().shape));
    host_bias_ = download(bias_.view().data, dtype_, 0, shape_.filters);
  }
  const std::int64_t image_size = channels * shape_.height * shape_.width;
  const std::vector<double> image = download(x_.view().data, dtype_, at[0] * image_size, image_size);
  const ef::Dims x = strides(layout_, channels, shape_.height, shape_.width);
  const ef::Dims w = strides(layout_, channels, kernel, kernel);
  double sum = host_bias_[static_cast<std::size_t>(at[1])];
  for (std::int64_t c = 0; c < channels; ++c) {
    for (std::int64_t r = 0; r < kernel; ++r) {
      for (std::int64_t s = 0; s < kernel; ++s) {
        const std::int64_t from = c * x[1] + (at[2] + r) * x[2] + (at[3] + s) * x[3];
        const std::int64_t with = at[1] * w[0] + c * w[1] + r * w[2] + s * w[3];
        sum += image[static_cast<std::size_t>(from)] * host_w_[static_cast<std::size_t>(with)];
      }
    }
  }
  return sum;
}

std::string Convolution::describe() const {
  const auto text = [](int number) { return std::to_string(number); };
  return "conv2d " + text(shape_.batch) + "×" + text(shape_.channels) + "×" + text(shape_.height) + "×" +
         text(shape_.width) + ", " + text(shape_.filters) + " filters " + text(shape_.kernel) + "×" +
         text(shape_.kernel) + ", bias";
}

std::string Convolution::library() {
  const std::size_t version = cudnnGetVersion();  // 91900 is 9.19.0
  return "cuDNN " + std::to_string(version / 10000) + "." + std::to_string(version % 10000 / 100) + "." +
         std::to_string(version % 100);
}

}  // namespace examples
