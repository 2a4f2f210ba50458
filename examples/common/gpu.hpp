// The CUDA runtime as the examples use it: failures become exceptions with a sentence, handles have owners.
#pragma once

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>

#include <cuda_runtime_api.h>

namespace examples {

/// Something outside of EpiFuse failed; what() is a sentence.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Throws Failure unless `status` is cudaSuccess; `what` says what was tried, as in "copying y from the device".
void check(cudaError_t status, const char* what);

/// Owns an opaque handle of a C library and gives it back with its destroy function.
template <auto kDestroy>
struct Release {
  void operator()(auto* handle) const noexcept { kDestroy(handle); }
};
template <typename Handle, auto kDestroy>
using Owner = std::unique_ptr<std::remove_pointer_t<Handle>, Release<kDestroy>>;

/// Calls a create function such as cudaStreamCreate and checks it with `check`, which knows the library's status type.
template <typename OwnerType, typename Status>
OwnerType create(Status (*make)(typename OwnerType::pointer*), void (*check_status)(Status, const char*),
                 const char* what) {
  typename OwnerType::pointer handle = nullptr;
  check_status(make(&handle), what);
  return OwnerType(handle);
}

using StreamOwner = Owner<cudaStream_t, cudaStreamDestroy>;
using EventOwner = Owner<cudaEvent_t, cudaEventDestroy>;

/// What the results should say about the machine.
struct Gpu {
  std::string name;
  std::string driver;   ///< the CUDA version that the driver supports, "13.0"
  std::string runtime;  ///< of the CUDA runtime linked here
  std::size_t l2_bytes = 0;
};

/// Makes device 0 current; throws Failure with a sentence where there is none.
Gpu require_gpu();

/// Whether CUDA finds a GPU.
bool has_gpu();

/// What stands for the GPU in the results where there is none and the CPU device computes.
Gpu no_gpu();

/// Copies between any two of the host's and the GPU's memory. Without a GPU all memory is the host's.
void copy(void* to, const void* from, std::size_t bytes, const char* what);

}  // namespace examples
