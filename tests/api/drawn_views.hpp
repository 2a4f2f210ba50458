// Drawn cases of views on the CPU device, beside their definitions. For the tests of views in this folder.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <epifuse/engine.hpp>
#include <epifuse/error.hpp>

#include "support/views.hpp"

namespace epifuse::test {

/// What is wrong with the case's result; empty if nothing is. A refusal is its sentence.
inline std::string launched(Engine& engine, const ViewCase& test) {
  try {
    return judge_on(engine, test);
  } catch (const Error& error) {
    return error.what();
  }
}

/// So many cases from a seed. None may differ or be refused, and each of `names` is drawn more than `least` times.
inline void expect_definitions(std::uint64_t seed, int cases, ViewCase (*draw)(std::uint64_t),
                               const std::vector<std::string>& names, int least) {
  Random seeds(seed);
  Engine engine(Device::cpu());
  std::map<std::string, int> counts;
  for (int i = 0; i < cases; ++i) {
    const std::uint64_t own = seeds.bits();
    const ViewCase test = draw(own);
    ++counts[*test.used.begin()];
    ASSERT_EQ(launched(engine, test), "") << test.text << "\n  case " << own << ", EPIFUSE_TEST_SEED=" << seed;
  }
  for (const std::string& name : names) EXPECT_GT(counts[name], least) << name;
}

}  // namespace epifuse::test
