// Plans for a GPU that is described, compiles for its architecture, and keeps the images for a bundle.
#include <epifuse/precompile.hpp>

#include <map>
#include <mutex>
#include <utility>
#include <variant>
#include <vector>

#include <spdlog/fmt/ranges.h>

#include "api/arguments.hpp"
#include "api/bundles.hpp"
#include "api/kernels.hpp"
#include "api/prepare_each.hpp"
#include "base/text.hpp"
#include "codegen/emit.hpp"
#include "codegen/gemm/gemm.hpp"
#include "ir/program.hpp"
#include "jit/bundle.hpp"
#include "jit/compiler.hpp"
#include "jit/nvrtc.hpp"
#include "plan/bind/views.hpp"
#include "plan/gemm/inside.hpp"
#include "plan/plan.hpp"

namespace epifuse {

struct Precompiler::Impl {
  explicit Impl(const EngineOptions& options)
      : compiler({.directory = options.cache_directory, .limit_bytes = std::nullopt, .disk = options.disk_cache}) {}

  void prepare(const PrecompiledLaunch& entry) {
    check_input_order(entry.launch.tail);
    const plan::Machine machine = machine_of(entry.target);
    const jit::Target target{entry.target.architecture, jit::ImageKind::cubin};
    const ir::Program& whole = entry.launch.tail.program();
    if (!whole.has_products()) return prepare_views(whole, entry.launch.outputs, entry.launch.inputs, machine, target);
    const plan::WithoutProducts split = plan::split_products(whole, entry.launch.inputs, plan::Views::abstract);
    auto planned = plan::plan_inside(split, entry.launch.outputs, entry.launch.inputs, machine);
    if (const auto* const inside = std::get_if<plan::Inside>(&planned)) {
      compile(*inside, whole, target);
      for (const plan::Finish& finish : inside->hosted.finishes)
        prepare(finish.program, inside->outputs(finish, entry.launch.outputs),
                inside->operands(finish, nullptr, entry.launch.inputs), machine, target);
      return;
    }
    for (const plan::Product& product : split.products) {
      if (!product.has_scales()) continue;  // other libraries compute these
      const plan::ProductAlone alone = plan::plan_alone(product, entry.launch.inputs, machine);
      if (const auto* const inside = std::get_if<plan::Inside>(&alone.planned)) compile(*inside, alone.program, target);
    }
    prepare_views(split.chain, entry.launch.outputs, split.operands(entry.launch.inputs, abstract_results(split)),
                  machine, target);
  }

  void prepare_views(const ir::Program& program, std::span<const OutputView> outputs,
                     std::span<const TensorView> inputs, const plan::Machine& machine, const jit::Target& target) {
    if (!program.is_lowered_first()) return prepare(program, outputs, inputs, machine, target);
    const plan::Lowered lowered = plan::lower(program, inputs, plan::Views::abstract);
    prepare(lowered.program, lowered.outputs(outputs, inputs), lowered.views(inputs), machine, target);
  }

  void prepare(const ir::Program& program, std::span<const OutputView> outputs, std::span<const TensorView> inputs,
               const plan::Machine& machine, const jit::Target& target) {
    const plan::Plan plan = plan::make_plan(program, outputs, inputs, plan::Views::abstract, machine);
    if (plan.blocks == 0) return;  // no elements, no kernel
    compile(source_of(program, plan), codegen::kernel_name(program, plan.kernel_class), target, ir::print(program),
            plan::to_text(plan.kernel_class));
  }

  void compile(const plan::Inside& inside, const ir::Program& whole, const jit::Target& target) {
    const ir::Program& chain = inside.chain();
    compile(source_of(chain, inside.plan), codegen::gemm_name(chain, inside.plan), target, ir::print(whole),
            plan::name_of(inside.plan.gemm_class));
  }

  void compile(const jit::Source& source, const std::string& name, const jit::Target& target, const std::string& chain,
               const std::string& kernel_class) {
    const jit::Digest key = jit::bundle_key(source.identity(), target);
    {
      const std::lock_guard lock(mutex);
      if (entries.contains(key)) return;
    }
    // As a device of that architecture would ask, so that it finds it on disk.
    const auto image = compiler.get_for_device(source, name, target.architecture);
    if (image->kind != jit::ImageKind::cubin) {
      base::fail(ErrorCode::unsupported, "this NVRTC does not compile for sm_{}; it compiles for sm_{}",
                 target.architecture, fmt::join(jit::Nvrtc::get().architectures(), ", sm_"));
    }
    const std::lock_guard lock(mutex);
    entries.try_emplace(key, jit::BundleEntry{key, target, chain, kernel_class, image->bytes});
  }

  struct InOrder {
    bool operator()(const jit::Digest& a, const jit::Digest& b) const {
      return std::pair(a.high, a.low) < std::pair(b.high, b.low);
    }
  };
  jit::Compiler compiler;
  std::mutex mutex;  // of what follows
  std::map<jit::Digest, jit::BundleEntry, InOrder> entries;
};

Precompiler::Precompiler(const EngineOptions& options) : impl_(std::make_unique<Impl>(options)) {}
Precompiler::~Precompiler() = default;

void Precompiler::prepare(std::span<const PrecompiledLaunch> list,
                          const std::function<void(const PreparationProgress&)>& progress, unsigned threads) {
  prepare_each(
      list.size(), threads, [&](std::size_t i) { impl_->prepare(list[i]); }, progress);
}

PrecompilerStats Precompiler::stats() const noexcept {
  const jit::CompilerStats compiled = impl_->compiler.stats();
  const std::lock_guard lock(impl_->mutex);
  return {impl_->entries.size(), compiled.compiles, compiled.disk_hits, compiled.compile_ms};
}

std::string Precompiler::bundle() const {
  std::vector<jit::BundleEntry> entries;
  const std::lock_guard lock(impl_->mutex);
  for (const auto& [key, entry] : impl_->entries) entries.push_back(entry);
  return jit::write_bundle(std::move(entries));
}

std::vector<BundledKernel> list_bundle(const Bundle& bundle) {
  const jit::Bundle opened = open_bundle(bundle);
  std::vector<BundledKernel> kernels;
  for (std::size_t i = 0; i < opened.size(); ++i) {
    const jit::Bundle::Listed entry = opened.entry(i);
    kernels.push_back({.architecture = entry.target.architecture,
                       .chain = std::string(entry.chain),
                       .kernel_class = std::string(entry.kernel_class),
                       .key = jit::to_string(entry.key),
                       .bytes = entry.image_bytes,
                       .problem = opened.image(i).problem});
  }
  return kernels;
}

}  // namespace epifuse
