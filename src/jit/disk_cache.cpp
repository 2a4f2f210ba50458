// Entries on disk. Many processes use one directory; what keeps it whole is that
//   - an entry is written under a name of its own and renamed: at every instant a reader finds a whole entry or none;
//   - every load checks every byte, so whatever a crash or a file system leaves behind is a miss, not a wrong kernel;
//   - no result depends on a lock: losing a race only costs a compile. Two writers of one key write the same bytes, and
//     an entry that is evicted, removed as bad or not yet visible (network file systems show a rename late) is compiled
//     again. The lock of a key (take_turn) makes that rare.
// Called by jit::Compiler and `epifuse cache`.
#include "jit/disk_cache.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <thread>

#include "base/log.hpp"
#include "base/text.hpp"

namespace epifuse::jit {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// Far above any kernel; keeps a foreign file of terabytes from being read into memory.
constexpr std::uint64_t kLargestEntry = 256ULL << 20;
// Order of use is kept in times of change; to the minute is exact enough for evicting and spares a write per load.
constexpr std::int64_t kTouchSeconds = 60;
// Evicting down to three quarters makes the next eviction far off.
constexpr std::uint64_t evicted_size(std::uint64_t limit) { return limit - limit / 4; }
// A process knows what it wrote itself. The others' share comes in by listing again: after every sixteenth of the
// limit, and when a second is over, or more where listing is slow, so that it takes a twentieth of the time at most.
constexpr std::uint64_t listing_step(std::uint64_t limit) { return limit / 16; }
constexpr steady_clock::duration kListingPause = std::chrono::seconds(1);
constexpr int kListingShare = 20;
constexpr int kNameAttempts = 8;
// Asking whether another process has finished: soon, as compiling may take 10 ms, then less often.
constexpr milliseconds kFirstPause{1};
constexpr milliseconds kLongestPause{25};
constexpr mode_t kPrivateFile = 0600;
constexpr mode_t kReadableFile = 0644;

// 0 or errno. Nothing is synced to the disk: after a power cut the entry may be cut short or empty, which the next load
// notices; waiting for the disk at every compile would cost more than compiling again after a power cut.
int write_temporary(const Directory& directory, std::string& name, mode_t mode, std::string_view header,
                    std::string_view payload) {
  FileDescriptor file;
  for (int attempt = 0; attempt < kNameAttempts && !file; ++attempt) {
    name = temporary_name();
    file = FileDescriptor(
        ::openat(directory.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, kPrivateFile));
    if (!file && errno != EEXIST) return errno;
  }
  if (!file) return EEXIST;
  ::flock(file.get(), LOCK_EX | LOCK_NB);  // tells remove_leftovers() that the writer lives, where locks work
  int error = write_all(file.get(), header);
  if (error == 0) error = write_all(file.get(), payload);
  if (error == 0 && mode != kPrivateFile && ::fchmod(file.get(), mode) != 0) error = errno;
  const int closing = file.close();
  if (error == 0) error = closing;
  if (error != 0) ::unlinkat(directory.get(), name.c_str(), 0);
  return error;
}

// 0 or errno.
int write_entry(const Directory& directory, const Digest& key, mode_t mode, std::string_view payload) {
  std::string temporary;
  if (const int error = write_temporary(directory, temporary, mode, entry_header(key, payload), payload)) return error;
  if (::renameat(directory.get(), temporary.c_str(), directory.get(), entry_name(key).c_str()) == 0) return 0;
  const int error = errno;
  ::unlinkat(directory.get(), temporary.c_str(), 0);
  return error;
}

enum class Found { good, bad, absent };

struct Reading {
  Found found = Found::absent;
  std::string file;                 ///< the whole file, of a good entry
  Defect defect = Defect::foreign;  ///< of a bad one
  std::string why;
};

Reading read_entry(const Directory& directory, const Digest& key) {
  Reading reading;
  // O_NONBLOCK: opening must not wait, should the name be a pipe.
  const FileDescriptor fd(
      ::openat(directory.get(), entry_name(key).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd) {
    reading.why = "it is a symbolic link";
    reading.found = errno == ELOOP ? Found::bad : Found::absent;
    return reading;
  }
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return reading;
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (!S_ISREG(status.st_mode) || status.st_uid != directory.owner || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0 ||
      size > kLargestEntry) {
    reading.found = Found::bad;
    reading.why = fmt::format("it is not a file of this cache's (mode {:o}, uid {}, {} bytes)", status.st_mode,
                              status.st_uid, size);
    return reading;
  }
  reading.file.resize(static_cast<std::size_t>(size));
  // Failing to read (a network file system that lost the file) says nothing about the entry: leave it.
  if (read_all(fd.get(), reading.file) != 0) return reading;
  reading.defect = defect_of(reading.file, key);
  reading.found = reading.defect == Defect::none ? Found::good : Found::bad;
  if (reading.found == Found::bad) reading.why = why_bad_entry(reading.file, key);
  if (reading.found == Found::good && directory.ours && seconds_apart(status.st_mtim) > kTouchSeconds)
    ::futimens(fd.get(), nullptr);
  return reading;
}

bool has_entry(const Directory& directory, const Digest& key) {
  struct stat status {};
  return ::fstatat(directory.get(), entry_name(key).c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
}

// Whether this process hears of it for the first time: what is wrong with a directory would be told at every kernel and
// by every engine otherwise.
bool first_time(const std::string& text) {
  static std::mutex mutex;
  static std::set<std::string>& told = *new std::set<std::string>;  // leaked: engines may live in static storage
  const std::lock_guard lock(mutex);
  return told.insert(text).second;
}

base::Log::Level level_for(bool first) { return first ? base::Log::Level::warn : base::Log::Level::debug; }

}  // namespace

DiskCache::DiskCache(fs::path directory, std::uint64_t limit_bytes, Trust trust, milliseconds patience)
    : directory_(std::move(directory)), limit_bytes_(limit_bytes), trust_(trust), patience_ms_(patience.count()) {}

Directory DiskCache::open(bool create) {
  std::string problem;
  Directory directory = open_directory(directory_, trust_, create, problem);
  if (!problem.empty()) complain(problem);
  return directory;
}

void DiskCache::complain(const std::string& problem) {
  base::log().write(level_for(first_time(problem)), "{}: {}",
                    trust_ == Trust::own ? "kernels are not cached on disk" : "the shared cache is not used", problem);
}

void DiskCache::remove_bad(const Directory& directory, const Digest& key, const std::string& why) {
  rejected_.fetch_add(1, std::memory_order_relaxed);
  // Another process may have put a good entry there meanwhile: it is compiled once more, nothing worse.
  const bool removed = directory.ours && ::unlinkat(directory.get(), entry_name(key).c_str(), 0) == 0;
  base::log().write(level_for(first_time(directory_.string() + " entries")), "{} the entry {} of {}: {}",
                    removed ? "removed" : "not used:", entry_name(key), directory_.string(), why);
}

std::optional<std::string> DiskCache::load(const Digest& key) {
  // Opened anew each time, some ten microseconds: a directory that was removed, replaced or opened to others since then
  // is noticed.
  const Directory directory = open(false);
  if (!directory) return std::nullopt;
  Reading reading = read_entry(directory, key);
  if (reading.found == Found::bad) remove_bad(directory, key, reading.why);
  if (reading.found != Found::good) return std::nullopt;
  reading.file.erase(0, kEntryHeaderSize);
  return std::move(reading.file);
}

void DiskCache::reject(const Digest& key, const std::string& why) {
  if (const Directory directory = open(false)) remove_bad(directory, key, why);
}

Turn DiskCache::take_turn(const Digest& key) {
  Directory directory = open(true);
  if (!directory || !directory.ours || has_entry(directory, key)) return {};
  const auto start = steady_clock::now();
  std::int64_t patience = patience_ms_.load(std::memory_order_relaxed);
  Turn turn(std::move(directory), lock_name(key));
  for (milliseconds pause = kFirstPause; turn.attempt() == Turn::Outcome::busy;
       pause = std::min(pause * 3 / 2 + kFirstPause, kLongestPause)) {
    // A holder that cannot go on after it stored holds up nobody.
    if (has_entry(turn.directory(), key)) return {};
    const auto waited = std::chrono::duration_cast<milliseconds>(steady_clock::now() - start);
    if (waited.count() < patience) {
      std::this_thread::sleep_for(pause);
      continue;
    }
    // The next wait in vain is half as long: a lock service that hangs costs twice the patience in all, not once for
    // each kernel.
    patience_ms_.compare_exchange_strong(patience, patience / 2, std::memory_order_relaxed);
    vain_waits_.fetch_add(1, std::memory_order_relaxed);
    base::log().write(level_for(first_time(directory_.string() + " waits")),
                      "waited {} ms in vain for another process that holds {} in {}; compiling here", waited.count(),
                      lock_name(key), directory_.string());
    return {};
  }
  return turn;
}

void DiskCache::store(const Digest& key, std::string_view image) {
  const std::uint64_t bytes = kEntryHeaderSize + image.size();
  if (bytes > limit_bytes_ || bytes > kLargestEntry) {
    base::log().debug("not cached on disk: {} bytes, the limit is {}", bytes, limit_bytes_);
    return;
  }
  const mode_t mode = trust_ == Trust::own ? kPrivateFile : kReadableFile;
  int error = 0;
  // Twice: somebody may remove the directory, or clear it, between opening it and renaming.
  for (int attempt = 0; attempt < 2; ++attempt) {
    const Directory directory = open(true);
    if (!directory || !directory.ours) return;
    error = write_entry(directory, key, mode, image);
    if (error == 0) {
      account(directory, bytes);
      return;
    }
    if (error != ENOENT && error != ESTALE) break;
  }
  failed_stores_.fetch_add(1, std::memory_order_relaxed);
  complain(fmt::format("writing to {} failed: {}", directory_.string(), error_text(error)));
}

void DiskCache::account(const Directory& directory, std::uint64_t stored_bytes) {
  const std::lock_guard lock(size_mutex_);
  stored_since_ += stored_bytes;
  const auto start = steady_clock::now();
  if (listed_ && start < list_again_ && listed_bytes_ + stored_since_ <= limit_bytes_ &&
      stored_since_ <= listing_step(limit_bytes_))
    return;
  CacheListing listing = list_cache(directory);
  remove_leftovers(directory, listing);
  if (listing.bytes > limit_bytes_) evict(directory, listing, evicted_size(limit_bytes_));
  const auto end = steady_clock::now();
  listed_ = true;
  list_again_ = end + std::max(kListingPause, (end - start) * kListingShare);
  listed_bytes_ = listing.bytes;
  stored_since_ = 0;
}

bool DiskCache::writable() {
  const Directory directory = open(false);
  return directory && directory.ours;
}

CacheInfo DiskCache::info() {
  CacheInfo info;
  info.path = directory_;
  info.limit_bytes = limit_bytes_;
  const Directory directory = open_directory(directory_, trust_, false, info.problem);
  if (!directory) return info;
  const CacheListing listing = list_cache(directory);
  info.entries = listing.entries.size();
  info.bytes = listing.bytes;
  info.temporaries = listing.temporaries.size();
  info.locks = listing.locks.size();
  info.writable = directory.ours && ::faccessat(directory.get(), ".", W_OK, AT_EACCESS) == 0;
  return info;
}

CacheVerification DiskCache::verify() {
  CacheVerification result;
  const Directory directory = open(false);
  if (!directory) return result;
  const CacheListing listing = list_cache(directory);
  for (const CacheFile& entry : listing.entries) {
    const std::optional<Digest> key = key_of(entry.name);
    const Reading reading = read_entry(directory, *key);
    if (reading.found == Found::absent) continue;
    ++result.count(reading.defect);
    if (reading.found == Found::bad) {
      remove_bad(directory, *key, reading.why);
      result.removed += !has_entry(directory, *key);
    }
  }
  if (directory.ours) remove_leftovers(directory, listing);
  return result;
}

std::uint64_t DiskCache::clear() {
  const Directory directory = open(false);
  if (!directory || !directory.ours) return 0;
  const CacheListing listing = list_cache(directory);
  std::uint64_t removed = 0;
  for (const CacheFile& entry : listing.entries) removed += ::unlinkat(directory.get(), entry.name.c_str(), 0) == 0;
  // A writer whose temporary file goes away writes it again: see store().
  for (const CacheFile& file : listing.temporaries) ::unlinkat(directory.get(), file.name.c_str(), 0);
  remove_leftovers(directory, listing);
  const std::lock_guard lock(size_mutex_);
  listed_ = false;
  return removed;
}

DiskCacheStats DiskCache::stats() const noexcept {
  return {rejected_.load(std::memory_order_relaxed), vain_waits_.load(std::memory_order_relaxed),
          failed_stores_.load(std::memory_order_relaxed)};
}

}  // namespace epifuse::jit
