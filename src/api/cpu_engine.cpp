// The Engine of the CPU device.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "api/engine_impl.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "host/execute.hpp"
#include "host/multiply.hpp"
#include "plan/bind/space.hpp"

namespace epifuse {
namespace {

class CpuMemory : public Array::Memory {
 public:
  explicit CpuMemory(std::size_t bytes) {
    if (bytes == 0) return;
    data_ = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
    if (data_ == nullptr)
      base::fail(ErrorCode::out_of_memory, "the host has no {} left for an array",
                 base::format_bytes(static_cast<double>(bytes)));
  }
  ~CpuMemory() override { std::free(data_); }
  CpuMemory(const CpuMemory&) = delete;
  CpuMemory& operator=(const CpuMemory&) = delete;

  void* data() const noexcept override { return data_; }
  void upload(const void* host, std::size_t bytes) override { std::memcpy(data_, host, bytes); }
  void download(void* host, std::size_t bytes) const override { std::memcpy(host, data_, bytes); }

 private:
  static constexpr std::size_t kAlignment = 256;  // as device allocations are, so that plans agree
  void* data_ = nullptr;
};

struct CpuScratch : Scratch {
  explicit CpuScratch(std::size_t bytes) : memory(bytes) {}
  void* data() const noexcept override { return memory.data(); }
  CpuMemory memory;
};

class CpuEngine : public DeviceEngine {
 public:
  Device device() const noexcept override { return Device::cpu(); }

  void launch(const LaunchRequest& request) override {
    const plan::Space space = plan::bind(request.program, request.outputs, request.inputs);
    check_workspace(request.workspace, 0);
    host::check_indices(request.program, request.inputs);
    host::execute(request.program, space, request.scalars);
    launches_.fetch_add(1, std::memory_order_relaxed);
  }

  std::size_t workspace_bytes(const ir::Program& program, std::span<const OutputView> outputs,
                              std::span<const TensorView> inputs) override {
    plan::bind(program, outputs, inputs);
    return 0;
  }

  void prepare(const LaunchRequest& request) override {
    // Nothing to compile; the checks are those of a launch.
    plan::bind(request.program, request.outputs, request.inputs);
  }

  std::unique_ptr<Array::Memory> allocate(std::size_t bytes) override { return std::make_unique<CpuMemory>(bytes); }
  void synchronize(Stream) override {}

  DType type_of_product(const plan::Product& product) const override { return host::type_of_sums(product.left.dtype); }
  bool multiplies_scaled() const override { return true; }
  void multiply(const ProductLaunch& launch) override {
    host::multiply(launch.left, launch.right, launch.result, launch.left_scales, launch.right_scales);
  }
  std::unique_ptr<Scratch> scratch(std::size_t bytes, Stream) override { return std::make_unique<CpuScratch>(bytes); }
  EngineStats stats() const noexcept override { return {.launches = launches_.load(std::memory_order_relaxed)}; }

 private:
  std::atomic<std::uint64_t> launches_{0};
};

}  // namespace

std::unique_ptr<DeviceEngine> make_cpu_engine() { return std::make_unique<CpuEngine>(); }

}  // namespace epifuse
