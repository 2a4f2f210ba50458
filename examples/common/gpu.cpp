// Checks of CUDA runtime calls, and the description of device 0.
#include "common/gpu.hpp"

namespace examples {
namespace {

/// 13000 is CUDA 13.0.
std::string cuda_version(int number) {
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

}  // namespace

void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  throw Failure(std::string(what) + " failed: CUDA reports \"" + cudaGetErrorString(status) + "\" (" +
                cudaGetErrorName(status) + ")");
}

Gpu require_gpu() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    const std::string found = status == cudaSuccess ? "no device" : cudaGetErrorString(status);
    throw Failure("this example needs an NVIDIA GPU, and CUDA reports \"" + found +
                  "\"; the quickstart runs without one");
  }
  check(cudaSetDevice(0), "making device 0 current");
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, 0), "reading the properties of device 0");
  int driver = 0;
  int runtime = 0;
  check(cudaDriverGetVersion(&driver), "reading the driver's version");
  check(cudaRuntimeGetVersion(&runtime), "reading the runtime's version");
  return {properties.name, cuda_version(driver), cuda_version(runtime),
          static_cast<std::size_t>(properties.l2CacheSize)};
}

}  // namespace examples
