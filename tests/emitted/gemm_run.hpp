// Runs the emitted text of a product on the CPU. For gemm_test.cpp and warp_gemm_test.cpp.
#pragma once

#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "emitted/workshop.hpp"
#include "support/gemm_problem.hpp"
#include "support/host_map.hpp"

namespace epifuse::test {

inline std::string source_of(const GemmProblem& problem) { return problem.source(codegen::Compilers::both); }

/// Launches a plan. What went wrong, or nothing. `late`: asynchronous work is done as late as it may be, else as early.
inline std::optional<std::string> run_plan(const ir::Program& chain, const plan::GemmPlan& plan,
                                           const CompiledText& text, bool late) {
  std::vector<codegen::EncodedMap> maps;
  for (const plan::GemmMap& map : plan.maps) {
    shim::HostMap host{static_cast<const unsigned char*>(map.data), {},          {}, {}, map.swizzle,
                       static_cast<int>(size_of(map.dtype)),        late ? 1 : 0};
    for (std::size_t i = 0; i < 3; ++i) host.extents[i] = map.extents[i], host.box[i] = map.box[i];
    for (std::size_t i = 0; i < 2; ++i) host.strides[i] = map.strides[i];
    maps.emplace_back();
    std::memcpy(maps.back().data(), &host, sizeof host);
  }
  const std::vector<std::byte> params = codegen::pack_gemm(chain, plan, maps, {});
  return text.run({.blocks = static_cast<unsigned>(plan.blocks),
                   .threads = static_cast<unsigned>(plan.gemm_class.threads()),
                   .cluster = static_cast<unsigned>(plan.gemm_class.cluster()),
                   .late = late},
                  params);
}

/// The same, and whether the result is right.
inline std::optional<std::string> run(GemmProblem& problem, const CompiledText& text, bool late) {
  problem.reset();
  const auto wrong = run_plan(problem.program(), problem.plan(), text, late);
  return wrong ? wrong : problem.judge();
}

}  // namespace epifuse::test
