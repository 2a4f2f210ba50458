// The plan of one launch: which kernel (its class) and with which numbers. A pure function of the chain and the tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "plan/space.hpp"
#include "plan/structure.hpp"

namespace epifuse::plan {

/// How an operand moves along the innermost dimension, as the kernel reads or writes it.
enum class Access : std::uint8_t {
  unused,      ///< no result depends on it
  linear,      ///< lies in memory exactly as the iteration space runs: one index serves, no coordinates
  uniform,     ///< one element for all: read once per thread
  row,         ///< one element per row of the innermost dimension
  contiguous,  ///< steps of one along the innermost dimension
  strided,     ///< other steps along the innermost dimension
  hoisted,     ///< transpose: contiguous, and the same for all vectors of a thread, which reads it once
  transposed,  ///< transpose: written through shared memory, in lines along another dimension than the innermost
  transposed_unaligned,  ///< the same, where lines begin at any address: their ends go element by element
};
std::string_view to_string(Access access) noexcept;

/// How threads map to the iteration space.
enum class Schedule : std::uint8_t {
  flat,    ///< over all elements in one line; a thread's elements may cross into the next row
  by_row,  ///< row by row of the innermost dimension: for outputs that are not one dense line in the space's order
  tiled_2d,  ///< two dimensions at once: an operand is contiguous along another dimension than the outputs: a transposed tensor
  transpose,  ///< the same where all operands do: the kernel iterates in their order, and results are transposed in shared memory
  resident,        ///< reductions: threads (a few lanes up to a cluster of blocks) hold rows in registers
  looped,          ///< reductions: a block reads rows that it cannot hold, once per stage
  split,           ///< reductions: many blocks share a row, through a workspace, and read it once per pass
  split_resident,  ///< the same, but each holds its chunk in shared memory from pass to pass
};
std::string_view to_string(Schedule schedule) noexcept;

/// Blocks of a row meet in the workspace.
inline bool shares_rows(Schedule schedule) {
  return schedule == Schedule::split || schedule == Schedule::split_resident;
}

/// Moves as many elements as the space has, in steps of one: what memory bandwidth is spent on.
inline bool is_streamed(Access access) { return access == Access::linear || access == Access::contiguous; }

struct OperandPlan {
  DType dtype = DType::f32;
  Access access = Access::linear;
  int width = 1;           ///< elements per memory access
  bool read_only = false;  ///< nothing of the kernel writes it: it is read through the read-only cache (ld.global.nc)

  /// Needs coordinates, not only the linear index.
  bool is_gathered() const noexcept { return access >= Access::row; }
  friend bool operator==(const OperandPlan&, const OperandPlan&) = default;
};

/// How operands of kernels with rows run, where results have their neighbours elsewhere: what a block's results in shared memory are
/// lines of.
enum class TransposedStore : std::uint8_t {
  none,      ///< results run as operands do
  rows,      ///< neighbouring rows are neighbours in the results: softmax over the channels of NHWC into NCHW
  elements,  ///< neighbouring steps of a pass are: the norms of NHWC into NCHW
};

/// What else decides the text of a kernel with rows. The space's dimensions stand in three sections: parallel ones outside of rows, those
/// of the row, and parallel ones inside (rows of outer reductions).
struct ReductionClass {
  Structure structure;
  bool inner_reduction = true;  ///< a thread's consecutive elements belong to one row; else to neighbouring rows
  bool tensor_aligned = false;  ///< rows begin anywhere: vectors are aligned to the tensor, not to the row
  int outer = 1, reduced = 1, inner = 0;  ///< coordinates of the sections
  int segment_coordinates = 0;            ///< of the row's, the first ones: which of its segments; 0: there are none
  int segment_slots = 0;                  ///< means of so many segments fit a block's shared memory
  bool lanewise = false;                  ///< a few lanes reduce each segment; else warps reduce one after the other
  int group_threads = 1;                  ///< threads of a block that share a row
  int columns = 1;                        ///< threads side by side along the innermost dimension; 1 in inner reductions
  int cluster = 1;                        ///< blocks that share a row
  bool striped =
      false;  ///< neighbouring threads move neighbouring elements: rows of outer reductions that begin at any address
  bool interleaved_rows =
      false;  ///< neighbouring threads work for neighbouring rows, which lie side by side in short runs
  TransposedStore transposed_store = TransposedStore::none;
  int rows_per_group = 1;  ///< rows of a thread group one after the other: a block has all of a grid reduction
  int batch =
      1;  ///< transposed_store: steps whose results are in shared memory at a time; within a row they are neighbours
  int vectors_per_run =
      1;                ///< transposed_store of an inner reduction, or interleaved_rows: vectors of a row side by side
  bool staged = false;  ///< what is held lies in shared memory, not in registers
  bool prefetches = false;      ///< blocks prefetch into the L2 cache what later blocks read
  bool l2_evict_first = false;  ///< what is read and written leaves that cache first, for what lies there to stay
  bool sums_hundreds = false;  ///< split: rows have hundreds of elements, so that sums over them may take cheaper terms
  bool shares_grid = false;    ///< grid reductions are combined from several blocks
  base::InlineVector<bool, 8> held;  ///< by input: kept from the first pass on
  base::InlineVector<bool, 8>
      hoisted;  ///< by input: the same for all vectors of a thread, which reads it once for several
  base::InlineVector<std::uint32_t, 8>
      missing;  ///< by output: parallel dimensions that it lacks; only their first element writes
  Values
      saved;  ///< values held once computed: expensive ones, cheap ones instead of several operands, exponentials of a softmax

  friend bool operator==(const ReductionClass&, const ReductionClass&) = default;
};

/// Numbers that are chosen for a form (tuning.hpp says how): they decide speed, never a result.
struct Tuning {
  int resident_blocks = 0;      ///< of a multiprocessor, that registers must leave space for; 0: as many as they do
  int unroll = 1;               ///< rows in shared memory: steps that a pass takes at once
  int batch = 1;                ///< rows: steps that an accumulator takes at once
  bool l1_evict_first = false;  ///< rows: what is held leaves the caches first
  bool cheap_terms = false;  ///< rows: they have hundreds of elements, so that terms of sums may have cheaper formulas

  friend bool operator==(const Tuning&, const Tuning&) = default;
};

/// All that decides the emitted text, besides the chain. Equal classes share one kernel, whatever the shapes.
struct KernelClass {
  Schedule schedule = Schedule::flat;
  bool f64 = false;         ///< compute type
  bool wide_index = false;  ///< 64-bit index arithmetic
  int coordinates = 0;      ///< dimensions of the index arithmetic: 0, 3, 5 or 8; the space is padded with ones
  bool divisible_rows =
      false;  ///< flat, with coordinates: rows are multiples of `elements`, so that no vector reaches into the next row
  int elements = 1;  ///< consecutive elements of a thread and step
  int steps = 1;
  int input_lanes =
      0;  ///< lanes of a warp side by side along the inputs' contiguous dimension; tiled_2d: the last but one; transpose: the last
  int input_threads = 0;  ///< the same of a block
  int tile_overlap = 0;   ///< transpose: elements along the results that a tile and the next one both compute
  int threads = 256;      ///< the most per block: launch bounds
  base::InlineVector<OperandPlan, 8> inputs;
  base::InlineVector<OperandPlan, 8> outputs;
  std::optional<ReductionClass> reduction;  ///< of chains with reductions
  Tuning tuning;

  friend bool operator==(const KernelClass&, const KernelClass&) = default;
};

/// Every result is a float of 16 or 8 bits: formulas whose error that rounding hides will do.
bool rounds_to_few_bits(const KernelClass& kernel_class) noexcept;

/// A result whose neighbours are not those of the operands: it is transposed in shared memory.
bool is_transposed(const KernelClass& kernel_class, const ir::Program& program, std::size_t output);

/// Whether a kernel that prefetches does so for this input.
bool is_prefetched(const KernelClass& kernel_class, std::size_t input);

/// Nothing but the one saved value is needed of the held operands after the first pass.
bool saved_replaces_held(const ir::Program& program, const ReductionClass& reduction);

/// Bytes of shared memory that a thread keeps one step in, where rows are staged: chunks of 16 bytes.
int staged_bytes(const ir::Program& program, const KernelClass& kernel);
/// The same of a vector, at most, of what the pass over segments needs where a few lanes reduce each: 0 where it needs what nobody holds.
int segment_bytes(const ir::Program& program, const KernelClass& kernel);

/// Compact text that is equal for equal classes of the same chain: part of keys, and printed by `dump`.
std::string to_string(const KernelClass& kernel_class);

/// The class in words: equal where to_string() is. What the engine finds kernels by.
using ClassCode = base::InlineVector<std::uint32_t, 48>;
ClassCode code_of(const KernelClass& kernel_class);

/// Device memory that blocks of one launch share, in regions that begin at these bytes.
struct Workspace {
  enum class Use : std::uint8_t { signals, states, partials, finals, grid_arrivals, grid_partials };
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
    none,           ///< it does, or results cross
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

struct Plan {
  KernelClass kernel_class;
  Space space;                       ///< padded to kernel_class.coordinates if that is not 0
  std::int64_t vectors_per_row = 0;  ///< rows: vectors of `elements` in one row of the innermost dimension
  std::int64_t vectors = 0;          ///< in all
  std::int64_t input_tiles = 0;      ///< tiled_2d, transpose: tiles of the dimension along which inputs are contiguous
  std::int64_t output_tiles = 0;     ///< tiled_2d, transpose: tiles of the dimension along which outputs are contiguous
  bool reverse_order = false;        ///< pointwise: blocks take the last tile first
  std::int64_t tiles = 0;            ///< blocks' worth of vectors
  int threads = 0;
  std::uint32_t blocks = 0;  ///< 0: nothing to launch

  // Of kernels with rows.
  std::int64_t rows = 0;               ///< elements of the outer parallel dimensions
  std::int64_t row_length = 0;         ///< elements of a row
  std::int64_t segments_per_row = 0;   ///< of a row, that are reduced on their own
  std::int64_t segment_length = 0;     ///< elements of each
  int segment_lanes = 0;               ///< of a thread group that reduce one, if the class is lanewise: a power of two
  std::int64_t row_vectors = 0;        ///< of one row: vectors of an inner reduction, elements of an outer one
  std::int64_t row_columns = 1;        ///< elements of the inner parallel dimensions
  std::int64_t column_tiles = 1;       ///< blocks side by side along them
  std::int64_t chunks = 1;             ///< of a row: blocks that share it, or rounds of one block
  std::int64_t rounds = 1;             ///< split: rounds of one block over its chunk
  std::int64_t lag = 0;                ///< split: tiles between one pass and the next
  std::int64_t prefetch_distance = 0;  ///< blocks between one and that for which it prefetches, if the class does
  std::int64_t rows_per_result = 1;    ///< rows (outside) that a grid reduction combines
  std::int64_t blocks_per_result = 1;  ///< blocks that contribute to one grid reduction
  Workspace workspace;
  std::int64_t shared_bytes = 0;  ///< dynamic shared memory of a block
  Unheld unheld = {};
};

/// Of the tensors' addresses a plan depends on no more than the remainders modulo this, and on which are null. (That tensors do not overlap is
/// checked besides.)
inline constexpr std::size_t kAlignmentSeen = 32;

/// What the planner knows of the device.
struct Machine {
  int architecture = 90;
  int multiprocessors = 132;
};

/// Blocks that hold chunks of rows, each with so many bytes of shared memory: as many as a multiprocessor has space for.
int resident_blocks_that_fit(const Machine& machine, int threads, std::int64_t bytes);

Plan make_plan(const ir::Program& program, std::span<const OutputView> outputs, std::span<const TensorView> inputs,
               Views views = Views::real, const Machine& machine = {});

/// The sum of the operations' costs: instructions per element, roughly.
int instructions_of(const ir::Program& program);

/// Bytes that an operand moves to or from device memory, each distinct element once.
std::uint64_t bytes_of(const StridedOperand& strided, const Space& space);

}  // namespace epifuse::plan
