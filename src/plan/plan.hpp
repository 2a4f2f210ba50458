// The plan of one launch: which kernel (its class) and with which numbers. A pure function of the chain and the tensors.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plan/space.hpp"

namespace epifuse::plan {

/// How an operand moves along the innermost dimension, as the kernel reads or writes it.
enum class Access : std::uint8_t {
  unused,      ///< no result depends on it
  linear,      ///< lies in memory exactly as the iteration space runs: one index serves, no coordinates
  uniform,     ///< one element for all: read once per thread
  row,         ///< one element per row of the innermost dimension
  contiguous,  ///< steps of one along the innermost dimension
  strided,     ///< other steps along the innermost dimension
};
std::string_view to_string(Access access) noexcept;

/// How threads map to the iteration space.
enum class Schedule : std::uint8_t {
  flat,  ///< over all elements in one line; a thread's elements may cross into the next row
  rows,  ///< row by row of the innermost dimension: for outputs that are not one dense line in the space's order
};
std::string_view to_string(Schedule schedule) noexcept;

struct OperandPlan {
  DType dtype = DType::f32;
  Access access = Access::linear;
  int width = 1;  ///< elements per memory access

  /// Needs coordinates, not only the linear index.
  bool is_gathered() const noexcept {
    return access == Access::row || access == Access::contiguous || access == Access::strided;
  }
  friend bool operator==(const OperandPlan&, const OperandPlan&) = default;
};

/// All that decides the emitted text, besides the chain. Equal classes share one kernel, whatever the shapes.
struct KernelClass {
  Schedule schedule = Schedule::flat;
  bool f64 = false;         ///< compute type
  bool wide_index = false;  ///< 64-bit index arithmetic
  int coordinates = 0;      ///< dimensions of the index arithmetic: 0, 3, 5 or 8; the space is padded with ones
  int elements = 1;         ///< consecutive elements of a thread and step
  int steps = 1;
  int threads = 256;  ///< the most per block: launch bounds
  std::vector<OperandPlan> inputs;
  std::vector<OperandPlan> outputs;

  friend bool operator==(const KernelClass&, const KernelClass&) = default;
};

/// Compact text that is equal for equal classes of the same chain: part of keys, and printed by `dump`.
std::string to_string(const KernelClass& kernel_class);

struct Plan {
  KernelClass kernel_class;
  Space space;                      ///< padded to kernel_class.coordinates if that is not 0
  std::int64_t groups_per_row = 0;  ///< rows: groups of `elements` in one row of the innermost dimension
  std::int64_t groups = 0;          ///< in all
  std::int64_t tiles = 0;           ///< blocks' worth of groups
  int threads = 0;
  std::uint32_t blocks = 0;  ///< 0: nothing to launch
};

Plan make_plan(const ir::Program& program, std::span<const OutputView> outputs, std::span<const TensorView> inputs,
               Views views = Views::real);

/// The sum of the operations' costs: instructions per element, roughly.
int instructions_of(const ir::Program& program);

/// Bytes that an operand moves to or from device memory, each distinct element once.
std::uint64_t bytes_of(const Walk& walk, const Space& space);

}  // namespace epifuse::plan
