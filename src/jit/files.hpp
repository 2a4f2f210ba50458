// The few POSIX file calls that the disk cache is made of, with descriptors that close themselves and directories that
// are nobody else's. Called by disk_cache.cpp only.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

namespace epifuse::jit {

/// An open file or directory; -1 for none.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) noexcept : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor() { close(); }

  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  int release() noexcept { return std::exchange(fd_, -1); }
  /// 0 or errno: a network file system reports a full disk only here.
  int close() noexcept;

 private:
  int fd_ = -1;
};

/// The directory, open, if it is private: owned by this user, writable by nobody else, and not reached through a
/// symbolic link that another user (root aside) made. With `create` it is made first, parents included, as 0700. No
/// descriptor and an empty `problem`: it does not exist. No descriptor and a `problem`: why it must not be used.
FileDescriptor open_private_directory(const std::filesystem::path& path, bool create, std::string& problem);

/// 0 or errno. Continues after interruptions and partial writes.
int write_all(int fd, std::string_view bytes) noexcept;

/// 0 or errno. Reads until `bytes` is full or the file ends, which shortens it.
int read_all(int fd, std::string& bytes);

/// "No space left on device".
std::string error_text(int error);

}  // namespace epifuse::jit
