// The driver's functions are asked of the CUDA runtime, so that an example links the runtime alone.
#include "common/hosted.hpp"

#include <cstring>
#include <string>

namespace examples {
namespace {

constexpr unsigned kDriverVersion = 12000;  // in which all of these functions are

template <typename Function>
Function driver_function(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult status{};
  check(cudaGetDriverEntryPointByVersion(name, &found, kDriverVersion, cudaEnableDefault, &status), name);
  if (found == nullptr) throw Failure(std::string("the driver has no function ") + name);
  return reinterpret_cast<Function>(found);
}

struct Driver {
  decltype(&cuTensorMapEncodeTiled) encode =
      driver_function<decltype(&cuTensorMapEncodeTiled)>("cuTensorMapEncodeTiled");
  decltype(&cuModuleLoadData) load = driver_function<decltype(&cuModuleLoadData)>("cuModuleLoadData");
  decltype(&cuModuleUnload) unload = driver_function<decltype(&cuModuleUnload)>("cuModuleUnload");
  decltype(&cuModuleGetFunction) find = driver_function<decltype(&cuModuleGetFunction)>("cuModuleGetFunction");
  decltype(&cuFuncSetAttribute) set = driver_function<decltype(&cuFuncSetAttribute)>("cuFuncSetAttribute");
  decltype(&cuLaunchKernel) launch = driver_function<decltype(&cuLaunchKernel)>("cuLaunchKernel");
};

const Driver& driver() {
  static const Driver functions;
  return functions;
}

void check_driver(CUresult result, const char* what) {
  if (result != CUDA_SUCCESS)
    throw Failure(std::string(what) + " failed: the driver reports error " + std::to_string(static_cast<int>(result)));
}

ef::TensorMapBytes encoded(const ef::TensorMapRequest& request) {
  CUtensorMap map{};
  const cuuint64_t extents[3] = {static_cast<cuuint64_t>(request.extents[0]),
                                 static_cast<cuuint64_t>(request.extents[1]),
                                 static_cast<cuuint64_t>(request.extents[2])};
  const cuuint64_t strides[2] = {static_cast<cuuint64_t>(request.strides[0]),
                                 static_cast<cuuint64_t>(request.strides[1])};
  const cuuint32_t box[3] = {static_cast<cuuint32_t>(request.box[0]), static_cast<cuuint32_t>(request.box[1]),
                             static_cast<cuuint32_t>(request.box[2])};
  const cuuint32_t steps[3] = {1, 1, 1};
  check_driver(
      driver().encode(
          &map, request.dtype == ef::DType::bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
          3, const_cast<void*>(request.data), extents, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
          request.swizzle == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B,
          CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
      "encoding a tensor map");
  ef::TensorMapBytes bytes;
  static_assert(sizeof bytes == sizeof map);
  std::memcpy(bytes.data(), &map, sizeof map);
  return bytes;
}

}  // namespace

HostedProduct::HostedProduct(const ef::GemmKernel& kernel, std::span<const double> scalars) : launch_(kernel.launch()) {
  std::vector<ef::TensorMapBytes> maps;
  for (const ef::TensorMapRequest& request : launch_.maps) maps.push_back(encoded(request));
  parameters_ = kernel.parameters(maps, scalars);
  const std::string image = kernel.cubin();
  check_driver(driver().load(&module_, image.data()), "loading the kernel");
  check_driver(driver().find(&function_, module_, launch_.name.c_str()), "finding the kernel");
  check_driver(driver().set(function_, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, launch_.shared_bytes),
               "raising the limit of shared memory");
}

HostedProduct::~HostedProduct() {
  if (module_ != nullptr) driver().unload(module_);
}

void HostedProduct::launch(CUstream stream) const {
  // The driver copies the struct and does not write it.
  void* parameters[] = {const_cast<std::byte*>(parameters_.data())};
  check_driver(
      driver().launch(function_, static_cast<unsigned>(launch_.blocks), 1, 1, static_cast<unsigned>(launch_.threads), 1,
                      1, static_cast<unsigned>(launch_.shared_bytes), stream, parameters, nullptr),
      "launching the kernel");
}

}  // namespace examples
