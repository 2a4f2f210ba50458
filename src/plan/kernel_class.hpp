// What a kernel is, in types: all that decides its text besides the chain, and nothing that does not. The planner makes
// it, codegen visits it, and the engine finds kernels by it. Each type lists its fields once (fields.hpp).
// docs/internals/adding-a-schedule.md says how to add an alternative.
#pragma once

#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "plan/analysis/structure.hpp"
#include "plan/fields.hpp"

namespace epifuse::plan {

// ---- operands

/// How an operand moves along the innermost dimension, as the kernel reads or writes it.
enum class Access : std::uint8_t {
  unused,                ///< no result depends on it
  linear,                ///< lies in memory exactly as the iteration space runs: one index serves, no coordinates
  uniform,               ///< one element for all: read once per thread
  random_linear,         ///< random numbers, computed of the index of the iteration space
  row,                   ///< one element per row of the innermost dimension
  contiguous,            ///< steps of one along the innermost dimension
  strided,               ///< other steps along the innermost dimension
  hoisted,               ///< transpose: contiguous, and the same for all vectors of a thread, which reads it once
  transposed,            ///< transpose: written through shared memory, in lines of the output's innermost dimension
  transposed_unaligned,  ///< the same, where lines begin at any address: their ends go element by element
  random_strided,        ///< random numbers, computed of the index that coordinates and strides give
  position,              ///< where the element stands along a dimension: the index that coordinates and strides give
  bounded,               ///< some elements do not exist: read where `inside` operands say so, else 0
  inside,    ///< whether the element exists along a dimension: computed of the index that coordinates and strides give
  gathered,  ///< where the elements of `index` operands say; `width` > 1: they are the same for all of a vector
  index,     ///< no value: says where a `gathered` operand is read, or a result written
  bound,     ///< no value: `inside`, where only `bounded` operands ask for it
  run,       ///< a run of memory is read for a vector, of which other views of the tensor have their elements, too
  of_run,    ///< not read: its elements are those of another operand's run, or stand beside it
  tiled,     ///< no value: read once for a tile, of which a block computes what windows share
  of_tile,   ///< not read, and no value: another view of such a tensor
};
std::string_view to_string(Access access) noexcept;

/// Moves as many elements as the space has, in steps of one: what memory bandwidth is spent on.
inline bool is_streamed(Access access) { return access == Access::linear || access == Access::contiguous; }

/// Computed rather than read. `width` of them, neighbours, come of one computation.
inline bool is_random(Access access) { return access == Access::random_linear || access == Access::random_strided; }

/// Nothing lies in memory: random numbers, positions, and whether elements exist.
inline bool is_generated(Access access) {
  return is_random(access) || access == Access::position || access == Access::inside || access == Access::bound;
}

/// The chain has a value of it.
inline bool is_value(Access access) {
  return access != Access::unused && access != Access::index && access != Access::bound && access != Access::tiled &&
         access != Access::of_tile;
}

/// Where views of one tensor that are read together have their elements: in a run of memory that one of them reads.
struct RunOfViews {
  int reader = 0;  ///< the input that reads it, or the output that writes it
  int step = 1;    ///< elements of memory from one element of a vector to the next
  int first = 0;   ///< where in the run a vector begins; a few of its elements may stand before the run or behind it
  int base = 0;    ///< the run of the tensor from which this one lies equally far for all vectors; `reader`: none

  static constexpr auto fields() {
    return std::tuple{Field{"reader", &RunOfViews::reader}, Field{"step", &RunOfViews::step},
                      Field{"first", &RunOfViews::first}, Field{"base", &RunOfViews::base}};
  }
};

/// Where a view has its element in a tile of what windows share, from the first window's on.
struct PlaceInTile {
  int row = 0;
  int column = 0;

  static constexpr auto fields() {
    return std::tuple{Field{"row", &PlaceInTile::row}, Field{"column", &PlaceInTile::column}};
  }
};

struct OperandPlan {
  static constexpr int kOwn = -1;
  static constexpr std::uint16_t kKnown = 1U << 8;

  DType dtype = DType::f32;
  Access access = Access::linear;
  int width = 1;  ///< elements per memory access
  bool aligned =
      false;  ///< contiguous, where rows are divisible: all vectors begin where an access may; else the kernel asks
  bool per_row = false;    ///< reductions, of `index`: the same for all of a row
  bool written = false;    ///< reductions: of what is written in place of rows' elements, one by one
  bool pads = false;       ///< a result in tiles that are not all full: the kernel writes 0 where they are not
  bool read_only = false;  ///< nothing of the kernel writes it: it is read through the read-only cache (ld.global.nc)
  std::optional<RunOfViews> run = {};     ///< of the accesses `run` and `of_run`
  std::optional<PlaceInTile> place = {};  ///< of the accesses `tiled` and `of_tile`
  int staged_row = kOwn;                  ///< written: it has elements of a row of this input, from shared memory
  int strides_of = kOwn;                  ///< an input before it that has the same strides: one parameter serves both
  /// The dimensions (bit d) along which the offset grows by strides that are not 0, and kKnown; 0: all. Of views in
  /// divisible rows, and of positions that a vector of a reduction shares.
  std::uint16_t moves = 0;
  bool unit_step = false;  ///< of `inside` and `bound`, where a thread has one vector: by 1 along the last of these

  /// Needs coordinates, not only the linear index.
  bool is_gathered() const noexcept { return access >= Access::row; }
  bool moves_along(int dimension) const noexcept { return moves == 0 || (moves >> dimension & 1) != 0; }
  std::string text() const;

  static constexpr auto fields() {
    return std::tuple{Field{"", &OperandPlan::dtype},
                      Field{"", &OperandPlan::access},
                      Field{"width", &OperandPlan::width},
                      Field{"aligned", &OperandPlan::aligned},
                      Field{"per_row", &OperandPlan::per_row},
                      Field{"written", &OperandPlan::written},
                      Field{"pads", &OperandPlan::pads},
                      Field{"read_only", &OperandPlan::read_only},
                      Field{"run", &OperandPlan::run},
                      Field{"place", &OperandPlan::place},
                      Field{"staged_row", &OperandPlan::staged_row},
                      Field{"strides_of", &OperandPlan::strides_of},
                      Field{"moves", &OperandPlan::moves},
                      Field{"unit_step", &OperandPlan::unit_step}};
  }
};

// ---- kernels of chains without reductions: how threads map to the iteration space

/// All elements in one line; a thread's elements may reach into the next row.
struct Flat {
  static constexpr std::string_view kName = "flat", kSchedule = "flat";
  bool divisible_rows = false;  ///< rows are multiples of a vector: none reaches into the next row
  /// Offsets are made of an element's number and of its quotients by the extents, without remainders: of the number
  /// n = n_k of an element and n_d = n_{d+1} / extent_{d+1}, the offset is the sum of n_d * (stride_d - extent_{d+1} *
  /// stride_{d+1}), which kernels have as strides.
  bool by_quotients = false;

  static constexpr auto fields() {
    return std::tuple{Field{"divisible_rows", &Flat::divisible_rows}, Field{"by_quotients", &Flat::by_quotients}};
  }
};

/// Row by row of the innermost dimension: for outputs that are not one dense line in the space's order, unless all
/// vectors of their rows are full.
struct ByRow {
  static constexpr std::string_view kName = "by_row", kSchedule = "by_row";
  static constexpr auto fields() { return std::tuple{}; }
};

/// Two dimensions at once: an operand is contiguous along another dimension than the outputs, as a transposed tensor.
struct Tiled2D {
  static constexpr std::string_view kName = "tiled_2d", kSchedule = "tiled_2d";
  int input_lanes = 1;    ///< lanes of a warp side by side along the dimension in which that operand is contiguous
  int input_threads = 1;  ///< the same of a block

  static constexpr auto fields() {
    return std::tuple{Field{"input_lanes", &Tiled2D::input_lanes}, Field{"input_threads", &Tiled2D::input_threads}};
  }
};

/// The same where all full operands are contiguous there: the kernel iterates in their order, and results are
/// transposed in shared memory.
struct Transpose {
  static constexpr std::string_view kName = "transpose", kSchedule = "transpose";
  int input_threads = 1;  ///< threads of a block side by side along the operands' innermost dimension
  int tile_overlap = 0;   ///< elements along the results that a tile and the next one both compute

  static constexpr auto fields() {
    return std::tuple{Field{"input_threads", &Transpose::input_threads},
                      Field{"tile_overlap", &Transpose::tile_overlap}};
  }
};

/// Windows overlap: a block computes what they share of each element once for a tile of results, into shared memory.
struct WindowTile {
  static constexpr std::string_view kName = "window_tile", kSchedule = "window_tile";
  int rows = 1, columns = 1;          ///< results of a tile
  int row_step = 1, column_step = 1;  ///< elements from one window to the next
  int height = 1, width = 1;          ///< elements that a tile's windows span
  Values values;                      ///< of the chain: the same function of several views

  static constexpr auto fields() {
    return std::tuple{Field{"rows", &WindowTile::rows},         Field{"columns", &WindowTile::columns},
                      Field{"row_step", &WindowTile::row_step}, Field{"column_step", &WindowTile::column_step},
                      Field{"height", &WindowTile::height},     Field{"width", &WindowTile::width},
                      Field{"values", &WindowTile::values}};
  }
};

struct PointwiseClass {
  std::variant<Flat, ByRow, Tiled2D, Transpose, WindowTile> map;

  static constexpr auto fields() { return std::tuple{Field{"", &PointwiseClass::map}}; }
};

// ---- kernels of chains with reductions

/// Where rows lie in the iteration space, whose dimensions stand in three sections: parallel ones outside of rows,
/// those of the row, and parallel ones inside.
struct RowLayout {
  bool inner_reduction = true;  ///< a thread's consecutive elements belong to one row; else to neighbouring rows
  bool tensor_aligned = false;  ///< rows begin anywhere: vectors are aligned to the tensor, not to the row
  bool striped =
      false;  ///< outer reductions that begin at any address: neighbouring threads move neighbouring elements
  bool whole_lines = false;  ///< inner reductions over several dimensions: no vector reaches into the next line
  int outer = 1, reduced = 1, inner = 0;  ///< coordinates of the sections

  static constexpr auto fields() {
    return std::tuple{Field{"inner_reduction", &RowLayout::inner_reduction},
                      Field{"tensor_aligned", &RowLayout::tensor_aligned},
                      Field{"striped", &RowLayout::striped},
                      Field{"whole_lines", &RowLayout::whole_lines},
                      Field{"outer", &RowLayout::outer},
                      Field{"reduced", &RowLayout::reduced},
                      Field{"inner", &RowLayout::inner}};
  }
};

/// Who works for a row of a block.
struct RowThreads {
  int group = 1;      ///< threads of a block that share a row
  int columns = 1;    ///< outer reductions: threads side by side along the innermost dimension
  bool full = false;  ///< rows end with a thread group's last step or round: each thread has a vector in every step

  static constexpr auto fields() {
    return std::tuple{Field{"group", &RowThreads::group}, Field{"columns", &RowThreads::columns},
                      Field{"full", &RowThreads::full}};
  }
};

/// What is kept from one pass over a row to the next.
struct Residency {
  base::InlineVector<bool, 8> held;     ///< by input: kept from the first pass on
  base::InlineVector<bool, 8> hoisted;  ///< by input: the same for all vectors of a thread, which reads it once
  Values
      saved;  ///< values kept once computed: expensive ones, cheap ones instead of several operands, exponentials of a softmax

  static constexpr auto fields() {
    return std::tuple{Field{"held", &Residency::held}, Field{"hoisted", &Residency::hoisted},
                      Field{"saved", &Residency::saved}};
  }
};

/// Neighbouring threads work for neighbouring rows, which lie side by side in runs shorter than what memory moves at
/// once.
struct InterleavedRows {
  int vectors_per_run = 1;  ///< neighbouring threads that work for one row

  static constexpr auto fields() { return std::tuple{Field{"vectors_per_run", &InterleavedRows::vectors_per_run}}; }
};

/// Thread groups, from a few lanes up to a cluster of blocks, hold rows in registers from the first pass to the last.
struct Resident {
  static constexpr std::string_view kName = "resident", kSchedule = "resident";
  static constexpr bool kInSharedMemory = false, kSharesRows = false;
  int cluster = 1;                 ///< blocks that share a row
  bool prefetches = false;         ///< it prefetches what a later block will read into the L2 cache
  bool segments_by_lanes = false;  ///< a few lanes reduce each segment; else warps reduce one after the other

  static constexpr auto fields() {
    return std::tuple{Field{"cluster", &Resident::cluster}, Field{"prefetches", &Resident::prefetches},
                      Field{"segments_by_lanes", &Resident::segments_by_lanes}};
  }
};

/// The same, one row of a thread group after the other: a block has all rows of a grid reduction's result.
struct RowsPerGroup {
  static constexpr std::string_view kName = "rows_per_group", kSchedule = "resident";
  static constexpr bool kInSharedMemory = false, kSharesRows = false;
  int rows = 2;

  static constexpr auto fields() { return std::tuple{Field{"rows", &RowsPerGroup::rows}}; }
};

/// A block, or the blocks of a cluster, hold a row in shared memory.
struct ResidentShared {
  static constexpr std::string_view kName = "resident_shared", kSchedule = "resident";
  static constexpr bool kInSharedMemory = true, kSharesRows = false;
  int cluster = 1;          ///< blocks that share a row
  bool prefetches = false;  ///< as Resident's
  std::optional<InterleavedRows> interleaved;

  static constexpr auto fields() {
    return std::tuple{Field{"cluster", &ResidentShared::cluster}, Field{"prefetches", &ResidentShared::prefetches},
                      Field{"interleaved", &ResidentShared::interleaved}};
  }
};

/// A block reads rows that it cannot hold, once per stage and once more for results that vary within rows.
struct Looped {
  static constexpr std::string_view kName = "looped", kSchedule = "looped";
  static constexpr bool kInSharedMemory = false, kSharesRows = false;
  static constexpr auto fields() { return std::tuple{}; }
};

/// A thread group reads a row once, segment by segment, and goes on with the segments' means.
struct BySegments {
  static constexpr std::string_view kName = "by_segments", kSchedule = "looped";
  static constexpr bool kInSharedMemory = false, kSharesRows = false;
  int slots = 1;  ///< segments of a row whose means fit a thread group's shared memory

  static constexpr auto fields() { return std::tuple{Field{"slots", &BySegments::slots}}; }
};

/// Many blocks share a row, through a workspace, and read it once per pass.
struct Split {
  static constexpr std::string_view kName = "split", kSchedule = "split";
  static constexpr bool kInSharedMemory = false, kSharesRows = true;
  static constexpr auto fields() { return std::tuple{}; }
};

/// The same, but each block holds its chunk in shared memory from pass to pass.
struct SplitResident {
  static constexpr std::string_view kName = "split_resident", kSchedule = "split_resident";
  static constexpr bool kInSharedMemory = true, kSharesRows = true;
  bool prefetches = false;      ///< as Resident's
  bool l2_evict_first = false;  ///< what is read and written leaves the L2 cache first, for what lies there to stay

  static constexpr auto fields() {
    return std::tuple{Field{"prefetches", &SplitResident::prefetches},
                      Field{"l2_evict_first", &SplitResident::l2_evict_first}};
  }
};

/// Results have their neighbours elsewhere than operands: they are transposed in a block's shared memory, and written
/// line by line.
struct TransposedStore {
  enum class Lines : std::uint8_t {
    rows,      ///< neighbouring rows are neighbours in the results: softmax over the channels of NHWC into NCHW
    elements,  ///< neighbouring steps of a pass are: the norms of NHWC into NCHW
  };
  Lines lines = Lines::rows;
  int batch = 1;  ///< steps whose results are in shared memory at a time; of lines of elements, they are neighbours
  int vectors_per_run = 1;        ///< inner reductions: vectors of a row side by side
  bool interleaved_rows = false;  ///< inner reductions: neighbouring threads work for neighbouring rows

  static constexpr auto fields() {
    return std::tuple{Field{"lines", &TransposedStore::lines}, Field{"batch", &TransposedStore::batch},
                      Field{"vectors_per_run", &TransposedStore::vectors_per_run},
                      Field{"interleaved_rows", &TransposedStore::interleaved_rows}};
  }
};
std::string_view to_string(TransposedStore::Lines lines) noexcept;

/// Reductions over segments of rows.
struct Segments {
  int coordinates = 0;  ///< of the row's, the first ones: which of its segments

  static constexpr auto fields() { return std::tuple{Field{"coordinates", &Segments::coordinates}}; }
};

/// Reductions over segments of rows that are needed again with the segments' elements: neighbouring lanes of a warp
/// hold a segment in one step.
struct LaneSegments {
  int lanes = 1;  ///< a power of two, each with one vector

  static constexpr auto fields() { return std::tuple{Field{"lanes", &LaneSegments::lanes}}; }
};

/// Results that combine rows.
struct GridReduction {
  bool several_blocks = false;  ///< they are combined from several blocks

  static constexpr auto fields() { return std::tuple{Field{"several_blocks", &GridReduction::several_blocks}}; }
};

/// Sums over rows that keep a row's elements. A thread group holds one row after the other, and its threads the sums of
/// their elements.
struct ColumnSums {
  int coordinates = 0;          ///< of the row's, the first ones: which column; 0: each element is one
  bool several_blocks = false;  ///< the sums of several blocks meet in the workspace
  int cluster = 1;              ///< after so many blocks, which share no row, have added theirs

  static constexpr auto fields() {
    return std::tuple{Field{"coordinates", &ColumnSums::coordinates},
                      Field{"several_blocks", &ColumnSums::several_blocks}, Field{"cluster", &ColumnSums::cluster}};
  }
};

struct ReductionClass {
  Structure structure;
  RowLayout layout;
  RowThreads threads;
  Residency residency;
  std::variant<Resident, RowsPerGroup, ResidentShared, Looped, BySegments, Split, SplitResident> driver;
  std::optional<TransposedStore> store;
  std::optional<Segments> segments;
  std::optional<LaneSegments> lane_segments;
  std::optional<GridReduction> grid;
  std::optional<ColumnSums> columns;
  base::InlineVector<std::uint32_t, 8>
      missing;  ///< by output: parallel dimensions that it lacks; only their first element writes

  // What drivers have in common, each asked of the one at hand.
  std::string_view schedule()
      const;  ///< the family's name, for people: "resident", "looped", "split" or "split_resident"
  bool is_in_shared_memory() const;  ///< what is held lies there, not in registers
  bool shares_rows() const;          ///< blocks of a row meet in the workspace
  bool prefetches() const;
  bool l2_evict_first() const;
  bool reduces_segments_by_lanes() const;
  int cluster() const;         ///< blocks of a cluster that share a row
  int cluster_blocks() const;  ///< blocks of a cluster: these, or those that add their column sums
  int rows_per_group() const;  ///< rows of a thread group, one after the other
  bool interleaves_rows() const;
  int vectors_per_run() const;  ///< of transposed stores and of interleaved rows

  template <class Driver>
  bool is() const {
    return std::holds_alternative<Driver>(driver);
  }
  /// Rows that thread groups hold from the first pass to the last, in registers or in shared memory.
  bool is_resident() const { return is<Resident>() || is<RowsPerGroup>() || is<ResidentShared>(); }
  /// Rows that thread groups hold in registers, of which each thread has a full vector in every step.
  bool holds_full_rows() const;
  /// The same, of warps that share no row: one that has no row ends at once.
  bool holds_full_rows_of_warps() const { return holds_full_rows() && threads.group == 32 && cluster() == 1; }
  bool stores_lines_of(TransposedStore::Lines lines) const { return store && store->lines == lines; }
  int segment_coordinates() const { return segments ? segments->coordinates : 0; }

  static constexpr auto fields() {
    return std::tuple{
        Field{"", &ReductionClass::driver},           Field{"layout", &ReductionClass::layout},
        Field{"threads", &ReductionClass::threads},   Field{"store", &ReductionClass::store},
        Field{"segments", &ReductionClass::segments}, Field{"lane_segments", &ReductionClass::lane_segments},
        Field{"grid", &ReductionClass::grid},         Field{"column_sums", &ReductionClass::columns},
        Field{"", &ReductionClass::residency},        Field{"missing", &ReductionClass::missing},
        Field{"", &ReductionClass::structure}};
  }
};

// ---- the whole

/// Numbers that are chosen for a class (tuning.hpp says how): they decide speed, never a result.
struct Tuning {
  int resident_blocks = 0;      ///< of a multiprocessor, that registers must leave space for; 0: as many as they do
  int unroll = 1;               ///< rows in shared memory: steps that a pass takes at once
  int batch = 1;                ///< reductions: steps that an accumulator takes at once
  bool l1_evict_first = false;  ///< reductions: what is held leaves the caches first
  bool cheap_terms =
      false;  ///< reductions: rows have hundreds of elements, so that terms of sums may have cheaper formulas

  static constexpr auto fields() {
    return std::tuple{Field{"resident_blocks", &Tuning::resident_blocks}, Field{"unroll", &Tuning::unroll},
                      Field{"batch", &Tuning::batch}, Field{"l1_evict_first", &Tuning::l1_evict_first},
                      Field{"cheap_terms", &Tuning::cheap_terms}};
  }
};

/// All that decides the emitted text, besides the chain. Equal classes share one kernel, whatever the shapes.
struct KernelClass {
  std::variant<PointwiseClass, ReductionClass> body;
  bool f64 = false;         ///< compute type
  bool wide_index = false;  ///< 64-bit index arithmetic
  int coordinates = 0;      ///< dimensions of the index arithmetic: 0, 2, 3, 5 or 8; the space is padded with ones
  int elements = 1;         ///< consecutive elements of a thread and step
  int steps = 1;
  int threads = 256;  ///< the most per block: launch bounds
  base::InlineVector<OperandPlan, 8> inputs;
  base::InlineVector<OperandPlan, 8> outputs;
  Tuning tuning;

  ReductionClass* reduction() noexcept { return std::get_if<ReductionClass>(&body); }
  const ReductionClass* reduction() const noexcept { return std::get_if<ReductionClass>(&body); }
  /// The map of a pointwise kernel if it is of that type, else null.
  template <class Map>
  const Map* map() const noexcept {
    const auto* pointwise = std::get_if<PointwiseClass>(&body);
    return pointwise == nullptr ? nullptr : std::get_if<Map>(&pointwise->map);
  }
  std::string_view schedule() const;

  static constexpr auto fields() {
    return std::tuple{Field{"", &KernelClass::body},
                      Field{"f64", &KernelClass::f64},
                      Field{"wide_index", &KernelClass::wide_index},
                      Field{"coordinates", &KernelClass::coordinates},
                      Field{"elements", &KernelClass::elements},
                      Field{"steps", &KernelClass::steps},
                      Field{"threads", &KernelClass::threads},
                      Field{"inputs", &KernelClass::inputs},
                      Field{"outputs", &KernelClass::outputs},
                      Field{"tuning", &KernelClass::tuning}};
  }
};

/// What views of a run have before it or behind it: element `element` of a vector of input `input`, `at` elements of
/// memory from the run's beginning.
struct BesideRun {
  int at = 0;
  int input = 0;
  int element = 0;
};
/// Of the run that input `reader` reads, each place once.
std::vector<BesideRun> beside_run(const KernelClass& kernel, std::size_t reader);

}  // namespace epifuse::plan
