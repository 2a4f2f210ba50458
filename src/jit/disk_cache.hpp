// Compiled images on disk, shared by all processes of one user. Called by jit::Compiler, and by `epifuse cache`.
// Nothing here throws for trouble with files: a cache that cannot be read is a miss, one that cannot be written is
// slow.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>

#include "jit/cache_entry.hpp"
#include "jit/cache_listing.hpp"
#include "jit/cache_turn.hpp"
#include "jit/digest.hpp"
#include "jit/files.hpp"

namespace epifuse::jit {

/// EPIFUSE_CACHE_DIR, else $XDG_CACHE_HOME/epifuse, else $HOME/.cache/epifuse; nothing when none of them is set.
std::optional<std::filesystem::path> default_cache_directory();

/// EPIFUSE_CACHE_SHARED_DIR: a directory whose owner is trusted; nothing when it is not set.
std::optional<std::filesystem::path> shared_cache_directory();

/// True when EPIFUSE_CACHE is "off", "0", "no" or "false".
bool disk_cache_disabled();

/// EPIFUSE_CACHE_LIMIT ("64M", "1G", "1000000"), 256 MiB when unset or not understood (which is logged).
std::uint64_t default_cache_limit();

/// EPIFUSE_CACHE_WAIT in seconds ("2.5"), 10 s when unset or not understood (which is logged).
std::chrono::milliseconds default_cache_patience();

/// Bytes from "1000", "64K", "256M", "2G" (powers of 1024, an "iB" or "B" may follow); nothing if it is not that.
std::optional<std::uint64_t> parse_bytes(std::string_view text) noexcept;

struct CacheInfo {
  std::filesystem::path path;
  std::uint64_t entries = 0;
  std::uint64_t bytes = 0;        ///< of the entries, headers included
  std::uint64_t temporaries = 0;  ///< files that a writer has not finished, or left when it was killed
  std::uint64_t locks = 0;        ///< kernels that processes compile at this moment, or did when they were killed
  std::uint64_t limit_bytes = 0;
  bool writable = false;  ///< false also while the directory does not exist
  std::string problem;    ///< why the directory is not used; empty when it is, or does not exist yet
};

struct CacheVerification {
  std::array<std::uint64_t, 5> counts{};  ///< of each Defect
  std::uint64_t removed = 0;              ///< of the bad ones: all, unless the directory cannot be written

  std::uint64_t& count(Defect defect) { return counts[static_cast<std::size_t>(defect)]; }
  std::uint64_t count(Defect defect) const { return counts[static_cast<std::size_t>(defect)]; }
  std::uint64_t good() const { return count(Defect::none); }
  std::uint64_t bad() const { return std::accumulate(counts.begin() + 1, counts.end(), std::uint64_t{0}); }
};

/// What one DiskCache met.
struct DiskCacheStats {
  std::uint64_t rejected = 0;       ///< entries that were found bad and not loaded
  std::uint64_t vain_waits = 0;     ///< waits for another process that ended with a compile of one's own
  std::uint64_t failed_stores = 0;  ///< images that could not be written
};

class DiskCache {
 public:
  /// Touches no file; the directory is created by the first store, if it is the user's own. `patience` is how
  /// long take_turn() may wait in vain; each such wait halves it.
  DiskCache(std::filesystem::path directory, std::uint64_t limit_bytes, Trust trust = Trust::own,
            std::chrono::milliseconds patience = default_cache_patience());

  /// The image stored under that key, after checking everything about the file. A bad file is removed.
  std::optional<std::string> load(const Digest& key);

  /// Waits until no other process or thread compiles that key, its entry is there, or patience ends. Look again with
  /// load() before compiling, and keep the turn until after store().
  Turn take_turn(const Digest& key);

  /// Under the key, atomically: other processes see the whole entry or none. May evict entries that were used least
  /// recently.
  void store(const Digest& key, std::string_view image);

  /// Removes an entry whose image, though undamaged, is not what its key asks for.
  void reject(const Digest& key, const std::string& why);

  /// Whether store() may write here: not in a shared directory of another user.
  bool writable();
  CacheInfo info();
  /// Reads every entry; removes those that load() would reject, and what killed processes left.
  CacheVerification verify();
  /// Removes every entry and every temporary file, and nothing else. The number of entries removed.
  std::uint64_t clear();

  DiskCacheStats stats() const noexcept;
  const std::filesystem::path& directory() const noexcept { return directory_; }
  std::uint64_t limit_bytes() const noexcept { return limit_bytes_; }

 private:
  Directory open(bool create);
  void account(const Directory& directory, std::uint64_t stored_bytes);
  void complain(const std::string& problem);
  void remove_bad(const Directory& directory, const Digest& key, const std::string& why);

  std::filesystem::path directory_;
  std::uint64_t limit_bytes_;
  Trust trust_;
  std::atomic<std::int64_t> patience_ms_;
  std::atomic<std::uint64_t> rejected_{0};
  std::atomic<std::uint64_t> vain_waits_{0};
  std::atomic<std::uint64_t> failed_stores_{0};

  // What the directory holds, without listing it at every store: the last listing plus what this process wrote since.
  std::mutex size_mutex_;
  bool listed_ = false;
  std::chrono::steady_clock::time_point list_again_;
  std::uint64_t listed_bytes_ = 0;
  std::uint64_t stored_since_ = 0;
};

}  // namespace epifuse::jit
