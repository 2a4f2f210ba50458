// The few POSIX file calls that the disk cache is made of, with descriptors that close themselves and directories in
// which nobody can plant code. Called by the cache's files (disk_cache, cache_listing, cache_turn) only.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
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

/// Whose directory is accepted.
enum class Trust : std::uint8_t {
  own,     ///< this user's, writable by nobody else; made when it is missing
  shared,  ///< anybody's who is trusted by naming it, writable by its owner only, at every level of its path; never made
};

/// An open directory, and who may write there.
struct Directory {
  FileDescriptor descriptor;
  uid_t owner = 0;
  bool ours = false;  ///< the owner is this user: others only read

  int get() const noexcept { return descriptor.get(); }
  explicit operator bool() const noexcept { return static_cast<bool>(descriptor); }
};

/// The directory, if `trust` accepts it and it is not reached through a symbolic link that another user (root aside)
/// made. With `create` an own one is made first, parents included, as 0700. No descriptor and an empty `problem`: it
/// does not exist. No descriptor and a `problem`: why it must not be used.
Directory open_directory(const std::filesystem::path& path, Trust trust, bool create, std::string& problem);

/// 0 or errno. Continues after interruptions and partial writes.
int write_all(int fd, std::string_view bytes) noexcept;

/// 0 or errno. Reads until `bytes` is full or the file ends, which shortens it.
int read_all(int fd, std::string& bytes);

/// "No space left on device".
std::string error_text(int error);

}  // namespace epifuse::jit
