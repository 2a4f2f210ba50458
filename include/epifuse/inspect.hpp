// Looking inside: what EpiFuse plans, emits and compiles for an epilogue and its tensors, and what it found on this
// machine.
// Needs no GPU. `epifuse dump` and `epifuse doctor` print what these functions return.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <epifuse/engine.hpp>

namespace epifuse {

/// One operation of the table behind the language, for lists of operations.
struct OpInfo {
  std::string signature;  ///< "leaky_relu(input, negative_slope=0.01)"
  std::string group;
  std::string formula;
  int cost;          ///< instructions per element in f32, roughly
  bool gives_truth;  ///< the result is a truth value
  std::string type;  ///< of the result, by default, for people: "promoted, f32 for integers"
};
std::vector<OpInfo> list_operations();

/// How one operand is read or written.
struct OperandSummary {
  std::string name;
  DType dtype;
  Dims shape;
  Dims strides;
  std::string access;    ///< linear, contiguous, strided, …: docs/internals/plan/pointwise.md has all of them
  int bytes_per_access;  ///< of one memory instruction of one thread
  std::uint64_t bytes;   ///< moved to or from device memory, each element once
  int reads;        ///< passes of a row that read it from memory or a cache; 1 if it is held in registers, or written
  std::string why;  ///< the reason for access and width, a sentence
};

/// One pass over the elements of a row. Values that are no operand go by their number in ir_text(): "%5 (gelu)".
struct PassSummary {
  std::vector<std::string> accumulates;  ///< "max_sumexp of x": what all threads of the row agree on when it ends
  std::vector<std::string> reads;        ///< operands that it fetches; those that are held are fetched by the first
  std::vector<std::string> writes;       ///< results that vary within rows: of the last pass
};

/// What a plan with reductions has beside the rest. docs/internals/plan/reduction.md explains the words.
struct ReductionSummary {
  std::int64_t rows;               ///< in all
  std::int64_t row_length;         ///< elements that become one
  bool inner_reduction;            ///< a thread's consecutive elements belong to one row; else to neighbouring rows
  std::int64_t rows_side_by_side;  ///< neighbouring rows whose elements alternate in memory; 1 in inner reductions
  std::int64_t segments_per_row;   ///< runs of a row's elements that are reduced on their own; 0: there are none
  std::int64_t segment_length;     ///< elements of each
  int segment_lanes;               ///< that reduce each, many at once; 0: warps reduce one after the other
  bool lane_segments;              ///< reductions of segments are needed again with their elements, which lanes hold
  int group_threads;               ///< of one block, that share a row
  int cluster_blocks;              ///< that hold a row together (schedule resident)
  std::int64_t blocks_per_row;     ///< the same, or the chunks of a row (split, split_resident)
  std::int64_t rows_per_block;     ///< that a block has in hand at a time
  std::int64_t rounds;             ///< in which a block reads its chunk; 1 if it holds that
  std::int64_t lag;                ///< split: by so many tiles a pass stays behind the one before
  std::int64_t prefetch_distance;  ///< blocks between one and that for which it prefetches; 0: none does
  std::uint64_t prefetch_bytes;    ///< that those between them read
  std::uint64_t next_rows_bytes;  ///< column sums: of the rows that a block comes to next, which it prefetches; 0: none
  std::string shared_by;          ///< who shares a row: "4 warps of a block"
  std::vector<PassSummary> passes;  ///< in order
  std::vector<std::string> held;    ///< operands that are held from the first pass to the last
  /// Computed values that are held, too: expensive ones, cheap ones instead of several operands, exponentials of a
  /// softmax.
  std::vector<std::string> saved;
  std::string held_in;            ///< "registers" or "shared memory"
  std::uint64_t staged_bytes;     ///< of shared memory per block, where rows are held there
  std::uint64_t bytes_under_way;  ///< split: of rows between their first and their last pass, for the L2 cache
};

/// The plan as data.
struct PlanSummary {
  /// flat, by_row, tiled_2d, transpose, window_tile; of reductions resident, looped, split, split_resident; gemm inside
  /// a product (docs/internals/plan.md).
  std::string schedule;
  std::string why;
  std::string compute_type;  ///< f32 or f64
  Dims space;                ///< iteration space after merging, outermost first
  int coordinates;           ///< dimensions that the kernel's index arithmetic has (the space padded with ones)
  int index_bits;            ///< 32 or 64
  int elements_per_access;   ///< consecutive elements that a thread handles at a time
  int steps;                 ///< such vectors per thread and `steps_of`
  std::string steps_of;      ///< "tile"; with reductions "row" where a thread group holds its rows, or "round"
  int threads;               ///< per block
  std::uint64_t blocks;
  bool reverse_order;  ///< large tensors, without reductions: blocks take the last elements first
  std::uint64_t elements;
  std::uint64_t bytes_read;  ///< each element once
  std::uint64_t bytes_written;
  std::uint64_t bytes_read_again;   ///< by rows that are read several times and not held, from the L2 cache or memory
  std::uint64_t bytes_from_caches;  ///< of elements that several views read: once from memory, and again so much
  std::uint64_t workspace_bytes;    ///< as Engine::workspace_bytes
  int bytes_per_thread;             ///< that a thread requests before it waits
  std::optional<ReductionSummary> reduction;  ///< of epilogues with reductions
  int instructions;                           ///< sum of the operations' costs per element
  std::vector<std::string> formulas;  ///< operations that cheaper formulas compute (docs/guide/accuracy.md), each once
  /// What these add to the results' own rounding, at most, in ulp of their types; sums count from their largest term.
  double added_ulps;
  std::vector<OperandSummary> operands;  ///< inputs, then outputs
  std::string kernel_class;              ///< what decides the emitted text; equal classes share one kernel
  std::vector<std::string>
      views;  ///< what the kernel calls operands that are read through views: "x_0 is x[..., :128]"
  std::vector<std::string>
      repeated;  ///< operations that are computed for several views of their value: "'silu' 2 times"
  /// Of epilogues with matrix products that are computed apart: what the kernel reads, and why. "product is linear(x,
  /// w): …"
  std::vector<std::string> products;
  std::string product;  ///< of an epilogue inside a product's kernel: the plan of that kernel, for people
};

/// The GPU that a plan is made for: who shares a row depends on it, and whether a product hosts its chain. The default
/// is an H100.
struct PlanTarget {
  int architecture = 90;      ///< 10 * major + minor of the compute capability
  int multiprocessors = 0;    ///< 0: those of a usual device of the architecture
  std::int64_t l2_bytes = 0;  ///< of its L2 cache, 0 likewise
  double bandwidth = 0;       ///< of its memory, bytes per second by the data sheet, 0 likewise
};

/// What a compiled kernel takes of a multiprocessor, by the assembler's own account. All 0: unknown.
struct KernelResources {
  int architecture = 0;
  int registers = 0;        ///< per thread
  int shared_bytes = 0;     ///< per block
  int spilled_bytes = 0;    ///< per thread: registers that did not suffice
  int resident_blocks = 0;  ///< that it was compiled for, where more, as planned, would spill much; 0: as planned
};

/// Views given here may have null pointers: they stand for memory that is aligned to 256 bytes and overlaps nothing.
class Inspection {
 public:
  /// Plans and emits; throws as Engine::launch does for what does not fit. Two or more inputs are given by name, or by
  /// position in a stated order.
  Inspection(const Epilogue& tail, std::span<const OutputView> outputs, std::span<const TensorView> inputs,
             const PlanTarget& target = {});
  Inspection(const Epilogue& tail, std::span<const OutputView> outputs, const Arguments& inputs,
             const PlanTarget& target = {});

  const PlanSummary& plan() const noexcept { return plan_; }
  /// The plan for people. `bandwidth` in bytes per second (0: unknown) gives the time that the bytes need; `registers`
  /// (0: unknown) is printed when the kernel was compiled.
  std::string plan_text(double bandwidth = 0, int registers = 0) const;
  /// The same with all that is known of the compiled kernel: also how many blocks a multiprocessor has in flight, and
  /// what limits that.
  std::string plan_text(double bandwidth, const KernelResources& resources) const;
  /// The whole CUDA source, written at the first call. It lives as long as this object or a copy of it.
  const std::string& cuda() const;
  /// Compiles with NVRTC for an architecture such as 90; throws no_compiler or compile_failed.
  std::string ptx(int architecture) const;
  std::string cubin(int architecture) const;
  /// Registers per thread of the kernel compiled for that architecture.
  int registers(int architecture) const;
  KernelResources resources(int architecture) const;

 private:
  struct Source;
  PlanSummary plan_;
  std::shared_ptr<const Source> source_;
};

/// The SSA list, one value per line.
std::string ir_text(const Epilogue& tail);
/// The same as a Graphviz graph.
std::string ir_dot(const Epilogue& tail);

/// One value of an epilogue as data, for programs that draw it or reason about it. Which members count depends on `op`.
struct ChainValue {
  std::string
      op;  ///< "add", "mean", "cast", "unflatten", "view", …; "input", "scalar", "constant" for what is no operation
  std::vector<int> arguments;  ///< positions in Chain::values, all before this one
  std::string name;            ///< of input and scalar
  double constant = 0;         ///< of constant; of var: the correction
  DType dtype = DType::f32;    ///< of cast
  std::vector<int> axes;   ///< of reductions (none: all), of unflatten and along: as written, negative from the back
  bool axes_rest = false;  ///< of reductions: also every dimension behind the last of `axes`
  bool keepdim = false;    ///< of reductions
  std::vector<std::int64_t>
      sizes;                 ///< of unflatten: the two extents, one may be -1; of flatten: first and last dimension; of
                             ///< conv2d: stride, padding and dilation, each for the height and the width
  std::string view;          ///< of view: as the text language writes it, of "_": "_[..., :128]"
  bool gives_truth = false;  ///< a truth value whatever the operands' types are
};
/// An epilogue as data: every value after those that it is computed from.
struct Chain {
  std::vector<ChainValue> values;
  std::vector<int> results;  ///< positions in `values`
};
Chain chain_of(const Epilogue& tail);

/// Some values of an epilogue computed from its operands and others of its values: where a chain is no single kernel,
/// it is several such parts, one after the other.
struct Subchain {
  Epilogue epilogue;
  std::vector<int> reads;  ///< by operand of `epilogue`: its position in Chain::values of the whole
};
struct SubchainOptions {
  /// The results are cast to f64, so that the part computes as a whole does that has operands of f64 which this part
  /// does not read.
  bool in_f64 = false;
};
/// The part of `tail` that computes the values at `writes` (positions in Chain::values) in that order, from operands
/// and from the values at `known`. Operands and scalars keep their names, the value at position 3 is called "v3". Its
/// launches take operands by position as `reads` lists them, and scalars in the order of its scalars().
/// Throws Error(invalid_argument) for positions that are none.
Subchain subchain_of(const Epilogue& tail, std::span<const int> writes, std::span<const int> known,
                     const SubchainOptions& options = {});

/// A CUDA device, as the driver describes it.
struct DeviceSummary {
  int index;
  std::string name;
  int architecture;  ///< 90 for compute capability 9.0
  int multiprocessors;
  std::uint64_t memory_bytes;
  std::uint64_t l2_bytes;
  double peak_bandwidth;  ///< bytes per second by memory clock and bus width; 0 if unknown
};

/// What this machine has. Nothing throws: what is missing is a sentence in `problems`.
struct SystemReport {
  std::string version;               ///< of EpiFuse
  std::optional<std::string> nvrtc;  ///< "13.0 (/usr/local/cuda/lib64/libnvrtc.so.13)"
  std::vector<int> nvrtc_architectures;
  std::optional<std::string> driver;  ///< "13.0"
  std::vector<DeviceSummary> devices;
  std::optional<std::string> cache_directory;
  std::uint64_t cache_entries = 0;
  std::uint64_t cache_bytes = 0;
  std::uint64_t cache_limit = 0;
  int cpu_threads = 0;
  std::vector<std::string> problems;
};
SystemReport system_report();

/// A directory of the disk cache (docs/guide/cache.md), as it is at this moment.
struct CacheReport {
  std::string directory;
  bool shared = false;           ///< EPIFUSE_CACHE_SHARED_DIR; else the user's own
  bool writable = false;         ///< this process may store there; false also while the directory does not exist
  std::uint64_t entries = 0;     ///< compiled kernels
  std::uint64_t bytes = 0;       ///< of the entries, headers included
  std::uint64_t limit = 0;       ///< bytes that it may hold
  std::uint64_t unfinished = 0;  ///< files that a process writes now, or was writing when it was killed
  std::uint64_t compiling = 0;   ///< kernels that a process compiles now, or was compiling when it was killed
  std::string problem;           ///< why the directory is not used; empty when it is, or does not exist yet
};
/// What engines use by default: the user's own directory, then the shared one if there is such a setting. Empty with
/// EPIFUSE_CACHE=off and where there is no home directory. Never throws for trouble with files.
std::vector<CacheReport> cache_report();

/// What cache_verify() found. `removed` is the sum of the four kinds of bad entries, less those that could not be
/// removed.
struct CacheCheck {
  std::uint64_t good = 0;
  std::uint64_t removed = 0;
  std::uint64_t damaged = 0;    ///< cut short, lengthened, or bits flipped
  std::uint64_t outdated = 0;   ///< of another version of EpiFuse
  std::uint64_t misplaced = 0;  ///< under the name of another kernel
  std::uint64_t foreign = 0;    ///< not a plain file that the directory's owner alone may write
};
/// Reads every entry of the directories of cache_report(), removes the bad ones, and what killed processes left. In
/// another user's shared directory bad ones are counted and stay.
CacheCheck cache_verify();
/// Removes every entry of the user's own directory; how many. Files that are not the cache's stay.
std::uint64_t cache_clear();

}  // namespace epifuse
