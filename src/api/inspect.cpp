// The public looking glass: one call per stage, and the report on the machine.
#include <epifuse/inspect.hpp>

#include <deque>
#include <mutex>
#include <thread>

#include <epifuse/epifuse.hpp>

#include "api/arguments.hpp"
#include "api/bundles.hpp"
#include "api/kernels.hpp"
#include "base/text.hpp"
#include "ir/functions.hpp"
#include "ir/program.hpp"
#include "ir/subchain.hpp"
#include "jit/compiler.hpp"
#include "jit/disk_cache.hpp"
#include "jit/nvrtc.hpp"
#include "jit/spills.hpp"
#include "plan/bind/products.hpp"
#include "plan/bind/views.hpp"
#include "plan/explain.hpp"
#include "plan/gemm/inside.hpp"
#include "runtime/device.hpp"
#include "runtime/driver.hpp"

namespace epifuse {

const char* version() noexcept { return EPIFUSE_VERSION; }

std::vector<OpInfo> list_operations() {
  std::vector<OpInfo> list;
  for (const ir::Function& function : ir::function_table()) {
    if (function.group.empty()) continue;
    list.push_back({function.signature, std::string(function.group), std::string(function.formula), function.cost(),
                    function.gives_truth(), function.type()});
  }
  return list;
}

// ---- Inspection

namespace {
// Through a Compiler, so that EPIFUSE_DUMP sees it; without the cache: who looks inside wants NVRTC's own answer.
std::string compile(const jit::Source& source, const jit::Target& target) {
  check_architecture(target.architecture);
  if (source.is_of_one_architecture() && target.architecture != 90)
    base::fail(ErrorCode::unsupported, "this kernel multiplies with instructions of sm_90 alone; asked for sm_{}",
               target.architecture);
  return jit::Compiler({.directory = std::nullopt, .limit_bytes = std::nullopt, .disk = false})
      .get(source, "epifuse", target)
      ->bytes;
}

// How the product that the chain reads as `name` is computed, since no kernel hosts the chain: `why`.
std::string computed_before(const std::string& name, const plan::Product& product, std::span<const TensorView> inputs,
                            const plan::Machine& machine, const std::string& why) {
  const std::string before = fmt::format("{} is {}, computed before this kernel", name, product.text);
  if (!product.has_scales()) return fmt::format("{}: {}", before, why);
  const plan::ProductAlone alone = plan::plan_alone(product, inputs, machine);
  if (std::holds_alternative<plan::Inside>(alone.planned)) return fmt::format("{} by one of its own: {}", before, why);
  return fmt::format(
      "{} is {}, whose scales vary along the depth, and no kernel multiplies by them here, so that a "
      "launch is refused: {}",
      name, product.text, std::get<std::string>(alone.planned));
}

}  // namespace

// To make a source lean takes milliseconds, and who asks for the plan alone does not read it.
struct Inspection::Source {
  explicit Source(jit::Source given) : source(std::move(given)) {}

  const std::string& text() const {
    std::call_once(once, [this] { written = source.text(); });
    return written;
  }

  jit::Source source;
  mutable std::once_flag once;
  mutable std::string written;
};

const std::string& Inspection::cuda() const { return source_->text(); }

Inspection::Inspection(const Epilogue& tail, std::span<const OutputView> outputs, const Arguments& inputs,
                       const PlanTarget& target)
    : Inspection(tail.inputs(tail.inputs()), outputs, std::span<const TensorView>(in_order(tail, inputs, false).inputs),
                 target) {}

Inspection::Inspection(const Epilogue& tail, std::span<const OutputView> outputs, std::span<const TensorView> inputs,
                       const PlanTarget& target) {
  check_input_order(tail);
  const plan::Machine machine = machine_of(target);
  const auto inspect = [&](const ir::Program& program, std::span<const OutputView> results,
                           std::span<const TensorView> operands, const plan::Lowered* lowered) {
    const plan::Plan plan = plan::make_plan(program, results, operands, plan::Views::abstract, machine);
    plan_ = plan::summarise(program, plan, results, operands, machine, lowered);
    source_ = std::make_shared<const Source>(source_of(program, plan));
  };
  const auto without_views = [&](const ir::Program& program, std::span<const TensorView> operands) {
    if (!program.is_lowered_first()) return inspect(program, outputs, operands, nullptr);
    const plan::Lowered lowered = plan::lower(program, operands, plan::Views::abstract);
    inspect(lowered.program, lowered.outputs(outputs, operands), lowered.views(operands), &lowered);
  };
  if (!tail.program().has_products()) {
    without_views(tail.program(), inputs);
    return;
  }
  const plan::WithoutProducts split = plan::split_products(tail.program(), inputs, plan::Views::abstract);
  auto planned = plan::plan_inside(split, outputs, inputs, machine);
  if (const auto* const inside = std::get_if<plan::Inside>(&planned)) {
    const plan::WithoutProducts& own = inside->hosted.split;
    if (inside->hosted.reductions.empty()) {
      without_views(split.chain, split.operands(inputs, plan::abstract_results(split)));
    } else {
      // The chain that the kernel hosts, with what it reduces as results.
      std::vector<OutputView> results(own.chain.results().size(),
                                      OutputView(nullptr, DType::f32, own.products[0].shape));
      results[0] = outputs[inside->hosted.result];
      inspect(own.chain, results, own.operands(inputs, plan::abstract_results(own)), nullptr);
    }
    plan_ = plan::summarise(*inside, plan_, machine);
    source_ = std::make_shared<const Source>(source_of(own.chain, inside->plan));
    return;
  }
  without_views(split.chain, split.operands(inputs, plan::abstract_results(split)));
  for (std::size_t i = 0; i < split.products.size(); ++i)
    plan_.products.push_back(
        computed_before(split.chain.inputs()[i], split.products[i], inputs, machine, std::get<std::string>(planned)));
}

std::string Inspection::plan_text(double bandwidth, int registers) const {
  return plan_text(bandwidth, KernelResources{.registers = registers});
}

std::string Inspection::plan_text(double bandwidth, const KernelResources& resources) const {
  return plan::to_text(plan_, bandwidth, resources);
}

std::string Inspection::ptx(int architecture) const {
  return compile(source_->source, {architecture, jit::ImageKind::ptx});
}

std::string Inspection::cubin(int architecture) const {
  return compile(source_->source, {architecture, jit::ImageKind::cubin});
}

int Inspection::registers(int architecture) const { return resources(architecture).registers; }

KernelResources Inspection::resources(int architecture) const {
  check_architecture(architecture);
  const jit::Target target{architecture, jit::ImageKind::cubin};
  const jit::Compiled compiled =
      jit::compile_with_few_spills(jit::Nvrtc::get(), cuda(), "epifuse", target,
                                   jit::compile_options(target, source_->source.is_of_one_architecture()));
  const auto& [registers, shared_bytes, spilled_bytes] = compiled.resources;
  return {architecture, registers, shared_bytes, spilled_bytes, compiled.resident_blocks};
}

std::string ir_text(const Epilogue& tail) { return ir::print_ssa(tail.program()); }

std::string ir_dot(const Epilogue& tail) { return ir::print_dot(tail.program()); }

namespace {
ChainValue describe(const ir::Program& program, const ir::Node& node) {
  ChainValue value;
  value.op = ir::name_of(node.op);
  value.constant = node.constant;
  value.dtype = node.dtype;
  for (int i = 0; i < node.arity(); ++i) value.arguments.push_back(node.args[static_cast<std::size_t>(i)]);
  if (node.op == ir::Op::input) value.name = program.inputs()[static_cast<std::size_t>(node.ordinal)];
  if (node.op == ir::Op::scalar) value.name = program.scalars()[static_cast<std::size_t>(node.ordinal)];
  const ir::Shaping& shaping = node.shaping;
  value.axes.assign(shaping.axes.at.begin(), shaping.axes.at.begin() + shaping.axes.count);
  value.axes_rest = shaping.axes.rest;
  value.keepdim = shaping.keepdim;
  if (node.op == ir::Op::unflatten || node.op == ir::Op::flatten)
    value.sizes.assign(shaping.sizes.begin(), shaping.sizes.end());
  if (node.op == ir::Op::conv2d) {
    for (const auto* pair : {&shaping.windows.stride, &shaping.windows.padding, &shaping.windows.dilation})
      value.sizes.insert(value.sizes.end(), pair->begin(), pair->end());
  }
  if (const ir::View* const view = program.view_of(node)) value.view = ir::print_view(*view, "_");
  value.gives_truth = ir::gives_truth(node);
  return value;
}
}  // namespace

Chain chain_of(const Epilogue& tail) {
  const ir::Program& program = tail.program();
  Chain chain;
  for (const ir::Node& node : program.nodes()) chain.values.push_back(describe(program, node));
  for (const ir::Result& result : program.results()) chain.results.push_back(result.value);
  return chain;
}

Subchain subchain_of(const Epilogue& tail, std::span<const int> writes, std::span<const int> known,
                     const SubchainOptions& options) {
  const ir::Program& program = tail.program();
  for (const std::span<const int> positions : {writes, known}) {
    for (const int position : positions) {
      if (position >= 0 && static_cast<std::size_t>(position) < program.nodes().size()) continue;
      base::fail(ErrorCode::invalid_argument, "the chain has no value {}: its {} values count from 0", position,
                 program.nodes().size());
    }
  }
  if (writes.empty())
    base::fail(ErrorCode::invalid_argument, "a part of a chain writes at least one value; none was named");
  ir::Subchain found = ir::subchain_of(program, writes, known, options.in_f64);
  return {Epilogue(std::make_shared<const ir::Program>(std::move(found.program)), true, true), std::move(found.reads)};
}

// ---- the machine

namespace {

template <class Action>
void attempt(SystemReport& report, Action action) {
  try {
    action();
  } catch (const Error& problem) {
    report.problems.emplace_back(problem.what());
  }
}

DeviceSummary summary_of(const runtime::DeviceInfo& info) {
  return {info.ordinal,
          info.name,
          info.architecture,
          info.multiprocessors,
          static_cast<std::uint64_t>(info.memory_bytes),
          static_cast<std::uint64_t>(info.l2_bytes),
          info.peak_bandwidth()};
}

struct DefaultCache {
  DefaultCache(const std::filesystem::path& directory, jit::Trust trust)
      : cache(directory, jit::default_cache_limit(), trust), shared(trust == jit::Trust::shared) {}
  jit::DiskCache cache;
  bool shared;
};

// The user's own, then the shared one; what there is of them. A deque: a DiskCache does not move.
std::deque<DefaultCache> default_caches() {
  std::deque<DefaultCache> caches;
  if (jit::disk_cache_disabled()) return caches;
  if (const auto own = jit::default_cache_directory()) caches.emplace_back(*own, jit::Trust::own);
  if (const auto shared = jit::shared_cache_directory()) caches.emplace_back(*shared, jit::Trust::shared);
  return caches;
}

}  // namespace

SystemReport system_report() {
  SystemReport report;
  report.version = version();
  report.cpu_threads = static_cast<int>(std::thread::hardware_concurrency());
  attempt(report, [&] {
    const jit::Nvrtc& nvrtc = jit::Nvrtc::get();
    report.nvrtc = fmt::format("{}.{} ({})", nvrtc.version().major, nvrtc.version().minor, nvrtc.path().string());
    report.nvrtc_architectures = nvrtc.architectures();
  });
  attempt(report, [&] {
    report.driver = runtime::format_driver_version(runtime::driver_version());
    for (const runtime::DeviceInfo& info : runtime::devices()) report.devices.push_back(summary_of(info));
  });
  for (const CacheReport& cache : cache_report()) {
    if (!cache.problem.empty()) report.problems.push_back(cache.problem);
    if (cache.shared) continue;
    report.cache_directory = cache.directory;
    report.cache_entries = cache.entries;
    report.cache_bytes = cache.bytes;
    report.cache_limit = cache.limit;
  }
  return report;
}

std::vector<CacheReport> cache_report() {
  std::vector<CacheReport> reports;
  for (auto& [cache, shared] : default_caches()) {
    const jit::CacheInfo info = cache.info();
    reports.push_back({.directory = info.path.string(),
                       .shared = shared,
                       .writable = info.writable,
                       .entries = info.entries,
                       .bytes = info.bytes,
                       .limit = info.limit_bytes,
                       .unfinished = info.temporaries,
                       .compiling = info.locks,
                       .problem = info.problem});
  }
  return reports;
}

CacheCheck cache_verify() {
  CacheCheck check;
  for (auto& [cache, shared] : default_caches()) {
    const jit::CacheVerification found = cache.verify();
    check.good += found.count(jit::Defect::none);
    check.removed += found.removed;
    check.damaged += found.count(jit::Defect::damaged);
    check.outdated += found.count(jit::Defect::outdated);
    check.misplaced += found.count(jit::Defect::misplaced);
    check.foreign += found.count(jit::Defect::foreign);
  }
  return check;
}

std::uint64_t cache_clear() {
  for (auto& [cache, shared] : default_caches()) {
    if (!shared) return cache.clear();
  }
  return 0;
}

}  // namespace epifuse
