// The embedded device text is the text of templates/, byte for byte.
#include "templates/templates.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

namespace epifuse::templates {
namespace {

TEST(Templates, HoldEveryFileOfTheFolderByteForByte) {
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(EPIFUSE_SOURCE_DIR "/templates")) {
    if (entry.path().extension() != ".cuh") continue;
    std::ifstream file(entry.path(), std::ios::binary);
    std::ostringstream expected;
    expected << file.rdbuf();
    EXPECT_EQ(text(entry.path().filename().string()), expected.str()) << entry.path();
    ++files;
  }
  EXPECT_GT(files, 0);
}

TEST(Templates, RefuseUnknownNames) {
  EXPECT_THROW((void)text("nothing.cuh"), std::logic_error);
  EXPECT_THROW((void)text(""), std::logic_error);
}

}  // namespace
}  // namespace epifuse::templates
