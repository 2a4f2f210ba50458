// The Engine of a CUDA device: plans a launch, finds or makes the kernel of its class, remembers both; dispatch.hpp has
// what a repeated launch does.
#include <array>
#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <variant>

#include "api/bundles.hpp"
#include "api/dispatch.hpp"
#include "api/engine_impl.hpp"
#include "api/kernels.hpp"
#include "api/record.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "codegen/emit.hpp"
#include "codegen/gemm/gemm.hpp"
#include "jit/compiler.hpp"
#include "plan/explain.hpp"
#include "plan/gemm/inside.hpp"
#include "plan/plan.hpp"
#include "runtime/context.hpp"
#include "runtime/cublaslt.hpp"
#include "runtime/device.hpp"
#include "runtime/driver.hpp"
#include "runtime/memory.hpp"
#include "runtime/module.hpp"
#include "runtime/nvtx.hpp"
#include "runtime/tensor_map.hpp"

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

class CudaScratch : public Scratch {
 public:
  CudaScratch(SharedContext context, std::size_t bytes, Stream stream)
      : context_(std::move(context)), buffer_(*context_, bytes, stream) {}
  void* data() const noexcept override { return buffer_.data(); }

 private:
  SharedContext context_;
  runtime::StreamBuffer buffer_;
};

// What a launch reads and writes, each element of each operand and result once.
std::uint64_t moved_bytes(const plan::Plan& plan) {
  std::uint64_t bytes = 0;
  for (const auto* operands : {&plan.space.inputs, &plan.space.outputs}) {
    for (const plan::StridedOperand& operand : *operands) bytes += plan::bytes_of(operand, plan.space);
  }
  return bytes;
}

// The same of a product and its chain.
std::uint64_t moved_bytes(const LaunchRequest& request) {
  std::uint64_t bytes = 0;
  const auto add = [&](const TensorView& view) {
    std::uint64_t elements = 1;
    for (int d = 0; d < view.shape.size(); ++d)
      elements *= view.strides[d] == 0 ? 1 : static_cast<std::uint64_t>(view.shape[d]);
    bytes += size_of(view.dtype, elements);
  };
  for (const TensorView& input : request.inputs) add(input);
  for (const OutputView& output : request.outputs) add(output);
  return bytes;
}

// What a chip has of its own is asked of the driver; 0 where that does not tell.
plan::Machine machine_of(const runtime::DeviceInfo& info) {
  plan::Machine machine(info.architecture, info.multiprocessors);
  if (info.l2_bytes > 0) machine.l2_bytes = info.l2_bytes;
  if (info.peak_bandwidth() > 0) machine.bandwidth = info.peak_bandwidth();
  return machine;
}

// Below a line of the log.
std::string indented(std::string_view lines) {
  std::string out = "\n  ";
  for (const char c : lines.substr(0, lines.find_last_not_of('\n') + 1)) {
    out += c;
    if (c == '\n') out += "  ";
  }
  return out;
}

class CudaEngine : public DeviceEngine {
 public:
  CudaEngine(int index, const EngineOptions& options)
      : context_(std::make_shared<runtime::Context>(index)),
        info_(runtime::device_info(index)),
        machine_(machine_of(info_)),
        compiler_(std::make_unique<jit::Compiler>(compiler_options(options))) {
    runtime::find_nvtx();
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
    base::log().info(
        "engine on cuda:{} closed: {} launches, {} kernels, {} compiled in {:.1f} ms, {} from bundles, {} from disk",
        info_.ordinal, counted.launches, counted.kernels, counted.compiles, counted.compile_ms, counted.bundle_hits,
        counted.disk_hits);
  }
  CudaEngine(const CudaEngine&) = delete;
  CudaEngine& operator=(const CudaEngine&) = delete;

  Device device() const noexcept override { return Device::cuda(info_.ordinal); }

  void launch(const LaunchRequest& request) override {
    runtime::require_driver_of_this_process();
    const std::size_t number = Lane::of_this_thread();
    Lane& lane = lanes_[number];
    // First of all: to a driver whose context is gone, memory of that context is memory of the host.
    const runtime::ContextGuard guard = runtime::ContextGuard::for_launch(*context_, lane.begin_launch());
    const Signature signature(request);
    Call call;
    if (!calls_.find(signature, request, call)) {
      call = bind(request, lane);
      calls_.store(signature, call);
    }
    check_workspace(request.workspace, call.workspace_bytes);
    if (call.kernel == nullptr) return;
    check_pointers(call.kernel->layout, request, call.workspace_bytes, lane);
    std::optional<runtime::StreamBuffer> pooled;
    void* workspace = nullptr;
    if (call.workspace_bytes > 0) {
      workspace = request.workspace != nullptr ? request.workspace->data
                                               : pooled.emplace(*context_, call.workspace_bytes, request.stream).data();
    }
    const runtime::NvtxRange range(call.kernel->name);
    Tally& tally = *call.kernel->tally;
    const std::uint64_t moved = call.moved_bytes;
    start(call, request, workspace);
    const bool owned = number < Lane::kOwned;
    lane.count_launch(owned);
    tally.count(number, moved, owned);
  }

  std::size_t workspace_bytes(const ir::Program& program, std::span<const OutputView> outputs,
                              std::span<const TensorView> inputs) override {
    runtime::require_driver_of_this_process();
    return make_plan(program, outputs, inputs).workspace.bytes;
  }

  void prepare(const LaunchRequest& request) override {
    runtime::require_driver_of_this_process();
    const plan::Plan plan = make_plan(request.program, request.outputs, request.inputs);
    if (plan.blocks == 0) return;
    record(request);
    load(key_of(request.program, plan), plan, request);
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
    std::uint64_t launches = 0;
    for (const Lane& lane : lanes_) launches += lane.launches();
    return {.launches = launches,
            .kernels = kernels_.size(),
            .compiles = compiled.compiles,
            .disk_hits = compiled.disk_hits,
            .compile_ms = compiled.compile_ms,
            .disk_misses = compiled.disk_misses,
            .bad_entries = compiled.rejected,
            .vain_waits = compiled.vain_waits,
            .saved_ms = compiled.saved_ms,
            .bundle_hits = compiled.bundle_hits};
  }

  // ---- products

  std::shared_ptr<const InsideLaunch> inside(const plan::WithoutProducts& split, const LaunchRequest& request,
                                             std::string& why) override {
    auto planned = plan::plan_inside(split, request.outputs, request.inputs, machine_);
    if (auto* const reason = std::get_if<std::string>(&planned)) {
      why = std::move(*reason);
      return nullptr;
    }
    return std::make_shared<Inside>(*this, std::get<plan::Inside>(std::move(planned)));
  }

  void multiply(const ProductLaunch& launch) override {
    runtime::require_driver_of_this_process();
    const runtime::ContextGuard guard(*context_);
    check_memory(launch);
    const auto has_none = [](const TensorView& view) { return std::ranges::find(view.shape, 0) != view.shape.end(); };
    if (has_none(launch.result)) return;
    if (has_none(launch.left) || has_none(launch.right))
      return runtime::fill_zero(launch.result.writable(), dense_bytes(launch.result.dtype, launch.result.shape),
                                launch.stream);
    std::call_once(has_cublaslt_, [this] { cublaslt_.emplace(); });
    for (const plan::Matrices& m : plan::all_matrices_of(launch.left, launch.right, launch.result)) {
      const OutputView made(const_cast<void*>(m.result.data), m.result.dtype, m.result.shape, m.result.strides);
      cublaslt_->multiply(m.left, m.right.permute({0, 2, 1}), made, launch.product.tf32, launch.stream,
                          launch.workspace);
    }
  }
  std::optional<Dims> copied(const plan::Factor& factor, bool is_right) const override {
    if (runtime::is_matrix_layout({nullptr, factor.dtype, factor.shape, factor.strides}, is_right)) return std::nullopt;
    Dims strides = row_major(factor.shape);
    if (!is_right || size_of(factor.dtype) > 1) return strides;
    // cuBLASLt takes right factors of 8 bits with a contiguous depth.
    const int columns = factor.shape.size() - 1;
    strides[columns] = factor.shape[columns - 1];
    strides[columns - 1] = 1;
    return strides;
  }
  std::size_t multiply_bytes() const override { return runtime::CublasLt::kWorkspaceBytes; }

  std::unique_ptr<Scratch> scratch(std::size_t bytes, Stream stream) override {
    const runtime::ContextGuard guard(*context_);
    return std::make_unique<CudaScratch>(context_, bytes, stream);
  }

  std::vector<KernelStats> kernel_stats() const override {
    std::vector<KernelStats> stats;
    for (const LoadedKernel* kernel : kernels_.all()) {
      stats.push_back({.name = kernel->name,
                       .chain = kernel->chain,
                       .kernel_class = kernel->kernel_class,
                       .origin = kernel->origin,
                       .registers = kernel->kernel.registers,
                       .spilled_bytes = kernel->kernel.local_bytes,
                       .launches = kernel->tally->launches(),
                       .bytes = kernel->tally->bytes()});
    }
    return stats;
  }

 private:
  class Inside : public InsideLaunch {
   public:
    Inside(CudaEngine& engine, plan::Inside planned) : engine_(engine), planned_(std::move(planned)) {}
    void launch(const LaunchRequest& request, void* partials) const override {
      engine_.launch_product(planned_, request, partials);
    }
    const plan::Inside& planned() const override { return planned_; }
    void prepare(const LaunchRequest& request) const override {
      runtime::require_driver_of_this_process();
      engine_.load_product(planned_, planned_.plan, request);
    }

   private:
    CudaEngine& engine_;
    plan::Inside planned_;
  };

  plan::Plan make_plan(const ir::Program& program, std::span<const OutputView> outputs,
                       std::span<const TensorView> inputs) const {
    return plan::make_plan(program, outputs, inputs, plan::Views::real, machine_);
  }

  // The most bytes of parameters that CUDA passes to a kernel: 4096 before CUDA 12.1 (CUDA C++ Programming Guide,
  // kernel parameters).
  std::size_t most_parameter_bytes() const { return info_.driver_version >= 12010 ? 32'764 : 4096; }

  void check_memory(const ProductLaunch& launch) {
    Lane& lane = lanes_[Lane::of_this_thread()];
    check_pointer(launch.left.data, launch.own, lane, [&] { return "operand '" + launch.product.left.text + "'"; });
    check_pointer(launch.right.data, launch.own, lane, [&] { return "operand '" + launch.product.right.text + "'"; });
    check_pointer(launch.result.data, launch.own, lane, [] { return std::string("the workspace"); });
  }

  // `plan` is that of `planned`, for the launch at hand.
  const LoadedKernel& load_product(const plan::Inside& planned, const plan::GemmPlan& plan,
                                   const LaunchRequest& request) {
    const ir::Program& chain = planned.chain();
    const KernelKey key{chain.code_fingerprint(), plan::code_of(plan.gemm_class)};
    if (const LoadedKernel* const known = kernels_.find(key)) return *known;
    record(request);
    return load(key, request, [&] {
      return compile(source_of(chain, plan), codegen::gemm_name(chain, plan), request.program,
                     plan::name_of(plan.gemm_class), codegen::ParameterLayout(chain, plan.gemm_class.chain),
                     plan.gemm_class.shared_bytes(),
                     [&](const KernelResources&) { return plan::to_text(plan, planned.times, chain, machine_); });
    });
  }

  void launch_product(const plan::Inside& planned, const LaunchRequest& request, void* partials) {
    runtime::require_driver_of_this_process();
    const std::size_t number = Lane::of_this_thread();
    Lane& lane = lanes_[number];
    const runtime::ContextGuard guard = runtime::ContextGuard::for_launch(*context_, lane.begin_launch());
    const auto operands =
        std::get<plan::ProductOperands>(plan::operands_of_product(planned.hosted, request.outputs, request.inputs));
    const ir::Program& chain = planned.chain();
    plan::GemmPlan plan = planned.plan;
    plan.workspace = static_cast<std::byte*>(partials);
    plan.move_to(operands.left, operands.rights, operands.output, operands.all, chain, operands.scales,
                 operands.scaling);
    for (std::size_t i = 0; i < request.inputs.size(); ++i)
      check_pointer(request.inputs[i].data, {}, lane,
                    [&] { return "operand '" + request.program.operand_text(i) + "'"; });
    check_pointer(operands.output.data, request.own, lane,
                  [&] { return "output '" + request.program.result_name(planned.hosted.result) + "'"; });
    for (const std::size_t result : planned.hosted.of_groups)
      check_pointer(request.outputs[result].data, {}, lane,
                    [&] { return "output '" + request.program.result_name(result) + "'"; });
    const LoadedKernel& kernel = load_product(planned, plan, request);
    base::InlineVector<codegen::EncodedMap, 5> maps;
    if (plan.gemm_class.warp_group_tile() != nullptr) {
      for (const plan::GemmMap& map : plan.maps)
        maps.push_back(
            runtime::encode({map.data, map.dtype, map.extents, map.strides, map.box, map.swizzle, map.rank, map.steps})
                .bytes);
    }
    const std::vector<std::byte> parameters =
        codegen::pack_gemm(chain, plan, std::span(maps.data(), maps.size()), request.scalars);
    const runtime::NvtxRange range(kernel.name);
    runtime::launch_with_maps(kernel.kernel, static_cast<unsigned>(plan.blocks),
                              static_cast<unsigned>(plan.gemm_class.threads()),
                              static_cast<unsigned>(plan.gemm_class.shared_bytes()), request.stream, parameters.data());
    const bool owned = number < Lane::kOwned;
    lane.count_launch(owned);
    kernel.tally->count(number, moved_bytes(request), owned);
  }

  // A launch that is the first of its kind: plans it, and compiles and loads its kernel if need be. What the launch is
  // refused for is refused before anything is compiled.
  Call bind(const LaunchRequest& request, Lane& lane) {
    const plan::Plan plan = make_plan(request.program, request.outputs, request.inputs);
    Call call;
    call.set_distances(plan.space);
    call.workspace_bytes = plan.workspace.bytes;
    if (plan.blocks == 0) return call;
    check_workspace(request.workspace, call.workspace_bytes);
    record(request);
    const KernelKey key = key_of(request.program, plan);
    call.kernel = kernels_.find(key);
    if (call.kernel == nullptr) {
      const codegen::ParameterLayout layout(request.program, plan.kernel_class);
      check_pointers(layout, request, call.workspace_bytes, lane);
      call.kernel = &load(key, plan, request);
    }
    call.blocks = plan.blocks;
    call.threads = static_cast<std::uint32_t>(plan.threads);
    call.shared_bytes = static_cast<std::uint32_t>(plan.shared_bytes);
    call.zeroed_bytes = plan.workspace.zeroed_bytes;
    call.moved_bytes = moved_bytes(plan);
    constexpr std::size_t kWord = sizeof(std::uint64_t);
    call.parameters.resize((call.kernel->layout.bytes() + kWord - 1) / kWord);
    call.kernel->layout.pack_plan(plan, reinterpret_cast<std::byte*>(call.parameters.data()));
    return call;
  }

  static bool is_own(const void* pointer, std::span<const std::byte> own) {
    const auto* const byte = static_cast<const std::byte*>(pointer);
    return !own.empty() && !std::less()(byte, own.data()) && std::less()(byte, own.data() + own.size());
  }

  // What the kernel is given must be memory of this device.
  void check_pointers(const codegen::ParameterLayout& layout, const LaunchRequest& request, std::size_t workspace_bytes,
                      Lane& lane) const {
    for (const codegen::ParameterLayout::Slot& slot : layout.slots()) {
      const std::size_t i = slot.operand;
      if (slot.kind == codegen::FieldKind::input_pointer) {
        check_pointer(request.inputs[i].data, request.own, lane,
                      [&] { return "operand '" + request.program.operand_text(i) + "'"; });
      } else if (slot.kind == codegen::FieldKind::output_pointer) {
        check_pointer(request.outputs[i].data, request.own, lane,
                      [&] { return "output '" + request.program.result_name(i) + "'"; });
      }
    }
    if (request.workspace != nullptr && workspace_bytes > 0)
      check_pointer(request.workspace->data, {}, lane, [] { return std::string("the workspace"); });
  }

  template <class Who>
  void check_pointer(const void* pointer, std::span<const std::byte> own, Lane& lane, const Who& who) const {
    // Null is of a tensor without elements: bind() of plan/ refuses any other.
    if (pointer == nullptr || lane.knows(pointer) || is_own(pointer, own)) return;
    const runtime::PointerInfo found = runtime::query_pointer(pointer);
    const bool ours = found.kind == runtime::PointerKind::managed ||
                      (found.kind == runtime::PointerKind::device && found.ordinal == info_.ordinal);
    if (ours) return lane.learn(pointer);
    if (found.kind == runtime::PointerKind::device) {
      fail(invalid_argument,
           "{} lies on cuda:{}, but the engine runs on cuda:{}: copy it there, or use an engine of that device", who(),
           found.ordinal, info_.ordinal);
    }
    fail(invalid_argument, "{} ({}) is host memory, but the engine runs on cuda:{}: copy it to the device", who(),
         fmt::ptr(pointer), info_.ordinal);
  }

  static KernelKey key_of(const ir::Program& program, const plan::Plan& plan) {
    return {program.code_fingerprint(), plan::code_of(plan.kernel_class)};
  }

  void record(const LaunchRequest& request) const {
    const LaunchRequest& in_words = request.in_words();
    record_launch(in_words.program, in_words.outputs, in_words.inputs, machine_);
  }

  const LoadedKernel& load(const KernelKey& key, const plan::Plan& plan, const LaunchRequest& request) {
    return load(key, request, [&] { return compile(plan, request); });
  }

  template <class Compile>
  const LoadedKernel& load(const KernelKey& key, const LaunchRequest& request, const Compile& compile_now) {
    const runtime::ContextGuard guard(*context_);
    return kernels_.find_or_load(key, [&] {
      try {
        return compile_now();
      } catch (const jit::NotFound& problem) {
        fail(no_compiler,
             "this launch's kernel is not compiled ahead of time, and nothing may be compiled (EngineOptions::compile, "
             "EPIFUSE_COMPILE): {}. Add this line to the list of `epifuse bundle`:\n{}",
             problem.what(),
             launch_line(request.in_words().program, request.in_words().outputs, request.in_words().inputs, machine_));
      }
    });
  }

  LoadedKernel compile(const plan::Plan& plan, const LaunchRequest& request) {
    const ir::Program& program = request.program;
    codegen::ParameterLayout layout(program, plan.kernel_class);
    if (layout.bytes() > most_parameter_bytes()) {
      fail(unsupported,
           "the chain's {} operands and {} scalars need {} bytes of kernel parameters; at most {} can be passed: split "
           "the chain",
           program.inputs().size(), program.scalars().size(), layout.bytes(), most_parameter_bytes());
    }
    const auto plan_text = [&](const KernelResources& resources) {
      const PlanSummary summary =
          plan::summarise(program, plan, request.outputs, request.inputs, machine_, request.lowered);
      return plan::to_text(summary, info_.peak_bandwidth(), resources);
    };
    LoadedKernel loaded = compile(source_of(program, plan), codegen::kernel_name(program, plan.kernel_class), program,
                                  plan::to_text(plan.kernel_class), std::move(layout), plan.shared_bytes, plan_text);
    constexpr int kPortableCluster = 8;
    if (plan.kernel_class.reduction() && plan.kernel_class.reduction()->cluster() > kPortableCluster)
      loaded.kernel.allow_large_clusters();
    return loaded;
  }

  // `plan_text` says how the kernel was planned. Only the log asks.
  template <class PlanText>
  LoadedKernel compile(const jit::Source& source, const std::string& name, const ir::Program& program,
                       std::string kernel_class, codegen::ParameterLayout layout, std::int64_t shared_bytes,
                       const PlanText& plan_text) {
    const auto start = std::chrono::steady_clock::now();
    jit::Origin origin{};
    const runtime::NvtxRange range("load " + name);
    const auto image = compiler_->get_for_device(source, name, info_.architecture, &origin);
    runtime::Module module(context_, image->bytes);
    const runtime::Kernel kernel = module.kernel(name.c_str());
    constexpr std::int64_t kUsualShared = std::int64_t{48} * 1024;
    if (shared_bytes > 0 && shared_bytes + kernel.shared_bytes > kUsualShared)
      kernel.allow_dynamic_shared(static_cast<std::size_t>(shared_bytes));
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    LoadedKernel loaded{
        std::move(module),     kernel, std::move(layout), name, ir::print(program), std::move(kernel_class),
        jit::to_string(origin)};
    if (base::log().lets_through(LogLevel::info)) {
      // Whoever sees the name in a profile finds here what it stands for.
      const KernelResources resources{info_.architecture, kernel.registers, kernel.shared_bytes, kernel.local_bytes};
      base::log().info("{}: \"{}\" as [{}]; from {} in {:.2f} ms, {} registers, {} bytes local{}", name, loaded.chain,
                       loaded.kernel_class, loaded.origin, took.count(), kernel.registers, kernel.local_bytes,
                       indented(plan_text(resources)));
    }
    return loaded;
  }

  SharedContext context_;
  runtime::DeviceInfo info_;
  plan::Machine machine_;
  std::unique_ptr<jit::Compiler> compiler_;
  KernelTable kernels_;
  CallTable calls_;
  std::array<Lane, kLanes> lanes_;
  std::once_flag has_cublaslt_;
  std::optional<runtime::CublasLt> cublaslt_;
};

}  // namespace

std::unique_ptr<DeviceEngine> make_cuda_engine(int index, const EngineOptions& options) {
  return std::make_unique<CudaEngine>(index, options);
}

}  // namespace epifuse
