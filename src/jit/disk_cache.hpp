// Compiled images on disk, shared by all processes of one user. Called by jit::Compiler, and by `epifuse cache`.
// Nothing here throws for trouble with files: a cache that cannot be read is a miss, one that cannot be written is
// slow.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "jit/digest.hpp"
#include "jit/files.hpp"

namespace epifuse::jit {

/// EPIFUSE_CACHE_DIR, else $XDG_CACHE_HOME/epifuse, else $HOME/.cache/epifuse; nothing when none of them is set.
std::optional<std::filesystem::path> default_cache_directory();

/// True when EPIFUSE_CACHE is "off", "0", "no" or "false".
bool disk_cache_disabled();

/// EPIFUSE_CACHE_LIMIT ("64M", "1G", "1000000"), 256 MiB when unset or not understood (which is logged).
std::uint64_t default_cache_limit();

/// Bytes from "1000", "64K", "256M", "2G" (powers of 1024, an "iB" or "B" may follow); nothing if it is not that.
std::optional<std::uint64_t> parse_bytes(std::string_view text) noexcept;

struct CacheInfo {
  std::filesystem::path path;
  std::uint64_t entries = 0;
  std::uint64_t bytes = 0;        ///< of the entries, headers included
  std::uint64_t temporaries = 0;  ///< files that a writer has not finished, or left when it was killed
  std::uint64_t limit_bytes = 0;
  std::string problem;  ///< why the directory is not used; empty when it is, or does not exist yet
};

struct CacheVerification {
  std::uint64_t good = 0;
  std::uint64_t bad = 0;  ///< removed
};

class DiskCache {
 public:
  /// Touches no file; the directory is created by the first store.
  DiskCache(std::filesystem::path directory, std::uint64_t limit_bytes);

  /// The image stored under that key, after checking everything about the file. A bad file is removed.
  std::optional<std::string> load(const Digest& key);

  /// Under the key, atomically: other processes see the whole entry or none. May evict entries that were used least
  /// recently.
  void store(const Digest& key, std::string_view image);

  CacheInfo info();
  /// Reads every entry; removes those that load() would reject.
  CacheVerification verify();
  /// Removes every entry and every temporary file, and nothing else. The number of entries removed.
  std::uint64_t clear();

  const std::filesystem::path& directory() const noexcept { return directory_; }
  std::uint64_t limit_bytes() const noexcept { return limit_bytes_; }

 private:
  FileDescriptor open_directory(bool create);
  void account(const FileDescriptor& directory, std::uint64_t stored_bytes);
  void complain(const std::string& problem);

  std::filesystem::path directory_;
  std::uint64_t limit_bytes_;
  std::atomic<bool> complained_{false};

  // What the directory holds, without listing it at every store: the last listing plus what this process wrote since.
  std::mutex size_mutex_;
  bool listed_ = false;
  std::uint64_t listed_bytes_ = 0;
  std::uint64_t stored_since_ = 0;
};

}  // namespace epifuse::jit
