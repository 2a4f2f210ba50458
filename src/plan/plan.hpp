// The plan of one launch: which kernel (its class) and with which numbers. A pure function of the chain and the
// tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plan/bind/space.hpp"
#include "plan/device/machine.hpp"
#include "plan/kernel_class.hpp"

namespace epifuse::plan {

/// Every result is a float of 16 or 8 bits: formulas whose error that rounding hides will do.
bool rounds_to_few_bits(const KernelClass& kernel_class) noexcept;

/// A result whose neighbours are not those of the operands: it is transposed in shared memory.
bool is_transposed(const KernelClass& kernel_class, const ir::Program& program, std::size_t output);

/// Whether a kernel that prefetches does so for this input.
bool is_prefetched(const KernelClass& kernel_class, std::size_t input);
/// Bytes of an element of all such inputs.
int prefetched_element_bytes(const KernelClass& kernel_class);

/// Nothing but the one saved value is needed of the held operands after the first pass.
bool saved_replaces_held(const ir::Program& program, const ReductionClass& reduction);

/// Bytes of shared memory that a thread keeps one step in, where rows are staged: chunks of 16 bytes.
int staged_bytes(const ir::Program& program, const KernelClass& kernel);
/// The same of a vector, at most, of what the pass over segments needs where a few lanes reduce each: 0 where it needs
/// what nobody holds.
int segment_bytes(const ir::Program& program, const KernelClass& kernel);

/// Device memory that blocks of one launch share, in regions that begin at these bytes.
struct Workspace {
  enum class Use : std::uint8_t {
    signals,
    states,
    partials,
    finals,
    grid_arrivals,
    grid_partials,
    column_signals,
    column_partials
  };
  struct Region {
    Use use;
    int stage;  ///< of partials and finals; else 0
    std::size_t offset;
  };
  base::InlineVector<Region, 4> regions;
  std::size_t bytes = 0;
  std::size_t zeroed_bytes = 0;  ///< at its beginning: zero at launch
};

/// Why no thread group holds a chain's rows from pass to pass: recorded where that is decided, for explanations.
struct Unheld {
  enum class Why : std::uint8_t {
    none,           ///< one does, or results are transposed
    few_rows,       ///< most multiprocessors would idle
    registers,      ///< of a block: rows that are read once
    cluster,        ///< the registers of a cluster: rows of outer reductions
    not_copied,     ///< beyond registers, and operands that are not copied to shared memory
    shared_memory,  ///< of the blocks of a cluster
  };
  Why why = Why::none;
  std::int64_t bytes = 0;  ///< shared_memory: that each block would need
  int blocks = 1;          ///< of the largest cluster
  int together = 1;        ///< rows side by side in short runs, which are read together
};

/// From `first` on up to `end`.
struct ElementRange {
  std::int64_t first = 0, end = 0;
};

struct Plan {
  KernelClass kernel_class;
  Space space;                       ///< padded to kernel_class.coordinates if that is not 0
  std::int64_t vectors_per_row = 0;  ///< rows: vectors of `elements` in one row of the innermost dimension
  std::int64_t vectors = 0;          ///< in all
  std::int64_t input_tiles = 0;      ///< tiled_2d, transpose: tiles of the dimension along which inputs are contiguous
  std::int64_t output_tiles = 0;     ///< tiled_2d, transpose: tiles of the dimension along which outputs are contiguous
  ElementRange existing_rows = {},
               existing_columns = {};  ///< window_tile: elements of a plane, from the first window's on
  bool reverse_order = false;          ///< pointwise: blocks take the last tile first
  std::int64_t tiles = 0;              ///< blocks' worth of vectors
  int threads = 0;
  std::uint32_t blocks = 0;  ///< 0: nothing to launch

  // Of kernels with rows.
  std::int64_t rows = 0;              ///< elements of the outer parallel dimensions
  std::int64_t row_length = 0;        ///< elements of a row
  Space written = {};                 ///< of what is written in place of rows' elements: dimensions as `space` has them
  std::int64_t written_length = 0;    ///< elements of that for each row
  std::int64_t segments_per_row = 0;  ///< that are reduced on their own
  std::int64_t segment_length = 0;    ///< elements of each
  int segment_lanes = 0;  ///< of a thread group that reduce one, if the class says segments_by_lanes: a power of two
  std::int64_t row_vectors = 0;        ///< of one row: vectors of an inner reduction, elements of an outer one
  std::int64_t row_columns = 1;        ///< elements of the inner parallel dimensions
  std::int64_t column_tiles = 1;       ///< blocks side by side along them
  std::int64_t chunks = 1;             ///< of a row: blocks that share it, or rounds of one block
  std::int64_t rounds = 1;             ///< split: rounds of one block over its chunk
  std::int64_t lag = 0;                ///< split: tiles between one pass and the next
  std::int64_t prefetch_distance = 0;  ///< blocks between one and that for which it prefetches, if the class does
  std::int64_t rows_per_result = 1;    ///< rows (outside) that a grid reduction or a column sum combines
  std::int64_t row_step = 1;  ///< column sums in runs: rows from one of a result to its next; 1: they are neighbours
  std::int64_t blocks_per_result = 1;  ///< blocks, or clusters, that contribute to one grid reduction or column sum
  int column_residents = 1;            ///< column sums: blocks of a multiprocessor for which registers were counted
  std::int64_t columns_per_row = 1;    ///< that column sums keep
  std::int64_t column_length = 1;      ///< elements of a row in each
  Workspace workspace;
  std::int64_t shared_bytes = 0;  ///< dynamic shared memory of a block
  Unheld unheld = {};
};

/// Of the tensors' addresses a plan depends on no more than the remainders modulo this, and on which are null. (That
/// tensors do not overlap is checked besides.)
inline constexpr std::size_t kAlignmentSeen = kSectorBytes;

/// The space that an operand or a result of the plan's class has its strides in.
inline const Space& space_of(const Plan& plan, const OperandPlan& operand) {
  return operand.written ? plan.written : plan.space;
}

Plan make_plan(const ir::Program& program, std::span<const OutputView> outputs, std::span<const TensorView> inputs,
               Views views = Views::real, const Machine& machine = {});

/// The sum of the operations' costs: instructions per element, roughly.
int instructions_of(const ir::Program& program);

/// Bytes that an operand moves to or from device memory, each distinct element once.
std::uint64_t bytes_of(const StridedOperand& strided, const Space& space);

}  // namespace epifuse::plan
