// A copy of an image in memory of exactly its size, so that the address sanitizer traps one byte too far on either
// side.
#pragma once

#include <cstdlib>
#include <cstring>
#include <new>

#include "support/operand.hpp"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) (static_cast<void>(address), static_cast<void>(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) (static_cast<void>(address), static_cast<void>(size))
#endif

namespace epifuse::test {
// One name for each kind: a program that runs emitted text under the sanitizer has files of both, of which the linker
// would take one.
#if defined(__SANITIZE_ADDRESS__)
inline namespace sanitized {
#else
inline namespace plain {
#endif

class Guarded {
 public:
  explicit Guarded(const Image& image) : size_(image.bytes.size()), lead_(image.lead) {
    void* memory = nullptr;
    if (posix_memalign(&memory, 256, size_ == 0 ? 1 : size_) != 0) throw std::bad_alloc();
    memory_ = static_cast<unsigned char*>(memory);
    if (size_ > 0) std::memcpy(memory_, image.bytes.data(), size_);
    // The sanitizer marks whole groups of 8 bytes before an address; what is left of the lead is judged as a gap.
    ASAN_POISON_MEMORY_REGION(memory_, lead_ / 8 * 8);
  }
  ~Guarded() {
    ASAN_UNPOISON_MEMORY_REGION(memory_, size_);
    std::free(memory_);
  }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  unsigned char* data() const noexcept { return memory_; }
  void copy_to(Image& image) {
    ASAN_UNPOISON_MEMORY_REGION(memory_, size_);
    if (size_ > 0) std::memcpy(image.bytes.data(), memory_, size_);
  }

 private:
  unsigned char* memory_ = nullptr;
  std::size_t size_;
  std::size_t lead_;
};

}  // namespace sanitized or plain
}  // namespace epifuse::test
