// The policy: how many numbers it has, that each says what it is and who measured it, and what follows from it on the
// device where it was measured.
#include "plan/policy.hpp"

#include <gtest/gtest.h>

#include <array>
#include <regex>
#include <set>
#include <string>

#include <epifuse/epifuse.hpp>

#include "plan/plans.hpp"

namespace epifuse::plan {
namespace {

struct Entry {
  const char* name;
  long long value;
  const char* unit;
  const char* decides;
  const char* tried;
  const char* where;
};

constexpr std::array kEntries = {
#define EPIFUSE_POLICY(name, value, unit, decides, tried, where) Entry{#name, value, unit, decides, tried, where},
#include "plan/policy.def"
#undef EPIFUSE_POLICY
};

TEST(Policy, HasAtMostSixtyNumbers) {
  EXPECT_LE(kEntries.size(), 60U);
  EXPECT_EQ(sizeof(Policy), kEntries.size() * sizeof(int)) << "a number stands beside policy.def";
}

TEST(Policy, EachNumberSaysWhatItIs) {
  const std::regex commits("[0-9a-f]{7}( [0-9a-f]{7})*");
  std::set<std::string> decisions;
  for (const Entry& entry : kEntries) {
    EXPECT_GT(entry.value, 0) << entry.name;
    EXPECT_STRNE(entry.unit, "") << entry.name;
    EXPECT_TRUE(decisions.insert(entry.decides).second) << entry.name;
    EXPECT_TRUE(std::regex_match(entry.where, commits)) << entry.name;
    const std::string tried = entry.tried;
    const bool has_figures = std::regex_search(tried, std::regex("[0-9]\\.[0-9]"));
    EXPECT_TRUE(has_figures || tried.find("not recorded") != std::string::npos ||
                tried.find("not timed") != std::string::npos)
        << entry.name;
  }
}

// docs/measurements/notes/reductions.md, "Threads of a multiprocessor".
TEST(Policy, RegistersLeaveSpaceForTheThreadsThatWereMeasured) {
  const Machine h100(90);
  const auto threads = [&](int bytes) { return h100.threads_with(registers_for(bytes)); };
  EXPECT_EQ(threads(16), 2048);
  EXPECT_EQ(threads(32), 1536);
  EXPECT_EQ(threads(64), 1280);
  EXPECT_EQ(threads(128), 1024);
  EXPECT_EQ(h100.threads_with(kPolicy.many_registers), 768);
}

// A limit of registers that more threads ask for than a multiprocessor has would be one for nothing.
TEST(Policy, NoKernelAsksForMoreThreadsThanThereAre) {
  for (const int architecture : {75, 80, 86, 87, 89, 90, 100, 110, 120}) {
    const Machine machine(architecture);
    for (const DType type : {DType::f32, DType::f16, DType::f8e4m3}) {
      for (const char* chain : {"relu(x)", "softmax(x, -1)", "softmax(x, 0)", "mean(x, -1)", "x - mean(x)"}) {
        for (const Dims& shape : {Dims{1 << 20, 16}, Dims{4096, 1024}, Dims{64, 65536}, Dims{3, 1 << 21}}) {
          const Plan plan = plan_of(chain, {in(type, shape)}, machine);
          const int blocks = plan.kernel_class.tuning.resident_blocks;
          EXPECT_LE(blocks * plan.kernel_class.threads, machine.threads)
              << chain << ' ' << to_string(shape) << " sm_" << architecture;
          EXPECT_LE(blocks * (plan.shared_bytes + kReservedShared), machine.shared_bytes)
              << chain << ' ' << to_string(shape) << " sm_" << architecture;
        }
      }
    }
  }
}

}  // namespace
}  // namespace epifuse::plan
