// Runs the emitted text of a product on the CPU, and plants faults in it. For the tests of products and convolutions.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "emitted/workshop.hpp"
#include "support/gemm_problem.hpp"
#include "support/host_map.hpp"

namespace epifuse::test {

inline std::string source_of(const GemmProblem& problem) { return problem.source(codegen::Compilers::both); }

using shim::When;
/// Each launch is run with asynchronous work done as early as it may be, as late, and at random.
inline constexpr When kAllTimes[] = {When::early, When::late, When::at_random};
inline const char* to_string(When when) {
  return when == When::early ? "early" : when == When::late ? "late" : "at random";
}

/// What went wrong, or nothing.
inline std::optional<std::string> run(const plan::GemmPlan& plan, const ir::Program& chain, const CompiledText& text,
                                      When when, unsigned long long dice = 1) {
  std::vector<codegen::EncodedMap> maps;
  for (const plan::GemmMap& map : plan.maps) {
    shim::HostMap host{.data = static_cast<const unsigned char*>(map.data),
                       .swizzle = map.swizzle,
                       .bytes = static_cast<int>(size_of(map.dtype))};
    for (std::size_t i = 0; i < 4; ++i) {
      host.extents[i] = map.extents[i];
      host.steps[i] = map.steps[i];
      host.box[i] = map.box[i] * map.steps[i];
    }
    for (std::size_t i = 0; i < 3; ++i) host.strides[i] = map.strides[i];
    maps.emplace_back();
    std::memcpy(maps.back().data(), &host, sizeof host);
  }
  const std::vector<std::byte> params = codegen::pack_gemm(chain, plan, maps, {});
  return text.run({.blocks = static_cast<unsigned>(plan.blocks),
                   .threads = static_cast<unsigned>(plan.gemm_class.threads()),
                   .cluster = static_cast<unsigned>(plan.gemm_class.blocks_of_cluster()),
                   .when = when,
                   .dice = dice},
                  params);
}

/// The same, and what is wrong with the result.
inline std::optional<std::string> run(GemmProblem& problem, const CompiledText& text, When when) {
  problem.reset();
  const auto wrong = run(problem.plan(), problem.program(), text, when);
  return wrong ? wrong : problem.judge();
}

/// A mistake for a sound kernel: what stands there, and what is put in its place.
struct Fault {
  const char* from;
  const char* to;
  const char* says = "";   ///< part of the report; empty: whatever is wrong
  When when = When::late;  ///< what is asynchronous is done where it is found
};

/// Each is planted in a kernel that is sound without it, and found. `run` takes a compiled text and when asynchronous
/// work is done, and says what is wrong, or nothing.
template <class Run>
void expect_found(const std::string& source, std::span<const Fault> faults, const Run& run) {
  const std::optional<std::string> sound = run(CompiledText(source), When::late);
  ASSERT_FALSE(sound) << *sound;
  for (const Fault& fault : faults) {
    std::string broken = source;
    const auto at = broken.find(fault.from);
    ASSERT_NE(at, std::string::npos) << fault.from << "\n" << source;
    broken.replace(at, std::strlen(fault.from), fault.to);
    const std::optional<std::string> wrong = run(CompiledText(broken), fault.when);
    ASSERT_TRUE(wrong) << fault.from;
    EXPECT_NE(wrong->find(fault.says), std::string::npos) << *wrong << "\n" << fault.from;
  }
}

/// The same of a product.
inline void expect_found(GemmProblem& problem, std::span<const Fault> faults) {
  expect_found(source_of(problem), faults,
               [&](const CompiledText& text, When when) { return run(problem, text, when); });
}

}  // namespace epifuse::test
