// Every file of the corpora through its target: what the fuzzers once found stays mended, with any compiler and under
// the sanitizers.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "fuzz/targets.hpp"

namespace epifuse::fuzz {
namespace {

TEST(Corpus, EveryFileKeepsThePromises) {
  for (const Target& target : kTargets) {
    std::size_t files = 0;
    for (const auto& entry :
         std::filesystem::directory_iterator(EPIFUSE_SOURCE_DIR "/tests/fuzz/corpus/" + std::string(target.name))) {
      std::ifstream file(entry.path(), std::ios::binary);
      const std::string bytes(std::istreambuf_iterator<char>(file), {});
      SCOPED_TRACE(entry.path().string());
      target.run({reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()});
      ++files;
    }
    EXPECT_GT(files, 10U) << target.name;
  }
}

}  // namespace
}  // namespace epifuse::fuzz
