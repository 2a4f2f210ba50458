// A convolution layer with its bias, computed by cuDNN: the producer of examples 1, 3 and 4.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <cudnn.h>

#include <epifuse/epifuse.hpp>

#include "common/data.hpp"
#include "common/gpu.hpp"

namespace examples {

enum class Layout { nchw, nhwc };

/// `kernel` × `kernel` filters, stride 1, no padding.
struct ConvolutionShape {
  int batch;
  int channels;
  int height;
  int width;
  int filters;
  int kernel;
};

class Convolution {
 public:
  /// Random inputs (normal), filters (normal, scaled by 1/sqrt(fan-in)) and bias, from a fixed seed.
  Convolution(ef::Engine& engine, const ConvolutionShape& shape, ef::DType dtype, Layout layout);

  /// Type, shape [batch, filters, height, width] and strides of the result.
  ef::OutputView result() const;

  /// Images, filters and the layer's own bias, with the strides of the layout.
  ef::TensorView x() const;
  ef::TensorView w() const;
  ef::TensorView bias() const { return bias_.view(); }

  /// y = convolution(x, w) + bias, in one cuDNN call on `stream`.
  void forward(const ef::OutputView& y, ef::Stream stream);

  /// One value of the result, from the same inputs, in double precision.
  double expected(const ef::Dims& at);

  std::string describe() const;
  std::string layout_name() const { return layout_ == Layout::nchw ? "NCHW" : "NHWC"; }
  static std::string library();

 private:
  void describe_tensors();
  void describe_convolution();

  ConvolutionShape shape_;
  ef::DType dtype_;
  Layout layout_;
  ef::Array x_;
  ef::Array w_;
  ef::Array bias_;
  std::optional<ef::Array> workspace_;  ///< none where cuDNN needs none
  Owner<cudnnHandle_t, cudnnDestroy> cudnn_;
  Owner<cudnnTensorDescriptor_t, cudnnDestroyTensorDescriptor> x_layout_;
  Owner<cudnnTensorDescriptor_t, cudnnDestroyTensorDescriptor> y_layout_;
  Owner<cudnnTensorDescriptor_t, cudnnDestroyTensorDescriptor> bias_layout_;
  Owner<cudnnFilterDescriptor_t, cudnnDestroyFilterDescriptor> w_layout_;
  Owner<cudnnConvolutionDescriptor_t, cudnnDestroyConvolutionDescriptor> convolution_;
  Owner<cudnnActivationDescriptor_t, cudnnDestroyActivationDescriptor> no_activation_;
  std::vector<double> host_w_;  ///< for expected(), downloaded when first needed
  std::vector<double> host_bias_;
};

}  // namespace examples
