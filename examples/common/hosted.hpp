// A matrix product that hosts a chain, on the GPU: loads the image of an ef::GemmKernel, has the driver encode its tensor maps, and launches it.
// For example 10.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <cuda.h>

#include <epifuse/gemm.hpp>

#include "common/gpu.hpp"

namespace examples {

namespace ef = epifuse;

class HostedProduct {
 public:
  /// Compiles and loads. The views that `kernel` was made of must stay where they are while it is launched.
  explicit HostedProduct(const ef::GemmKernel& kernel, std::span<const double> scalars = {});
  ~HostedProduct();
  HostedProduct(const HostedProduct&) = delete;
  HostedProduct& operator=(const HostedProduct&) = delete;

  void launch(CUstream stream) const;

 private:
  ef::GemmLaunch launch_;
  std::vector<std::byte> parameters_;
  CUmodule module_ = nullptr;
  CUfunction function_ = nullptr;
};

}  // namespace examples
