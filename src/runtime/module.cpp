// Loading images, reading what the driver says of a kernel, launching. Called by api/.
#include "runtime/module.hpp"

#include <array>
#include <chrono>
#include <utility>

#include "base/log.hpp"
#include "base/text.hpp"
#include "runtime/driver.hpp"

namespace epifuse::runtime {
namespace {

int attribute(FunctionHandle function, int which) {
  int value = 0;
  check(driver().func_get_attribute(&value, which, function), "read an attribute of the kernel");
  return value;
}

}  // namespace

int Kernel::blocks_per_multiprocessor(int threads, std::size_t dynamic_shared_bytes) const {
  int blocks = 0;
  check(driver().occupancy_max_active_blocks(&blocks, function, threads, dynamic_shared_bytes),
        "compute the kernel's occupancy");
  return blocks;
}

void Kernel::allow_dynamic_shared(std::size_t bytes) const {
  check(driver().func_set_attribute(function, abi::kFunctionMaxDynamicSharedSizeBytes, static_cast<int>(bytes)),
        "raise the kernel's limit of dynamic shared memory");
}

void Kernel::allow_large_clusters() const {
  check(driver().func_set_attribute(function, abi::kFunctionNonPortableClusterSizeAllowed, 1),
        "allow the kernel clusters of more than 8 blocks");
}

Module::Module(std::shared_ptr<const Context> context, const std::string& image) : context_(std::move(context)) {
  const auto start = std::chrono::steady_clock::now();
  const ContextGuard guard(*context_);
  // The driver's PTX compiler explains itself here. The size travels as a pointer's value: that is the interface.
  std::array<char, 4096> log{};
  std::array<int, 2> options = {abi::kJitErrorLogBuffer, abi::kJitErrorLogBufferSizeBytes};
  std::array<void*, 2> values = {log.data(), reinterpret_cast<void*>(log.size() - 1)};
  // c_str(): PTX must end with a NUL.
  const int result = driver().module_load_data_ex(&handle_, image.c_str(), static_cast<unsigned>(options.size()),
                                                  options.data(), values.data());
  if (result != abi::kSuccess) {
    handle_ = nullptr;
    const std::string what =
        log.front() == '\0' ? "load the kernel" : fmt::format("load the kernel (the driver's log: {})", log.data());
    check(result, what.c_str());
  }
  const std::chrono::duration<double, std::milli> spent = std::chrono::steady_clock::now() - start;
  base::log().debug("loaded a module of {} bytes on GPU {} in {:.2f} ms", image.size(), context_->ordinal(),
                    spent.count());
}

Module::~Module() { unload(); }

Module::Module(Module&& other) noexcept
    : context_(std::move(other.context_)), handle_(std::exchange(other.handle_, nullptr)) {}

Module& Module::operator=(Module&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(handle_, other.handle_);
  return *this;
}

void Module::unload() noexcept {
  if (handle_ == nullptr) return;
  const ContextGuard guard = ContextGuard::for_destructor(*context_);
  if (!guard.active()) return;  // the context is gone, and its modules with it
  const int result = driver().module_unload(handle_);
  if (result != abi::kSuccess && !is_teardown(result))
    base::log().warn("unloading a module failed with error {}", result);
}

Kernel Module::kernel(const char* name) const {
  const ContextGuard guard(*context_);
  Kernel kernel;
  const std::string what = fmt::format("find the kernel {} in its module", name);
  check(driver().module_get_function(&kernel.function, handle_, name), what.c_str());
  // Asking makes a driver that loads kernels lazily load this one now: loading it at its first launch would allocate,
  // and fail if that launch is being captured.
  kernel.registers = attribute(kernel.function, abi::kFunctionNumRegs);
  kernel.local_bytes = attribute(kernel.function, abi::kFunctionLocalSizeBytes);
  kernel.shared_bytes = attribute(kernel.function, abi::kFunctionSharedSizeBytes);
  kernel.max_threads = attribute(kernel.function, abi::kFunctionMaxThreadsPerBlock);
  base::log().debug("kernel {}: {} registers, {} bytes of local and {} of shared memory", name, kernel.registers,
                    kernel.local_bytes, kernel.shared_bytes);
  return kernel;
}

void launch(const Kernel& kernel, unsigned grid, unsigned block, unsigned dynamic_shared_bytes, StreamHandle stream,
            const void* params, std::size_t size) {
  // The buffer form rather than an array of pointers: the driver then copies `size` bytes, and not as many as the
  // kernel declares, so that a struct shorter on this side is never read beyond its end.
  std::array<void*, 5> extra = {reinterpret_cast<void*>(abi::kLaunchParamBufferPointer), const_cast<void*>(params),
                                reinterpret_cast<void*>(abi::kLaunchParamBufferSize), &size,
                                reinterpret_cast<void*>(abi::kLaunchParamEnd)};
  check(driver().launch_kernel(kernel.function, grid, 1, 1, block, 1, 1, dynamic_shared_bytes, stream, nullptr,
                               extra.data()),
        "launch the kernel");
}

void launch_with_maps(const Kernel& kernel, unsigned grid, unsigned block, unsigned dynamic_shared_bytes,
                      StreamHandle stream, const void* params) {
  // Not the buffer form: parameters begin 16 bytes behind a multiple of 64 in sm_90's constant bank, so that an aligned
  // struct stands further behind, which a buffer would have to know. Here the driver places it.
  std::array<void*, 1> pointers = {const_cast<void*>(params)};
  check(driver().launch_kernel(kernel.function, grid, 1, 1, block, 1, 1, dynamic_shared_bytes, stream, pointers.data(),
                               nullptr),
        "launch the kernel");
}

}  // namespace epifuse::runtime
