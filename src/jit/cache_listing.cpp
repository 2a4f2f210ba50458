// Listing, leftovers of killed processes, and eviction. Each removal is safe beside other processes: an entry that goes
// while it is read stays readable, and one that is missed is compiled again.
#include "jit/cache_listing.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <tuple>

#include "base/log.hpp"
#include "base/text.hpp"

namespace epifuse::jit {
namespace {

constexpr std::string_view kSuffix = ".image";
constexpr std::string_view kTemporaryPrefix = ".epifuse-tmp-";
constexpr std::string_view kLockPrefix = ".epifuse-lock-";
constexpr std::size_t kDigits = 32;
// A writer holds a lock on its temporary file, a compiling process on its lock file. One that nobody holds is a dead
// process's, once it is older than the moment between making and locking it.
constexpr std::int64_t kAbandonedSeconds = 60;
// Where locks do not work: long enough that no writer is still at it, even on a stalled network file system.
constexpr std::int64_t kStaleSeconds = 3600;

enum class Held { yes, no, unknown };

// Removes the file if nobody holds its lock; while we hold it nobody else can come to.
Held remove_if_free(const Directory& directory, const std::string& name) {
  const FileDescriptor file(::openat(directory.get(), name.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file) return Held::unknown;
  if (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return errno == EWOULDBLOCK ? Held::yes : Held::unknown;
  ::unlinkat(directory.get(), name.c_str(), 0);
  return Held::no;
}

// Whether the file went: nobody holds it, or nobody can still do so.
bool remove_leftover(const Directory& directory, const CacheFile& file) {
  const std::int64_t age = seconds_apart(file.time);
  if (age < kAbandonedSeconds) return false;
  const Held held = remove_if_free(directory, file.name);
  if (held != Held::unknown) return held == Held::no;
  return age > kStaleSeconds && ::unlinkat(directory.get(), file.name.c_str(), 0) == 0;
}

enum class Since { unchanged, used, gone };

Since since_listing(const Directory& directory, const CacheFile& file) {
  struct stat status {};
  if (::fstatat(directory.get(), file.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return Since::gone;
  const bool same = status.st_mtim.tv_sec == file.time.tv_sec && status.st_mtim.tv_nsec == file.time.tv_nsec;
  return same ? Since::unchanged : Since::used;
}

}  // namespace

std::string entry_name(const Digest& key) { return to_string(key) + std::string(kSuffix); }

std::string lock_name(const Digest& key) { return std::string(kLockPrefix) + to_string(key); }

// Distinct between threads (counter), processes (pid) and hosts or containers with equal pids (time); O_EXCL has the
// last word.
std::string temporary_name() {
  static std::atomic<std::uint64_t> counter{0};
  return fmt::format("{}{}-{}-{:x}", kTemporaryPrefix, ::getpid(), counter.fetch_add(1),
                     std::chrono::steady_clock::now().time_since_epoch().count());
}

std::optional<Digest> key_of(std::string_view name) {
  if (name.size() != kDigits + kSuffix.size() || !name.ends_with(kSuffix)) return std::nullopt;
  Digest key;
  for (std::size_t i = 0; i < kDigits; ++i) {
    const char c = name[i];
    const bool digit = c >= '0' && c <= '9';
    if (!digit && (c < 'a' || c > 'f')) return std::nullopt;
    std::uint64_t& word = i < kDigits / 2 ? key.high : key.low;
    word = word << 4U | static_cast<std::uint64_t>(digit ? c - '0' : c - 'a' + 10);
  }
  return key;
}

std::int64_t seconds_apart(const timespec& time) {
  return std::abs(static_cast<std::int64_t>(::time(nullptr)) - static_cast<std::int64_t>(time.tv_sec));
}

CacheListing list_cache(const Directory& directory) {
  CacheListing listing;
  // A description of its own: reading moves an offset that duplicates would share.
  FileDescriptor copy(::openat(directory.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!copy) return listing;
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(copy.get()), &::closedir);
  if (!stream) return listing;
  copy.release();
  while (const dirent* item = ::readdir(stream.get())) {
    const std::string name = item->d_name;
    std::vector<CacheFile>* const files = name.starts_with(kTemporaryPrefix) ? &listing.temporaries
                                          : name.starts_with(kLockPrefix)    ? &listing.locks
                                          : key_of(name)                     ? &listing.entries
                                                                             : nullptr;
    if (files == nullptr) continue;
    struct stat status {};
    if (::fstatat(directory.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    files->push_back({name, static_cast<std::uint64_t>(status.st_size), status.st_mtim});
    if (files == &listing.entries) listing.bytes += files->back().bytes;
  }
  return listing;
}

std::uint64_t remove_leftovers(const Directory& directory, const CacheListing& listing) {
  std::uint64_t removed = 0;
  for (const auto* files : {&listing.temporaries, &listing.locks}) {
    for (const CacheFile& file : *files) removed += remove_leftover(directory, file);
  }
  if (removed > 0) base::log().debug("removed {} files of unfinished writers from the disk cache", removed);
  return removed;
}

std::uint64_t evict(const Directory& directory, CacheListing& listing, std::uint64_t target) {
  // A time far in the future tells of a clock that was wrong and not of use, which would have corrected it.
  const std::int64_t future = static_cast<std::int64_t>(::time(nullptr)) + kStaleSeconds;
  const auto order = [future](const CacheFile& file) {
    return std::make_tuple(file.time.tv_sec <= future, file.time.tv_sec, file.time.tv_nsec,
                           std::string_view(file.name));
  };
  std::ranges::sort(listing.entries, {}, order);
  std::uint64_t removed = 0;
  for (const CacheFile& file : listing.entries) {
    if (listing.bytes <= target) break;
    const Since since = since_listing(directory, file);
    if (since == Since::used) continue;
    if (since == Since::unchanged) removed += ::unlinkat(directory.get(), file.name.c_str(), 0) == 0;
    listing.bytes -= file.bytes;  // gone already, by another process that evicts, is as good
  }
  base::log().debug("evicted {} entries from the disk cache, {} are left", removed,
                    base::format_bytes(static_cast<double>(listing.bytes)));
  return removed;
}

}  // namespace epifuse::jit
