// Owning wrappers of driver objects: each is made and destroyed with its context current. Called by api/, the tool,
// bench/ and tests/.
#include "runtime/memory.hpp"

#include <array>
#include <atomic>
#include <utility>

#include "base/log.hpp"
#include "base/text.hpp"
#include "runtime/driver.hpp"

namespace epifuse::runtime {
namespace {

constinit std::atomic<std::uint64_t> freed_buffers{0};

// Destroys in a destructor: a context or driver that is gone took the object with it. The function is a member of the
// table, since a forked process has no table to take it from.
template <class Object>
void destroy(const Context& context, const char* what, int (*DriverApi::*function)(Object), Object object) noexcept {
  const ContextGuard guard = ContextGuard::for_destructor(context);
  if (!guard.active()) return;
  const int result = (driver().*function)(object);
  if (result != abi::kSuccess && !is_teardown(result))
    base::log().warn("destroying {} failed with error {}", what, result);
}

}  // namespace

DeviceBuffer::DeviceBuffer(SharedContext context, std::size_t bytes) : context_(std::move(context)), bytes_(bytes) {
  if (bytes == 0) return;
  const ContextGuard guard(*context_);
  const std::string what = fmt::format("allocate {} bytes on GPU {}", bytes, context_->ordinal());
  check(driver().mem_alloc(&address_, bytes), what.c_str());
}

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept
    : context_(std::move(other.context_)),
      address_(std::exchange(other.address_, 0)),
      bytes_(std::exchange(other.bytes_, 0)) {}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(context_, other.context_);
  std::swap(address_, other.address_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

void DeviceBuffer::reset() noexcept {
  if (address_ != 0) freed_buffers.fetch_add(1, std::memory_order_relaxed);
  if (address_ != 0) destroy(*context_, "a buffer", &DriverApi::mem_free, address_);
  address_ = 0;
  bytes_ = 0;
}

void* DeviceBuffer::data() const noexcept { return reinterpret_cast<void*>(address_); }

void DeviceBuffer::require(std::size_t bytes, const char* what) const {
  if (bytes > bytes_) {
    base::fail(ErrorCode::invalid_argument, "cannot {} {} bytes: the device buffer has {}", what, bytes, bytes_);
  }
}

void DeviceBuffer::copy_from_host(const void* source, std::size_t bytes, StreamHandle stream) {
  require(bytes, "copy in");
  if (bytes == 0) return;
  const ContextGuard guard(*context_);
  check(driver().memcpy_htod_async(address_, source, bytes, stream), "copy to the GPU");
}

void DeviceBuffer::copy_to_host(void* destination, std::size_t bytes, StreamHandle stream) const {
  require(bytes, "copy out");
  if (bytes == 0) return;
  const ContextGuard guard(*context_);
  check(driver().memcpy_dtoh_async(destination, address_, bytes, stream), "copy from the GPU");
}

void DeviceBuffer::copy_from(const DeviceBuffer& source, std::size_t bytes, StreamHandle stream) {
  require(bytes, "copy in");
  source.require(bytes, "copy out");
  if (bytes == 0) return;
  const ContextGuard guard(*context_);
  check(driver().memcpy_dtod_async(address_, source.address_, bytes, stream), "copy on the GPU");
}

void DeviceBuffer::fill(unsigned char value, StreamHandle stream) {
  if (bytes_ == 0) return;
  const ContextGuard guard(*context_);
  check(driver().memset_d8_async(address_, value, bytes_, stream), "fill memory of the GPU");
}

Stream::Stream(SharedContext context) : context_(std::move(context)) {
  const ContextGuard guard(*context_);
  check(driver().stream_create(&handle_, abi::kStreamNonBlocking), "create a stream");
}

Stream::~Stream() { destroy(*context_, "a stream", &DriverApi::stream_destroy, handle_); }

void Stream::synchronize() const {
  const ContextGuard guard(*context_);
  check(driver().stream_synchronize(handle_), "finish the stream's work");
}

Event::Event(SharedContext context, bool timing) : context_(std::move(context)) {
  const ContextGuard guard(*context_);
  check(driver().event_create(&handle_, timing ? abi::kEventDefault : abi::kEventDisableTiming), "create an event");
}

Event::~Event() { destroy(*context_, "an event", &DriverApi::event_destroy, handle_); }

void Event::record(StreamHandle stream) {
  const ContextGuard guard(*context_);
  check(driver().event_record(handle_, stream), "record an event");
}

void Event::synchronize() const {
  const ContextGuard guard(*context_);
  check(driver().event_synchronize(handle_), "wait for an event");
}

double Event::milliseconds_since(const Event& start) const {
  const ContextGuard guard(*context_);
  float milliseconds = 0;
  check(driver().event_elapsed_time(&milliseconds, start.handle_, handle_), "measure the time between two events");
  return milliseconds;
}

Graph::Graph(const Stream& stream, const std::function<void(StreamHandle)>& record) : context_(stream.context()) {
  const ContextGuard guard(*context_);
  const DriverApi& api = driver();
  GraphHandle graph = nullptr;
  // Thread-local: other threads may allocate memory meanwhile without spoiling this capture.
  check(api.stream_begin_capture(stream.handle(), abi::kCaptureModeThreadLocal), "begin capturing the stream");
  try {
    record(stream.handle());
  } catch (...) {
    // The stream must not stay in capture; what ending it says is of no interest beside the error on its way.
    api.stream_end_capture(stream.handle(), &graph);
    if (graph != nullptr) api.graph_destroy(graph);
    throw;
  }
  check(api.stream_end_capture(stream.handle(), &graph), "end capturing the stream");
  const int result = api.graph_instantiate(&handle_, graph, 0);
  api.graph_destroy(graph);  // the executable graph is a copy
  check(result, "instantiate the captured graph");
}

Graph::~Graph() { destroy(*context_, "a graph", &DriverApi::graph_exec_destroy, handle_); }

void Graph::launch(StreamHandle stream) const {
  const ContextGuard guard(*context_);
  check(driver().graph_launch(handle_, stream), "launch the graph");
}

std::uint64_t frees() noexcept { return freed_buffers.load(std::memory_order_relaxed); }

const char* to_string(PointerKind kind) noexcept {
  switch (kind) {
    case PointerKind::device:
      return "device memory";
    case PointerKind::managed:
      return "managed memory";
    case PointerKind::host:
      return "pinned host memory";
    case PointerKind::unregistered_host:
      return "host memory that CUDA does not know";
  }
  return "unknown";
}

PointerInfo query_pointer(const void* pointer) {
  unsigned type = 0;
  unsigned managed = 0;
  int ordinal = -1;
  std::array<int, 3> attributes = {abi::kPointerMemoryType, abi::kPointerIsManaged, abi::kPointerDeviceOrdinal};
  std::array<void*, 3> values = {&type, &managed, &ordinal};
  // The plural form: for a pointer that CUDA does not know it succeeds and says 0, where the singular one is an error.
  const int result = driver().pointer_get_attributes(static_cast<unsigned>(attributes.size()), attributes.data(),
                                                     values.data(), reinterpret_cast<DevicePointer>(pointer));
  PointerInfo info;
  if (result == abi::kInvalidValue) return info;
  check(result, "ask what memory a pointer addresses");
  if (managed != 0) {
    info.kind = PointerKind::managed;
  } else if (type == abi::kMemoryTypeDevice) {
    info.kind = PointerKind::device;
  } else if (type == abi::kMemoryTypeHost) {
    info.kind = PointerKind::host;
  } else {
    return info;
  }
  info.ordinal = ordinal;
  return info;
}

StreamBuffer::StreamBuffer(const Context& context, std::size_t bytes, StreamHandle stream)
    : context_(context), stream_(stream) {
  const ContextGuard guard(context_);
  const int result = driver().mem_alloc_async(&address_, bytes, stream);
  if (result == abi::kSuccess) return;
  const std::string size = base::format_bytes(static_cast<double>(bytes));
  check(result, fmt::format("take a workspace of {} from the stream-ordered pool", size).c_str());
}

StreamBuffer::~StreamBuffer() {
  const ContextGuard guard = ContextGuard::for_destructor(context_);
  if (!guard.active()) return;
  const int result = driver().mem_free_async(address_, stream_);
  if (result != abi::kSuccess && !is_teardown(result))
    base::log().warn("giving a workspace back failed with error {}", result);
}

void* StreamBuffer::data() const noexcept { return reinterpret_cast<void*>(address_); }

void fill_zero(void* data, std::size_t bytes, StreamHandle stream) {
  check(driver().memset_d8_async(reinterpret_cast<DevicePointer>(data), 0, bytes, stream), "clear the workspace");
}

}  // namespace epifuse::runtime
