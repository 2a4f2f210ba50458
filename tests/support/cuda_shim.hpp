// Lets an ordinary C++ compiler build emitted CUDA text and run it: the keywords, the coordinates of the running
// thread, and the builtins that the text's portable branches use. Included before the text; the text itself is compiled
// as it stands, but for the one line that declares shared memory (see shared()).
//
// A kernel runs block by block. Without barriers each thread of a block runs to its end, one after the other. With
// barriers the threads of a block, or of all blocks of a cluster, are fibers (fibers.hpp) that run until they wait; odd
// blocks start with their last thread, so that a missing barrier shows whichever side is early. Asynchronous copies
// arrive as late as they may. Shared memory is filled with NaN before a block begins and after it ends.
#pragma once

#include <math.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "support/fibers.hpp"

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__

namespace epifuse::shim {

struct Coordinates {
  unsigned x = 0, y = 0, z = 0;
};

// Thread-local, so that several kernels may run at once in one process.
inline thread_local Coordinates thread_index, block_index, block_extent, grid_extent;

inline constexpr unsigned kWarp = 32;
inline constexpr int kPoison = 0xff;  // NaN as a float, -1 as an integer, no truth value

/// Copies to shared memory that are under way: they arrive when their thread waits for them, and no sooner (cp.async
/// may be as late).
class Copies {
 public:
  void add(void* target, const void* source, std::size_t bytes) {
    under_way_.push_back({target, source, bytes, batches_});
  }
  void end_batch() { ++batches_; }
  /// All but the last `left` batches have arrived.
  void wait(unsigned left) {
    std::size_t arrived = 0;
    while (arrived < under_way_.size() && under_way_[arrived].batch + left < batches_) {
      std::memcpy(under_way_[arrived].target, under_way_[arrived].source, under_way_[arrived].bytes);
      ++arrived;
    }
    under_way_.erase(under_way_.begin(), under_way_.begin() + static_cast<std::ptrdiff_t>(arrived));
  }
  void forget() {
    under_way_.clear();
    batches_ = 0;
  }

 private:
  struct Copy {
    void* target;
    const void* source;
    std::size_t bytes;
    unsigned batch;
  };
  std::vector<Copy> under_way_;
  unsigned batches_ = 0;  // that have ended
};
inline thread_local Copies* copies = nullptr;  // of the running thread

// What a launch asked the L2 cache for: from one address to another.
inline thread_local std::vector<std::pair<unsigned long long, unsigned long long>> asked;
// How much that is, in bytes; says what is wrong if something was asked for twice.
inline const char* count_asked(unsigned long& bytes) {
  bytes = 0;
  std::sort(asked.begin(), asked.end());
  for (std::size_t i = 0; i < asked.size(); ++i) {
    bytes += asked[i].second - asked[i].first;
    if (i > 0 && asked[i].first < asked[i - 1].second) return "the L2 cache is asked for the same memory twice";
  }
  return nullptr;
}

struct Fiber {
  Context context;
  Copies copies;
  unsigned block = 0, thread = 0;  // block: within the cluster
  Fiber* next = nullptr;           // in a queue
  bool done = false;
  bool arrived = false;  // at the cluster's barrier, in this phase of it
  unsigned phase = 0;
  const char* waits_for = nullptr;
};

struct Queue {
  Fiber* first = nullptr;
  Fiber* last = nullptr;
  void push(Fiber* fiber) {
    fiber->next = nullptr;
    (first == nullptr ? first : last->next) = fiber;
    last = fiber;
  }
  Fiber* pop() {
    Fiber* fiber = first;
    if (first != nullptr) first = first->next;
    return fiber;
  }
};

/// All of `expected` fibers arrive before any goes on.
struct Barrier {
  unsigned expected = 0, arrived = 0, phase = 0;
  const char* kind = nullptr;
  Queue waiting;
};

struct Warp {
  Barrier barrier;
  unsigned turn = 0;  // two sets of slots: who is late reads the old one while others fill the new one
  alignas(8) unsigned char slots[2][kWarp][8];
};

struct Block {
  Barrier barrier;
  std::vector<Warp> warps;
  unsigned running = 0;
  unsigned char* shared = nullptr;
  std::size_t shared_bytes = 0;
};

/// The blocks that run at once: a cluster, or one block.
class Cluster {
 public:
  Cluster() = default;
  ~Cluster() { release_shared(); }
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  /// Runs `body` as every thread of blocks first … first + size - 1. Null, or what went wrong.
  const char* run(unsigned first, unsigned size, unsigned threads, void (*body)(const void*), const void* argument) {
    unsigned char* stacks = stacks_.at_least(static_cast<std::size_t>(size) * threads);
    if (stacks == nullptr) return "no memory for the threads' stacks";
    ++number_;
    first_block_ = first;
    body_ = body;
    argument_ = argument;
    prepare(size, threads, stacks);
    error_[0] = '\0';
    unfinished_ = size * threads;
    from_home_ = true;
    leave(home_, false);
    return error_[0] == '\0' ? nullptr : error_;
  }

  void wait(Barrier& barrier, const char* kind) {
    const unsigned phase = barrier.phase;
    arrive(barrier, kind);
    wait_for_phase(barrier, phase, kind);
  }

  /// bar.arrive: counts, and goes on.
  void arrive_without_waiting(Barrier& barrier, const char* kind) { arrive(barrier, kind); }

  /// Lets the others run before this thread looks again.
  void yield(const char* what) {
    if (ready_.first == nullptr) return;
    current_->waits_for = what;
    ready_.push(current_);
    leave(current_->context, false);
    current_->waits_for = nullptr;
  }

  // The two halves of cluster_sync().
  void arrive_at_cluster() {
    if (current_->arrived) fail("cluster_arrive() twice without cluster_wait()");
    current_->arrived = true;
    current_->phase = barrier_.phase;
    arrive(barrier_, "a barrier of the cluster");
  }
  void wait_for_cluster() {
    if (!current_->arrived) fail("cluster_wait() without cluster_arrive()");
    current_->arrived = false;
    wait_for_phase(barrier_, current_->phase, "a barrier of the cluster");
  }

  Block& block() { return blocks_[current_->block]; }
  Block& block(unsigned rank) {
    if (rank >= blocks_.size()) fail("block %u of a cluster of %zu", rank, blocks_.size());
    return blocks_[rank];
  }
  Warp& warp() { return block().warps[current_->thread / kWarp]; }
  unsigned lane() const { return current_->thread % kWarp; }
  unsigned thread() const { return current_->thread; }
  unsigned rank() const { return current_->block; }
  /// Of this cluster among all that have run here, from 1.
  unsigned long long number() const { return number_; }
  /// Of threads at barriers and exchanges, so far: who only waits can see that others go on.
  unsigned long long arrivals() const { return arrivals_; }

  /// Shared memory of the running block, made when its first thread asks. Of its exact size, for the address sanitizer.
  void* shared(std::size_t bytes, std::size_t alignment) {
    Block& mine = block();
    if (mine.shared == nullptr) make_shared(mine, bytes, alignment);
    if (mine.shared_bytes != bytes)
      fail("shared memory is declared with two sizes: %zu and %zu", mine.shared_bytes, bytes);
    return mine.shared;
  }

  /// Ends the launch; never returns.
  [[noreturn]] void fail(const char* format, ...) {
    va_list list;
    va_start(list, format);
    const int used =
        std::snprintf(error_, sizeof error_, "block %u, thread %u: ", first_block_ + current_->block, current_->thread);
    std::vsnprintf(error_ + used, sizeof error_ - static_cast<std::size_t>(used), format, list);
    va_end(list);
    switch_context(current_->context, home_, true);
    std::abort();
  }

  void begin() {
    arrive_on_stack(home_, from_home_);
    from_home_ = false;
    body_(argument_);
    finish();
  }

 private:
  static void entry();

  void prepare(unsigned size, unsigned threads, unsigned char* stacks) {
    blocks_.resize(size);
    for (Block& block : blocks_) {
      block.barrier = Barrier();
      block.barrier.expected = threads;
      block.running = threads;
      block.warps.assign((threads + kWarp - 1) / kWarp, Warp());
      for (unsigned w = 0; w < block.warps.size(); ++w) {
        const unsigned left = threads - w * kWarp;
        block.warps[w].barrier.expected = left < kWarp ? left : kWarp;
      }
      if (block.shared != nullptr) std::memset(block.shared, kPoison, block.shared_bytes);
    }
    barrier_ = Barrier();
    barrier_.expected = size * threads;
    ready_ = {};
    const std::size_t count = static_cast<std::size_t>(size) * threads;
    if (fibers_.size() < count) fibers_.resize(count);
    for (std::size_t i = 0; i < count; ++i) {
      const bool reverse_order = (first_block_ / size) % 2 == 1;
      const std::size_t number = reverse_order ? count - 1 - i : i;
      Fiber& fiber = fibers_[number];
      unsigned char* stack = stacks + number * kStackBytes;
      std::memcpy(stack, &kCanary, sizeof kCanary);
      fiber.context.prepare(stack, kStackBytes, entry);
      fiber.block = static_cast<unsigned>(number / threads);
      fiber.thread = static_cast<unsigned>(number % threads);
      fiber.done = false;
      fiber.arrived = false;
      fiber.waits_for = nullptr;
      fiber.copies.forget();
      ready_.push(&fiber);
    }
    count_ = count;
  }

  void arrive(Barrier& barrier, const char* kind) {
    if (barrier.arrived > 0 && barrier.kind != kind && std::strcmp(barrier.kind, kind) != 0) {
      fail("threads of one group wait at different places: %s and %s", barrier.kind, kind);
    }
    barrier.kind = kind;
    ++arrivals_;
    if (++barrier.arrived < barrier.expected) return;
    barrier.arrived = 0;
    ++barrier.phase;
    while (Fiber* fiber = barrier.waiting.pop()) ready_.push(fiber);
  }

  void wait_for_phase(Barrier& barrier, unsigned phase, const char* kind) {
    if (barrier.phase != phase) return;
    current_->waits_for = kind;
    barrier.waiting.push(current_);
    leave(current_->context, false);
    current_->waits_for = nullptr;
  }

  // The next fiber runs until `from` is due again.
  void leave(Context& from, bool last) {
    Fiber* next = ready_.pop();
    if (next == nullptr) {
      if (unfinished_ > 0) describe_deadlock();
      switch_context(from, home_, last);
    } else {
      enter(*next);
      switch_context(from, next->context, last);
    }
    // Whoever came back here has been made current by who left.
  }

  void enter(Fiber& fiber) {
    current_ = &fiber;
    copies = &fiber.copies;
    thread_index.x = fiber.thread;
    block_index.x = first_block_ + fiber.block;
  }

  [[noreturn]] void finish() {
    std::uint64_t canary = 0;
    std::memcpy(&canary, current_->context.bottom, sizeof canary);
    if (canary != kCanary) fail("the stack of the shim's thread is too small");
    current_->done = true;
    --unfinished_;
    // A block that has ended has no shared memory any more, whatever others of its cluster still read there.
    Block& mine = block();
    if (--mine.running == 0 && mine.shared != nullptr) std::memset(mine.shared, kPoison, mine.shared_bytes);
    leave(current_->context, true);
    std::abort();
  }

  void describe_deadlock() {
    unsigned waiting = 0;
    const Fiber* example = nullptr;
    for (std::size_t i = 0; i < count_; ++i) {
      if (fibers_[i].done) continue;
      ++waiting;
      if (example == nullptr) example = &fibers_[i];
    }
    std::snprintf(error_, sizeof error_,
                  "deadlock: %u of %zu threads wait for ever and %zu have ended; thread %u of block %u waits at %s",
                  waiting, count_, count_ - waiting, example->thread, first_block_ + example->block,
                  example->waits_for);
  }

  void make_shared(Block& block, std::size_t bytes, std::size_t alignment) {
    void* memory = nullptr;
    if (posix_memalign(&memory, alignment < 16 ? 16 : alignment, bytes) != 0)
      fail("no shared memory of %zu bytes", bytes);
    block.shared = static_cast<unsigned char*>(memory);
    block.shared_bytes = bytes;
    std::memset(memory, kPoison, bytes);
  }

 public:
  void release_shared() {
    for (Block& block : blocks_) {
      std::free(block.shared);
      block.shared = nullptr;
    }
  }

 private:
  Context home_;
  bool from_home_ = false;
  Stacks stacks_;
  std::vector<Fiber> fibers_;
  std::vector<Block> blocks_;
  Barrier barrier_;
  Queue ready_;
  Fiber* current_ = nullptr;
  std::size_t count_ = 0;
  unsigned unfinished_ = 0;
  unsigned first_block_ = 0;
  unsigned long long number_ = 0, arrivals_ = 0;
  void (*body_)(const void*) = nullptr;
  const void* argument_ = nullptr;
  char error_[200] = "";
};

inline thread_local Cluster cluster;

inline void Cluster::entry() { cluster.begin(); }

/// The value that lane `source` of this warp gives to the same exchange.
template <class T>
T exchange(const char* kind, unsigned mask, T value, unsigned source) {
  static_assert(sizeof(T) <= 8);
  if (mask != 0xffffffffu) cluster.fail("%s with the mask %08x, not all lanes", kind, mask);
  Warp& warp = cluster.warp();
  if (source >= warp.barrier.expected) {
    cluster.fail("%s from lane %u of a warp of %u", kind, source, warp.barrier.expected);
  }
  const unsigned turn = warp.turn;
  std::memcpy(warp.slots[turn % 2][cluster.lane()], &value, sizeof value);
  // The last to arrive turns to the other slots.
  if (warp.barrier.arrived + 1 == warp.barrier.expected) ++warp.turn;
  cluster.wait(warp.barrier, kind);
  std::memcpy(&value, warp.slots[turn % 2][source], sizeof value);
  return value;
}

/// Bytes of shared memory that the launch asks for, behind what the kernel declares.
inline thread_local std::size_t dynamic_bytes = 0;
constexpr std::size_t kDynamicAlignment = 128;  // where a kernel says alignas

/// Where the dynamic part begins behind `declared` bytes.
constexpr std::size_t dynamic_begin(std::size_t declared) {
  return (declared + kDynamicAlignment - 1) / kDynamicAlignment * kDynamicAlignment;
}
inline unsigned char* shared_of(std::size_t declared) {
  const std::size_t bytes = dynamic_bytes > 0 ? dynamic_begin(declared) + dynamic_bytes : declared;
  return static_cast<unsigned char*>(cluster.shared(bytes, kDynamicAlignment));
}

/// The line `  __shared__ Shared shared;` of a kernel is compiled as a reference to this.
template <class Shared>
Shared& shared() {
  return *reinterpret_cast<Shared*>(shared_of(sizeof(Shared)));
}

/// The line `  extern __shared__ Chunk16 staged[];` as a pointer to this; `declared`: bytes of Shared, 0 where the
/// kernel declares none.
template <class T>
T* dynamic_shared(std::size_t declared) {
  return reinterpret_cast<T*>(shared_of(declared) + dynamic_begin(declared));
}

/// Whether launches of this thread run the last block first: what blocks leave for each other must not depend on their
/// order.
inline thread_local bool reverse_order = false;

struct Grid {
  unsigned blocks = 0, threads = 0;
  unsigned cluster = 1;     ///< blocks per cluster
  std::size_t dynamic = 0;  ///< bytes of shared memory
};

/// Runs `kernel` on a grid of one dimension. `waits`: it has barriers. Null, or what went wrong (valid until the next
/// launch).
template <class Params>
const char* run_grid(void (*kernel)(Params), const Grid& grid, bool waits, const void* bytes, std::size_t size) {
  if (size != sizeof(Params)) return "the kernel's struct of parameters has another size";
  if (grid.cluster == 0 || grid.blocks % grid.cluster != 0) return "the grid is no multiple of the cluster";
  struct Launch {
    void (*kernel)(Params);
    Params params;
  };
  Launch launch;
  launch.kernel = kernel;
  std::memcpy(&launch.params, bytes, size);
  asked.clear();
  dynamic_bytes = grid.dynamic;
  unsigned long loaded_per_thread = 0;
  grid_extent = {grid.blocks, 1, 1};
  block_extent = {grid.threads, 1, 1};
  if (!waits && grid.cluster == 1) {
    Copies own;
    copies = &own;
    for (unsigned block = 0; block < grid.blocks; ++block) {
      block_index.x = reverse_order ? grid.blocks - 1 - block : block;
      for (thread_index.x = 0; thread_index.x < grid.threads; ++thread_index.x) {
        kernel(launch.params);
        own.forget();
      }
    }
    copies = nullptr;
    return count_asked(loaded_per_thread);
  }
  const auto body = [](const void* given) {
    const auto& it = *static_cast<const Launch*>(given);
    it.kernel(it.params);
  };
  const char* problem = nullptr;
  for (unsigned first = 0; first < grid.blocks && problem == nullptr; first += grid.cluster)
    problem = cluster.run(reverse_order ? grid.blocks - grid.cluster - first : first, grid.cluster, grid.threads, body,
                          &launch);
  cluster.release_shared();
  return problem != nullptr ? problem : count_asked(loaded_per_thread);
}

}  // namespace epifuse::shim

#define threadIdx (::epifuse::shim::thread_index)
#define blockIdx (::epifuse::shim::block_index)
#define blockDim (::epifuse::shim::block_extent)
#define gridDim (::epifuse::shim::grid_extent)

inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>((static_cast<unsigned long long>(a) * b) >> 32);
}

inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<unsigned long long>((static_cast<Wide>(a) * b) >> 64);
}

inline int __float_as_int(float value) { return __builtin_bit_cast(int, value); }
inline float __int_as_float(int bits) { return __builtin_bit_cast(float, bits); }
inline int __popc(unsigned bits) { return __builtin_popcount(bits); }

inline void __syncthreads() { epifuse::shim::cluster.wait(epifuse::shim::cluster.block().barrier, "__syncthreads()"); }

inline void __syncwarp() { epifuse::shim::exchange("__syncwarp()", 0xffffffffu, 0, 0); }

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask) {
  return epifuse::shim::exchange("__shfl_xor_sync()", mask, value,
                                 epifuse::shim::cluster.lane() ^ static_cast<unsigned>(lane_mask));
}

template <class T>
T __shfl_sync(unsigned mask, T value, int lane) {
  return epifuse::shim::exchange("__shfl_sync()", mask, value, static_cast<unsigned>(lane) % epifuse::shim::kWarp);
}

// Blocks run one after the other, so that one thread's memory is everyone's.
inline void __threadfence() {}

inline unsigned atomicAdd(unsigned* address, unsigned value) {
  const unsigned old = *address;
  *address = old + value;
  return old;
}

inline unsigned atomicCAS(unsigned* address, unsigned compare, unsigned value) {
  const unsigned old = *address;
  if (old == compare) *address = value;
  return old;
}

// Of the emitted text's own, which only nvcc sees.
inline unsigned cluster_rank() { return epifuse::shim::cluster.rank(); }

inline void cluster_arrive() { epifuse::shim::cluster.arrive_at_cluster(); }
inline void cluster_begin() { cluster_arrive(); }
inline void cluster_wait() { epifuse::shim::cluster.wait_for_cluster(); }
inline void cluster_sync() {
  cluster_arrive();
  cluster_wait();
}

template <class T>
T* cluster_map(T* shared_address, unsigned rank) {
  using epifuse::shim::cluster;
  const auto* address = reinterpret_cast<const unsigned char*>(shared_address);
  const epifuse::shim::Block& mine = cluster.block();
  const epifuse::shim::Block& other = cluster.block(rank);
  if (mine.shared == nullptr || address < mine.shared || address + sizeof(T) > mine.shared + mine.shared_bytes)
    cluster.fail("cluster_map() of an address that is not in this block's shared memory");
  if (other.shared == nullptr) cluster.fail("cluster_map() to block %u, which has not begun or has ended", rank);
  return reinterpret_cast<T*>(other.shared + (address - mine.shared));
}

template <int kBytes>
void copy_async(void* shared_address, const void* source) {
  epifuse::shim::copies->add(shared_address, source, kBytes);
}
// What was asked for in this launch. A look at both ends, so that guarded memory sees who asks for what is not there.
inline void prefetch_l2(unsigned long long begin, unsigned long long end) {
  static_cast<void>(*reinterpret_cast<const volatile char*>(begin));
  static_cast<void>(*reinterpret_cast<const volatile char*>(end - 1));
  epifuse::shim::asked.emplace_back(begin, end);
}
inline void end_of_batch() { epifuse::shim::copies->end_batch(); }
template <int kLeft>
void wait_for_all_but() {
  epifuse::shim::copies->wait(kLeft);
}

#include "support/gemm_model.hpp"
#include "support/warp_model.hpp"
