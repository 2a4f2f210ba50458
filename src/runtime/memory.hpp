// Device memory, streams, events and graphs as C++ values. A launch uses query_pointer(), and StreamBuffer and
// fill_zero() for a workspace; DeviceBuffer is behind Array; the rest is for the tool, the benchmarks and the tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "runtime/context.hpp"
#include "runtime/driver_abi.hpp"

namespace epifuse::runtime {

using SharedContext = std::shared_ptr<const Context>;

/// Memory of one device, freed with its context made current.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  /// 0 bytes: no memory, a null pointer.
  DeviceBuffer(SharedContext context, std::size_t bytes);
  ~DeviceBuffer() { reset(); }
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;

  void* data() const noexcept;
  DevicePointer address() const noexcept { return address_; }
  std::size_t size() const noexcept { return bytes_; }

  /// Queued on the stream: the host memory must live until it is done (pageable memory is staged before this returns).
  void copy_from_host(const void* source, std::size_t bytes, StreamHandle stream);
  void copy_to_host(void* destination, std::size_t bytes, StreamHandle stream) const;
  void copy_from(const DeviceBuffer& source, std::size_t bytes, StreamHandle stream);
  void fill(unsigned char value, StreamHandle stream);

 private:
  void reset() noexcept;
  void require(std::size_t bytes, const char* what) const;

  SharedContext context_;
  DevicePointer address_ = 0;
  std::size_t bytes_ = 0;
};

/// Memory that is taken from and given back to the device's stream-ordered pool on one stream: it lives for the work
/// queued between. Never waits, and may be captured in a graph. The context must live as long.
class StreamBuffer {
 public:
  StreamBuffer(const Context& context, std::size_t bytes, StreamHandle stream);
  ~StreamBuffer();
  StreamBuffer(const StreamBuffer&) = delete;
  StreamBuffer& operator=(const StreamBuffer&) = delete;

  void* data() const noexcept;

 private:
  const Context& context_;
  StreamHandle stream_;
  DevicePointer address_ = 0;
};

/// Fills device memory with zeros, queued on the stream.
void fill_zero(void* data, std::size_t bytes, StreamHandle stream);

/// A stream that does not synchronise with the legacy default stream.
class Stream {
 public:
  explicit Stream(SharedContext context);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  StreamHandle handle() const noexcept { return handle_; }
  const SharedContext& context() const noexcept { return context_; }
  void synchronize() const;

 private:
  SharedContext context_;
  StreamHandle handle_ = nullptr;
};

class Event {
 public:
  explicit Event(SharedContext context, bool timing = true);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  void record(StreamHandle stream);
  void synchronize() const;
  /// Milliseconds from `start` to this one; both recorded and done.
  double milliseconds_since(const Event& start) const;

 private:
  SharedContext context_;
  EventHandle handle_ = nullptr;
};

/// What a function queued on a stream, recorded to be launched again and again.
class Graph {
 public:
  /// Captures what `record` queues on the stream (nothing runs). An Error thrown in between ends the capture and passes
  /// on.
  Graph(const Stream& stream, const std::function<void(StreamHandle)>& record);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void launch(StreamHandle stream) const;

 private:
  SharedContext context_;
  GraphExecHandle handle_ = nullptr;
};

/// How often EpiFuse gave device memory back: after that an address may be other memory.
std::uint64_t frees() noexcept;

enum class PointerKind {
  device,            ///< memory of a GPU
  managed,           ///< moves between host and GPUs
  host,              ///< pinned: allocated by or registered with CUDA
  unregistered_host  ///< anything else: CUDA does not know it
};

const char* to_string(PointerKind kind) noexcept;

struct PointerInfo {
  PointerKind kind = PointerKind::unregistered_host;
  int ordinal = -1;  ///< of the device that it was allocated on; -1 for unregistered memory
};

/// What CUDA knows about the pointer. Does not throw for a pointer that it knows nothing of. No context need be
/// current.
PointerInfo query_pointer(const void* pointer);

}  // namespace epifuse::runtime
