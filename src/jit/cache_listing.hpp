// What lies in a cache directory: the names of its files, a listing, and what of it is to go. Called by disk_cache.cpp,
// when something is stored, and by `epifuse cache`; never for a hit.
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "jit/digest.hpp"
#include "jit/files.hpp"

namespace epifuse::jit {

/// KEY.image, .epifuse-lock-KEY, and a name that no other thread, process or host uses.
std::string entry_name(const Digest& key);
std::string lock_name(const Digest& key);
std::string temporary_name();

/// The key that an entry's name spells; nothing for files that are not entries.
std::optional<Digest> key_of(std::string_view name);

struct CacheFile {
  std::string name;
  std::uint64_t bytes = 0;
  timespec time{};
};

/// Files that are not the cache's own are not in it, and never touched.
struct CacheListing {
  std::vector<CacheFile> entries;
  std::vector<CacheFile> temporaries;
  std::vector<CacheFile> locks;
  std::uint64_t bytes = 0;  ///< of the entries
};

CacheListing list_cache(const Directory& directory);

/// Temporary files and locks whose process is gone. The number of files removed.
std::uint64_t remove_leftovers(const Directory& directory, const CacheListing& listing);

/// Least recently used entries first, until at most `target` bytes are left. What another process used or wrote since
/// the listing stays. The number of entries removed.
std::uint64_t evict(const Directory& directory, CacheListing& listing, std::uint64_t target);

/// Seconds between a file's time and now, whichever is later: clocks are set back, and differ between hosts.
std::int64_t seconds_apart(const timespec& time);

}  // namespace epifuse::jit
