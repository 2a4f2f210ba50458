// flock() on a file per key. Not fcntl(): its older locks are lost when any descriptor of the file is closed, its newer
// ones are missing in some sandboxes. Called by disk_cache.cpp only.
#include "jit/cache_turn.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace epifuse::jit {

Turn::Turn(Directory directory, std::string name)
    : directory_(std::move(directory)),
      lock_(::openat(directory_.get(), name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
                     S_IRUSR | S_IWUSR)),
      name_(std::move(name)) {}

Turn::Outcome Turn::attempt() {
  if (!lock_) return Outcome::none;
  if (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return Outcome::busy;
    ::unlinkat(directory_.get(), name_.c_str(), 0);  // ENOLCK, ENOSYS, EOPNOTSUPP: it is of no use here
    lock_.close();
    return Outcome::none;
  }
  // A holder removes the file's name when it is done; one that died cannot. So all who waited for the same holder know
  // whether to look for its entry, and if that is not to be seen they compile side by side instead of one by one.
  struct stat status {};
  held_ = ::fstat(lock_.get(), &status) == 0 && status.st_nlink > 0;
  if (held_) return Outcome::taken;
  lock_.close();
  return Outcome::finished;
}

Turn::~Turn() {
  if (!held_) return;
  // First the name, while the lock is held. Unlocked by a call and not by closing: a process that was forked meanwhile
  // has the descriptor too, and would hold the lock for its life.
  ::unlinkat(directory_.get(), name_.c_str(), 0);
  ::flock(lock_.get(), LOCK_UN);
}

}  // namespace epifuse::jit
