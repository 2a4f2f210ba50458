// Runs cases through the public API on a device, and judges them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <epifuse/engine.hpp>

#include "support/case.hpp"

namespace epifuse::test {

struct RunReport {
  std::size_t cases = 0;
  Coverage coverage;
  std::vector<std::string> failures;  ///< shrunk, at most a few
  std::vector<Case> smallest;         ///< the cases of those failures; fewer if some were refusals
};

/// One case: memory to the device, launch on `stream`, memory back, judgement. On the CPU the memory is guarded.
std::optional<std::string> run_on(Engine& engine, const Case& test, Coverage* coverage = nullptr,
                                  Stream stream = nullptr);

/// All cases, shared among `threads` threads.
RunReport run_all(Engine& engine, const std::vector<Case>& cases, unsigned threads);

/// Random cases from a seed, `per_family` of each chain, of at most about `elements` elements.
std::vector<Case> random_cases(std::uint64_t seed, std::size_t count, int per_family, int elements);

/// "12000 cases, …: 70% judged to the bit, …"
std::string summary(const RunReport& report);

}  // namespace epifuse::test
