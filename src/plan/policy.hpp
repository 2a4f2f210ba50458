// Tuning as data: what the planner may choose, apart from how kernels are written. policy.def has the numbers, each
// with what was measured; here are the rules that follow from them. For planners.
#pragma once

#include <cstdint>

#include "plan/device/machine.hpp"

namespace epifuse::plan {

struct Policy {
#define EPIFUSE_POLICY(name, value, unit, decides, tried, where) int name = value;
#include "plan/policy.def"
#undef EPIFUSE_POLICY
};

inline constexpr Policy kPolicy;

/// Registers of a thread that has so many bytes under way: a register for each word, besides what every thread needs.
inline int registers_for(int bytes) { return round_up(kPolicy.besides_registers + bytes / 4, kRegisterUnit); }

/// Threads of a multiprocessor of which each holds as much of a row as a thread may.
inline int row_threads_of(const Machine& machine) { return machine.threads_with(registers_for(kPolicy.held_bytes)); }

/// Of the largest blocks: two share a multiprocessor, so that one computes while the other's loads are on their way.
inline int large_block_threads(const Machine& machine) { return row_threads_of(machine) / kPolicy.least_blocks; }

/// Bytes that a block of so many threads has under way, and of results that it transposes at a time.
inline int tile_bytes_of(int threads) { return threads * kPolicy.bytes_in_flight; }

}  // namespace epifuse::plan
