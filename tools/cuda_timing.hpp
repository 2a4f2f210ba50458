// What timing on a GPU needs from the driver and the public API does not offer: events, streams, graphs, copies on the
// device. The driver is opened at run time; the few types and constants of its stable C ABI are declared here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <epifuse/engine.hpp>

namespace epifuse::tool {

/// The primary context of a device, current on this thread while the object lives, with a stream of its own. Errors are
/// Error(device_failed) and Error(out_of_memory).
class GpuSession {
 public:
  explicit GpuSession(int device);
  ~GpuSession();
  GpuSession(const GpuSession&) = delete;
  GpuSession& operator=(const GpuSession&) = delete;

  Stream stream() const noexcept;
  std::uint64_t free_memory() const;
  /// Freed with the session.
  std::byte* allocate(std::uint64_t bytes);
  void upload(std::byte* device, const void* host, std::uint64_t bytes);
  void download(void* host, const std::byte* device, std::uint64_t bytes);
  void copy_async(std::byte* to, const std::byte* from, std::uint64_t bytes);
  void synchronize();

  /// Records what `enqueue` puts on the stream; the replay puts it there again. Recordings live as long as the session.
  std::function<void()> record(const std::function<void()>& enqueue);
  /// Seconds on the device of enqueue(0), enqueue(1), … enqueue(count - 1), each between two events. Everything is
  /// queued first, so that the device never waits for the host in between; the first one, where it may, belongs to a
  /// warm-up.
  std::vector<double> time(int count, const std::function<void(int)>& enqueue);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace epifuse::tool
