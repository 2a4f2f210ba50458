// An LD_PRELOAD layer between the cache and the file system: it counts the calls that a store makes, kills the process
// or fails at any one of them, and behaves as file systems do that show renames late or have no locks.
//   ATTACK_FAIL="flock:37 renameat:18"   each call of that name fails with that errno
//   ATTACK_LATE_MS=300                   what another process renamed to *.image is not there for so long
#include "interpose.hpp"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace {

std::atomic<bool> armed{false};
std::atomic<std::uint64_t> calls{0};
std::atomic<std::uint64_t> scanned{0};
std::uint64_t strike_at = 0;
int strike_with = 0;

template <class Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

// The errno of ATTACK_FAIL for that call; 0 for none.
int always_fails(const char* name) {
  static const char* const list = std::getenv("ATTACK_FAIL");
  if (list == nullptr) return 0;
  const std::size_t size = std::strlen(name);
  for (const char* at = std::strstr(list, name); at != nullptr; at = std::strstr(at + 1, name)) {
    if ((at == list || at[-1] == ' ') && at[size] == ':') return std::atoi(at + size + 1);
  }
  return 0;
}

// What to do at this call: 0 nothing, an errno, or a Deed other than deed_kill.
int strike(const char* name) {
  if (const int error = always_fails(name)) return error;
  if (!armed || ++calls != strike_at) return 0;
  if (strike_with == attack::deed_kill) ::kill(::getpid(), SIGKILL);
  return strike_with;
}

// The same where half of something makes no sense.
int strike_whole(const char* name) {
  const int deed = strike(name);
  if (deed == attack::deed_tear) ::kill(::getpid(), SIGKILL);
  return deed > 0 ? deed : 0;
}

bool is_entry(const char* path) {
  const std::size_t size = std::strlen(path);
  return size > 6 && std::strcmp(path + size - 6, ".image") == 0;
}

// By the time of the last change of the file's names. Seen by its writer too, which is harsher than any real one.
bool is_late(const struct stat& status) {
  static const char* const setting = std::getenv("ATTACK_LATE_MS");
  if (setting == nullptr) return false;
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const std::int64_t age =
      (now.tv_sec - status.st_ctim.tv_sec) * 1000 + (now.tv_nsec - status.st_ctim.tv_nsec) / 1000000;
  return age < std::atoi(setting);
}

}  // namespace

extern "C" {

void epifuse_attack_arm(std::uint64_t at, int deed) {
  strike_at = at;
  strike_with = deed;
  calls = 0;
  armed = true;
}

std::uint64_t epifuse_attack_disarm() {
  armed = false;
  return calls;
}

std::uint64_t epifuse_attack_scanned() { return scanned; }

// X(result, name, parameters, arguments): calls that succeed or fail, with -1.
#define ATTACK_CALLS(X)                                                                       \
  X(int, mkdir, (const char* path, mode_t mode), (path, mode))                                \
  X(int, lstat, (const char* path, struct stat* status), (path, status))                      \
  X(int, fstat, (int fd, struct stat* status), (fd, status))                                  \
  X(int, fchmod, (int fd, mode_t mode), (fd, mode))                                           \
  X(int, flock, (int fd, int operation), (fd, operation))                                     \
  X(int, futimens, (int fd, const timespec* times), (fd, times))                              \
  X(int, unlinkat, (int fd, const char* path, int flags), (fd, path, flags))                  \
  X(int, faccessat, (int fd, const char* path, int mode, int flags), (fd, path, mode, flags)) \
  X(int, renameat, (int from_fd, const char* from, int to_fd, const char* to), (from_fd, from, to_fd, to))

// NOLINTNEXTLINE(bugprone-macro-parentheses): a type and lists of parameters, not expressions
#define ATTACK_DEFINE(result, name, parameters, arguments)               \
  result name parameters {                                               \
    static const auto real = next<result(*) parameters>(#name);          \
    if (const int error = strike_whole(#name)) return errno = error, -1; \
    return real arguments;                                               \
  }
ATTACK_CALLS(ATTACK_DEFINE)

int openat(int fd, const char* path, int flags, ...) {
  static const auto real = next<int (*)(int, const char*, int, ...)>("openat");
  va_list list;
  va_start(list, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(list, mode_t) : 0;
  va_end(list);
  if (const int error = strike_whole("openat")) return errno = error, -1;
  const int opened = real(fd, path, flags, mode);
  struct stat status {};
  if (opened >= 0 && is_entry(path) && ::syscall(SYS_fstat, opened, &status) == 0 && is_late(status)) {
    ::syscall(SYS_close, opened);
    return errno = ENOENT, -1;
  }
  return opened;
}

int fstatat(int fd, const char* path, struct stat* status, int flags) {
  static const auto real = next<int (*)(int, const char*, struct stat*, int)>("fstatat");
  if (const int error = strike_whole("fstatat")) return errno = error, -1;
  const int result = real(fd, path, status, flags);
  return result == 0 && is_entry(path) && is_late(*status) ? (errno = ENOENT, -1) : result;
}

long syscall(long number, ...) {
  static const auto real = next<long (*)(long, ...)>("syscall");
  va_list list;
  va_start(list, number);
  long arguments[6];
  for (long& argument : arguments) argument = va_arg(list, long);
  va_end(list);
  if (number == SYS_openat2) {
    if (const int error = strike_whole("openat2")) return errno = error, -1;
  }
  return real(number, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
}

ssize_t write(int fd, const void* bytes, size_t count) {
  static const auto real = next<ssize_t (*)(int, const void*, size_t)>("write");
  if (fd <= STDERR_FILENO) return real(fd, bytes, count);
  const int deed = strike("write");
  if (deed > 0) return errno = deed, -1;
  const ssize_t done = real(fd, bytes, deed < 0 && count > 1 ? count / 2 : count);
  if (deed == attack::deed_tear) ::kill(::getpid(), SIGKILL);
  return done;
}

ssize_t read(int fd, void* bytes, size_t count) {
  static const auto real = next<ssize_t (*)(int, void*, size_t)>("read");
  const int deed = strike("read");
  if (deed == attack::deed_tear) ::kill(::getpid(), SIGKILL);
  if (deed > 0) return errno = deed, -1;
  return real(fd, bytes, deed < 0 && count > 1 ? count / 2 : count);
}

int close(int fd) {
  static const auto real = next<int (*)(int)>("close");
  const int error = strike_whole("close");
  const int result = real(fd);  // as the system does: the descriptor is gone whatever it says
  return error != 0 ? (errno = error, -1) : result;
}

DIR* fdopendir(int fd) {
  static const auto real = next<DIR* (*)(int)>("fdopendir");
  if (const int error = strike_whole("fdopendir")) return errno = error, nullptr;
  return real(fd);
}

struct dirent* readdir(DIR* directory) {
  static const auto real = next<struct dirent* (*)(DIR*)>("readdir");
  ++scanned;
  if (const int error = strike_whole("readdir")) return errno = error, nullptr;
  return real(directory);
}
}
