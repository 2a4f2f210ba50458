// Writes kernels of reductions: one accumulating pass per stage, and the results. The skeletons in templates/reduction/
// call what is written here, in passes.cpp (what a thread holds, and the passes' elements) and in stages.cpp (what is
// accumulated and known per row).
#include "codegen/reduction/reduction.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "codegen/emit.hpp"
#include "codegen/offsets.hpp"
#include "codegen/params.hpp"
#include "codegen/reduction/column_sums.hpp"
#include "codegen/reduction/passes.hpp"
#include "codegen/reduction/stages.hpp"
#include "codegen/reduction/written.hpp"
#include "codegen/source.hpp"
#include "plan/planning.hpp"

namespace epifuse::codegen {
namespace {

using ir::Kind;
using ir::Node;
using ir::Op;
using ir::Program;
using ir::Value;
using plan::Access;
using plan::Accumulator;
using plan::KernelClass;
using plan::NodeRole;
using plan::OperandPlan;
using plan::ReductionClass;
using plan::Scope;

class ReductionEmitter {
 public:
  ReductionEmitter(const Program& program, const KernelClass& kernel, const std::vector<Kind>& input_kinds)
      : program_(program),
        kernel_(kernel),
        reduction_(*kernel_.reduction()),
        input_kinds_(input_kinds),
        passes_(program, kernel, input_kinds, prelude_),
        chain_(passes_.chain()),
        stages_(program, kernel, input_kinds, passes_),
        columns_(program, kernel, passes_),
        written_(program, kernel, input_kinds, chain_) {}

  std::string emit() {
    const std::string generated = write_generated();  // also requires the sections that it uses
    std::string out = write_header(program_, kernel_);
    out += "typedef " + std::string(kernel_.f64 ? "double" : "float") + " Real;  // what the chain computes in\n";
    out += fmt::format("typedef {} Index;\n", kernel_.wide_index ? "long long" : "int");
    out += settings();
    out += sections_;
    out += write_params(program_, kernel_);
    out += write_uniforms(program_, kernel_, input_kinds_);
    out += place_;
    out += generated;
    const std::string end = end_grid();
    if (has_grid_reduction()) prelude_.require(reduction_.grid->several_blocks ? "grid_shared" : "grid_alone");
    if (reduction_.columns) {
      prelude_.require(!reduction_.layout.inner_reduction    ? "columns_of_rows_beside"
                       : reduction_.columns->coordinates > 0 ? "columns_of_segments"
                                                             : "columns_of_elements");
      prelude_.require(reduction_.columns->cluster > 1      ? "columns_in_clusters"
                       : reduction_.columns->several_blocks ? "columns_shared"
                                                            : "columns_alone");
    }
    out += prelude_.take() + end;
    if (has_written()) out += written();
    prelude_.require(!reduction_.prefetches()            ? "no_prefetch"
                     : reduction_.columns                ? "prefetch_rows"
                     : reduction_.layout.inner_reduction ? "prefetch_inner"
                                                         : "prefetch_outer");
    if (!has_segment_means()) prelude_.require(writer());
    if (has_segments() && !has_segment_means()) {
      const bool is_held = reduction_.is_resident() || has_column_runs();
      if (is_held && !reduction_.reduces_segments_by_lanes())
        prelude_.require(reduction_.is_in_shared_memory() ? "segments_in_shared_memory" : "segments_in_registers");
      prelude_.require(reduction_.reduces_segments_by_lanes() ? "reduce_segments_by_lanes"
                       : has_column_runs()                    ? "leave_segments"
                       : is_held                              ? "reduce_segments"
                                                              : "segments_in_rounds");
    }
    const bool staged_resident = reduction_.is<plan::ResidentShared>();
    prelude_.require(has_segment_means()               ? "run_by_segments"
                     : staged_resident                 ? "run_staged"
                     : reduction_.columns              ? "run_resident_columns"
                     : reduction_.rows_per_group() > 1 ? "run_rows_per_group"
                                                       : fmt::format("run_{}", reduction_.schedule()));
    const std::string run = prelude_.take();
    out += run.substr(0, run.find(kBeforeStages));
    const bool has_stages = !reduction_.is<plan::SplitResident>() && !has_segment_means();
    if (!reduction_.shares_rows() && has_stages) out += end_segments();
    if (has_stages) out += reduction_.is<plan::Split>() ? run_pass() : reduce_stages();
    out += run.substr(run.find(kBeforeStages) + kBeforeStages.size());
    out += fmt::format(
        "extern \"C\" __global__ void {}__launch_bounds__({}{}) {}(const __grid_constant__ Params p) {{\n"
        "  __shared__ Shared shared;\n{}}}\n",
        reduction_.cluster_blocks() > 1
            ? fmt::format("__attribute__((cluster_dims({}, 1, 1))) ", reduction_.cluster_blocks())
            : "",
        kernel_.threads, least_blocks(), kKernelName,
        reduction_.is_in_shared_memory()
            ? "  // A line of memory that is copied to two rows of banks is two requests.\n"
              "  alignas(128) extern __shared__ Chunk16 staged[];\n  run_rows(p, shared, staged);\n"
            : "  run_rows(p, shared);\n");
    return out;
  }

 private:
  static constexpr std::string_view kBeforeStages = "//@stages\n";

  // The section that writes results which vary within rows.
  std::string_view writer() const {
    if (reduction_.is_in_shared_memory()) return "staged";
    if (reduction_.is_resident()) return transposes_stores() ? "write_transposed_steps" : "write_steps";
    return transposes_stores() ? "write_transposed_rounds" : "write_rounds";
  }

  std::string least_blocks() const {
    const int blocks = kernel_.tuning.resident_blocks;
    return blocks > 0 ? fmt::format(", {}", blocks) : "";
  }

  bool transposes_stores() const { return reduction_.store.has_value(); }
  bool has_grid_reduction() const { return reduction_.structure.grid != 0; }
  bool has_segments() const { return reduction_.structure.has_segments(); }
  bool has_segment_means() const { return reduction_.structure.has_segment_means(); }
  bool has_column_runs() const { return reduction_.structure.has_column_runs(); }
  bool has_written() const { return reduction_.structure.has_written(); }
  bool has_write_pass() const { return reduction_.structure.has_write_pass(); }

  // Rows are multiples of a vector, and their vectors begin with them: where an operand moves a vector in one access.
  bool has_whole_vectors() const {
    return !reduction_.layout.tensor_aligned && !has_segment_means() &&
           any_operand([&](const OperandPlan& operand) { return plan::is_streamed(operand.access); });
  }
  bool has_whole_lines() const {
    return (has_whole_vectors() || reduction_.threads.full) &&
           (!reduction_.layout.inner_reduction || reduction_.layout.reduced == 1 || reduction_.layout.whole_lines ||
            any_operand([](const OperandPlan& operand) { return operand.access == Access::contiguous; }));
  }
  // Each thread has a full vector in every step.
  bool has_full_vectors_alone() const { return reduction_.threads.full && (has_whole_lines() || !passes_.gathers()); }
  // Threads that read a row step by step leave out vectors that do not exist. Those that hold one take all of their
  // steps.
  bool masks_values() const {
    if (has_segments() || reduction_.lane_segments || has_grid_reduction() || reduction_.columns) return true;
    if (has_full_vectors_alone() && !reduction_.is_in_shared_memory()) return false;
    const bool step_by_step = reduction_.is_in_shared_memory() || !reduction_.is_resident();
    return !step_by_step || !has_whole_vectors() || kernel_.tuning.batch != 1;
  }
  // Every vector that is loaded or written is full.
  bool moves_full_vectors_alone() const {
    return knows_full_vectors() || (!masks_values() && has_whole_lines() && !has_full_vectors_alone());
  }
  // And a position says nothing else.
  bool knows_full_vectors() const {
    return has_full_vectors_alone() && !has_segments() && !reduction_.layout.tensor_aligned;
  }
  // Kernels of 8 bits, whose vectors have 16 elements, spilled more (measured).
  bool ends_without_row() const {
    return reduction_.holds_full_rows_of_warps() && kernel_.elements <= 8 && kernel_.threads > reduction_.threads.group;
  }
  // Of those that move a vector in one access.
  template <class Condition>
  bool any_operand(const Condition& condition) const {
    const auto holds = [&](const OperandPlan& operand) {
      return operand.width == kernel_.elements && kernel_.elements > 1 && condition(operand);
    };
    return std::ranges::any_of(kernel_.inputs, holds) || std::ranges::any_of(kernel_.outputs, holds);
  }

  std::string settings() const {
    std::string out;
    const auto add = [&](const char* name, auto value, const char* comment) {
      out += fmt::format("constexpr {} {} = {};  // {}\n", std::is_same_v<decltype(value), bool> ? "bool" : "int", name,
                         value, comment);
    };
    add("kElements", kernel_.elements, "consecutive elements of a thread and step");
    add("kSteps", kernel_.steps, "steps of a pass, or of one round of it");
    add("kCut", reduction_.reduces_segments_by_lanes() ? 1 : 0, "steps at the end that rows seldom fill");
    add("kStepsAtOnce", kernel_.tuning.batch, "steps that an accumulator takes at once");
    add("kThreads", kernel_.threads, "of a block");
    add("kGroupThreads", reduction_.threads.group, "threads of a block share a row");
    if (!reduction_.layout.inner_reduction) add("kColumns", reduction_.threads.columns, "threads side by side");
    add("kBeside", reduction_.layout.striped ? reduction_.threads.columns : 1, "elements of a thread lie so far apart");
    add("kCluster", reduction_.cluster(), "blocks share a row");
    add("kInnerReduction", reduction_.layout.inner_reduction, "a thread's vector belongs to one row");
    if (reduction_.columns) {
      add("kColumnSums", plan::column_sums_of(reduction_.structure), "sums over rows of each column");
      add("kVectorColumns", plan::columns_of_vector(kernel_), "columns that a vector has elements of");
      add("kColumnSegments", reduction_.columns->coordinates > 0, "columns are segments of a row, not elements");
      add("kColumnsAreSums", plan::are_column_sums(reduction_.structure), "and are added");
      add("kColumnCoordinates",
          reduction_.columns->coordinates > 0 ? reduction_.columns->coordinates : reduction_.layout.reduced,
          "of the row's: which column");
      add("kColumnCluster", reduction_.columns->cluster, "blocks of a cluster that add theirs");
      add("kStages", reduction_.structure.stages, "passes that accumulate for rows");
      add("kPrefetchesTiles", reduction_.prefetches(), "rows that a block comes to next are prefetched");
      add("kHasCommon", passes_.has_common(), "threads keep operands that all rows have in common");
    }
    if (reduction_.rows_per_group() > 1)
      add("kRowsPerGroup", reduction_.rows_per_group(), "rows of a thread group, one after the other");
    add("kRows", reduction_.layout.inner_reduction ? 1 : kernel_.elements, "rows of a thread");
    add("kOuter", reduction_.layout.outer, "outer parallel dimensions");
    add("kReduced", reduction_.layout.reduced, "dimensions of a row");
    if (!reduction_.layout.inner_reduction) add("kInner", reduction_.layout.inner, "inner parallel dimensions");
    add("kCoordinates", kernel_.coordinates, "dimensions in all");
    add("kHasCoordinates", has_coordinates(kernel_), "operands that are found by them");
    add("kBlocksShareRows", reduction_.cluster() > 1 || reduction_.shares_rows(), "a row is several blocks'");
    if (reduction_.layout.inner_reduction) {
      add("kInterleavedRows", reduction_.interleaves_rows(), "neighbouring threads work for neighbouring rows");
      add("kThreadsPerRun", transposes_stores() ? 1 : reduction_.vectors_per_run(), "of them for one row");
    }
    if (reduction_.layout.inner_reduction)
      add("kWarpwise",
          (reduction_.is_in_shared_memory() && !reduction_.interleaves_rows() && reduction_.layout.reduced > 1) ||
              (has_segments() && reduction_.is_resident() && reduction_.threads.group > 32),
          "a warp's vectors lie side by side");
    if (reduction_.layout.inner_reduction)
      add("kTensorAligned", reduction_.layout.tensor_aligned, "vectors are aligned to the tensor, not to the row");
    add("kWholeVectors", has_whole_vectors(), "a vector exists as a whole or not at all");
    add("kWholeLines", has_whole_lines(), "and lies in one line of the innermost dimension");
    add("kFull", reduction_.threads.full, "each thread has a vector in every step");
    if (has_segments()) {
      add("kSegmentCoordinates", reduction_.segment_coordinates(), "of the row's: which segment");
      add("kChunked", reduction_.is<plan::SplitResident>(), "a block has a chunk of its row");
    }
    add("kColumnRuns", has_column_runs(), "warps leave what they have of segments, for sums over rows");
    if (reduction_.reduces_segments_by_lanes())
      add("kSegmentBytes", plan::segment_bytes(program_, kernel_),
          "of shared memory for a vector, for the pass over segments");
    if (has_segment_means())
      add("kSegmentSlots", std::get<plan::BySegments>(reduction_.driver).slots,
          "segments of a row whose means its thread group holds");
    if (transposes_stores()) {
      add("kBatch", reduction_.store->batch, "steps whose results are transposed in shared memory at a time");
      add("kVectorsPerRun", reduction_.vectors_per_run(), "vectors of a row side by side");
      add("kSideBySide", reduction_.stores_lines_of(plan::TransposedStore::Lines::elements),
          "a thread's steps are neighbours in the results");
    }
    if (reduction_.is_in_shared_memory()) add("kUnrolled", kernel_.tuning.unroll, "steps that a pass takes at once");
    if (reduction_.is<plan::Split>()) add("kPasses", reduction_.structure.output_pass + 1, "over a row");
    add("kL1EvictFirst", kernel_.tuning.l1_evict_first, "what is held leaves the caches first");
    add("kPrefetch256B", reduction_.is<plan::Looped>() || reduction_.is<plan::BySegments>() || has_segments(),
        "and memory fetches what lies beside it");
    add("kL2EvictFirst", reduction_.is<plan::Split>() || reduction_.l2_evict_first(),
        "what is written, or copied to shared memory, need not stay in the L2 cache");
    add("kGathers", passes_.gathers(), "operands of elements that the coordinates find");
    add("kLoadGathers", passes_.load_gathers(), "of those that are held");
    add("kWriteGathers", passes_.gathers_in(reduction_.structure.output_pass), "in the last pass");
    add("kLaneSegments", reduction_.lane_segments.has_value(), "lanes of a warp reduce segments of rows");
    add("kInSharedMemory", reduction_.is_in_shared_memory(), "threads hold rows there");
    add("kAllFull", has_full_vectors_alone(), "there is no code for other vectors");
    add("kMasked", masks_values(), "some values that accumulators are given need not exist");
    add("kDouble", kernel_.f64, "Real is double");
    add("kMovesFull", moves_full_vectors_alone(), "no other vector is loaded or written");
    add("kEndsWithoutRow", ends_without_row(), "a warp that has no row ends at once");
    add("kFindsRows", passes_.finds_rows(), "indices name rows of operands that are held");
    add("kMeansFirst", passes_.finds_means_first(), "lanes find a row's mean before they take what deviates from it");
    add("kHasHoisted", passes_.hoists(), "loop-invariant operands of the last pass");
    add("kHasRowResults", has_row_results(), "results of one element per row");
    add("kHasGrid", has_grid_reduction(), "grid reductions");
    add("kHasWritten", has_written(), "results that have other elements than rows");
    add("kReadsStaged", written_.reads_staged(), "which are read from rows in shared memory");
    add("kKnownFull", knows_full_vectors(),
        "a vector is in bounds and lies in one line: its position says nothing else");
    add("kReadOnly", passes_.reads_constants(), "operands that nobody writes are read for good");
    if (reduction_.lane_segments)
      add("kSegmentLanes", reduction_.lane_segments->lanes, "lanes of a warp hold a segment of a row in one step");
    add("kMixed",
        (reduction_.layout.tensor_aligned && reduction_.threads.group <= 32) || reduction_.lane_segments.has_value(),
        "every warp has ends of rows: one code for all vectors");
    if (reduction_.is_resident() && !reduction_.is_in_shared_memory())
      add("kHoldsExponentials", passes_.held_accumulator() >= 0, "threads keep exponentials for later passes");
    if (!reduction_.is<plan::Split>())
      add("kHasWritePass", has_write_pass(), "a last pass computes what varies within rows");
    return out + "\n";
  }

  // What reads an element wherever it is needed.
  void require_places(plan::Access access) {
    const bool is_gathered = access == plan::Access::gathered;
    if (is_gathered) prelude_.require("bits");
    if (is_gathered) prelude_.require("gathered");
    if (is_gathered || access == plan::Access::bounded || access == plan::Access::inside) prelude_.require("bounded");
  }

  std::string write_generated() {
    const auto is_truth = [&](const ir::Result& result) {
      return program_.kind(result.value, input_kinds_) == Kind::truth;
    };
    if (std::ranges::any_of(program_.results(), is_truth)) prelude_.require("truth");
    prelude_.require("convert");
    for (const auto* operands : {&kernel_.inputs, &kernel_.outputs}) {
      for (const OperandPlan& operand : *operands) {
        if (operand.access != Access::unused) prelude_.require(storage_type(operand.dtype));
        if (plan::is_random(operand.access)) prelude_.require("random");
        require_places(operand.access);
      }
    }
    codegen::require_places(program_, prelude_);
    prelude_.require(kernel_.wide_index ? "divisor64" : "divisor32");
    prelude_.require("row_position");
    stages_.require_accumulators(prelude_);
    std::string out = reduction_.is_in_shared_memory()
                          ? passes_.held_in_shared_memory()
                          : passes_.held_in_registers(reduction_.columns ? columns_.member() : "");
    if (reduction_.prefetches()) out += passes_.prefetch_held();
    out += stages_.row();
    out += stages_.grid_struct();
    if (reduction_.lane_segments) out += passes_.segment_structs();
    if (transposes_stores()) out += transposed_store();
    for (int pass = 0; pass <= reduction_.structure.output_pass; ++pass) out += passes_.element_functions(pass);
    if (has_segment_means()) out += stages_.segment_struct();
    for (int stage = 1; stage <= reduction_.structure.stages; ++stage) out += stages_.stage_struct(stage);
    if (reduction_.reduces_segments_by_lanes()) out += passes_.held_vector_struct();
    if (has_segments() && !has_segment_means()) out += stages_.segment_operands() + stages_.segment_struct();
    if (has_segments() && !has_column_runs()) out += stages_.write_segment();
    if (reduction_.is_in_shared_memory()) out += passes_.hoisted_struct();
    out += shared();
    out += write_pass();
    out += stages_.write_rows();
    if (has_grid_reduction()) out += stages_.write_grid();
    if (reduction_.columns) out += columns_.combine();
    if (reduction_.columns || has_column_runs()) out += columns_.write_column();
    sections_ = prelude_.take();
    if (reduction_.cluster_blocks() > 1) prelude_.require("cluster");
    prelude_.require(reduction_.stores_lines_of(plan::TransposedStore::Lines::elements) ? "numbered_by_batches"
                     : reduction_.layout.inner_reduction                                ? "numbered_inner"
                                                                                        : "numbered_outer");
    prelude_.require(reduction_.layout.inner_reduction ? "place_inner" : "place_outer");
    if (transposes_stores()) {
      prelude_.require(reduction_.stores_lines_of(plan::TransposedStore::Lines::rows) ? "lines_of_rows"
                       : reduction_.layout.inner_reduction                            ? "lines_of_inner_reduction"
                                                                                      : "lines_of_outer_reduction");
      prelude_.require("transposed_store_tile");
    }
    prelude_.require(reduction_.layout.inner_reduction ? "combine_inner" : "combine_outer");
    if (reduction_.prefetches()) prelude_.require("prefetch");
    if (has_segments()) prelude_.require("segment_place");
    if (reduction_.columns)
      prelude_.require(reduction_.columns->several_blocks ? "column_exchange_shared" : "column_exchange_alone");
    if (has_column_runs()) prelude_.require("column_exchange_runs");
    place_ = prelude_.take();
    return out;
  }

  // What is written in place of rows' elements.
  std::string written() {
    if (written_.reads_staged()) prelude_.require("staged_element");
    const std::string function = written_.function();
    const std::string before = prelude_.take();
    prelude_.require("written");
    return before + function + prelude_.take();
  }

  // ---- results that are transposed in shared memory

  std::string transposed_store() const {
    std::string packets;
    std::string tiles;
    std::string step;
    std::string stores;
    for (const std::size_t i : passes_.outputs_of(reduction_.structure.output_pass)) {
      if (!passes_.is_transposed(i)) continue;
      const std::string name = output_name(program_, i);
      const std::string_view type = storage_type(kernel_.outputs[i].dtype);
      packets += fmt::format("  Packet<{}> {};\n", type, name);
      tiles += fmt::format("  alignas(16) {} {}[kTile];\n", type, name);
      step += fmt::format("  put_step(tile.{0}, place, step, result.{0});\n", name);
      stores += fmt::format("  store_lines<{0}>(tile.{1}, p.{1}, p.strides_{1}, p, place, chunk, first);\n",
                            kernel_.outputs[i].width, name);
    }
    constexpr std::string_view kFunction = "__device__ __forceinline__ void ";
    return fmt::format(
        "// One step's results that are transposed.\nstruct TransposedStep {{\n{1}}};\n"
        "// Where a batch of them becomes lines.\nstruct TransposedTile {{\n{2}}};\n\n"
        "{0}put_transposed(const Place& place, int step, const TransposedStep& result, TransposedTile& tile) "
        "{{\n{3}}}\n"
        "{0}store_transposed(const Params& p, const Place& place, Index chunk, int first, const TransposedTile& tile) "
        "{{\n{4}}}\n\n",
        kFunction, packets, tiles, step, stores);
  }

  std::string shared() const {
    std::string members;
    for (int stage = 1; stage <= reduction_.structure.stages; ++stage)
      members += fmt::format("  Slots<Stage{0}> stage{0};\n", stage);
    if (has_segment_means()) {
      members += "  SegmentStage segments[kThreads / kGroupThreads][kSegmentSlots][kGroupThreads / 32];\n";
    } else if (has_segments() && !reduction_.reduces_segments_by_lanes() && !has_column_runs()) {
      members += "  Slots<SegmentStage> segments;\n";
    }
    if (has_grid_reduction()) members += "  GridStage grid[kThreads / 32];\n";
    if (transposes_stores()) members += "  TransposedTile transposed;\n";
    if (reduction_.columns || has_column_runs()) members += "  ColumnShared columns;\n";
    members +=
        reduction_.is<plan::SplitResident>() ? "  unsigned arrival, complete;\n" : "  unsigned ticket, arrival;\n";
    return "// A block's shared memory.\nstruct Shared {\n" + members + "};\n\n";
  }

  std::string reduce_stages() const {
    const bool is_resident = reduction_.is_resident();
    std::string out = fmt::format(
        "__device__ __forceinline__ void reduce_stages(const Params& p, const Uniforms& uniforms, const Place& place, "
        "{}Row "
        "(&rows)[kRows], GridStage& grid, Shared& shared) {{\n",
        reduction_.is_in_shared_memory() ? "const Held& held, "
        : is_resident                    ? "/*@if !kAllFull*/bool full_vectors, /*@endif*/Held (&held)[kSteps], "
                                         : "");
    for (int stage = 1; stage <= reduction_.structure.stages; ++stage) {
      out += fmt::format("  reduce<Stage{0}>(p, uniforms, place, {1}rows, grid, shared.stage{0});\n", stage,
                         reduction_.is_in_shared_memory() ? "held, "
                         : is_resident                    ? "/*@if !kAllFull*/full_vectors, /*@endif*/held, "
                                                          : "");
    }
    return out + "}\n\n";
  }

  // The pass over segments of rows, behind all others: it may write over what they read.
  std::string end_segments() const {
    const bool is_held = reduction_.is_resident();
    const bool any = has_segments();
    const std::string_view name = any ? "held" : "";
    const std::string held = !is_held                           ? ""
                             : reduction_.is_in_shared_memory() ? fmt::format("const Held& {}, ", name)
                                                                : fmt::format("Held (&{})[kSteps], ", name);
    const std::string pass =
        reduction_.reduces_segments_by_lanes()
            ? "\n  extern __shared__ Chunk16 held_rows[];\n  reduce_segments(p, uniforms, place, held, "
              "rows, reinterpret_cast<HeldRow*>(held_rows)[place.group]);\n"
        : has_column_runs() ? "\n  leave_segments(p, uniforms, place, held, rows);\n"
                            : fmt::format("\n  reduce_segments(p, uniforms, place, {}rows, shared.segments);\n",
                                          is_held ? "held, " : "");
    return fmt::format(
        "__device__ __forceinline__ void end_segments(const Params&{}, const Uniforms&{}, const Place&{}, {}const Row "
        "(&{})[kRows], Shared&{}) {{{}}}\n\n",
        any ? " p" : "", any ? " uniforms" : "", any ? " place" : "", held, any ? "rows" : "",
        any && !reduction_.reduces_segments_by_lanes() && !has_column_runs() ? " shared" : "", any ? pass : "");
  }

  // Which pass a block of a split row is for.
  std::string run_pass() const {
    std::string out =
        "// One block's share of one pass.\n"
        "__device__ __forceinline__ void run_pass(const Params& p, const Uniforms& uniforms, const Place& place, Row "
        "(&rows)[kRows], "
        "Shared& shared, Index tile,\n                                         Index chunk, int pass, unsigned* "
        "signals) {\n"
        "  GridStage grid;\n";
    // Whether it has merged the row's accumulators matters to whoever has more to write.
    const bool has_ends = has_row_results() || has_grid_reduction();
    if (has_ends) out += "  bool knows_rows = false;\n";
    const int stages = reduction_.structure.stages;
    for (int pass = 0; pass <= reduction_.structure.output_pass; ++pass) {
      out += fmt::format("  if (pass == {}) {{\n", pass);
      // Results want loads on their way before they wait for what is known of the rows.
      const std::string_view indent = pass < stages ? "    " : "      ";
      std::string known;
      if (pass > 0) known += fmt::format("{}wait_for(&signals[{}]);\n", indent, 2 * (pass - 1) + 1);
      for (int stage = 1; stage <= pass; ++stage)
        known += fmt::format("{0}take_stage(p, uniforms, p.finals_{1}, tile, rows, shared.stage{1});\n", indent, stage);
      if (pass < stages) {
        out += known;
        out += fmt::format(
            "    {3}reduce_chunk<{2}, Stage{0}>(p, uniforms, place, rows, grid, shared, "
            "shared.stage{0}, "
            "p.partials_{0}, p.finals_{0}, tile, chunk, &signals[{1}]);\n",
            pass + 1, 2 * pass,
            pass < reduction_.structure.output_pass ? "CacheHint::evict_last"
            : pass > 0                              ? "CacheHint::evict_first"
                                                    : "kHeldHint",
            has_ends ? "knows_rows = " : "");
      } else {
        out += fmt::format(
            "    write_rounds(p, uniforms, place, chunk * p.rounds, end_of_chunk(p, chunk), rows, grid, shared, [&] "
            "{{\n{}    }});\n",
            known);
        // Who comes last is told by fences, which wait for all that was written.
        if (has_ends)
          out += fmt::format("    knows_rows = is_last(&signals[{}], p.chunks, shared.arrival);\n", 2 * pass);
      }
      if (pass == reduction_.structure.output_pass && has_ends) {
        if (pass < stages) {
          out += fmt::format(
              "    if (knows_rows) {{\n      __syncthreads();\n      take_stage(p, uniforms, p.finals_{0}, "
              "tile, rows, shared.stage{0});\n    }}\n",
              stages);
        }
        out += "    if (knows_rows) write_rows(p, place, rows);\n";
        out += "    end_grid(p, uniforms, place, rows, grid, shared, knows_rows, static_cast<int>(chunk));\n";
      }
      out += "  }\n";
    }
    return out + "}\n\n";
  }

  // ---- results

  std::string write_pass() {
    if (!has_write_pass()) {
      return "template <class At>\n__device__ __forceinline__ void write_pass(const Params&, const Uniforms&, const "
             "At&, const "
             "Held&, " +
             std::string(passes_.hoists() ? "const Hoisted&, " : "") + "const Row (&)[kRows], GridStage&) {}\n\n";
    }
    std::string values;
    for (const std::size_t i : passes_.fed_by(reduction_.structure.output_pass))
      values += fmt::format("  Real values_{}[kElements];\n", i);
    return "// Results that vary within rows, of one vector.\n"
           "template <class At>\n__device__ __forceinline__ void write_pass(const Params& p, const Uniforms& uniforms, "
           "const At& "
           "position, " +
           std::string(reduction_.is_in_shared_memory() ? "const " : "") + "Held& held, " +
           std::string(passes_.hoists() ? "const Hoisted& hoisted, " : "") +
           "const Row (&rows)[kRows], GridStage& grid" +
           std::string(transposes_stores() ? ", TransposedStep& transposed" : "") + ") {\n" + values +
           (reduction_.is_in_shared_memory()
                ? passes_.take_hoisted()
                : passes_.read_hoisted(reduction_.structure.output_pass, "  ", "position")) +
           passes_.element_loop(reduction_.structure.output_pass, "  ", "held", "position", "e") +
           stages_.add_to_grid(reduction_.structure.output_pass, "position", "1", "  ") +
           (reduction_.columns ? columns_.add() : "") + "}\n\n" + (transposes_stores() ? passes_.write_batch() : "");
  }

  // One element per row.
  bool has_row_results() const {
    return std::ranges::any_of(program_.results(),
                               [&](const ir::Result& result) { return chain_.role(result.value).scope == Scope::row; });
  }

  // What grid reductions take of rows, not of their elements.
  std::string see_rows() {
    std::string body;
    for (std::size_t i = 0; i < reduction_.structure.accumulators.size(); ++i) {
      const Accumulator& a = reduction_.structure.accumulators[i];
      if (!a.grid || chain_.role(a.argument).scope != Scope::row) continue;
      body +=
          fmt::format("    value[0] = {};\n    grid.a{}.add(value, 1u);\n", chain_.argument(a.argument, Kind::real), i);
    }
    const bool any = !body.empty();
    std::string text = fmt::format(
        "// What grid reductions take of rows.\n__device__ __forceinline__ void see_rows(const Params&{}, const "
        "Uniforms&{}, const Place&{}, const Row (&{})[kRows], GridStage&{}) {{",
        any ? " p" : "", any ? " uniforms" : "", any ? " place" : "", any ? "rows" : "", any ? " grid" : "");
    if (!any) return text + "}\n\n";
    return text +
           "\n  if (!is_leader(place)) return;\n#pragma unroll\n  for (int k = 0; k < kRows; ++k) {\n"
           "    if (!row_exists(place, k)) continue;\n    const Row& row = rows[k];\n    Real value[1];\n" +
           body + "  }\n}\n\n";
  }

  // The end of a block: what it has seen goes to the grid reductions.
  std::string end_grid() {
    constexpr std::string_view kSignature =
        "__device__ __forceinline__ void end_grid(const Params&{}, const Uniforms&{}, const Place&{}, const Row "
        "(&{})[kRows], "
        "GridStage&{}, Shared&{}, bool{}, int{}) {{";
    if (!has_grid_reduction()) return fmt::format(kSignature, "", "", "", "", "", "", "", "") + "}\n\n";
    std::string text =
        see_rows() + "// The end of a block: what it has seen goes to the grid reductions.\n" +
        fmt::format(kSignature, " p", " uniforms", " place", "rows", " grid", " shared", " knows_rows", " share") +
        "\n  if (knows_rows) see_rows(p, uniforms, place, rows, grid);\n";
    const bool is_shared = reduction_.shares_rows();
    const std::string shares = is_shared ? "p.chunks" : "kCluster";
    if (reduction_.layout.inner_reduction) {
      text += fmt::format(
          "  const Index first = (static_cast<Index>({0}) / {1}) * ({3}kThreads / kGroupThreads);\n"
          "  const Index result = first / p.rows_per_result;\n"
          "  finish_grid(p, uniforms, place, grid, shared, result, (first - result * p.rows_per_result) / (kThreads / "
          "kGroupThreads) * {2} + share);\n",
          is_shared ? "place.row" : "blockIdx.x", is_shared ? "1" : "kCluster", shares,
          reduction_.rows_per_group() > 1 ? "kRowsPerGroup * " : "");
    } else {
      text += fmt::format(
          "  const Index result = place.row / p.rows_per_result;\n"
          "  const Index tile = (place.row - result * p.rows_per_result) * p.column_tiles + place.tile;\n"
          "  finish_grid(p, uniforms, place, grid, shared, result, tile * {} + share);\n",
          shares);
    }
    return text + "}\n\n";
  }

  const Program& program_;
  const KernelClass& kernel_;
  const ReductionClass& reduction_;
  const std::vector<Kind>& input_kinds_;
  Prelude prelude_;
  ReductionPasses passes_;
  ReductionChain& chain_;
  ReductionStages stages_;
  ColumnSumsWriter columns_;
  WrittenElements written_;
  std::string sections_;
  std::string place_;
};

}  // namespace

std::string emit_reduction(const Program& program, const KernelClass& kernel_class,
                           const std::vector<Kind>& input_kinds) {
  return ReductionEmitter(program, kernel_class, input_kinds).emit();
}

}  // namespace epifuse::codegen
