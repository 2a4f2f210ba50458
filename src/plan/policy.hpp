// Tuning as data: what the planner may choose, apart from how kernels are written. Numbers here are measurements' business
// (docs/notes/); mechanism is in plan.cpp and templates/.
#pragma once

namespace epifuse::plan {

struct Policy {
  int bytes_per_access = 16;  ///< the widest memory instruction of a thread
  int most_elements = 16;     ///< consecutive elements of a thread: a register is paid for each, per operand
  int register_bytes = 384;   ///< of all operands of one step: beyond it a step handles fewer elements
  int waiting_register_bytes =
      192;                   ///< of all that the steps of a tile have loaded before the first is used: bounds the steps
  int bytes_in_flight = 64;  ///< read by one thread before it waits: steps are added until this is reached
  int most_steps = 4;
  int unrolled_instructions =
      3072;  ///< of a thread's code: long chains take fewer steps, so that compile time stays linear
  int most_instructions = 16384;  ///< of a group: beyond it, only bound by arithmetic, a group has fewer elements
  int threads = 256;              ///< per block
  int fewest_threads = 64;
  int small_grid = 512;  ///< fewer blocks than this (about four per multiprocessor): smaller blocks spread better
};

inline constexpr Policy kPolicy;

}  // namespace epifuse::plan
