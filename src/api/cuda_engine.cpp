// The Engine of a CUDA device: plan, find or make the kernel of its class, pack, launch.
#include <atomic>
#include <chrono>
#include <future>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <unordered_map>

#include "api/engine_impl.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "codegen/emit.hpp"
#include "jit/compiler.hpp"
#include "plan/plan.hpp"
#include "runtime/context.hpp"
#include "runtime/device.hpp"
#include "runtime/driver.hpp"
#include "runtime/memory.hpp"
#include "runtime/module.hpp"

namespace epifuse {
namespace {

using base::fail;
using enum ErrorCode;
using runtime::SharedContext;

class CudaMemory : public Array::Memory {
 public:
  CudaMemory(const SharedContext& context, std::size_t bytes) : context_(context), buffer_(context, bytes) {}
  void* data() const noexcept override { return buffer_.data(); }
  void upload(const void* host, std::size_t bytes) override {
    const runtime::ContextGuard guard(*context_);
    buffer_.copy_from_host(host, bytes, nullptr);
    runtime::check(runtime::driver().stream_synchronize(nullptr), "copy to the device");
  }
  void download(void* host, std::size_t bytes) const override {
    const runtime::ContextGuard guard(*context_);
    buffer_.copy_to_host(host, bytes, nullptr);
    runtime::check(runtime::driver().stream_synchronize(nullptr), "copy from the device");
  }

 private:
  SharedContext context_;
  runtime::DeviceBuffer buffer_;
};

// A kernel on the device. Owned by the table below for the engine's life, so that a reference stays good.
struct LoadedKernel {
  runtime::Module module;
  runtime::Kernel kernel;
};

// Which kernel: the chain, and all that decides its text.
struct KernelKey {
  ir::Fingerprint chain;
  std::string kernel_class;
  friend bool operator==(const KernelKey&, const KernelKey&) = default;
};
struct KernelKeyHash {
  std::size_t operator()(const KernelKey& key) const noexcept {
    return static_cast<std::size_t>(key.chain.low) ^ std::hash<std::string>()(key.kernel_class);
  }
};

class CudaEngine : public Engine::Impl {
 public:
  CudaEngine(int index, const EngineOptions& options)
      : context_(std::make_shared<runtime::Context>(index)),
        info_(runtime::device_info(index)),
        compiler_(std::make_unique<jit::Compiler>(jit::CompilerOptions{
            .directory = options.cache_directory, .limit_bytes = std::nullopt, .disk = options.disk_cache})) {
    base::log().info("engine on cuda:{}: {}, sm_{}", index, info_.name, info_.architecture);
  }
  ~CudaEngine() override {
    if (runtime::is_cut_off()) {
      // A copy that fork() made: what it counted is the parent's to tell, and a lock of the log may have been held by a
      // thread that is not here. The compiler would log too, so it stays in memory until the process ends.
      static_cast<void>(compiler_.release());
      return;
    }
    const EngineStats counted = stats();
    base::log().info("engine on cuda:{} closed: {} launches, {} kernels, {} compiled in {:.1f} ms, {} from disk",
                     info_.ordinal, counted.launches, counted.kernels, counted.compiles, counted.compile_ms,
                     counted.disk_hits);
  }
  CudaEngine(const CudaEngine&) = delete;
  CudaEngine& operator=(const CudaEngine&) = delete;

  Device device() const noexcept override { return Device::cuda(info_.ordinal); }

  void launch(const ir::Program& program, Stream stream, std::span<const OutputView> outputs,
              std::span<const TensorView> inputs, std::span<const double> scalars,
              const Workspace* workspace) override {
    runtime::require_driver_of_this_process();
    const plan::Plan plan = plan::make_plan(program, outputs, inputs, plan::Views::real, machine());
    check_workspace(workspace, plan.workspace.bytes);
    if (plan.blocks == 0) return;
    check_pointers(program, plan);
    if (workspace != nullptr && plan.workspace.bytes > 0) check_pointer("the workspace", workspace->data);
    const runtime::ContextGuard guard(*context_);
    const LoadedKernel& loaded = kernel_for(program, plan);
    std::optional<runtime::StreamBuffer> pooled;
    void* memory = nullptr;
    if (plan.workspace.bytes > 0) {
      memory = workspace != nullptr ? workspace->data : pooled.emplace(context_, plan.workspace.bytes, stream).data();
      if (plan.workspace.zeroed_bytes > 0) runtime::fill_zero(memory, plan.workspace.zeroed_bytes, stream);
    }
    const std::vector<std::byte> params = codegen::pack(program, plan, scalars, memory);
    runtime::launch(loaded.kernel, plan.blocks, static_cast<unsigned>(plan.threads),
                    static_cast<unsigned>(plan.shared_bytes), stream, params.data(), params.size());
    launches_.fetch_add(1, std::memory_order_relaxed);
  }

  std::size_t workspace_bytes(const ir::Program& program, std::span<const OutputView> outputs,
                              std::span<const TensorView> inputs) override {
    runtime::require_driver_of_this_process();
    return plan::make_plan(program, outputs, inputs, plan::Views::real, machine()).workspace.bytes;
  }

  void prepare(const ir::Program& program, std::span<const OutputView> outputs,
               std::span<const TensorView> inputs) override {
    runtime::require_driver_of_this_process();
    const plan::Plan plan = plan::make_plan(program, outputs, inputs, plan::Views::real, machine());
    if (plan.blocks == 0) return;
    const runtime::ContextGuard guard(*context_);
    kernel_for(program, plan);
  }

  std::unique_ptr<Array::Memory> allocate(std::size_t bytes) override {
    const runtime::ContextGuard guard(*context_);
    return std::make_unique<CudaMemory>(context_, bytes);
  }

  void synchronize(Stream stream) override {
    const runtime::ContextGuard guard(*context_);
    runtime::check(runtime::driver().stream_synchronize(stream), "wait for the stream");
  }

  EngineStats stats() const noexcept override {
    const jit::CompilerStats compiled = compiler_->stats();
    return {.launches = launches_.load(std::memory_order_relaxed),
            .kernels = kernel_count_.load(std::memory_order_relaxed),
            .compiles = compiled.compiles,
            .disk_hits = compiled.disk_hits,
            .compile_ms = compiled.compile_ms,
            .disk_misses = compiled.disk_misses,
            .bad_entries = compiled.rejected,
            .vain_waits = compiled.vain_waits,
            .saved_ms = compiled.saved_ms};
  }

 private:
  using Future = std::shared_future<std::shared_ptr<const LoadedKernel>>;

  plan::Machine machine() const { return {info_.architecture, info_.multiprocessors}; }

  // The most bytes of parameters that CUDA passes to a kernel: 4096 before CUDA 12.1 (CUDA C++ Programming Guide, kernel parameters).
  std::size_t most_parameter_bytes() const { return info_.driver_version >= 12010 ? 32'764 : 4096; }

  void check_pointers(const ir::Program& program, const plan::Plan& plan) const {
    for (std::size_t i = 0; i < plan.space.inputs.size(); ++i) {
      if (plan.space.inputs[i].used) check_pointer("operand '" + program.inputs()[i] + "'", plan.space.inputs[i].data);
    }
    for (std::size_t i = 0; i < plan.space.outputs.size(); ++i) {
      check_pointer("output '" + program.result_name(i) + "'", plan.space.outputs[i].data);
    }
  }

  void check_pointer(const std::string& who, const void* pointer) const {
    if (pointer == nullptr) return;  // of a tensor without elements: bind() refuses any other
    const runtime::PointerInfo found = runtime::query_pointer(pointer);
    const bool ours = found.kind == runtime::PointerKind::managed ||
                      (found.kind == runtime::PointerKind::device && found.ordinal == info_.ordinal);
    if (ours) return;
    if (found.kind == runtime::PointerKind::device) {
      fail(invalid_argument,
           "{} lies on cuda:{}, but the engine runs on cuda:{}: copy it there, or use an engine of that device", who,
           found.ordinal, info_.ordinal);
    }
    fail(invalid_argument, "{} ({}) is host memory, but the engine runs on cuda:{}: copy it to the device", who,
         fmt::ptr(pointer), info_.ordinal);
  }

  const LoadedKernel& kernel_for(const ir::Program& program, const plan::Plan& plan) {
    const KernelKey key{program.fingerprint(), plan::to_string(plan.kernel_class)};
    {
      const std::shared_lock lock(mutex_);
      if (const auto it = kernels_.find(key); it != kernels_.end() && is_ready(it->second)) return *it->second.get();
    }
    return *find_or_load(key, program, plan);
  }

  static bool is_ready(const Future& future) {
    return future.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }

  // One thread loads, the others wait for it; a failure reaches all of them and is forgotten, so that the next call tries again.
  std::shared_ptr<const LoadedKernel> find_or_load(const KernelKey& key, const ir::Program& program,
                                                   const plan::Plan& plan) {
    std::promise<std::shared_ptr<const LoadedKernel>> promise;
    const Future mine = promise.get_future();
    Future existing;
    {
      const std::unique_lock lock(mutex_);
      const auto [entry, is_new] = kernels_.try_emplace(key, mine);
      if (!is_new) existing = entry->second;
    }
    if (existing.valid()) return existing.get();
    try {
      promise.set_value(load(program, plan));
      kernel_count_.fetch_add(1, std::memory_order_relaxed);
    } catch (...) {
      {
        const std::unique_lock lock(mutex_);
        kernels_.erase(key);
      }
      promise.set_exception(std::current_exception());
    }
    return mine.get();
  }

  std::shared_ptr<const LoadedKernel> load(const ir::Program& program, const plan::Plan& plan) {
    const auto start = std::chrono::steady_clock::now();
    const std::size_t parameter_bytes =
        codegen::pack(program, plan, std::vector<double>(program.scalars().size())).size();
    if (parameter_bytes > most_parameter_bytes()) {
      fail(unsupported,
           "the chain's {} operands and {} scalars need {} bytes of kernel parameters; at most {} can be passed: split "
           "the chain",
           program.inputs().size(), program.scalars().size(), parameter_bytes, most_parameter_bytes());
    }
    const std::string source = codegen::emit(program, plan.kernel_class, plan.space.input_kinds);
    jit::Origin origin{};
    const auto image = compiler_->get_for_device(source, "epifuse", info_.architecture, &origin);
    runtime::Module module(context_, image->bytes);
    const runtime::Kernel kernel = module.kernel(codegen::kKernelName);
    constexpr std::int64_t kUsualShared = std::int64_t{48} * 1024;
    if (plan.kernel_class.rows && plan.kernel_class.rows->staged &&
        plan.shared_bytes + kernel.shared_bytes > kUsualShared)
      kernel.allow_dynamic_shared(static_cast<std::size_t>(plan.shared_bytes));
    constexpr int kPortableCluster = 8;
    if (plan.kernel_class.rows && plan.kernel_class.rows->cluster > kPortableCluster) kernel.allow_large_clusters();
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    base::log().debug("kernel [{}] of \"{}\": from {} in {:.2f} ms, {} registers, {} bytes local",
                      plan::to_string(plan.kernel_class), ir::print(program), jit::to_string(origin), took.count(),
                      kernel.registers, kernel.local_bytes);
    return std::make_shared<const LoadedKernel>(LoadedKernel{std::move(module), kernel});
  }

  SharedContext context_;
  runtime::DeviceInfo info_;
  std::unique_ptr<jit::Compiler> compiler_;
  std::shared_mutex mutex_;
  std::unordered_map<KernelKey, Future, KernelKeyHash> kernels_;
  std::atomic<std::uint64_t> launches_{0};
  std::atomic<std::uint64_t> kernel_count_{0};
};

}  // namespace

std::unique_ptr<Engine::Impl> make_cuda_engine(int index, const EngineOptions& options) {
  return std::make_unique<CudaEngine>(index, options);
}

}  // namespace epifuse
