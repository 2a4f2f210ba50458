// The public form of a product that hosts a chain.
#include <epifuse/gemm.hpp>

#include <algorithm>

#include "api/bundles.hpp"
#include "base/text.hpp"
#include "codegen/gemm/gemm.hpp"
#include "ir/program.hpp"
#include "jit/nvrtc.hpp"
#include "plan/gemm/gemm.hpp"

namespace epifuse {

namespace {

// wgmma and setmaxnreg belong to sm_90a: code for it runs on GPUs of sm_90 and on no others.
std::string compile(const std::string& source, std::string* log) {
  const jit::Target target{90, jit::ImageKind::cubin};
  std::vector<std::string> options = jit::compile_options(target, true);
  if (log != nullptr) options.emplace_back(jit::kTellResources);
  return jit::Nvrtc::get().compile(source, "epifuse", target, options, log);
}

}  // namespace

struct GemmKernel::Impl {
  Epilogue tail;
  plan::GemmPlan plan;
  std::string text, source;
  GemmLaunch launch;
};

GemmKernel::GemmKernel(const Epilogue& tail, std::string_view product, const TensorView& left, const TensorView& right,
                       const OutputView& output, std::span<const TensorView> inputs, const PlanTarget& target) {
  const ir::Program& program = tail.program();
  const plan::Machine machine = machine_of(target);
  plan::GemmPlan plan = plan::plan_gemm(program, product, left, right, output, inputs, machine);
  GemmLaunch launch{codegen::gemm_name(program, plan),
                    plan.blocks,
                    plan::kGemmThreads,
                    static_cast<int>(plan.gemm_class.shared_bytes()),
                    {}};
  for (const plan::GemmMap& map : plan.maps)
    launch.maps.push_back({map.data, map.dtype, map.extents, map.strides, map.box, map.swizzle});
  std::string text = plan::to_text(plan, program, machine);
  std::string source = codegen::emit_gemm(program, plan);
  impl_ =
      std::make_shared<const Impl>(Impl{tail, std::move(plan), std::move(text), std::move(source), std::move(launch)});
}

const std::string& GemmKernel::plan_text() const noexcept { return impl_->text; }
const std::string& GemmKernel::cuda() const noexcept { return impl_->source; }
const GemmLaunch& GemmKernel::launch() const noexcept { return impl_->launch; }
std::string GemmKernel::cubin() const { return compile(impl_->source, nullptr); }

KernelResources GemmKernel::resources() const {
  std::string log;
  compile(impl_->source, &log);
  const jit::Resources used = jit::resources_of(log);
  return {90, used.registers, used.shared_bytes, used.spilled_bytes};
}

std::vector<std::byte> GemmKernel::parameters(std::span<const TensorMapBytes> maps,
                                              std::span<const double> scalars) const {
  if (maps.size() != impl_->plan.maps.size())
    base::fail(ErrorCode::invalid_argument, "the kernel takes {} tensor maps, found {}", impl_->plan.maps.size(),
               maps.size());
  return codegen::pack_gemm(impl_->tail.program(), impl_->plan, maps, scalars);
}

}  // namespace epifuse
