// Many compiled images in one file, or in the program's own memory: what `epifuse bundle` makes and engines are given.
// Opening one reads its index, using an image reads that image. Called by jit::Compiler, api/ and `epifuse bundle`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "jit/digest.hpp"
#include "jit/files.hpp"
#include "jit/target.hpp"

namespace epifuse::jit {

/// magic 8, format version 4, header size 4, EpiFuse version 16, entries 8, bytes of the index 8, bytes of all 8,
/// checksum 16: little endian.
inline constexpr std::size_t kBundleHeaderSize = 72;
/// key 16, checksum of the image 16, its offset 8 and size 8, kind 2, architecture 2, nothing 4, bytes of the chain's
/// text 4, of the class's 4. Records stand in the order of their keys; the texts follow, then the images, without gaps.
inline constexpr std::size_t kBundleRecordSize = 64;

/// What a kernel goes by in a bundle: the identity of its source, with the chain and the class, the target, the
/// compiler's options and EpiFuse's version. Which NVRTC compiled it is not part of it: where it is used there may be
/// none.
Digest bundle_key(std::string_view identity, const Target& target);

struct BundleEntry {
  Digest key;
  Target target;
  std::string chain;  ///< for people, as the class is
  std::string kernel_class;
  std::string image;
};

/// The file's bytes: the same for the same entries in any order. Of those with equal keys the first counts.
std::string write_bundle(std::vector<BundleEntry> entries);

/// Read-only; any number of threads.
class Bundle {
 public:
  /// Throws Error(io) with a sentence for a file that cannot be read, that others may write, that is none or no whole
  /// one, or of another version.
  static Bundle open(const std::filesystem::path& file);
  /// The same of bytes in memory, which stay where they are. `name` is for messages.
  static Bundle of_memory(std::span<const std::byte> bytes, std::string name);

  /// The file, or the name.
  const std::string& name() const noexcept { return name_; }
  std::size_t size() const noexcept { return count_; }
  /// Each once, in increasing order: what its images are for.
  std::vector<int> architectures() const;

  struct Found {
    Target target;
    std::string image;    ///< checked; empty if it is not what was written
    std::string problem;  ///< then, as a sentence
  };
  /// Nothing if there is none of that key.
  std::optional<Found> load(const Digest& key) const;
  /// Of the index at `i` < size(), without the image, whose size is `image_bytes`.
  struct Listed {
    Digest key;
    Target target;
    std::string_view chain;
    std::string_view kernel_class;
    std::uint64_t image_bytes = 0;
  };
  Listed entry(std::size_t i) const;
  /// The same as load() of its key.
  Found image(std::size_t i) const;

 private:
  struct Record;
  Bundle() = default;
  void read_index();
  [[noreturn]] void refuse(const std::string& why) const;
  bool read(std::uint64_t offset, std::string& bytes) const;
  Record record(std::size_t i) const;

  std::string name_;
  FileDescriptor file_;
  std::span<const std::byte> memory_;  // where there is no file
  std::uint64_t bytes_ = 0;
  std::size_t count_ = 0;
  std::string index_;                 // records and texts
  std::vector<std::uint64_t> texts_;  // where an entry's texts begin in index_
};

}  // namespace epifuse::jit
