// One test in several processes of this executable: NVRTC lets one thread at a time compile.
#pragma once

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "support/case.hpp"

namespace epifuse::test {

/// Which part of the work is this process's; of the process that was started by hand: none, it starts the others.
struct Shard {
  int index = -1;
  int count = 0;

  bool is_parent() const { return index < 0; }

  static Shard current() {
    Shard shard;
    const char* text = std::getenv("EPIFUSE_TEST_SHARD");
    if (text != nullptr && std::sscanf(text, "%d/%d", &shard.index, &shard.count) != 2) shard = {};
    return shard;
  }

  /// The cases of `all` that are this shard's. Those of one chain stay together: they share kernels.
  std::vector<Case> share(const std::vector<Case>& all) const {
    std::vector<Case> mine;
    for (const Case& test : all) {
      if (std::hash<std::string>()(to_text(test.chain)) % static_cast<std::size_t>(count) ==
          static_cast<std::size_t>(index))
        mine.push_back(test);
    }
    return mine;
  }
};

/// Runs the test of that name in `count` processes at once; how many of them failed.
inline int run_shards(const std::string& test, int count) {
  std::fflush(stdout);
  const std::string filter = "--gtest_filter=" + test;
  // GoogleTest's own shares go to this process alone: a child that took one, too, would run no test, and pass.
  unsetenv("GTEST_TOTAL_SHARDS");
  unsetenv("GTEST_SHARD_INDEX");
  std::vector<pid_t> children;
  int failed = 0;
  for (int i = 0; i < count; ++i) {
    setenv("EPIFUSE_TEST_SHARD", (std::to_string(i) + "/" + std::to_string(count)).c_str(), 1);
    const std::vector<const char*> arguments = {"gpu_test", filter.c_str(), "--gtest_brief=1", nullptr};
    pid_t child = 0;
    if (posix_spawn(&child, "/proc/self/exe", nullptr, nullptr, const_cast<char**>(arguments.data()), environ) == 0) {
      children.push_back(child);
    } else {
      ++failed;
    }
  }
  unsetenv("EPIFUSE_TEST_SHARD");
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0) ++failed;
  }
  return failed;
}

}  // namespace epifuse::test
