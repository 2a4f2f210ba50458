// The driver's functions, looked up by name as cuda.h maps them (the _v2 of those that have one).
#include "cuda_timing.hpp"

#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "support.hpp"
#include "terminal.hpp"

namespace epifuse::tool {
namespace {

// From cuda.h: stable since CUDA 4.
using CuResult = int;
using CuDevice = int;
using CuPointer = unsigned long long;
using CuContext = struct CUctx_st*;
using CuEvent = struct CUevent_st*;
using CuGraph = struct CUgraph_st*;
using CuGraphExec = struct CUgraphExec_st*;
constexpr CuResult kSuccess = 0;
constexpr CuResult kOutOfMemory = 2;
constexpr unsigned kStreamNonBlocking = 1;
constexpr int kCaptureGlobal = 0;  // the strictest: a launch that allocates or synchronises fails

// The system's driver, or the file that EPIFUSE_LIBCUDA names, as in the library.
void* open_driver() {
  const char* other = std::getenv("EPIFUSE_LIBCUDA");
  const char* name = other != nullptr && *other != '\0' ? other : "libcuda.so.1";
  void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) fail(ErrorCode::no_driver, "the CUDA driver cannot be opened: {}", dlerror());
  return library;
}

template <class Signature>
class Function;
template <class... Args>
class Function<CuResult(Args...)> {
 public:
  Function(void* library, const char* name)
      : name_(name), call_(reinterpret_cast<CuResult (*)(Args...)>(dlsym(library, name))) {
    if (call_ == nullptr) {
      fail(ErrorCode::driver_too_old, "the CUDA driver has no {}; install a driver for CUDA 12 or newer", name);
    }
  }
  void operator()(Args... args) const {
    if (const CuResult result = call_(args...); result != kSuccess) {
      fail(result == kOutOfMemory ? ErrorCode::out_of_memory : ErrorCode::device_failed, "{} failed with CUDA error {}",
           name_, result);
    }
  }
  CuResult unchecked(Args... args) const noexcept { return call_(args...); }

 private:
  const char* name_;
  CuResult (*call_)(Args...);
};

struct Driver {
  void* library = open_driver();
  Function<CuResult(CuContext*, CuDevice)> retain{library, "cuDevicePrimaryCtxRetain"};
  Function<CuResult(CuDevice)> release{library, "cuDevicePrimaryCtxRelease_v2"};
  Function<CuResult(CuContext)> push{library, "cuCtxPushCurrent_v2"};
  Function<CuResult(CuContext*)> pop{library, "cuCtxPopCurrent_v2"};
  Function<CuResult(CuDevice*, int)> get_device{library, "cuDeviceGet"};
  Function<CuResult(std::size_t*, std::size_t*)> memory_info{library, "cuMemGetInfo_v2"};
  Function<CuResult(CuPointer*, std::size_t)> allocate{library, "cuMemAlloc_v2"};
  Function<CuResult(CuPointer)> free{library, "cuMemFree_v2"};
  Function<CuResult(CuPointer, const void*, std::size_t)> upload{library, "cuMemcpyHtoD_v2"};
  Function<CuResult(void*, CuPointer, std::size_t)> download{library, "cuMemcpyDtoH_v2"};
  Function<CuResult(CuPointer, CuPointer, std::size_t, Stream)> copy{library, "cuMemcpyDtoDAsync_v2"};
  Function<CuResult(Stream*, unsigned)> make_stream{library, "cuStreamCreate"};
  Function<CuResult(Stream)> destroy_stream{library, "cuStreamDestroy_v2"};
  Function<CuResult(Stream)> synchronize{library, "cuStreamSynchronize"};
  Function<CuResult(Stream, int)> begin_capture{library, "cuStreamBeginCapture_v2"};
  Function<CuResult(Stream, CuGraph*)> end_capture{library, "cuStreamEndCapture"};
  Function<CuResult(CuGraphExec*, CuGraph, unsigned long long)> instantiate{library, "cuGraphInstantiateWithFlags"};
  Function<CuResult(CuGraphExec, Stream)> launch_graph{library, "cuGraphLaunch"};
  Function<CuResult(CuGraphExec)> destroy_exec{library, "cuGraphExecDestroy"};
  Function<CuResult(CuGraph)> destroy_graph{library, "cuGraphDestroy"};
  Function<CuResult(CuEvent*, unsigned)> make_event{library, "cuEventCreate"};
  Function<CuResult(CuEvent)> destroy_event{library, "cuEventDestroy_v2"};
  Function<CuResult(CuEvent, Stream)> record{library, "cuEventRecord"};
  Function<CuResult(float*, CuEvent, CuEvent)> elapsed{library, "cuEventElapsedTime"};
};

CuPointer address(const std::byte* pointer) { return reinterpret_cast<CuPointer>(pointer); }

}  // namespace

struct GpuSession::Impl {
  Driver driver;
  CuDevice device = 0;
  CuContext context = nullptr;
  Stream stream = nullptr;
  std::vector<CuPointer> memory;
  std::vector<CuGraphExec> recordings;
  std::vector<CuEvent> events;
};

GpuSession::GpuSession(int device) : impl_(std::make_unique<Impl>()) {
  const Driver& driver = impl_->driver;
  driver.get_device(&impl_->device, device);
  driver.retain(&impl_->context, impl_->device);
  driver.push(impl_->context);
  driver.make_stream(&impl_->stream, kStreamNonBlocking);
}

// Failures are of no interest here: the session ends, and so does the process soon after.
GpuSession::~GpuSession() {
  const Driver& driver = impl_->driver;
  driver.synchronize.unchecked(impl_->stream);
  for (CuEvent event : impl_->events) driver.destroy_event.unchecked(event);
  for (CuGraphExec recording : impl_->recordings) driver.destroy_exec.unchecked(recording);
  for (const CuPointer pointer : impl_->memory) driver.free.unchecked(pointer);
  driver.destroy_stream.unchecked(impl_->stream);
  CuContext popped = nullptr;
  driver.pop.unchecked(&popped);
  driver.release.unchecked(impl_->device);
}

Stream GpuSession::stream() const noexcept { return impl_->stream; }

std::uint64_t GpuSession::free_memory() const {
  std::size_t free = 0;
  std::size_t total = 0;
  impl_->driver.memory_info(&free, &total);
  return free;
}

std::byte* GpuSession::allocate(std::uint64_t bytes) {
  CuPointer pointer = 0;
  impl_->driver.allocate(&pointer, bytes);
  impl_->memory.push_back(pointer);
  return reinterpret_cast<std::byte*>(pointer);
}

void GpuSession::upload(std::byte* device, const void* host, std::uint64_t bytes) {
  if (bytes > 0) impl_->driver.upload(address(device), host, bytes);
}

void GpuSession::download(void* host, const std::byte* device, std::uint64_t bytes) {
  if (bytes > 0) impl_->driver.download(host, address(device), bytes);
}

void GpuSession::copy_async(std::byte* to, const std::byte* from, std::uint64_t bytes) {
  if (bytes > 0) impl_->driver.copy(address(to), address(from), bytes, impl_->stream);
}

void GpuSession::synchronize() { impl_->driver.synchronize(impl_->stream); }

std::function<void()> GpuSession::record(const std::function<void()>& enqueue) {
  const Driver& driver = impl_->driver;
  CuGraph graph = nullptr;
  driver.begin_capture(impl_->stream, kCaptureGlobal);
  try {
    enqueue();
  } catch (...) {
    driver.end_capture.unchecked(impl_->stream, &graph);
    throw;
  }
  driver.end_capture(impl_->stream, &graph);
  CuGraphExec recording = nullptr;
  driver.instantiate(&recording, graph, 0);
  driver.destroy_graph(graph);
  impl_->recordings.push_back(recording);
  return [this, recording] { impl_->driver.launch_graph(recording, impl_->stream); };
}

std::vector<double> GpuSession::time(int count, const std::function<void(int)>& enqueue) {
  const Driver& driver = impl_->driver;
  const auto needed = static_cast<std::size_t>(count) + 1;
  while (impl_->events.size() < needed) {
    CuEvent event = nullptr;
    driver.make_event(&event, 0);
    impl_->events.push_back(event);
  }
  driver.record(impl_->events[0], impl_->stream);
  for (int i = 0; i < count; ++i) {
    enqueue(i);
    driver.record(impl_->events[static_cast<std::size_t>(i) + 1], impl_->stream);
  }
  synchronize();
  std::vector<double> seconds;
  for (std::size_t i = 0; i + 1 < needed; ++i) {
    float milliseconds = 0;
    driver.elapsed(&milliseconds, impl_->events[i], impl_->events[i + 1]);
    seconds.push_back(static_cast<double>(milliseconds) * 1e-3);
  }
  return seconds;
}

}  // namespace epifuse::tool
