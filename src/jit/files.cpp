// Descriptors, whole reads and writes, and the check that a directory is private. Called by disk_cache.cpp only.
#include "jit/files.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <deque>
#include <optional>
#include <system_error>

#include <spdlog/fmt/fmt.h>

namespace epifuse::jit {
namespace {

namespace fs = std::filesystem;

constexpr int kMostLinks = 40;  // as the kernel's own limit
constexpr mode_t kPrivateDirectory = 0700;
constexpr mode_t kOthersMayWrite = S_IWGRP | S_IWOTH;

void prepend(std::deque<std::string>& components, const fs::path& path) {
  auto at = components.begin();
  for (const fs::path& part : path.relative_path()) {
    if (!part.empty()) at = components.insert(at, part.string()) + 1;
  }
}

// The path without symbolic links. Whoever owns a link can turn it elsewhere at any time, to another directory of ours
// for example, which every later check would accept; so links are followed here, one by one, and only ours and root's.
std::optional<fs::path> resolve(const fs::path& path, std::string& problem) {
  std::deque<std::string> pending;
  prepend(pending, path);
  fs::path current = "/";
  int links = 0;
  while (!pending.empty()) {
    const std::string component = std::move(pending.front());
    pending.pop_front();
    if (component == ".") continue;
    if (component == "..") {
      current = current.parent_path();
      continue;
    }
    const fs::path next = current / component;
    struct stat status {};
    if (::lstat(next.c_str(), &status) != 0 || !S_ISLNK(status.st_mode)) {
      current = next;  // what does not exist is made, or reported, later
      continue;
    }
    if (status.st_uid != 0 && status.st_uid != ::geteuid()) {
      problem = fmt::format("{} is reached through the symbolic link {}, which belongs to another user (uid {})",
                            path.string(), next.string(), status.st_uid);
      return std::nullopt;
    }
    std::error_code error;
    const fs::path target = fs::read_symlink(next, error);
    if (error || ++links > kMostLinks) {
      problem = fmt::format("{} is reached through symbolic links that cannot be followed", path.string());
      return std::nullopt;
    }
    if (target.is_absolute()) current = "/";
    prepend(pending, target);
  }
  return current;
}

int make_directories(const fs::path& path) {
  fs::path made;
  int result = 0;
  for (const fs::path& part : path) {
    made /= part;
    // Existing ones are usual, and may even refuse the question (EROFS, EACCES): only the last answer counts.
    result = ::mkdir(made.c_str(), kPrivateDirectory) == 0 || errno == EEXIST ? 0 : errno;
  }
  return result;
}

std::string why_not_private(const fs::path& path, const struct stat& status) {
  if (status.st_uid != ::geteuid()) {
    return fmt::format(
        "{} belongs to another user (uid {}, this process is uid {}); name a directory of your own in "
        "EPIFUSE_CACHE_DIR",
        path.string(), status.st_uid, ::geteuid());
  }
  if ((status.st_mode & kOthersMayWrite) != 0) {
    return fmt::format(
        "{} may be written by others (mode {:04o}), who could plant code in it; run chmod go-w on it, or name "
        "another directory in EPIFUSE_CACHE_DIR",
        path.string(), status.st_mode & 07777U);
  }
  return {};
}

}  // namespace

int FileDescriptor::close() noexcept {
  const int fd = release();
  // Not repeated after EINTR: on Linux the descriptor is gone all the same, and may be another thread's by now.
  return fd < 0 || ::close(fd) == 0 || errno == EINTR ? 0 : errno;
}

FileDescriptor open_private_directory(const fs::path& path, bool create, std::string& problem) {
  problem.clear();
  std::error_code error;
  const auto real = resolve(fs::absolute(path, error), problem);
  if (!real) return {};
  int made = create ? make_directories(*real) : 0;
  FileDescriptor directory(::open(real->c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!directory) {
    if (made == 0) made = errno;
    if (create || made != ENOENT) {
      problem = fmt::format("{} cannot be {}: {}", path.string(), create ? "made" : "opened", error_text(made));
    }
    return {};
  }
  // Asked of the open directory, not of its name: that is the one which will be used.
  struct stat status {};
  problem = ::fstat(directory.get(), &status) == 0 ? why_not_private(path, status)
                                                   : fmt::format("{}: {}", path.string(), error_text(errno));
  if (!problem.empty()) return {};
  return directory;
}

int write_all(int fd, std::string_view bytes) noexcept {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return errno;
    }
    if (written == 0) return ENOSPC;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

int read_all(int fd, std::string& bytes) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::read(fd, bytes.data() + done, bytes.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno;
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  bytes.resize(done);
  return 0;
}

std::string error_text(int error) { return std::generic_category().message(error); }

}  // namespace epifuse::jit
