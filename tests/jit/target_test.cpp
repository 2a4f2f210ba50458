// Architectures, options, digests, environment variables: what of jit/ is a pure function.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include <epifuse/error.hpp>

#include "jit/digest.hpp"
#include "jit/disk_cache.hpp"
#include "jit/target.hpp"

namespace epifuse::jit {
namespace {

const std::vector<int> kKnown = {75, 80, 86, 90, 100};

TEST(Architecture, IsParsedFromItsUsualSpellings) {
  EXPECT_EQ(parse_architecture("90"), 90);
  EXPECT_EQ(parse_architecture("sm_75"), 75);
  EXPECT_EQ(parse_architecture("compute_120"), 120);
  for (const char* bad :
       {"", "sm_", "9", "sm_90a", "90 ", " 90", "-90", "+90", "0x5a", "sm90", "sm_sm_90", "123456789012", "09"})
    EXPECT_EQ(parse_architecture(bad), std::nullopt) << bad;
}

TEST(Target, IsACubinWhereTheGpuIsKnown) {
  for (const int known : kKnown) EXPECT_EQ(target_for(known, kKnown), (Target{known, ImageKind::cubin}));
}

TEST(Target, IsPtxOfTheNewestOlderArchitectureOtherwise) {
  EXPECT_EQ(target_for(120, kKnown), (Target{100, ImageKind::ptx}));
  EXPECT_EQ(target_for(89, kKnown), (Target{86, ImageKind::ptx}));
  EXPECT_EQ(target_for(89, {100, 86, 75}), (Target{86, ImageKind::ptx})) << "the order of the list does not matter";
}

TEST(Target, IsRefusedForAGpuOlderThanAllThatNvrtcKnows) {
  try {
    target_for(70, kKnown);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_NE(std::string(error.what()).find("sm_70"), std::string::npos) << error.what();
  }
  EXPECT_THROW(target_for(90, {}), Error);
}

TEST(Options, NameTheArchitectureOfTheRightKindAndForbidContraction) {
  const auto has = [](const std::vector<std::string>& options, const char* option) {
    return std::ranges::find(options, option) != options.end();
  };
  const auto cubin = compile_options({90, ImageKind::cubin});
  EXPECT_TRUE(has(cubin, "--gpu-architecture=sm_90"));
  EXPECT_TRUE(has(cubin, "--fmad=false"));
  EXPECT_TRUE(has(cubin, "--std=c++17"));
  EXPECT_TRUE(has(compile_options({90, ImageKind::ptx}), "--gpu-architecture=compute_90"));
}

TEST(Digest, DependsOnEveryFieldAndOnWhereFieldsEnd) {
  const Digest digest = digest_of({"ab", "c"});
  EXPECT_EQ(digest, digest_of({"ab", "c"}));
  EXPECT_NE(digest, digest_of({"a", "bc"}));
  EXPECT_NE(digest, digest_of({"abc"}));
  EXPECT_NE(digest, digest_of({"ab", "c", ""}));
  EXPECT_EQ(checksum_of("ab", "c"), checksum_of("a", "bc"));
  EXPECT_EQ(to_string(Digest{0x1, 0xabc}), "00000000000000010000000000000abc");
}

TEST(CacheSettings, BytesAreParsedWithTheirUnits) {
  EXPECT_EQ(parse_bytes("0"), 0U);
  EXPECT_EQ(parse_bytes("1000"), 1000U);
  EXPECT_EQ(parse_bytes("64K"), 64U << 10);
  EXPECT_EQ(parse_bytes("256m"), 256U << 20);
  EXPECT_EQ(parse_bytes("2GiB"), 2ULL << 30);
  EXPECT_EQ(parse_bytes("1GB"), 1ULL << 30);
  EXPECT_EQ(parse_bytes("7B"), 7U);
  for (const char* bad :
       {"", "M", "-1", "1.5G", "1 G", "1X", "1KiBx", "1iB", "99999999999999999999", "99999999999999T"})
    EXPECT_EQ(parse_bytes(bad), std::nullopt) << bad;
}

// Sets an environment variable for one scope.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    value == nullptr ? ::unsetenv(name) : ::setenv(name, value, 1);
  }
  ~Variable() { old_ ? ::setenv(name_, old_->c_str(), 1) : ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

TEST(CacheSettings, TheDirectoryIsTheFirstOfThreeThatIsNamed) {
  const Variable home("HOME", "/home/somebody");
  const Variable xdg("XDG_CACHE_HOME", "/cache");
  const Variable own("EPIFUSE_CACHE_DIR", "/own");
  EXPECT_EQ(default_cache_directory(), "/own");
  const Variable no_own("EPIFUSE_CACHE_DIR", nullptr);
  EXPECT_EQ(default_cache_directory(), "/cache/epifuse");
  const Variable relative("XDG_CACHE_HOME", "relative");
  EXPECT_EQ(default_cache_directory(), "/home/somebody/.cache/epifuse");
  const Variable no_xdg("XDG_CACHE_HOME", nullptr);
  EXPECT_EQ(default_cache_directory(), "/home/somebody/.cache/epifuse");
  const Variable no_home("HOME", nullptr);
  EXPECT_EQ(default_cache_directory(), std::nullopt);
}

TEST(CacheSettings, TheLimitAndTheSwitchComeFromTheEnvironment) {
  {
    const Variable limit("EPIFUSE_CACHE_LIMIT", "3M");
    const Variable off("EPIFUSE_CACHE", "off");
    const Variable wait("EPIFUSE_CACHE_WAIT", "2.5");
    const Variable shared("EPIFUSE_CACHE_SHARED_DIR", "/shared");
    EXPECT_EQ(default_cache_limit(), 3U << 20);
    EXPECT_TRUE(disk_cache_disabled());
    EXPECT_EQ(default_cache_patience(), std::chrono::milliseconds(2500));
    EXPECT_EQ(shared_cache_directory(), "/shared");
  }
  const Variable limit("EPIFUSE_CACHE_LIMIT", "plenty");
  const Variable on("EPIFUSE_CACHE", "on");
  EXPECT_EQ(default_cache_limit(), 256U << 20);
  EXPECT_FALSE(disk_cache_disabled());
  for (const char* wait : {"", "soon", "-1", "2s", "nan", "1e9"}) {
    const Variable patience("EPIFUSE_CACHE_WAIT", wait);
    EXPECT_EQ(default_cache_patience(), std::chrono::seconds(10)) << wait;
  }
  const Variable no_shared("EPIFUSE_CACHE_SHARED_DIR", nullptr);
  EXPECT_EQ(shared_cache_directory(), std::nullopt);
}

}  // namespace
}  // namespace epifuse::jit
