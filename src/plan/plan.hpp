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
  hoisted,      ///< turned: contiguous, and the same for all groups of a thread, which reads it once
  transposed,  ///< turned: written through shared memory, in lines across the innermost dimension
  transposed_unaligned,     ///< the same, where lines begin at any address: their ends go element by element
};
std::string_view to_string(Access access) noexcept;

/// How threads map to the iteration space.
enum class Schedule : std::uint8_t {
  flat,     ///< over all elements in one line; a thread's elements may cross into the next row
  by_row,   ///< row by row of the innermost dimension: for outputs that are not one dense line in the space's order
  tiled_2d, ///< two dimensions at once: an operand runs across the outputs, a transposed tensor
  transpose,  ///< the same where all operands do: walked as they run, and results turn in shared memory
  resident, ///< reductions: threads (a part of a warp up to a cluster of blocks) hold rows in registers
  looped,   ///< reductions: a block passes rows that it cannot hold, once per stage
  split,    ///< reductions: many blocks share a row, through a workspace, and read it once per pass
  split_resident,  ///< the same, but each keeps its part in shared memory from pass to pass
};
std::string_view to_string(Schedule schedule) noexcept;

/// Blocks of a row meet in the workspace.
inline bool shares_rows(Schedule schedule) { return schedule == Schedule::split || schedule == Schedule::split_resident; }

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
  none,  ///< results run as operands do
  rows,  ///< neighbouring rows are neighbours in the results: softmax over the channels of NHWC into NCHW
  elements,  ///< neighbouring steps of a pass are: the norms of NHWC into NCHW
};

/// What else decides the text of a kernel with rows. The space's dimensions stand in three sections: kept ones outside of rows, those
/// of the row, and kept ones inside (rows across memory).
struct ReductionClass {
  Structure structure;
  bool inner_reduction = true;    ///< a thread's consecutive elements belong to one row; else to neighbouring rows
  bool tensor_aligned = false;  ///< rows begin anywhere: groups of elements are aligned to the tensor, not to the row
  int outer = 1, reduced = 1, inner = 0;  ///< coordinates of the sections
  int segment_coordinates = 0;               ///< of the row's, the first ones: which of its parts; 0: there are none
  int segment_slots = 0;                     ///< averages of so many parts fit a block's shared memory
  bool lanewise = false;                  ///< a few lanes pass each part; else warps pass one after the other
  int group_threads = 1;                           ///< threads of a block that share a row
  int columns = 1;                        ///< threads side by side along the innermost dimension; 1 if `along`
  int cluster = 1;                        ///< blocks that share a row
  bool striped =
      false;  ///< neighbouring threads move neighbouring elements: rows across memory that begin at any address
  bool interleaved_rows =
      false;  ///< neighbouring threads work for neighbouring rows, which lie side by side in short pieces
  TransposedStore transposed_store = TransposedStore::none;
  int rows_per_group = 1;  ///< rows of a team one after the other: a block has all of a result across rows
  int batch = 1;   ///< crossing: steps whose results are in shared memory at a time; of a pass, they are neighbours
  int vectors_per_run = 1;  ///< crossing along memory, or interleaved_rows: groups of a row side by side
  bool staged = false;         ///< what is held lies in shared memory, not in registers
  bool prefetches = false;     ///< what a later block will read is asked for, to lie in the L2 cache
  bool l2_evict_first = false;        ///< what is read and written leaves that cache first, for what lies there to stay
  bool sums_hundreds = false;  ///< split: rows have hundreds of elements, so that sums over them may take cheaper terms
  bool shares_grid = false;  ///< results across rows are combined from several blocks
  base::InlineVector<bool, 8> held;  ///< by input: kept from the first pass on
  base::InlineVector<bool, 8>
      hoisted;  ///< by input: the same for all groups of a thread, which reads it once for several
  base::InlineVector<std::uint32_t, 8>
      missing;  ///< by output: kept dimensions that it lacks; only their first element writes
  Values
      saved;  ///< values kept once computed: dear ones, cheap ones instead of several operands, exponentials of a softmax

  friend bool operator==(const ReductionClass&, const ReductionClass&) = default;
};

/// Numbers that are chosen for a form (tuning.hpp says how): they decide speed, never a result.
struct Tuning {
  int resident_blocks = 0;   ///< of a multiprocessor, that registers must leave space for; 0: as many as they do
  int unroll = 1;            ///< rows in shared memory: steps that a pass takes at once
  int batch = 1;             ///< rows: steps that an accumulator takes at once
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
      false;  ///< flat, with coordinates: rows are multiples of `elements`, so that no group transposes_stores from row to row
  int elements = 1;  ///< consecutive elements of a thread and step
  int steps = 1;
  int input_lanes =
      0;  ///< crossed: lanes of a warp side by side along the last dimension but one; turned: along the last
  int input_threads = 0;  ///< the same of a block
  int tile_overlap = 0;            ///< turned: elements along the results that a tile and the next one both compute
  int threads = 256;       ///< the most per block: launch bounds
  base::InlineVector<OperandPlan, 8> inputs;
  base::InlineVector<OperandPlan, 8> outputs;
  std::optional<ReductionClass> reduction;  ///< of chains with reductions
  Tuning tuning;

  friend bool operator==(const KernelClass&, const KernelClass&) = default;
};

/// Every result is a float of 16 or 8 bits: formulas whose error that rounding hides will do.
bool rounds_to_few_bits(const KernelClass& kernel_class) noexcept;

/// A result whose neighbours are not those of the operands: it turns in shared memory.
bool is_transposed(const KernelClass& kernel_class, const ir::Program& program, std::size_t output);

/// Whether a kernel that asks ahead does so for this input.
bool is_prefetched(const KernelClass& kernel_class, std::size_t input);

/// Nothing but the one saved value is needed of the held operands after the first pass.
bool saved_replaces_held(const ir::Program& program, const ReductionClass& reduction);

/// Bytes of shared memory that a thread keeps one step in, where rows are staged: pieces of 16 bytes.
int staged_bytes(const ir::Program& program, const KernelClass& kernel);
/// The same of a group, at most, of what the pass over parts needs where a few lanes pass each: 0 where it needs what nobody holds.
int segment_bytes(const ir::Program& program, const KernelClass& kernel);

/// Compact text that is equal for equal classes of the same chain: part of keys, and printed by `dump`.
std::string to_string(const KernelClass& kernel_class);

/// The class in words: equal where to_string() is. What the engine finds kernels by.
using ClassCode = base::InlineVector<std::uint32_t, 48>;
ClassCode code_of(const KernelClass& kernel_class);

/// Device memory that blocks of one launch share, in parts that begin at these bytes.
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

/// Why no team holds a chain's rows from pass to pass: recorded where that is decided, for explanations.
struct Unheld {
  enum class Why : std::uint8_t {
    none,           ///< it does, or results cross
    few_rows,       ///< most multiprocessors would idle
    registers,      ///< of a block: rows that are walked once
    cluster,        ///< the registers of a cluster: rows across memory
    not_copied,     ///< beyond registers, and operands that are not copied to shared memory
    shared_memory,  ///< of the blocks of a cluster
  };
  Why why = Why::none;
  std::int64_t bytes = 0;  ///< shared_memory: that each block would need
  int blocks = 1;          ///< of the largest cluster
  int together = 1;        ///< rows side by side in short pieces, which are read together
};

struct Plan {
  KernelClass kernel_class;
  Space space;                      ///< padded to kernel_class.coordinates if that is not 0
  std::int64_t vectors_per_row = 0;  ///< rows: groups of `elements` in one row of the innermost dimension
  std::int64_t vectors = 0;          ///< in all
  std::int64_t input_tiles = 0;    ///< crossed, turned: tiles of the dimension that operands run along
  std::int64_t output_tiles = 0;     ///< crossed, turned: tiles of the dimension that outputs run along
  bool reverse_order = false;           ///< pointwise: blocks take the last tile first
  std::int64_t tiles = 0;           ///< blocks' worth of groups
  int threads = 0;
  std::uint32_t blocks = 0;  ///< 0: nothing to launch

  // Of kernels with rows.
  std::int64_t rows = 0;            ///< kept elements outside of rows
  std::int64_t row_length = 0;      ///< elements of a row
  std::int64_t segments_per_row = 0;       ///< of a row, that are reduced on their own
  std::int64_t segment_length = 0;     ///< elements of each
  int segment_lanes = 0;               ///< of a team that pass one, if the class is lanewise: a power of two
  std::int64_t row_vectors = 0;     ///< groups of elements in one row, along; or rows' elements, across
  std::int64_t row_columns = 1;     ///< kept elements inside
  std::int64_t column_tiles = 1;    ///< blocks side by side along them
  std::int64_t chunks = 1;          ///< parts of a row: blocks that share it, or rounds of one block
  std::int64_t rounds = 1;          ///< split: rounds of one block over its chunk
  std::int64_t lag = 0;             ///< split: tiles between one pass and the next
  std::int64_t prefetch_distance = 0;           ///< blocks between one and that for which it asks, if the class does
  std::int64_t rows_per_result = 1;  ///< rows (outside) that a reduction across rows combines
  std::int64_t blocks_per_result = 1;           ///< blocks that contribute to one result across rows
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

/// Blocks that keep parts of rows, each with so many bytes of shared memory: as many as a multiprocessor has space for.
int resident_blocks_that_fit(const Machine& machine, int threads, std::int64_t bytes);

Plan make_plan(const ir::Program& program, std::span<const OutputView> outputs, std::span<const TensorView> inputs,
               Views views = Views::real, const Machine& machine = {});

/// The sum of the operations' costs: instructions per element, roughly.
int instructions_of(const ir::Program& program);

/// Bytes that an operand moves to or from device memory, each distinct element once.
std::uint64_t bytes_of(const StridedOperand& strided, const Space& space);

}  // namespace epifuse::plan
