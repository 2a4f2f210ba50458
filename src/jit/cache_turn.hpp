// Whose turn it is to compile a kernel: a lock file per key, so that many processes on an empty cache compile each
// kernel once. A lock only saves work. Whatever goes wrong with it, the answer is to compile. Called by disk_cache.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "jit/files.hpp"

namespace epifuse::jit {

/// Held from the attempt that takes it until it is destroyed; the system releases it when the process dies. A default
/// one is nobody's turn and holds nothing.
class Turn {
 public:
  Turn() = default;
  /// Opens the lock file; holds nothing yet.
  Turn(Directory directory, std::string name);
  Turn(Turn&& other) noexcept { swap(other); }
  Turn& operator=(Turn&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Turn();

  enum class Outcome : std::uint8_t {
    taken,
    busy,      ///< another process or thread holds it
    finished,  ///< whoever held it is done, and the lock with it: nothing is held
    none,      ///< there are no locks in this directory or file system, or it cannot be written
  };
  /// Does not wait.
  Outcome attempt();

  /// Whether it is held.
  explicit operator bool() const noexcept { return held_; }
  const Directory& directory() const noexcept { return directory_; }

 private:
  void swap(Turn& other) noexcept {
    std::swap(directory_, other.directory_);
    std::swap(lock_, other.lock_);
    std::swap(name_, other.name_);
    std::swap(held_, other.held_);
  }

  Directory directory_;
  FileDescriptor lock_;
  std::string name_;
  bool held_ = false;
};

}  // namespace epifuse::jit
