// Bundles: what is written is found again, and whatever is not what was written is refused with a sentence.
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <span>

#include <epifuse/epifuse.hpp>

#include "jit/bundle.hpp"
#include "jit/compiler.hpp"
#include "temporary_directory.hpp"

namespace epifuse::jit {
namespace {

const std::string kElf =
    "\x7f"
    "ELF";
const std::string kSource = "extern \"C\" __global__ void twice(float* x) { x[threadIdx.x] *= 2.0f; }\n";

BundleEntry entry_of(const std::string& source, int architecture, const std::string& image) {
  const Target target{architecture, ImageKind::cubin};
  return {bundle_key(source, target), target, "x * 2", "flat", image};
}

std::vector<BundleEntry> some_entries() {
  return {entry_of(kSource, 90, kElf + " of sm_90"), entry_of(kSource, 100, kElf + " of sm_100"),
          entry_of(kSource + "//", 90, kElf + std::string(5000, 'x'))};
}

class BundleTest : public testing::Test {
 protected:
  std::filesystem::path write(const std::string& bytes) {
    const auto path = directory / "kernels.epifuse";
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    return path;
  }
  // What opening such a file says; "" if it is opened.
  std::string refusal(const std::string& bytes) {
    std::string of_file = why_refused([&] { Bundle::open(write(bytes)); });
    const std::string of_memory = why_refused(
        [&] { Bundle::of_memory(std::as_bytes(std::span(bytes)), (directory / "kernels.epifuse").string()); });
    EXPECT_EQ(of_file, of_memory) << "a file and memory are checked alike";
    return of_file;
  }
  template <class Action>
  static std::string why_refused(const Action& action) {
    try {
      action();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::io);
      return error.what();
    }
    return "";
  }
  TemporaryDirectory directory;
};

void expect_says(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in: " << text;
}

TEST_F(BundleTest, HasWhatWasWritten) {
  const auto entries = some_entries();
  const Bundle bundle = Bundle::open(write(write_bundle(entries)));
  EXPECT_EQ(bundle.size(), entries.size());
  EXPECT_EQ(bundle.architectures(), (std::vector{90, 100}));
  for (const BundleEntry& entry : entries) {
    const auto found = bundle.load(entry.key);
    ASSERT_TRUE(found);
    EXPECT_EQ(found->image, entry.image);
    EXPECT_EQ(found->target, entry.target);
    EXPECT_EQ(found->problem, "");
  }
  EXPECT_FALSE(bundle.load(bundle_key("another source", {90, ImageKind::cubin})));
  EXPECT_FALSE(bundle.load(bundle_key(kSource, {80, ImageKind::cubin})));
  for (std::size_t i = 0; i < bundle.size(); ++i) {
    EXPECT_EQ(bundle.entry(i).chain, "x * 2");
    EXPECT_EQ(bundle.entry(i).kernel_class, "flat");
    EXPECT_EQ(bundle.entry(i).image_bytes, bundle.image(i).image.size());
  }
  EXPECT_EQ(Bundle::open(write(write_bundle({}))).size(), 0U);
}

TEST_F(BundleTest, TheSameKernelsGiveTheSameBytes) {
  auto entries = some_entries();
  const std::string bytes = write_bundle(entries);
  std::ranges::reverse(entries);
  entries.push_back(entries.back());  // twice
  EXPECT_EQ(write_bundle(entries), bytes);
}

TEST_F(BundleTest, EveryLengthButItsOwnIsRefused) {
  const std::string whole = write_bundle(some_entries());
  for (std::size_t size = 0; size < whole.size(); size += 1 + size / 50) {
    const std::string why = refusal(whole.substr(0, size));
    expect_says(why, size == 0 ? "is empty" : size < kBundleHeaderSize ? "is cut short" : "were written");
    expect_says(why, "make it anew with `epifuse bundle`");
  }
  expect_says(refusal(whole + "x"), "were written");
  EXPECT_EQ(refusal(whole), "");
}

TEST_F(BundleTest, NoFlippedBitPasses) {
  const std::string whole = write_bundle(some_entries());
  const Bundle good = Bundle::open(write(whole));
  std::mt19937 random(28);
  for (int i = 0; i < 2000; ++i) {
    std::string damaged = whole;
    const std::size_t place =
        i < 1000 ? random() % (kBundleHeaderSize + 3 * kBundleRecordSize) : random() % whole.size();
    damaged[place] = static_cast<char>(damaged[place] ^ 1 << random() % 8);
    try {
      const Bundle bundle = Bundle::of_memory(std::as_bytes(std::span(damaged)), "damaged");
      std::size_t bad = 0;
      for (std::size_t k = 0; k < bundle.size(); ++k) {
        const Bundle::Found found = bundle.image(k);
        bad += !found.problem.empty();
        EXPECT_EQ(found.image, found.problem.empty() ? good.image(k).image : "");
      }
      EXPECT_EQ(bad, 1U) << "bit flipped at " << place;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::io);
    }
  }
}

TEST_F(BundleTest, SaysWhatAForeignFileIs) {
  const std::string whole = write_bundle(some_entries());
  expect_says(refusal(std::string(4096, 'x')), "is no bundle; expected a file that `epifuse bundle` wrote");
  expect_says(refusal("#!/bin/sh\n"), "is no bundle");
  expect_says(refusal(kElf + whole.substr(4)), "is no bundle");
  std::string other = whole;
  std::memcpy(other.data() + 16, "9.8.7", 6);
  expect_says(refusal(other), "is of version 9.8.7 of EpiFuse (format 1), this is " + std::string(version()));
  other = whole;
  other[8] = 2;
  expect_says(refusal(other), "(format 2)");
  expect_says(refusal(other), "make it anew with `epifuse bundle`");
}

TEST_F(BundleTest, SaysWhyAFileCannotBeRead) {
  expect_says(why_refused([&] { Bundle::open(directory / "nope"); }), "No such file or directory");
  expect_says(why_refused([&] { Bundle::open(directory.path()); }), "is not a file");
  ASSERT_EQ(::mkfifo((directory / "pipe").c_str(), 0600), 0);
  expect_says(why_refused([&] { Bundle::open(directory / "pipe"); }), "is not a file");
  const auto path = write(write_bundle(some_entries()));
  for (const mode_t mode : {0664U, 0646U}) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    expect_says(why_refused([&] { Bundle::open(path); }), "chmod go-w");
  }
}

// It is read, and not mapped: what happens to the file afterwards ends no process.
TEST_F(BundleTest, AFileThatShrinksOrIsWrittenOverIsFoundOut) {
  const auto entries = some_entries();
  const std::string whole = write_bundle(entries);
  const Bundle bundle = Bundle::open(write(whole));
  write(whole.substr(0, whole.size() / 2));
  std::size_t bad = 0;
  for (const BundleEntry& entry : entries) bad += !bundle.load(entry.key)->problem.empty();
  EXPECT_GT(bad, 0U);
  write(std::string(whole.size(), 'x'));
  for (const BundleEntry& entry : entries) EXPECT_EQ(bundle.load(entry.key)->image, "");
}

class BundledCompilerTest : public BundleTest {
 protected:
  Compiler make(const std::vector<std::string>& bundles) {
    CompilerOptions options{.directory = directory / "cache", .limit_bytes = {}, .disk = false};
    for (const std::string& bytes : bundles)
      options.bundles.push_back(
          std::make_shared<const Bundle>(Bundle::of_memory(std::as_bytes(std::span(bytes)), "kernels")));
    options.compile = false;
    return Compiler(std::move(options));
  }
};

TEST_F(BundledCompilerTest, ABundleServesItsArchitectureAndNothingElse) {
  const std::vector<std::string> bundles = {write_bundle({some_entries()[1]}), write_bundle(some_entries())};
  Compiler compiler = make(bundles);
  Origin found{};
  EXPECT_EQ(compiler.get_for_device(kSource, "twice", 90, &found)->bytes, kElf + " of sm_90");
  EXPECT_EQ(found, Origin::bundle);
  EXPECT_EQ(compiler.get_for_device(kSource, "twice", 90, &found)->bytes, kElf + " of sm_90");
  EXPECT_EQ(found, Origin::memory);
  EXPECT_EQ(compiler.get_for_device(kSource, "twice", 100)->bytes, kElf + " of sm_100");
  EXPECT_EQ(compiler.stats().bundle_hits, 2U);
  try {
    compiler.get_for_device(kSource, "twice", 80);
    FAIL() << "for sm_80 there is none";
  } catch (const NotFound& error) {
    expect_says(error.what(), "the bundle 'kernels' lacks it (3 kernels for sm_90, sm_100)");
  }
  EXPECT_THROW(compiler.get_for_device(kSource + "// changed", "twice", 90), NotFound);
  EXPECT_THROW(make({}).get_for_device(kSource, "twice", 90), NotFound);
}

TEST_F(BundledCompilerTest, AnImageThatIsNotWhatItsRecordSaysIsNotUsed) {
  std::vector<BundleEntry> entries = some_entries();
  entries[0].target.architecture = 80;  // under the key of sm_90
  entries[1].image = "rubbish";
  std::string bytes = write_bundle(entries);
  bytes[bytes.find("xxxx") + 1000] = '!';
  const std::vector<std::string> bundles = {bytes};
  Compiler compiler = make(bundles);
  EXPECT_THROW(compiler.get_for_device(kSource, "twice", 90), NotFound);
  EXPECT_THROW(compiler.get_for_device(kSource, "twice", 100), NotFound);
  EXPECT_THROW(compiler.get_for_device(kSource + "//", "twice", 90), NotFound);
  EXPECT_EQ(compiler.stats().rejected, 3U);
  EXPECT_EQ(compiler.stats().bundle_hits, 0U);
}

}  // namespace
}  // namespace epifuse::jit
