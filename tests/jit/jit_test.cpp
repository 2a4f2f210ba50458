// NVRTC for real (no GPU needed), and the compiler's three levels. Skipped where NVRTC is not installed.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <thread>
#include <vector>

#include <epifuse/error.hpp>

#include "jit/compiler.hpp"
#include "jit/nvrtc.hpp"
#include "jit/spills.hpp"
#include "temporary_directory.hpp"

namespace epifuse::jit {
namespace {

namespace fs = std::filesystem;

const std::string kSource = R"(
extern "C" __global__ void twice(float* x) { x[threadIdx.x] *= 2.0f; }
)";

const Nvrtc* nvrtc_or_null() {
  try {
    return &Nvrtc::get();
  } catch (const Error&) {
    return nullptr;
  }
}

class NvrtcTest : public testing::Test {
 protected:
  void SetUp() override {
    if (nvrtc == nullptr) GTEST_SKIP() << "NVRTC is not installed";
  }
  const Nvrtc* nvrtc = nvrtc_or_null();
};

TEST_F(NvrtcTest, CompilesForEveryArchitectureThatItKnows) {
  ASSERT_FALSE(nvrtc->architectures().empty());
  EXPECT_GE(nvrtc->version().major, 11);
  EXPECT_TRUE(fs::exists(nvrtc->path()));
  for (const int architecture : nvrtc->architectures()) {
    const std::string cubin = nvrtc->compile(kSource, "twice", {architecture, ImageKind::cubin});
    EXPECT_EQ(cubin.substr(0, 4),
              "\x7f"
              "ELF")
        << architecture;
    const std::string ptx = nvrtc->compile(kSource, "twice", {architecture, ImageKind::ptx});
    EXPECT_NE(ptx.find(".visible .entry twice"), std::string::npos) << architecture;
    EXPECT_NE(ptx.find(".target sm_" + std::to_string(architecture)), std::string::npos) << architecture;
    EXPECT_EQ(ptx.find('\0'), std::string::npos);
  }
}

TEST_F(NvrtcTest, DoesNotContractMultiplyAndAdd) {
  const std::string ptx = nvrtc->compile("extern \"C\" __global__ void k(float* x) { *x = x[1] * x[2] + x[3]; }", "k",
                                         {nvrtc->architectures().front(), ImageKind::ptx});
  EXPECT_EQ(ptx.find("fma"), std::string::npos);
  EXPECT_NE(ptx.find("mul"), std::string::npos);
}

// Stores may change what is not loaded yet: all values are loaded first.
std::string holding(int values, const std::string& bounds) {
  const std::string count = std::to_string(values);
  return "extern \"C\" __global__ void __launch_bounds__(" + bounds +
         ") hold(const float* in, float* out) {\n"
         "  float v[" +
         count +
         "];\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < " +
         count +
         "; ++i) v[i] = in[i * 128 + threadIdx.x];\n"
         "#pragma unroll\n"
         "  for (int i = 0; i < " +
         count + "; ++i) out[i * 128 + threadIdx.x] = v[" + count +
         " - 1 - i];\n"
         "}\n";
}

TEST_F(NvrtcTest, WhatSpillsMuchIsCompiledForFewerBlocks) {
  const Target target{90, ImageKind::cubin};
  const auto compiled = [&](const std::string& source) {
    return compile_with_few_spills(*nvrtc, source, "hold", target, compile_options(target));
  };
  const Compiled crowded = compiled(holding(120, "128, 16"));
  EXPECT_EQ(crowded.resident_blocks, 4) << "which leave 128 registers to a thread; 8 blocks leave 64";
  EXPECT_EQ(crowded.source, holding(120, "128, 4"));
  EXPECT_LE(crowded.resources.spilled_bytes, 48);
  EXPECT_GT(crowded.resources.registers, 64);
  EXPECT_FALSE(crowded.image.empty());

  const Compiled fits = compiled(holding(20, "128, 16"));
  EXPECT_EQ(fits.resident_blocks, 0);
  EXPECT_EQ(fits.source, holding(20, "128, 16"));
  EXPECT_LE(fits.resources.registers, 32);

  // Nothing can be given up: it spills, and is compiled once.
  const Compiled alone = compiled(holding(400, "128, 1"));
  EXPECT_EQ(alone.resident_blocks, 0);
  EXPECT_GT(alone.resources.spilled_bytes, 48);
  EXPECT_EQ(compiled(holding(120, "128")).resident_blocks, 0);
}

TEST_F(NvrtcTest, ARejectedSourceIsReportedWithLogAndText) {
  try {
    nvrtc->compile("extern \"C\" __global__ void broken() { this is not C; }", "broken",
                   {nvrtc->architectures().front(), ImageKind::cubin});
    FAIL();
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(error.code(), ErrorCode::compile_failed);
    EXPECT_NE(text.find("error:"), std::string::npos) << text;
    EXPECT_NE(text.find("this is not C"), std::string::npos) << text;
    EXPECT_NE(text.find("broken"), std::string::npos) << text;
  }
}

TEST_F(NvrtcTest, WrongOptionsAreReported) {
  EXPECT_THROW(nvrtc->compile(kSource, "twice", {90, ImageKind::cubin}, {"--no-such-option"}), Error);
  EXPECT_THROW(nvrtc->compile(kSource, "twice", {12, ImageKind::cubin}), Error);
  EXPECT_THROW(nvrtc->compile(kSource, "twice", {90, ImageKind::cubin}, {"--gpu-architecture=compute_90"}), Error)
      << "no cubin of a virtual architecture";
}

class CompilerTest : public NvrtcTest {
 protected:
  TemporaryDirectory directory;
  CompilerOptions options() const { return {.directory = directory / "cache", .limit_bytes = {}, .disk = true}; }
  int device = nvrtc == nullptr ? 0 : nvrtc->architectures().back();
};

TEST_F(CompilerTest, FindsImagesInMemoryThenOnDiskThenCompiles) {
  Origin found{};
  Compiler compiler(options());
  const auto image = compiler.get_for_device(kSource, "twice", device, &found);
  EXPECT_EQ(found, Origin::compiled);
  EXPECT_EQ(image->kind, ImageKind::cubin);
  EXPECT_EQ(image->architecture, device);
  EXPECT_GT(image->compile_ms, 0);
  EXPECT_EQ(compiler.get_for_device(kSource, "twice", device, &found), image);
  EXPECT_EQ(found, Origin::memory);
  compiler.clear_memory();
  const auto loaded = compiler.get_for_device(kSource, "twice", device, &found);
  EXPECT_EQ(found, Origin::disk);
  EXPECT_EQ(loaded->bytes, image->bytes);
  EXPECT_EQ(loaded->kind, image->kind);
  EXPECT_EQ(loaded->architecture, image->architecture);

  Compiler second(options());
  EXPECT_EQ(second.get_for_device(kSource, "another name", device)->origin, Origin::disk);
  const CompilerStats stats = compiler.stats();
  EXPECT_EQ(stats.compiles, 1U);
  EXPECT_EQ(stats.memory_hits, 1U);
  EXPECT_EQ(stats.disk_hits, 1U);
  EXPECT_EQ(stats.failures, 0U);
  EXPECT_EQ(second.stats().compiles, 0U);
  EXPECT_EQ(stats.disk_misses, 1U);
  EXPECT_EQ(second.stats().disk_misses, 0U);
  // What the first one measured stands in the entry; loading took some of it back.
  EXPECT_GT(second.stats().saved_ms, 0);
  EXPECT_LT(second.stats().saved_ms, image->compile_ms);
}

// An entry that is whole, under the right name, and yet not what was asked for.
TEST_F(CompilerTest, AnImageForAnotherTargetIsCompiledAnew) {
  const Target ptx{90, ImageKind::ptx};
  Compiler compiler(options());
  const auto cubin = compiler.get(kSource, "twice", {90, ImageKind::cubin});
  const auto text = compiler.get(kSource, "twice", ptx);
  compiler.disk()->store(text->key, *compiler.disk()->load(cubin->key));
  Compiler second(options());
  EXPECT_EQ(second.get(kSource, "twice", ptx)->bytes, text->bytes);
  EXPECT_EQ(second.stats().rejected, 1U);
  EXPECT_EQ(second.stats().compiles, 1U);
  EXPECT_EQ(Compiler(options()).get(kSource, "twice", ptx)->origin, Origin::disk);
}

TEST_F(CompilerTest, ASharedCacheComesAfterTheOwnOneAndIsFilledByItsOwner) {
  CompilerOptions with = options();
  with.shared_directory = directory / "shared";
  Compiler(with).get_for_device(kSource, "twice", device);
  EXPECT_TRUE(fs::exists(directory / "cache")) << "there is no shared directory yet: it is never made";
  fs::create_directory(directory / "shared");
  fs::remove_all(directory / "cache");
  Compiler(with).get_for_device(kSource, "twice", device);
  EXPECT_FALSE(fs::exists(directory / "cache"));
  const auto image = Compiler(with).get_for_device(kSource, "twice", device);
  EXPECT_EQ(image->origin, Origin::disk);
}

TEST_F(CompilerTest, KeysDifferBySourceAndTarget) {
  Compiler compiler(options());
  const auto cubin = compiler.get(kSource, "twice", {90, ImageKind::cubin});
  const auto ptx = compiler.get(kSource, "twice", {90, ImageKind::ptx});
  const auto other = compiler.get(kSource + "// changed\n", "twice", {90, ImageKind::cubin});
  EXPECT_NE(cubin->key, ptx->key);
  EXPECT_NE(cubin->key, other->key);
  EXPECT_EQ(compiler.stats().compiles, 3U);
}

TEST_F(CompilerTest, AGpuNewerThanNvrtcGetsPtxAlsoFromDisk) {
  const auto image = Compiler(options()).get_for_device(kSource, "twice", 990);
  EXPECT_EQ(image->kind, ImageKind::ptx);
  EXPECT_EQ(image->architecture, nvrtc->architectures().back());
  const auto loaded = Compiler(options()).get_for_device(kSource, "twice", 990);
  EXPECT_EQ(loaded->origin, Origin::disk);
  EXPECT_EQ(loaded->kind, ImageKind::ptx);
  EXPECT_EQ(loaded->architecture, image->architecture);
  EXPECT_EQ(loaded->bytes, image->bytes);
}

TEST_F(CompilerTest, OneCompileHoweverManyThreadsAsk) {
  Compiler compiler(options());
  constexpr int kThreads = 8;
  std::barrier start(kThreads);
  std::vector<std::shared_ptr<const Image>> images(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      start.arrive_and_wait();
      images[static_cast<std::size_t>(t)] = compiler.get_for_device(kSource, "twice", device);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& image : images) EXPECT_EQ(image, images.front());
  EXPECT_EQ(compiler.stats().compiles, 1U);
  EXPECT_EQ(compiler.stats().memory_hits, kThreads - 1U);
}

TEST_F(CompilerTest, AFailureReachesEveryWaiterAndIsNotKept) {
  Compiler compiler(options());
  constexpr int kThreads = 8;
  std::barrier start(kThreads);
  std::atomic<int> failures = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      start.arrive_and_wait();
      try {
        compiler.get_for_device(std::string("not CUDA"), "broken", device);
      } catch (const Error& error) {
        failures += error.code() == ErrorCode::compile_failed;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, kThreads);
  const std::uint64_t tried = compiler.stats().failures;
  EXPECT_GE(tried, 1U);
  EXPECT_THROW(compiler.get_for_device(std::string("not CUDA"), "broken", device), Error);
  EXPECT_EQ(compiler.stats().failures, tried + 1) << "tried anew";
  EXPECT_EQ(compiler.disk()->info().entries, 0U);
}

TEST_F(CompilerTest, WorksWithoutADisk) {
  Compiler memory_only({.directory = directory / "cache", .limit_bytes = {}, .disk = false});
  EXPECT_EQ(memory_only.disk(), nullptr);
  EXPECT_EQ(memory_only.get_for_device(kSource, "twice", device)->origin, Origin::compiled);
  EXPECT_FALSE(fs::exists(directory / "cache"));
  // A disk that cannot be written costs compiles, not correctness.
  std::ofstream(directory / "file") << "in the way";
  Compiler broken({.directory = directory / "file" / "cache", .limit_bytes = {}, .disk = true});
  EXPECT_EQ(broken.get_for_device(kSource, "twice", device)->origin, Origin::compiled);
}

TEST_F(CompilerTest, DumpsWhatItCompilesAndOnlyThat) {
  const fs::path dump = directory / "dump";
  ::setenv("EPIFUSE_DUMP", dump.c_str(), 1);
  const auto image = Compiler(options()).get_for_device(kSource, "relu(x / y)", device);
  EXPECT_THROW(Compiler(options()).get_for_device(std::string("not CUDA"), "broken", device), Error);
  const std::string stem = "relu_x___y_-" + to_string(image->key);
  const auto read = [](const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  };
  EXPECT_EQ(read(dump / (stem + ".cu")), kSource);
  EXPECT_EQ(read(dump / (stem + ".cubin")), image->bytes);
  EXPECT_EQ(std::distance(fs::directory_iterator(dump), fs::directory_iterator()), 3) << "the broken source too";
  fs::remove_all(dump);
  Compiler(options()).get_for_device(kSource, "relu(x / y)", device);
  EXPECT_FALSE(fs::exists(dump)) << "from disk";
  ::unsetenv("EPIFUSE_DUMP");
}

// An image says where its source stands, and the source stands there, also when the image comes from disk. Others do
// not share it.
TEST_F(CompilerTest, ImagesHaveTheLinesOfSourcesThatStandThere) {
  const fs::path sources = directory / "sources";
  fs::create_directory(sources);
  CompilerOptions with_lines = options();
  with_lines.line_info = sources;
  const auto plain = Compiler(options()).get_for_device(kSource, "twice", device);
  const auto image = Compiler(with_lines).get_for_device(kSource, "twice", device);
  EXPECT_EQ(image->origin, Origin::compiled);
  EXPECT_NE(image->key, plain->key);
  const fs::path file = sources / ("twice-" + to_string(image->key) + ".cu");
  for (const std::string& named : {sources.string(), file.filename().string(), std::string(".debug_line")}) {
    EXPECT_NE(image->bytes.find(named), std::string::npos) << named;
    EXPECT_EQ(plain->bytes.find(named), std::string::npos) << named;
  }
  ASSERT_TRUE(fs::exists(file));
  fs::remove(file);
  EXPECT_EQ(Compiler(with_lines).get_for_device(kSource, "twice", device)->origin, Origin::disk);
  std::ifstream written(file, std::ios::binary);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(written), {}), kSource);
}

// Each death test runs in a process of its own (threadsafe style), which ends here with 0 if all went as expected.
[[noreturn]] void compile_or_exit(const char* cache, Origin expected, bool may_open_nvrtc) {
  Origin found{};
  Compiler({.directory = cache, .limit_bytes = {}, .disk = true}).get_for_device(kSource, "twice", 90, &found);
  std::ifstream maps("/proc/self/maps");
  const std::string text{std::istreambuf_iterator<char>(maps), std::istreambuf_iterator<char>()};
  const bool opened = text.find("libnvrtc") != std::string::npos;
  std::_Exit(found != expected ? 1 : opened && !may_open_nvrtc ? 2 : 0);
}

TEST(CompilerProcessDeathTest, ADiskHitDoesNotOpenNvrtc) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  // The processes find the directory by the environment: each runs this test from its start.
  constexpr const char* kVariable = "EPIFUSE_TEST_CACHE";
  std::optional<TemporaryDirectory> owner;
  if (std::getenv(kVariable) == nullptr) {
    try {
      locate_nvrtc();
    } catch (const Error&) {
      GTEST_SKIP() << "NVRTC is not installed";
    }
    owner.emplace();
    ::setenv(kVariable, (*owner / "cache").c_str(), 1);
  }
  EXPECT_EXIT(compile_or_exit(std::getenv(kVariable), Origin::compiled, true), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(compile_or_exit(std::getenv(kVariable), Origin::disk, false), testing::ExitedWithCode(0), "");
  if (owner) ::unsetenv(kVariable);
}

[[noreturn]] void locate_missing_or_exit() {
  ::setenv("EPIFUSE_NVRTC", "/nonexistent/libnvrtc.so", 1);
  for (int attempt = 0; attempt < 2; ++attempt) {
    try {
      Nvrtc::get();
      std::_Exit(1);
    } catch (const Error& error) {
      const bool named = std::string(error.what()).find("/nonexistent/libnvrtc.so") != std::string::npos;
      if (error.code() != ErrorCode::no_compiler || !named) std::_Exit(2);
    }
  }
  std::_Exit(0);
}

TEST(NvrtcProcessDeathTest, ANamedLibraryThatIsMissingIsAnErrorEachTime) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(locate_missing_or_exit(), testing::ExitedWithCode(0), "");
}

[[noreturn]] void open_wrong_library_or_exit() {
  ::setenv("EPIFUSE_NVRTC", "/proc/self/exe", 1);
  try {
    Nvrtc::get();
  } catch (const Error& error) {
    std::_Exit(error.code() == ErrorCode::no_compiler ? 0 : 1);
  }
  std::_Exit(2);
}

TEST(NvrtcProcessDeathTest, AFileThatIsNotNvrtcIsAnError) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(open_wrong_library_or_exit(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace epifuse::jit
