// Compiled images on the GPU, and launching what is in them. Called by the engine; a launch is the hot path of EpiFuse.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "runtime/context.hpp"
#include "runtime/driver_abi.hpp"

namespace epifuse::runtime {

/// One entry point of a module: a small value, valid as long as the Module.
struct Kernel {
  FunctionHandle function = nullptr;
  int registers = 0;     ///< per thread
  int local_bytes = 0;   ///< per thread: spills, and arrays that are not in registers
  int shared_bytes = 0;  ///< static, per block
  int max_threads = 0;   ///< per block

  /// How many blocks of that size one multiprocessor holds at once. The kernel's context must be current.
  int blocks_per_multiprocessor(int threads, std::size_t dynamic_shared_bytes = 0) const;
  /// Needed before a launch with more than 48 KiB of dynamic shared memory. The kernel's context must be current.
  void allow_dynamic_shared(std::size_t bytes) const;
  /// Clusters of up to 16 blocks, where the device has them (sm_90): more than the 8 that every device with clusters
  /// runs.
  void allow_large_clusters() const;
};

class Module {
 public:
  /// Loads a cubin, or PTX (which the driver then compiles). Throws Error(device_failed) with the driver's log.
  Module(std::shared_ptr<const Context> context, const std::string& image);
  /// Unloads, with the context made current; a context or driver that is gone already is no error.
  ~Module();
  Module(Module&& other) noexcept;
  Module& operator=(Module&& other) noexcept;

  /// Throws Error(device_failed) when the image holds no such kernel (extern "C" name).
  Kernel kernel(const char* name) const;
  const std::shared_ptr<const Context>& context() const noexcept { return context_; }

 private:
  void unload() noexcept;

  std::shared_ptr<const Context> context_;
  ModuleHandle handle_ = nullptr;
};

/// Queues the kernel on the stream, in one dimension. `params` is the one struct that the kernel takes by value, `size`
/// its size; it is copied before this returns. The driver does not compare the size with the kernel's own (seen with
/// 13.0): the emitted struct and the one here must agree. The kernel's context must be current. No allocation, no
/// synchronisation; legal while the stream is being captured. Neither extent may be 0.
void launch(const Kernel& kernel, unsigned grid, unsigned block, unsigned dynamic_shared_bytes, StreamHandle stream,
            const void* params, std::size_t size);

/// The same for a struct that holds tensor maps, and is aligned as they are, to 64 bytes. `params` has as many bytes as
/// the kernel's own.
void launch_with_maps(const Kernel& kernel, unsigned grid, unsigned block, unsigned dynamic_shared_bytes,
                      StreamHandle stream, const void* params);

}  // namespace epifuse::runtime
