// Descriptors, whole reads and writes, and the check of a directory and its path. Called by the cache's files only.
#include "jit/files.hpp"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <deque>
#include <optional>
#include <system_error>
#include <vector>

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

// The path without symbolic links, and who owns the directories on it.
struct Resolved {
  fs::path path;
  std::vector<std::pair<fs::path, struct stat>> directories;
};

// Whoever owns a link can turn it elsewhere at any time, to another directory of ours for example, which every later
// check would accept; so links are followed here, one by one, and only ours and root's.
std::optional<Resolved> resolve(const fs::path& path, std::string& problem) {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  if (error || absolute.empty()) {
    problem = fmt::format("{} cannot be made absolute: {}", path.string(), error.message());
    return std::nullopt;
  }
  Resolved result{"/", {}};
  std::deque<std::string> pending;
  prepend(pending, absolute);
  int links = 0;
  while (!pending.empty()) {
    const std::string component = std::move(pending.front());
    pending.pop_front();
    if (component == ".") continue;
    if (component == "..") {
      result.path = result.path.parent_path();
      continue;
    }
    const fs::path next = result.path / component;
    struct stat status {};
    if (::lstat(next.c_str(), &status) != 0 || !S_ISLNK(status.st_mode)) {
      result.path = next;  // what does not exist is made, or reported, later
      result.directories.emplace_back(next, status);
      continue;
    }
    if (status.st_uid != 0 && status.st_uid != ::geteuid()) {
      problem = fmt::format("{} is reached through the symbolic link {}, which belongs to another user (uid {})",
                            path.string(), next.string(), status.st_uid);
      return std::nullopt;
    }
    const fs::path target = fs::read_symlink(next, error);
    if (error || ++links > kMostLinks) {
      problem = fmt::format("{} is reached through symbolic links that cannot be followed", path.string());
      return std::nullopt;
    }
    if (target.is_absolute()) result.path = "/";
    prepend(pending, target);
  }
  return result;
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

// Opens what resolve() found, and fails (ELOOP) should a link have come into the path since then. Kernels before 5.6
// and some sandboxes have no such call: there only the last component is held to that.
int open_without_links(const fs::path& path) {
  constexpr int kFlags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
#ifdef SYS_openat2
  open_how how{};
  how.flags = kFlags;
  how.resolve = RESOLVE_NO_SYMLINKS;
  const long fd = ::syscall(SYS_openat2, AT_FDCWD, path.c_str(), &how, sizeof how);
  if (fd >= 0 || (errno != ENOSYS && errno != EPERM)) return static_cast<int>(fd);
#endif
  return ::open(path.c_str(), kFlags | O_NOFOLLOW);
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

// A shared directory is trusted because somebody named it: then only its owner may decide what lies under that name.
std::string why_not_shareable(const Resolved& resolved, const struct stat& status) {
  if ((status.st_mode & kOthersMayWrite) != 0) {
    return fmt::format(
        "the shared directory {} may be written by others than its owner (mode {:04o}), who could plant code in it; "
        "its owner should run chmod go-w on it",
        resolved.path.string(), status.st_mode & 07777U);
  }
  for (const auto& [path, parent] : resolved.directories) {
    const bool replaceable = (parent.st_mode & kOthersMayWrite) != 0 && (parent.st_mode & S_ISVTX) == 0;
    const bool known = parent.st_uid == 0 || parent.st_uid == ::geteuid() || parent.st_uid == status.st_uid;
    if (replaceable || !known) {
      return fmt::format(
          "the shared directory {} lies in {} (uid {}, mode {:04o}), where others than its owner (uid {}) could put "
          "another in its place; use one whose parents belong to root or its owner, who alone may write there",
          resolved.path.string(), path.string(), parent.st_uid, parent.st_mode & 07777U, status.st_uid);
    }
  }
  return {};
}

}  // namespace

int FileDescriptor::close() noexcept {
  const int fd = release();
  // Not repeated after EINTR: on Linux the descriptor is gone all the same, and may be another thread's by now.
  return fd < 0 || ::close(fd) == 0 || errno == EINTR ? 0 : errno;
}

Directory open_directory(const fs::path& path, Trust trust, bool create, std::string& problem) {
  problem.clear();
  const auto resolved = resolve(path, problem);
  if (!resolved) return {};
  create = create && trust == Trust::own;
  int made = create ? make_directories(resolved->path) : 0;
  FileDescriptor descriptor(open_without_links(resolved->path));
  if (!descriptor) {
    if (made == 0) made = errno;
    if (create || made != ENOENT) {
      problem = fmt::format("{} cannot be {}: {}", path.string(), create ? "made" : "opened", error_text(made));
    }
    return {};
  }
  // Asked of the open directory, not of its name: that is the one which will be used.
  struct stat status {};
  if (::fstat(descriptor.get(), &status) != 0) {
    problem = fmt::format("{}: {}", path.string(), error_text(errno));
  } else {
    problem = trust == Trust::own ? why_not_private(path, status) : why_not_shareable(*resolved, status);
  }
  if (!problem.empty()) return {};
  return {std::move(descriptor), status.st_uid, status.st_uid == ::geteuid()};
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
