// Entries on disk. Many processes use one directory with no lock between them; what keeps it whole is that
//   - an entry is written under a name of its own and renamed: at every instant a reader finds a whole entry or none;
//   - every load checks every byte, so whatever a crash or a file system leaves behind is a miss, not a wrong kernel;
//   - losing a race only costs a compile: two writers of one key write the same bytes, and an entry that is evicted,
//     removed as bad or not yet visible (network file systems show a rename late) is compiled again.
// Called by jit::Compiler and `epifuse cache`.
#include "jit/disk_cache.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>
#include <tuple>
#include <vector>

#include "base/log.hpp"
#include "base/text.hpp"
#include "jit/cache_entry.hpp"

namespace epifuse::jit {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".image";
constexpr std::string_view kTemporaryPrefix = ".epifuse-tmp-";
constexpr std::size_t kDigits = 32;
// Far above any kernel; keeps a foreign file of terabytes from being read into memory.
constexpr std::uint64_t kLargestEntry = 256ULL << 20;
// Long enough that no writer is still at it, even on a stalled network file system or with clocks apart.
constexpr std::int64_t kStaleTemporarySeconds = 3600;
// Order of use is kept in times of change; once an hour is exact enough for evicting and spares a write per load.
constexpr std::int64_t kTouchSeconds = 3600;
// Evicting down to three quarters makes the next eviction far off.
constexpr std::uint64_t evicted_size(std::uint64_t limit) { return limit - limit / 4; }
// A process knows what it wrote itself; the others' share comes in by listing again after every sixteenth of the limit.
constexpr std::uint64_t listing_step(std::uint64_t limit) { return limit / 16; }
constexpr int kNameAttempts = 8;

struct File {
  std::string name;
  std::uint64_t bytes = 0;
  timespec time{};
};

struct Listing {
  std::vector<File> entries;
  std::vector<File> temporaries;
  std::uint64_t bytes = 0;  // of the entries
};

std::int64_t now_seconds() { return static_cast<std::int64_t>(::time(nullptr)); }

std::string entry_name(const Digest& key) { return to_string(key) + std::string(kSuffix); }

// The key that an entry's name spells; nothing for files that are not ours, which are never touched.
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

// Distinct between threads (counter), processes (pid) and hosts or containers with equal pids (time); O_EXCL has the
// last word.
std::string temporary_name() {
  static std::atomic<std::uint64_t> counter{0};
  return fmt::format("{}{}-{}-{:x}", kTemporaryPrefix, ::getpid(), counter.fetch_add(1),
                     std::chrono::steady_clock::now().time_since_epoch().count());
}

// 0 or errno. Nothing is synced to the disk: after a power cut the entry may be cut short or empty, which the next load
// notices; waiting for the disk at every compile would cost more than compiling again after a power cut.
int write_temporary(const FileDescriptor& directory, std::string& name, std::string_view header,
                    std::string_view payload) {
  FileDescriptor file;
  for (int attempt = 0; attempt < kNameAttempts && !file; ++attempt) {
    name = temporary_name();
    file = FileDescriptor(::openat(directory.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                                   S_IRUSR | S_IWUSR));
    if (!file && errno != EEXIST) return errno;
  }
  if (!file) return EEXIST;
  int error = write_all(file.get(), header);
  if (error == 0) error = write_all(file.get(), payload);
  const int closing = file.close();
  if (error == 0) error = closing;
  if (error != 0) ::unlinkat(directory.get(), name.c_str(), 0);
  return error;
}

// 0 or errno.
int write_entry(const FileDescriptor& directory, const Digest& key, std::string_view payload) {
  std::string temporary;
  if (const int error = write_temporary(directory, temporary, entry_header(key, payload), payload)) return error;
  if (::renameat(directory.get(), temporary.c_str(), directory.get(), entry_name(key).c_str()) == 0) return 0;
  const int error = errno;
  ::unlinkat(directory.get(), temporary.c_str(), 0);
  return error;
}

void touch(int fd, const struct stat& status) {
  if (now_seconds() - status.st_mtim.tv_sec > kTouchSeconds) ::futimens(fd, nullptr);
}

enum class Found { good, bad, absent };

// The whole file, if it is a good entry of that key. `why` says what is wrong with a bad one.
Found read_entry(const FileDescriptor& directory, const Digest& key, std::string& file, std::string& why) {
  // O_NONBLOCK: opening must not wait, should the name be a pipe.
  const FileDescriptor fd(
      ::openat(directory.get(), entry_name(key).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd) {
    why = "it is a symbolic link";
    return errno == ELOOP ? Found::bad : Found::absent;
  }
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return Found::absent;
  const auto size = static_cast<std::uint64_t>(status.st_size);
  if (!S_ISREG(status.st_mode) || status.st_uid != ::geteuid() || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0 ||
      size > kLargestEntry) {
    why = "it is not a file that this cache wrote";
    return Found::bad;
  }
  file.resize(static_cast<std::size_t>(size));
  // Failing to read (a network file system that lost the file) says nothing about the entry: leave it.
  if (read_all(fd.get(), file) != 0) return Found::absent;
  why = why_bad_entry(file, key);
  if (!why.empty()) return Found::bad;
  touch(fd.get(), status);
  return Found::good;
}

void remove_bad(const FileDescriptor& directory, const Digest& key, const std::string& why) {
  base::log().warn("removed the entry {} of the disk cache: {}", entry_name(key), why);
  // Another process may have put a good entry there meanwhile: it is compiled once more, nothing worse.
  ::unlinkat(directory.get(), entry_name(key).c_str(), 0);
}

Listing list(const FileDescriptor& directory) {
  Listing listing;
  // A description of its own: reading moves an offset that duplicates would share.
  FileDescriptor copy(::openat(directory.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!copy) return listing;
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(copy.get()), &::closedir);
  if (!stream) return listing;
  copy.release();
  while (const dirent* item = ::readdir(stream.get())) {
    const std::string name = item->d_name;
    const bool temporary = name.starts_with(kTemporaryPrefix);
    if (!temporary && !key_of(name)) continue;
    struct stat status {};
    if (::fstatat(directory.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
    const auto bytes = static_cast<std::uint64_t>(status.st_size);
    (temporary ? listing.temporaries : listing.entries).push_back({name, bytes, status.st_mtim});
    if (!temporary) listing.bytes += bytes;
  }
  return listing;
}

void remove_stale_temporaries(const FileDescriptor& directory, const Listing& listing) {
  for (const File& file : listing.temporaries) {
    if (now_seconds() - file.time.tv_sec <= kStaleTemporarySeconds) continue;
    ::unlinkat(directory.get(), file.name.c_str(), 0);
    base::log().debug("removed {} from the disk cache: its writer did not finish", file.name);
  }
}

// Least recently used first, until at most `target` bytes are left.
void evict(const FileDescriptor& directory, Listing& listing, std::uint64_t target) {
  std::ranges::sort(listing.entries, [](const File& a, const File& b) {
    return std::tie(a.time.tv_sec, a.time.tv_nsec, a.name) < std::tie(b.time.tv_sec, b.time.tv_nsec, b.name);
  });
  std::uint64_t removed = 0;
  for (const File& file : listing.entries) {
    if (listing.bytes <= target) break;
    ::unlinkat(directory.get(), file.name.c_str(), 0);  // gone already is as good
    listing.bytes -= file.bytes;
    ++removed;
  }
  base::log().debug("evicted {} entries from the disk cache, {} are left", removed,
                    base::format_bytes(static_cast<double>(listing.bytes)));
}

}  // namespace

DiskCache::DiskCache(fs::path directory, std::uint64_t limit_bytes)
    : directory_(std::move(directory)), limit_bytes_(limit_bytes) {}

FileDescriptor DiskCache::open_directory(bool create) {
  std::string problem;
  FileDescriptor directory = open_private_directory(directory_, create, problem);
  if (!problem.empty()) complain(problem);
  return directory;
}

void DiskCache::complain(const std::string& problem) {
  // Once: a directory that cannot be used would be mentioned at every kernel otherwise.
  const bool first = !complained_.exchange(true);
  base::log().write(first ? base::Log::Level::warn : base::Log::Level::debug, "kernels are not cached on disk: {}",
                    problem);
}

std::optional<std::string> DiskCache::load(const Digest& key) {
  // Opened anew each time, some ten microseconds: a directory that was removed, replaced or opened to others since then
  // is noticed.
  const FileDescriptor directory = open_directory(false);
  if (!directory) return std::nullopt;
  std::string file;
  std::string why;
  const Found found = read_entry(directory, key, file, why);
  if (found == Found::bad) remove_bad(directory, key, why);
  if (found != Found::good) return std::nullopt;
  file.erase(0, kEntryHeaderSize);
  return file;
}

void DiskCache::store(const Digest& key, std::string_view image) {
  const std::uint64_t bytes = kEntryHeaderSize + image.size();
  if (bytes > limit_bytes_ || bytes > kLargestEntry) {
    base::log().debug("not cached on disk: {} bytes, the limit is {}", bytes, limit_bytes_);
    return;
  }
  int error = 0;
  // Twice: somebody may remove the directory, or clear it, between opening it and renaming.
  for (int attempt = 0; attempt < 2; ++attempt) {
    const FileDescriptor directory = open_directory(true);
    if (!directory) return;
    error = write_entry(directory, key, image);
    if (error == 0) {
      account(directory, bytes);
      return;
    }
    if (error != ENOENT && error != ESTALE) break;
  }
  complain(fmt::format("writing to {} failed: {}", directory_.string(), error_text(error)));
}

void DiskCache::account(const FileDescriptor& directory, std::uint64_t stored_bytes) {
  const std::lock_guard lock(size_mutex_);
  stored_since_ += stored_bytes;
  if (listed_ && listed_bytes_ + stored_since_ <= limit_bytes_ && stored_since_ <= listing_step(limit_bytes_)) return;
  Listing listing = list(directory);
  remove_stale_temporaries(directory, listing);
  if (listing.bytes > limit_bytes_) evict(directory, listing, evicted_size(limit_bytes_));
  listed_ = true;
  listed_bytes_ = listing.bytes;
  stored_since_ = 0;
}

CacheInfo DiskCache::info() {
  CacheInfo info;
  info.path = directory_;
  info.limit_bytes = limit_bytes_;
  const FileDescriptor directory = open_private_directory(directory_, false, info.problem);
  if (!directory) return info;
  const Listing listing = list(directory);
  info.entries = listing.entries.size();
  info.bytes = listing.bytes;
  info.temporaries = listing.temporaries.size();
  return info;
}

CacheVerification DiskCache::verify() {
  CacheVerification result;
  const FileDescriptor directory = open_directory(false);
  if (!directory) return result;
  for (const File& entry : list(directory).entries) {
    const std::optional<Digest> key = key_of(entry.name);
    std::string file;
    std::string why;
    const Found found = read_entry(directory, *key, file, why);
    if (found == Found::bad) remove_bad(directory, *key, why);
    result.good += found == Found::good;
    result.bad += found == Found::bad;
  }
  return result;
}

std::uint64_t DiskCache::clear() {
  const FileDescriptor directory = open_directory(false);
  if (!directory) return 0;
  const Listing listing = list(directory);
  std::uint64_t removed = 0;
  for (const File& entry : listing.entries) removed += ::unlinkat(directory.get(), entry.name.c_str(), 0) == 0;
  // A writer whose temporary file goes away writes it again: see store().
  for (const File& file : listing.temporaries) ::unlinkat(directory.get(), file.name.c_str(), 0);
  const std::lock_guard lock(size_mutex_);
  listed_ = false;
  return removed;
}

}  // namespace epifuse::jit
