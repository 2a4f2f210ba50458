// Threads of a CUDA block that wait for each other, on one thread of the CPU: each runs on a small stack of its own
// until it waits. Part of the CUDA shim; needs no header of the tests, and is compiled into every shared object of
// emitted text.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace epifuse::shim {

#if defined(__SANITIZE_ADDRESS__)
inline constexpr std::size_t kStackBytes = 256 * 1024;
#else
inline constexpr std::size_t kStackBytes = 64 * 1024;
#endif
inline constexpr std::uint64_t kCanary = 0x5afe57acc0ffee00u;

#if defined(__x86_64__)
// swapcontext() asks the kernel for the signal mask, which costs more than all else: here only what a call must keep.
__attribute__((naked, noinline, no_sanitize("address", "undefined"))) inline void switch_stacks(
    [[maybe_unused]] void** leave, [[maybe_unused]] void* enter) {
  asm("pushq %rbp\n\tpushq %rbx\n\tpushq %r12\n\tpushq %r13\n\tpushq %r14\n\tpushq %r15\n\t"
      "movq %rsp, (%rdi)\n\tmovq %rsi, %rsp\n\t"
      "popq %r15\n\tpopq %r14\n\tpopq %r13\n\tpopq %r12\n\tpopq %rbx\n\tpopq %rbp\n\tret");
}
#endif

/// One flow of control: a fiber, or the thread that runs them.
struct Context {
#if defined(__x86_64__)
  void* stack_pointer = nullptr;
#else
  ucontext_t machine;
#endif
  const void* bottom = nullptr;  // of the stack, for the sanitizer
  std::size_t size = 0;
  void* fake_stack = nullptr;

  /// Prepares a stack on which `entry` starts at the next switch.
  void prepare(unsigned char* stack, std::size_t bytes, void (*entry)()) {
    bottom = stack;
    size = bytes;
#if defined(__SANITIZE_ADDRESS__)
    ASAN_UNPOISON_MEMORY_REGION(stack, bytes);  // frames that a deadlock left behind
#endif
#if defined(__x86_64__)
    auto* top = reinterpret_cast<std::uint64_t*>(stack + bytes - 64);
    *--top = 0;  // where entry would return to, which also aligns the stack as a call does
    *--top = reinterpret_cast<std::uint64_t>(entry);
    for (int i = 0; i < 6; ++i) *--top = 0;
    stack_pointer = top;
#else
    getcontext(&machine);
    machine.uc_stack.ss_sp = stack;
    machine.uc_stack.ss_size = bytes;
    machine.uc_link = nullptr;
    makecontext(&machine, entry, 0);
#endif
  }
};

/// From `from`, which runs, to `to`. `last`: `from` will never run again.
inline void switch_context(Context& from, Context& to, bool last) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(last ? nullptr : &from.fake_stack, to.bottom, to.size);
#endif
  static_cast<void>(last);
#if defined(__x86_64__)
  switch_stacks(&from.stack_pointer, to.stack_pointer);
#else
  swapcontext(&from.machine, &to.machine);
#endif
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(from.fake_stack, nullptr, nullptr);
#endif
}

/// To be called first on a new stack. `home`: the thread's own context, whose stack the sanitizer tells.
inline void arrive_on_stack([[maybe_unused]] Context& home, [[maybe_unused]] bool from_home) {
#if defined(__SANITIZE_ADDRESS__)
  const void* bottom = nullptr;
  std::size_t size = 0;
  __sanitizer_finish_switch_fiber(nullptr, &bottom, &size);
  if (from_home) {
    home.bottom = bottom;
    home.size = size;
  }
#endif
}

/// Stacks for `count` fibers, kept for the next launch. Pages that no fiber touches cost nothing.
class Stacks {
 public:
  ~Stacks() { release(); }
  /// Null if there is no memory.
  unsigned char* at_least(std::size_t count) {
    if (count > count_) {
      release();
      void* memory = mmap(nullptr, count * kStackBytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (memory == MAP_FAILED) return nullptr;
      memory_ = static_cast<unsigned char*>(memory);
      count_ = count;
    }
    return memory_;
  }

 private:
  void release() {
    if (memory_ == nullptr) return;
#if defined(__SANITIZE_ADDRESS__)
    ASAN_UNPOISON_MEMORY_REGION(memory_, count_ * kStackBytes);
#endif
    munmap(memory_, count_ * kStackBytes);
    memory_ = nullptr;
    count_ = 0;
  }
  unsigned char* memory_ = nullptr;
  std::size_t count_ = 0;
};

}  // namespace epifuse::shim
