// All that plans and their explanations know of a GPU. api/ fills it from the device at hand; without one it is a
// device of an architecture.
#pragma once

#include <cstdint>

namespace epifuse::plan {

/// What tensor cores multiply: which instructions a product that hosts a chain may use.
enum class TensorCores : std::uint8_t {
  warp_groups,  ///< matrices in shared memory, asynchronously (wgmma)
  warps,        ///< what a warp holds in registers (mma.sync), which cp.async brings to shared memory before
  other,        ///< by instructions that no kernel here has
};

/// Of a multiprocessor where nothing else is said. What an architecture fixes comes from the table in machine.cpp;
/// multiprocessors, L2 cache and bandwidth differ from chip to chip, and whoever has the device overwrites them.
struct Machine {
  int architecture;
  int multiprocessors;  ///< of the device
  int threads;
  int blocks;
  int registers = 65'536;     ///< of 32 bits
  int schedulers = 4;         ///< each has its share of the registers, and warps of its own
  std::int64_t shared_bytes;  ///< what blocks may have of it, the system's kilobyte for each included
  int cluster_blocks;         ///< of the largest cluster; 1: there are none
  bool async_copies;          ///< cp.async, from memory to shared memory without registers
  TensorCores tensor_cores;
  double tensor_flops;    ///< of 16-bit factors with sums in f32, in a second, by the data sheet
  double instructions;    ///< of threads, in a second: lanes times their clock
  std::int64_t l2_bytes;  ///< of the device
  double bandwidth;       ///< of the device's memory: bytes per second, by its data sheet

  /// The device that the table has for an architecture, with `found` multiprocessors unless that is 0. Architectures
  /// that the table lacks are as the next one below; those before the first are as the first.
  Machine(int wanted, int found);
  explicit Machine(int wanted) : Machine(wanted, 0) {}
  Machine() : Machine(90) {}

  /// Bytes of the L2 cache that a policy's number stands for: it was chosen on an H100, whose cache has 50 MiB.
  std::int64_t of_l2(std::int64_t bytes_of_50_mib) const noexcept;
  /// Blocks of so many threads, each with so many bytes of shared memory and registers for each thread, that fit a
  /// multiprocessor.
  struct Occupancy {
    int blocks;
    const char*
        limit;  ///< what allows no more: "threads", "registers", "shared memory" or "the most blocks that it takes"
  };
  /// Threads that fit, each with so many registers: a scheduler has whole warps.
  int threads_with(int thread_registers) const noexcept;
  Occupancy occupancy(int block_threads, int thread_registers, std::int64_t block_shared_bytes) const noexcept;
};

inline constexpr int round_up(int n, int unit) { return (n + unit - 1) / unit * unit; }

// Of every architecture.
inline constexpr int kRegisterUnit = 8;                ///< of a thread: a warp gets multiples of 256
inline constexpr int kWarp = 32;                       ///< threads
inline constexpr int kAccessBytes = 16;                ///< the widest memory instruction of a thread
inline constexpr int kSectorBytes = 32;                ///< what memory moves at least
inline constexpr int kLineBytes = 128;                 ///< of the caches, four sectors
inline constexpr int kStaticShared = 49'152;           ///< of a block's shared memory, what needs no opt-in
inline constexpr std::int64_t kReservedShared = 1024;  ///< of a block's shared memory, the system's

}  // namespace epifuse::plan
