// Writes kernels with rows: one accumulating walk per level, and the results. The skeletons in templates/rows.cuh and shared_rows.cuh call what is
// written here, in row_walks.cpp (what a thread holds, and the walks' elements) and in row_levels.cpp (what is accumulated and known per row).
#include "codegen/rows.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "codegen/emit.hpp"
#include "codegen/params.hpp"
#include "codegen/row_levels.hpp"
#include "codegen/row_walks.hpp"
#include "codegen/source.hpp"

namespace epifuse::codegen {
namespace {

using ir::Kind;
using ir::Node;
using ir::Op;
using ir::Program;
using ir::Value;
using plan::Access;
using plan::Accumulator;
using plan::Extent;
using plan::KernelClass;
using plan::NodeRole;
using plan::OperandPlan;
using plan::RowClass;
using plan::Schedule;

class RowEmitter {
 public:
  RowEmitter(const Program& program, const KernelClass& kernel, const std::vector<Kind>& input_kinds)
      : program_(program),
        kernel_(kernel),
        rows_(*kernel.rows),
        input_kinds_(input_kinds),
        walks_(program, kernel, input_kinds, prelude_),
        chain_(walks_.chain()),
        levels_(program, kernel, input_kinds, walks_) {}

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
    const std::string end = end_across();
    if (has_across()) prelude_.require(rows_.shares_across ? "across_shared" : "across_alone");
    out += prelude_.take() + end;
    prelude_.require(!rows_.asks_ahead ? "ask_nothing" : rows_.along ? "ask_along" : "ask_across");
    if (!has_averages()) prelude_.require(writer());
    if (has_parts() && !has_averages()) {
      const bool is_held = kernel_.schedule == Schedule::team;
      if (is_held && !rows_.lanewise) prelude_.require(rows_.staged ? "parts_in_shared_memory" : "parts_in_registers");
      prelude_.require(rows_.lanewise ? "walk_parts_by_lanes" : is_held ? "walk_parts" : "parts_in_rounds");
    }
    const bool staged_team = rows_.staged && kernel_.schedule == Schedule::team;
    prelude_.require(has_averages()     ? "run_by_parts"
                     : staged_team      ? "run_staged"
                     : rows_.passes > 1 ? "run_passes"
                                        : fmt::format("run_{}", plan::to_string(kernel_.schedule)));
    const std::string run = prelude_.take();
    out += run.substr(0, run.find(kBeforeLevels));
    const bool has_levels = kernel_.schedule != Schedule::kept && !has_averages();
    if (!plan::shares_rows(kernel_.schedule) && has_levels) out += end_parts();
    if (has_levels) out += kernel_.schedule == Schedule::split ? run_walk() : reduce_levels();
    out += run.substr(run.find(kBeforeLevels) + kBeforeLevels.size());
    out += fmt::format(
        "extern \"C\" __global__ void {}__launch_bounds__({}{}) {}(const __grid_constant__ Params p) {{\n"
        "  __shared__ Shared shared;\n{}}}\n",
        rows_.cluster > 1 ? fmt::format("__attribute__((cluster_dims({}, 1, 1))) ", rows_.cluster) : "",
        kernel_.threads, least_blocks(), kKernelName,
        rows_.staged ? "  // A line of memory that is copied to two rows of banks is two requests.\n"
                       "  alignas(128) extern __shared__ Piece staged[];\n  run_rows(p, shared, staged);\n"
                     : "  run_rows(p, shared);\n");
    return out;
  }

 private:
  static constexpr std::string_view kBeforeLevels = "//@levels\n";

  // The section that writes results which vary within rows.
  std::string_view writer() const {
    if (rows_.staged) return "staged";
    if (kernel_.schedule == Schedule::team) return crosses() ? "write_crossed_steps" : "write_steps";
    return crosses() ? "write_crossed_rounds" : "write_rounds";
  }

  std::string least_blocks() const {
    const int blocks = kernel_.tuning.resident_blocks;
    return blocks > 0 ? fmt::format(", {}", blocks) : "";
  }

  bool crosses() const { return rows_.crossing != plan::Crossing::none; }
  bool has_across() const { return rows_.structure.across != 0; }
  bool has_parts() const { return rows_.structure.has_parts(); }
  bool has_averages() const { return rows_.structure.has_averages(); }
  bool writes_walk() const { return rows_.structure.writes_walk(); }

  std::string settings() const {
    std::string out;
    const auto add = [&](const char* name, auto value, const char* comment) {
      out += fmt::format("constexpr {} {} = {};  // {}\n", std::is_same_v<decltype(value), bool> ? "bool" : "int", name,
                         value, comment);
    };
    add("kElements", kernel_.elements, "consecutive elements of a thread and step");
    add("kSteps", kernel_.steps, "steps of a walk, or of one round of it");
    add("kCut", rows_.lanewise ? 1 : 0, "steps at the end that rows seldom fill");
    add("kGroup", kernel_.tuning.batch, "steps that an accumulator takes at once");
    add("kThreads", kernel_.threads, "of a block");
    add("kTeam", rows_.team, "of a block's threads share a row");
    if (!rows_.along) add("kColumns", rows_.columns, "threads side by side");
    add("kBeside", rows_.spread ? rows_.columns : 1, "elements of a thread lie so far apart");
    add("kCluster", rows_.cluster, "blocks share a row");
    if (rows_.passes > 1) add("kPasses", rows_.passes, "rows of a team, one after the other");
    add("kRows", rows_.along ? 1 : kernel_.elements, "rows of a thread");
    add("kOuter", rows_.outer, "kept dimensions outside of the rows");
    add("kReduced", rows_.reduced, "dimensions of a row");
    if (!rows_.along) add("kInner", rows_.inner, "kept dimensions inside");
    add("kCoordinates", kernel_.coordinates, "dimensions in all");
    if (rows_.along) {
      add("kInterleaved", rows_.interleaved, "neighbouring threads work for neighbouring rows");
      add("kAdjacent", crosses() ? 1 : rows_.pieces, "of them for one row");
    }
    if (rows_.along)
      add("kWarpwise",
          (rows_.staged && !rows_.interleaved && rows_.reduced > 1) ||
              (has_parts() && kernel_.schedule == Schedule::team && rows_.team > 32),
          "a warp's groups lie side by side");
    if (rows_.along) add("kFramed", rows_.framed, "groups are aligned to the tensor, not to the row");
    if (has_parts()) add("kPartCoordinates", rows_.part_coordinates, "of the row's: which part");
    if (rows_.lanewise)
      add("kPartBytes", plan::part_bytes(program_, kernel_), "of shared memory for a group, for the walk over parts");
    if (has_averages()) add("kPartSlots", rows_.part_slots, "parts of a row whose averages its team keeps");
    if (crosses()) {
      add("kBatch", rows_.batch, "steps whose results turn in shared memory at a time");
      add("kPieces", rows_.pieces, "groups of a row side by side");
      add("kSideBySide", rows_.crossing == plan::Crossing::walk, "a thread's steps are neighbours in the results");
    }
    if (rows_.staged) add("kUnrolled", kernel_.tuning.unroll, "steps that a walk takes at once");
    if (kernel_.schedule == Schedule::split) add("kWalks", rows_.structure.output_walk + 1, "over a row");
    add("kReadsOnce", kernel_.tuning.evict_first, "what is held leaves the caches first");
    add("kLooksAhead", kernel_.schedule == Schedule::loop || has_parts(), "and memory fetches what lies beside it");
    add("kStreams", kernel_.schedule == Schedule::split || rows_.streams,
        "what is written, or copied to shared memory, need not stay in the L2 cache");
    add("kGathers", walks_.gathers(), "operands of elements that the coordinates find");
    add("kLoadGathers", walks_.load_gathers(), "of those that are held");
    add("kWriteGathers", walks_.gathers_in(rows_.structure.output_walk), "in the last walk");
    add("kMixed", rows_.framed && rows_.team <= 32, "every warp has ends of rows: one code for all groups");
    if (kernel_.schedule != Schedule::split)
      add("kWritesWalk", writes_walk(), "a last walk computes what varies within rows");
    return out + "\n";
  }

  std::string write_generated() {
    prelude_.require("convert");
    for (const auto* operands : {&kernel_.inputs, &kernel_.outputs}) {
      for (const OperandPlan& operand : *operands) {
        if (operand.access != Access::unused) prelude_.require(storage_type(operand.dtype));
      }
    }
    prelude_.require(kernel_.wide_index ? "divisor64" : "divisor32");
    prelude_.require("row_position");
    levels_.require_accumulators(prelude_);
    std::string out = rows_.staged ? walks_.held_in_pieces() : walks_.held_in_registers();
    if (rows_.asks_ahead) out += walks_.ask_held();
    out += levels_.row();
    out += levels_.across_struct();
    if (crosses()) out += crossing();
    for (int walk = 0; walk <= rows_.structure.output_walk; ++walk) out += walks_.element_function(walk);
    if (has_averages()) out += levels_.part_struct();
    for (int level = 1; level <= rows_.structure.levels; ++level) out += levels_.level_struct(level);
    if (rows_.lanewise) out += walks_.kept_of_parts();
    if (has_parts() && !has_averages()) out += levels_.part_operands() + levels_.part_struct();
    if (has_parts()) out += levels_.write_part();
    if (rows_.staged) out += walks_.steady_struct();
    out += shared();
    out += write_walk();
    out += write_rows();
    if (has_across()) out += levels_.write_across();
    sections_ = prelude_.take();
    prelude_.require(rows_.cluster > 1 ? "cluster" : "no_cluster");
    prelude_.require(rows_.crossing == plan::Crossing::walk ? "numbered_by_batches"
                     : rows_.along                          ? "numbered_along"
                                                            : "numbered_across");
    prelude_.require(rows_.along ? "place_along" : "place_across");
    if (crosses()) {
      prelude_.require(rows_.crossing == plan::Crossing::rows ? "lines_of_rows"
                       : rows_.along                          ? "lines_of_walk_along"
                                                              : "lines_of_walk_across");
      prelude_.require("crossing_tile");
    }
    prelude_.require(rows_.along ? "combine_along" : "combine_across");
    if (rows_.asks_ahead) prelude_.require("ask");
    if (has_parts()) prelude_.require("part_place");
    place_ = prelude_.take();
    return out;
  }

  // ---- results that turn in shared memory

  std::string crossing() const {
    std::string packets;
    std::string tiles;
    std::string step;
    std::string stores;
    for (const std::size_t i : walks_.outputs_of(rows_.structure.output_walk)) {
      if (!walks_.is_crossed(i)) continue;
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
        "// One step's results that run across the operands.\nstruct Crossing {{\n{1}}};\n"
        "// Where a batch of them becomes lines.\nstruct Crossed {{\n{2}}};\n\n"
        "{0}put_crossed(const Place& place, int step, const Crossing& result, Crossed& tile) {{\n{3}}}\n"
        "{0}store_crossed(const Params& p, const Place& place, Index chunk, int first, const Crossed& tile) "
        "{{\n{4}}}\n\n",
        kFunction, packets, tiles, step, stores);
  }

  std::string shared() const {
    std::string members;
    for (int level = 1; level <= rows_.structure.levels; ++level)
      members += fmt::format("  Slots<Level{0}> level{0};\n", level);
    if (has_averages()) {
      members += "  PartLevel parts[kThreads / kTeam][kPartSlots][kTeam / 32];\n";
    } else if (has_parts() && !rows_.lanewise) {
      members += "  Slots<PartLevel> parts;\n";
    }
    if (has_across()) members += "  Across across[kThreads / 32];\n";
    if (crosses()) members += "  Crossed crossed;\n";
    members += kernel_.schedule == Schedule::kept ? "  unsigned arrival, complete;\n" : "  unsigned ticket, arrival;\n";
    return "// A block's shared memory.\nstruct Shared {\n" + members + "};\n\n";
  }

  std::string reduce_levels() const {
    const bool team = kernel_.schedule == Schedule::team;
    std::string out = fmt::format(
        "__device__ __forceinline__ void reduce_levels(const Params& p, const Uniforms& uniforms, const Place& place, "
        "{}Row "
        "(&rows)[kRows], Across& across, Shared& shared) {{\n",
        rows_.staged ? "const Held& held, "
        : team       ? "bool straight, Held (&held)[kSteps], "
                     : "");
    for (int level = 1; level <= rows_.structure.levels; ++level) {
      out += fmt::format("  reduce<Level{0}>(p, uniforms, place, {1}rows, across, shared.level{0});\n", level,
                         rows_.staged ? "held, "
                         : team       ? "straight, held, "
                                      : "");
    }
    return out + "}\n\n";
  }

  // The walk over parts of rows, behind all others: it may write over what they read.
  std::string end_parts() const {
    const bool is_held = kernel_.schedule == Schedule::team;
    const bool any = has_parts();
    const std::string_view name = any ? "held" : "";
    const std::string held = !is_held       ? ""
                             : rows_.staged ? fmt::format("const Held& {}, ", name)
                                            : fmt::format("Held (&{})[kSteps], ", name);
    const std::string walk =
        rows_.lanewise
            ? "\n  extern __shared__ Piece kept_rows[];\n  walk_parts(p, uniforms, place, held, "
              "rows, reinterpret_cast<KeptRow*>(kept_rows)[place.team]);\n"
            : fmt::format("\n  walk_parts(p, uniforms, place, {}rows, shared.parts);\n", is_held ? "held, " : "");
    return fmt::format(
        "__device__ __forceinline__ void end_parts(const Params&{}, const Uniforms&{}, const Place&{}, {}const Row "
        "(&{})[kRows], Shared&{}) {{{}}}\n\n",
        any ? " p" : "", any ? " uniforms" : "", any ? " place" : "", held, any ? "rows" : "",
        any && !rows_.lanewise ? " shared" : "", any ? walk : "");
  }

  // Which walk a block of a split row is for.
  std::string run_walk() const {
    std::string out =
        "// One block's share of one walk.\n"
        "__device__ __forceinline__ void run_walk(const Params& p, const Uniforms& uniforms, const Place& place, Row "
        "(&rows)[kRows], "
        "Shared& shared, Index tile,\n                                         Index chunk, int walk, unsigned* "
        "signals) {\n"
        "  Across across;\n  bool knows_rows = false;\n";
    const int levels = rows_.structure.levels;
    for (int walk = 0; walk <= rows_.structure.output_walk; ++walk) {
      out += fmt::format("  if (walk == {}) {{\n", walk);
      // Results want loads on their way before they wait for what is known of the rows.
      const std::string_view indent = walk < levels ? "    " : "      ";
      std::string known;
      if (walk > 0) known += fmt::format("{}wait_for(&signals[{}]);\n", indent, 2 * (walk - 1) + 1);
      for (int level = 1; level <= walk; ++level)
        known += fmt::format("{0}take_level(p, uniforms, p.finals_{1}, tile, rows, shared.level{1});\n", indent, level);
      if (walk < levels) {
        out += known;
        out += fmt::format(
            "    knows_rows = walk_chunk<{2}, Level{0}>(p, uniforms, place, rows, across, shared, "
            "shared.level{0}, "
            "p.partials_{0}, p.finals_{0}, tile, chunk, &signals[{1}]);\n",
            walk + 1, 2 * walk,
            walk < rows_.structure.output_walk ? "Reuse::again"
            : walk > 0                         ? "Reuse::never"
                                               : "kFirst");
      } else {
        out += fmt::format(
            "    write_rounds(p, uniforms, place, chunk * p.rounds, (chunk + 1) * p.rounds, rows, across, shared, [&] "
            "{{\n{}    }});\n",
            known);
        // Who comes last is told by fences, which wait for all that was written.
        if (has_row_results() || has_across())
          out += fmt::format("    knows_rows = is_last(&signals[{}], p.chunks, shared.arrival);\n", 2 * walk);
      }
      if (walk == rows_.structure.output_walk) {
        if (walk < levels) {
          out += fmt::format(
              "    if (knows_rows) {{\n      __syncthreads();\n      take_level(p, uniforms, p.finals_{0}, "
              "tile, rows, shared.level{0});\n    }}\n",
              levels);
        }
        out += "    if (knows_rows) write_rows(p, place, rows);\n";
        out += "    end_across(p, uniforms, place, rows, across, shared, knows_rows, static_cast<int>(chunk));\n";
      }
      out += "  }\n";
    }
    return out + "}\n\n";
  }

  // ---- results

  std::string write_walk() {
    if (!writes_walk()) {
      return "__device__ __forceinline__ void write_walk(const Params&, const Uniforms&, const Position&, const "
             "Held&, " +
             std::string(rows_.staged ? "const Steady&, " : "") + "const Row (&)[kRows], Across&) {}\n\n";
    }
    std::string values;
    for (const std::size_t i : walks_.across_of(rows_.structure.output_walk))
      values += fmt::format("  Real values_{}[kElements];\n", i);
    return "// Results that vary within rows, of one group of elements.\n"
           "__device__ __forceinline__ void write_walk(const Params& p, const Uniforms& uniforms, const Position& "
           "position, " +
           std::string(rows_.staged ? "const " : "") + "Held& held, " +
           std::string(rows_.staged ? "const Steady& steady, " : "") + "const Row (&rows)[kRows], Across& across" +
           std::string(crosses() ? ", Crossing& crossing" : "") + ") {\n" + values +
           (rows_.staged ? walks_.take_steady() : walks_.read_steady(rows_.structure.output_walk, "  ", "position")) +
           walks_.element_loop(rows_.structure.output_walk, "  ", "held", "position", "e") +
           levels_.add_across(rows_.structure.output_walk, "position", "1", "  ") + "}\n\n" +
           (crosses() ? walks_.write_batch() : "");
  }

  // One element per row.
  bool has_row_results() const {
    return std::ranges::any_of(
        program_.results(), [&](const ir::Result& result) { return chain_.role(result.value).extent == Extent::row; });
  }

  std::string write_rows() {
    if (!has_row_results())
      return "__device__ __forceinline__ void write_rows(const Params&, const Place&, const Row (&)[kRows]) {}\n\n";
    std::string body;
    bool uses_uniforms = false;  // an operand of one element is a result as it is
    for (std::size_t i = 0; i < kernel_.outputs.size(); ++i) {
      const Value value = program_.results()[i].value;
      if (chain_.role(value).extent != Extent::row) continue;
      const Node& node = program_.node(chain_.unshaped(value));
      uses_uniforms =
          uses_uniforms ||
          (node.op == Op::input && kernel_.inputs[static_cast<std::size_t>(node.ordinal)].access == Access::uniform);
      const std::string name = output_name(program_, i);
      const std::string target = kernel_.outputs[i].access == Access::uniform
                                     ? fmt::format("p.{}[0]", name)
                                     : fmt::format("p.{0}[row_offset(place, p.strides_{0}, k)]", name);
      body += fmt::format("    {}{} = from_real<{}>({});\n", levels_.first_of_missing(rows_.missing[i], "place.at"),
                          target, storage_type(kernel_.outputs[i].dtype), chain_.reference(value));
    }
    return "// Results of one element per row: one thread of the team writes them.\n"
           "__device__ __forceinline__ void write_rows(const Params& p, const Place& place, const Row (&rows)[kRows]) "
           "{\n"
           "  if (!is_leader(place)) return;\n" +
           std::string(uses_uniforms ? "  const Uniforms uniforms = load_uniforms(p);\n" : "") +
           "#pragma unroll\n  for (int k = 0; k < kRows; ++k) {\n    if (!row_exists(place, k)) continue;\n"
           "    const Row& row = rows[k];\n" +
           body + "  }\n}\n\n";
  }

  // What results across rows take of rows, not of their elements.
  std::string see_rows() {
    std::string body;
    for (std::size_t i = 0; i < rows_.structure.accumulators.size(); ++i) {
      const Accumulator& a = rows_.structure.accumulators[i];
      if (!a.across || chain_.role(a.argument).extent != Extent::row) continue;
      body += fmt::format("    value[0] = {};\n    across.a{}.add(value, 1u);\n",
                          chain_.argument(a.argument, Kind::real), i);
    }
    const bool any = !body.empty();
    std::string text = fmt::format(
        "// What results across rows take of rows.\n__device__ __forceinline__ void see_rows(const Params&{}, const "
        "Uniforms&{}, const Place&{}, const Row (&{})[kRows], Across&{}) {{",
        any ? " p" : "", any ? " uniforms" : "", any ? " place" : "", any ? "rows" : "", any ? " across" : "");
    if (!any) return text + "}\n\n";
    return text +
           "\n  if (!is_leader(place)) return;\n#pragma unroll\n  for (int k = 0; k < kRows; ++k) {\n"
           "    if (!row_exists(place, k)) continue;\n    const Row& row = rows[k];\n    Real value[1];\n" +
           body + "  }\n}\n\n";
  }

  // The end of a block: what it has seen goes to the results across rows.
  std::string end_across() {
    constexpr std::string_view kSignature =
        "__device__ __forceinline__ void end_across(const Params&{}, const Uniforms&{}, const Place&{}, const Row "
        "(&{})[kRows], "
        "Across&{}, Shared&{}, bool{}, int{}) {{";
    if (!has_across()) return fmt::format(kSignature, "", "", "", "", "", "", "", "") + "}\n\n";
    std::string text =
        see_rows() + "// The end of a block: what it has seen goes to the results across rows.\n" +
        fmt::format(kSignature, " p", " uniforms", " place", "rows", " across", " shared", " knows_rows", " share") +
        "\n  if (knows_rows) see_rows(p, uniforms, place, rows, across);\n";
    const bool is_shared = plan::shares_rows(kernel_.schedule);
    const std::string shares = is_shared ? "p.chunks" : "kCluster";
    if (rows_.along) {
      text += fmt::format(
          "  const Index first = (static_cast<Index>({0}) / {1}) * ({3}kThreads / kTeam);\n"
          "  const Index group = first / p.rows_per_group;\n"
          "  finish_across(p, uniforms, place, across, shared, group, (first - group * p.rows_per_group) / (kThreads / "
          "kTeam) * {2} + share);\n",
          is_shared ? "place.row" : "blockIdx.x", is_shared ? "1" : "kCluster", shares,
          rows_.passes > 1 ? "kPasses * " : "");
    } else {
      text += fmt::format(
          "  const Index group = place.row / p.rows_per_group;\n"
          "  const Index tile = (place.row - group * p.rows_per_group) * p.column_tiles + place.tile;\n"
          "  finish_across(p, uniforms, place, across, shared, group, tile * {} + share);\n",
          shares);
    }
    return text + "}\n\n";
  }

  const Program& program_;
  const KernelClass& kernel_;
  const RowClass& rows_;
  const std::vector<Kind>& input_kinds_;
  Prelude prelude_;
  RowWalks walks_;
  RowChain& chain_;
  RowLevels levels_;
  std::string sections_;
  std::string place_;
};

}  // namespace

std::string emit_rows(const Program& program, const KernelClass& kernel_class, const std::vector<Kind>& input_kinds) {
  return RowEmitter(program, kernel_class, input_kinds).emit();
}

}  // namespace epifuse::codegen
