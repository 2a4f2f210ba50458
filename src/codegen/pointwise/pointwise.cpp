// Writes kernels of chains without reductions: the prelude sections that the chain needs, the parameter struct, the
// chain as straight-line code, the glue between operands and templates/pointwise/, and the kernel.
#include "codegen/pointwise/pointwise.hpp"

#include <algorithm>
#include <functional>

#include <spdlog/fmt/ranges.h>

#include "codegen/chain.hpp"
#include "codegen/emit.hpp"
#include "codegen/offsets.hpp"
#include "codegen/params.hpp"
#include "codegen/pointwise/accesses.hpp"
#include "codegen/pointwise/runs.hpp"
#include "codegen/pointwise/tiles.hpp"
#include "codegen/pointwise/window_tile.hpp"
#include "codegen/prelude.hpp"
#include "codegen/source.hpp"

namespace epifuse::codegen {
namespace {

using ir::Kind;
using ir::Program;
using ir::Value;
using plan::Access;
using plan::KernelClass;
using plan::OperandPlan;

class PointwiseEmitter {
 public:
  PointwiseEmitter(const Program& program, const KernelClass& kernel, const std::vector<Kind>& input_kinds)
      : program_(program),
        kernel_(kernel),
        input_kinds_(input_kinds),
        chain_(program, kernel, input_kinds, prelude_),
        accesses_(program, kernel) {}

  std::string emit() {
    require_sections();
    const std::string chain = write_chain(program_, kernel_, input_kinds_, chain_,
                                          returns_result());  // also requires the sections of its operations
    std::string out = write_header(program_, kernel_);
    out += prelude_.take();
    out += settings();
    if (kernel_.coordinates > 0) prelude_.require(kernel_.wide_index ? "divisor64" : "divisor32");
    if (transpose_map() != nullptr)
      prelude_.require("position_transposed");
    else if (goes_by_row(kernel_))
      prelude_.require("coordinates_by_row");
    else if (kernel_.coordinates > 0)
      prelude_.require(by_quotients() ? "quotients" : "split");
    if (!goes_by_row(kernel_)) prelude_.require("position_flat");
    out += prelude_.take();
    accesses_.require_sections(prelude_);
    out += prelude_.take();
    out += write_params(program_, kernel_);
    out += chain;
    out += write_uniforms(program_, kernel_, input_kinds_);
    if (transpose_map() != nullptr) return out + transpose();
    if (goes_by_row(kernel_)) out += accesses_.alignment();
    const bool several = kernel_.steps > 1;
    const bool one_way =
        several && has_divisible_rows(kernel_);  // a thread's vectors are stored if they exist, else all are alike
    out += several ? epilogue() : "";
    if (has_rest()) {
      prelude_.require("locate_flat");
      out += prelude_.take() + element();
    }
    if (goes_by_row(kernel_))
      prelude_.require(tiled_map() != nullptr ? "locate_tiled_2d" : "locate_by_tile");
    else if (several)
      prelude_.require("by_vectors");
    if (several && !one_way) prelude_.require("run_vector");
    out += prelude_.take();
    if (!several) out += one_vector();
    if (!goes_by_row(kernel_) && !one_way) prelude_.require("run_flat");
    if (goes_by_row(kernel_))
      prelude_.require(several ? "run_steps" : "run_step");
    else if (one_way)
      prelude_.require("run_divisible_steps");
    else if (several)
      prelude_.require("run_flat_steps");
    out += prelude_.take();
    return out + entry();
  }

 private:
  std::size_t index_of(const OperandPlan& input) const {
    return static_cast<std::size_t>(&input - kernel_.inputs.begin());
  }
  // Of one result, which the chain returns.
  bool returns_result() const { return kernel_.outputs.size() == 1; }
  bool by_quotients() const { return goes_by_quotients(kernel_); }
  const plan::Tiled2D* tiled_map() const { return kernel_.map<plan::Tiled2D>(); }
  const plan::Transpose* transpose_map() const { return kernel_.map<plan::Transpose>(); }
  // Vectors of the flat schedule are in bounds: what is left of the tensor is less than one.
  bool has_rest() const { return !goes_by_row(kernel_) && kernel_.elements > 1 && !has_divisible_rows(kernel_); }

  // ---- header and settings

  std::string settings() const {
    std::string out =
        fmt::format("typedef {} Real;  // what the chain computes in\n", kernel_.f64 ? "double" : "float");
    out += fmt::format("typedef {} Index;\n", kernel_.wide_index ? "long long" : "int");
    out +=
        fmt::format("constexpr int kElements = {};  // consecutive elements of a thread and step\n", kernel_.elements);
    out += fmt::format("constexpr int kSteps = {};  // steps of a tile\n", kernel_.steps);
    if (kernel_.coordinates > 0) out += fmt::format("constexpr int kCoordinates = {};\n", kernel_.coordinates);
    out += fmt::format("constexpr bool kHasBytes = {};  // operands of 8 bits, whose vectors move as words\n",
                       has_bytes(kernel_));
    out += fmt::format("constexpr bool kHasCoordinates = {};\n", kernel_.coordinates > 0);
    out += fmt::format("constexpr bool kBroken = {};  // vectors that exist need not be full\n",
                       has_broken_vectors(kernel_));
    out += fmt::format("constexpr bool kByRow = {};  // no vector crosses into the next row\n", goes_by_row(kernel_));
    out += fmt::format("constexpr bool kByQuotients = {};\n", by_quotients());
    out += fmt::format("constexpr bool kCountsElements = {};  // the numbers of tiles do\n",
                       counts_tiles_in_elements(kernel_));
    // Of several vectors the columns would take registers.
    out += fmt::format("constexpr bool kHasColumn = {};  // positions say where in its row a vector begins\n",
                       kernel_.steps == 1 && asks_column(program_, kernel_));
    out += fmt::format("constexpr bool kOneWay = {};  // vectors that are full are read as others are\n",
                       accesses_.has_one_way());
    out += fmt::format("constexpr bool kRolls = {};  // an operand is rolled\n", rolls(program_));
    if (transpose_map() != nullptr) return out + tile_constants(kernel_, *transpose_map()) + "\n";
    out += fmt::format("constexpr bool kHasRest = {};  // elements behind the last full vector\n", has_rest());
    if (tiled_map() != nullptr) out += tile_constants(kernel_, *tiled_map());
    return out + "\n";
  }

  void require_sections() {
    if (has_truth_results()) prelude_.require("truth");
    prelude_.require("convert");
    for (const auto* operands : {&kernel_.inputs, &kernel_.outputs}) {
      for (const OperandPlan& operand : *operands) {
        if (operand.access != Access::unused) prelude_.require(storage_type(operand.dtype));
        if (plan::is_random(operand.access)) prelude_.require("random");
      }
    }
  }

  bool has_truth_results() const {
    const auto is_truth = [&](const ir::Result& result) {
      return type_of(program_.kind(result.value, input_kinds_)) != "Real";
    };
    return std::ranges::any_of(program_.results(), is_truth);
  }

  // ---- operands

  // Variables for elements of inputs, and statements that load them.
  struct Held {
    std::string members, loads;
  };

  // A member function that loads.
  static std::string load(const Held& held) {
    const bool any = !held.loads.empty();
    return fmt::format("  __device__ __forceinline__ void load(const Params&{}, const Position&{}) {{\n{}  }}\n",
                       any ? " p" : "", any ? " position" : "", held.loads);
  }

  Held held_inputs(const std::function<bool(Access)>& which, std::string_view indent) const {
    Held held;
    std::string gathers;
    for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) {
      const OperandPlan& operand = kernel_.inputs[i];
      if (!plan::is_value(operand.access) || operand.access == Access::uniform || !which(operand.access)) continue;
      const std::string name = input_name(program_, i);
      const char* of_a_row = has_broken_vectors(kernel_) ? "kFullVector ? 1 : kElements" : "1";
      if (operand.access == Access::of_run) continue;  // its reader holds it
      held.members += operand.access == Access::run
                          ? held_run(program_, kernel_, i)
                          : fmt::format("  {}{} {}[{}];\n", packing(operand), storage_type(operand.dtype), name,
                                        operand.access == Access::row ? of_a_row : "kElements");
      // Linear ones first: nothing stands between the loads that bandwidth is spent on.
      (operand.access == Access::linear ? held.loads : gathers) += accesses_.load(i, indent);
    }
    held.loads += addresses_of_bases(program_, kernel_, offset_at(program_, kernel_, "position.at"), indent) + gathers;
    return held;
  }

  // What a vector's results are held in, and how they are stored.
  Held held_outputs(std::string_view indent) const {
    Held held;
    for (std::size_t i = 0; i < kernel_.outputs.size(); ++i) {
      const OperandPlan& output = kernel_.outputs[i];
      if (output.access == Access::of_run) continue;  // its run has it
      held.members += output.access == Access::run ? written_run(program_, kernel_, i)
                                                   : fmt::format("  {}{} {}[kElements];\n", packing(output),
                                                                 storage_type(output.dtype), output_name(program_, i));
      held.loads += accesses_.store(i, indent);
    }
    return held;
  }

  // What takes a vector has two ways, where it need not be full.
  const char* ways() const { return has_broken_vectors(kernel_) ? "template <bool kFullVector>\n" : ""; }

  // The vectors of several steps, which are loaded before the first is computed.
  std::string epilogue() const {
    const Held inputs = held_inputs([](Access) { return true; }, "    ");
    const Held outputs = held_outputs("    ");
    return fmt::format(
        "// One vector of every operand, in registers.\n{}struct Epilogue {{\n{}{}\n"
        "{}\n  __device__ __forceinline__ void compute(const Params&{}, const Uniforms&{}) {{\n{}  }}\n\n"
        "  __device__ __forceinline__ void store(const Params& p, const Position& position) {{\n{}  }}\n}};\n\n",
        ways(), inputs.members, outputs.members, load(inputs), takes_numbers(program_) ? " p" : "",
        reads(Access::uniform) ? " uniforms" : "", compute("    "), outputs.loads);
  }

  // One vector alone, from load to store.
  std::string one_vector() const {
    const Held inputs = held_inputs([](Access) { return true; }, "  ");
    const Held outputs = held_outputs("  ");
    return fmt::format(
        "// One vector of every operand, in registers.\n{}__device__ __forceinline__ void "
        "run_vector(const Params& p, const Uniforms&{}, const Position& position) {{\n{}{}{}{}{}}}\n\n",
        ways(), reads(Access::uniform) ? " uniforms" : "", inputs.members, outputs.members, inputs.loads, compute("  "),
        outputs.loads);
  }

  // ---- results that are transposed in shared memory

  std::string transpose() {
    std::string out = vectors("Epilogue", "One vector of every operand", false);
    out += vectors("Hoisted", "Loop-invariant operands", true);
    out += "// The results of a block's tile.\nstruct Shared {\n";
    std::string stores;
    std::vector<std::string> copied;
    for (std::size_t i = 0; i < kernel_.outputs.size(); ++i) {
      const OperandPlan& output = kernel_.outputs[i];
      const std::string name = output_name(program_, i);
      out += fmt::format("  Tile<{}> {};\n", storage_type(output.dtype), name);
      if (output.access == Access::transposed)
        copied.push_back(fmt::format("kCopiesLines<{}, {}>", output.width, storage_type(output.dtype)));
      stores += fmt::format("  store_{0}<{1}>(shared.{2}, p.{2}, p.strides_{2}, first, p.space);\n",
                            plan::to_string(output.access), output.width, name);
    }
    out += fmt::format("  static constexpr bool kCopied = {};  // any of them, by lines\n}};\n\n",
                       copied.empty() ? "false" : fmt::format("{}", fmt::join(copied, " || ")));
    out += put_results();
    out += fmt::format(
        "// After all threads have put theirs.\n__device__ __forceinline__ void store_results(const Params& p, const "
        "Position& first, const Shared& shared) {{\n{}}}\n\n",
        stores);
    prelude_.require("run_transpose");
    return out + prelude_.take() + entry();
  }

  std::string vectors(std::string_view name, std::string_view what, bool hoisted) const {
    const Held held = held_inputs([&](Access access) { return (access == Access::hoisted) == hoisted; }, "    ");
    return fmt::format("// {}, in registers.\nstruct {} {{\n{}\n{}}};\n\n", what, name, held.members, load(held));
  }

  // Element by element of all vectors: what is side by side in a line of results is put there at once.
  std::string put_results() const {
    std::string before;
    std::string inside;
    std::string puts;
    const auto of_input = [&](const OperandPlan& operand, const std::string& name, std::string_view type) {
      if (operand.access == Access::row) return fmt::format("to_real<{}>(epilogues[step].{}[0])", type, name);
      const bool hoisted = operand.access == Access::hoisted;
      (hoisted ? before : inside) +=
          fmt::format("{0}{1} real_{2}[kPair];\n{0}to_reals<kPair>({3}.{2} + e, real_{2});\n",
                      hoisted ? "    " : "      ", type, name, hoisted ? "hoisted" : "epilogues[step]");
      return fmt::format("real_{}[i]", name);
    };
    const std::string call = statement_of_chain(of_input, "result_{}[i][step]");
    for (std::size_t i = 0; i < kernel_.outputs.size(); ++i) {
      before += fmt::format("    {} result_{}[kPair][kSteps];\n", result_type(i), i);
      puts += fmt::format("#pragma unroll\n    for (int i = 0; i < kPair; ++i) put(shared.{}, e + i, result_{}[i]);\n",
                          output_name(program_, i), i);
    }
    const auto is_of_a_step = [](Access access) { return access != Access::uniform && access != Access::hoisted; };
    return fmt::format(
        "// Results of all vectors of a thread, from registers to the tile.\n"
        "__device__ __forceinline__ void put_results(const Params&{}, const Uniforms&{}, const Epilogue (&{})[kSteps], "
        "const Hoisted&{},\n                                            Shared& shared) {{\n"
        "  constexpr int kPair = kElements % 2 == 0 ? 2 : 1;\n#pragma unroll\n"
        "  for (int e = 0; e < kElements; e += kPair) {{\n{}#pragma unroll\n"
        "    for (int step = 0; step < kSteps; ++step) {{\n{}#pragma unroll\n      for (int i = 0; i < kPair; ++i)\n"
        "        {};\n    }}\n{}  }}\n}}\n\n",
        takes_numbers(program_) ? " p" : "", reads(Access::uniform) ? " uniforms" : "",
        reads(is_of_a_step) ? "epilogues" : "", reads(Access::hoisted) ? " hoisted" : "", before, inside, call, puts);
  }

  // An element as it is stored and as the chain computes with it: of the compute type it is the same.
  bool is_stored_as_computed(DType type, std::string_view computed) const {
    return computed == "Real" && type == (kernel_.f64 ? DType::f64 : DType::f32);
  }
  std::string computed(const OperandPlan& operand, std::string_view type, const std::string& stored) const {
    return is_stored_as_computed(operand.dtype, type) ? stored : fmt::format("to_real<{}>({})", type, stored);
  }
  std::string stored(std::size_t i, const std::string& value) const {
    const DType type = kernel_.outputs[i].dtype;
    return is_stored_as_computed(type, result_type(i)) ? value
                                                       : fmt::format("from_real<{}>({})", storage_type(type), value);
  }

  // Elements that move several at a time.
  static const char* packing(const OperandPlan& operand) {
    return (size_of(operand.dtype) == 1 || operand.width > 1) && operand.access != Access::row ? "alignas(16) " : "";
  }

  // Whether the chain reads an input that is accessed so.
  bool reads(const std::function<bool(Access)>& which) const {
    return std::any_of(kernel_.inputs.begin(), kernel_.inputs.end(), [&](const OperandPlan& operand) {
      return plan::is_value(operand.access) && which(operand.access);
    });
  }
  bool reads(Access access) const {
    return reads([&](Access other) { return other == access; });
  }

  std::string_view result_type(std::size_t i) const {
    return type_of(program_.kind(program_.results()[i].value, input_kinds_));
  }

  // chain() as it is called: `of_input` writes an input that is not uniform, `result` is the pattern of a result's
  // variable.
  template <class OfInput>
  std::string call_of_chain(const OfInput& of_input, fmt::format_string<std::size_t&> result) const {
    std::vector<std::string> arguments;
    for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) {
      const OperandPlan& operand = kernel_.inputs[i];
      if (!plan::is_value(operand.access)) continue;
      const std::string name = input_name(program_, i);
      arguments.push_back(operand.access == Access::uniform ? "uniforms." + name
                                                            : of_input(operand, name, type_of(input_kinds_[i])));
    }
    for (std::size_t i = 0; i < program_.scalars().size(); ++i) arguments.push_back("p." + scalar_name(program_, i));
    for (const Value value : codegen::counts_of(program_)) arguments.push_back("p." + count_name(value));
    if (returns_result()) return fmt::format("chain({})", fmt::join(arguments, ", "));
    for (std::size_t i = 0; i < kernel_.outputs.size(); ++i) arguments.push_back(fmt::format(result, i));
    return fmt::format("chain({})", fmt::join(arguments, ", "));
  }
  // The same as a statement that leaves the results in variables of that pattern.
  template <class OfInput>
  std::string statement_of_chain(const OfInput& of_input, fmt::format_string<std::size_t&> result) const {
    std::size_t first = 0;
    return (returns_result() ? fmt::format(result, first) + " = " : "") + call_of_chain(of_input, result);
  }

  // Element by element; two at a time where one of 8 bits is among the operands, whose types convert two together.
  std::string compute(std::string_view indent) const {
    std::string numbers;
    for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) {
      if (kernel_.inputs[i].access == Access::run)
        numbers += numbers_of_run(program_, kernel_, i, type_of(input_kinds_[i]), indent);
    }
    return numbers + (has_bytes(kernel_) ? compute_pairs(indent) : compute_elements(indent));
  }

  std::string compute_elements(std::string_view indent) const {
    const auto of_input = [&](const OperandPlan& operand, const std::string& name, std::string_view type) {
      if (operand.run) return number_in_run(program_, kernel_, index_of(operand), "e");
      const std::string element = operand.access == Access::row ? of_a_row(name, "e") : name + "[e]";
      return computed(operand, type, element);
    };
    const std::string call = call_of_chain(of_input, "result_{}");
    if (returns_result())
      return fmt::format("#pragma unroll\n{}for (int e = 0; e < kElements; ++e) {}[e] = {};\n", indent,
                         output_name(program_, 0), stored(0, call));
    std::string before, after;
    for (std::size_t i = 0; i < kernel_.outputs.size(); ++i) {
      before += fmt::format("{}  {} result_{};\n", indent, result_type(i), i);
      after += fmt::format("{}  {} = {};\n", indent, place_of_result(program_, kernel_, i, "e"),
                           stored(i, fmt::format("result_{}", i)));
    }
    return fmt::format("#pragma unroll\n{0}for (int e = 0; e < kElements; ++e) {{\n{1}{0}  {2};\n{3}{0}}}\n", indent,
                       before, call, after);
  }

  std::string compute_pairs(std::string_view indent) const {
    std::string before;
    std::string after;
    const auto of_input = [&](const OperandPlan& operand, const std::string& name, std::string_view type) {
      if (operand.access == Access::row) return computed(operand, type, of_a_row(name, "e + i"));
      if (operand.run) return number_in_run(program_, kernel_, index_of(operand), "e + i");
      before +=
          fmt::format("{0}  {1} real_{2}[kPair];\n{0}  to_reals<kPair>({2} + e, real_{2});\n", indent, type, name);
      return fmt::format("real_{}[i]", name);
    };
    const std::string call = statement_of_chain(of_input, "result_{}[i]");
    for (std::size_t i = 0; i < kernel_.outputs.size(); ++i) {
      before += fmt::format("{}  {} result_{}[kPair];\n", indent, result_type(i), i);
      after += kernel_.outputs[i].run
                   ? put_pair(i, indent)
                   : fmt::format("{}  from_reals<kPair>(result_{}, {} + e);\n", indent, i, output_name(program_, i));
    }
    return fmt::format(
        "{0}constexpr int kPair = kElements % 2 == 0 ? 2 : 1;\n#pragma unroll\n"
        "{0}for (int e = 0; e < kElements; e += kPair) {{\n{1}#pragma unroll\n{0}  for (int i = 0; i < kPair; ++i)\n"
        "{0}    {2};\n{3}{0}}}\n",
        indent, before, call, after);
  }

  // Into the run that has the result's elements apart.
  std::string put_pair(std::size_t output, std::string_view indent) const {
    return fmt::format(
        "{0}  {1} pair_{2}[kPair];\n{0}  from_reals<kPair>(result_{2}, pair_{2});\n#pragma unroll\n"
        "{0}  for (int i = 0; i < kPair; ++i) {3} = pair_{2}[i];\n",
        indent, storage_type(kernel_.outputs[output].dtype), output,
        place_of_result(program_, kernel_, output, "(e + i)"));
  }

  // A full vector has one element of what its row shares.
  std::string of_a_row(const std::string& name, std::string_view e) const {
    return has_broken_vectors(kernel_) ? fmt::format("{}[kFullVector ? 0 : {}]", name, e) : name + "[0]";
  }

  // One element alone, from load to store.
  std::string element() const {
    bool finds_place = false;
    const auto of_input = [&](const OperandPlan& operand, const std::string&, std::string_view type) {
      const OffsetText offset = [&](std::string_view of) -> std::string {
        if (!operand.is_gathered()) return "i";
        finds_place = true;
        return fmt::format("offset_of(alone.at, {})", strides_of(program_, kernel_, of));
      };
      return computed(operand, type, element_of(program_, kernel_, index_of(operand), offset));
    };
    const std::string call = call_of_chain(of_input, "result_{}");
    std::string body, stores;
    for (std::size_t i = 0; i < kernel_.outputs.size(); ++i) {
      if (!returns_result()) body += fmt::format("  {} result_{};\n", result_type(i), i);
      stores += fmt::format("  p.{}[i] = {};\n", output_name(program_, i),
                            stored(i, returns_result() ? call : fmt::format("result_{}", i)));
    }
    if (!returns_result()) body += fmt::format("  {};\n", call);
    return fmt::format(
        "// One element alone.\n__device__ __forceinline__ void element(const Params& p, const Uniforms&{}, Index i) "
        "{{\n{}}}\n\n",
        reads(Access::uniform) ? " uniforms" : "",
        (finds_place ? "  const Position alone = locate(i, p);\n" : "") + body + stores);
  }

  // With 32-bit indices there are never more tiles than a grid may have blocks. The parameter is no __grid_constant__:
  // nothing takes its address, and NVRTC 13.0 then compiles faster, to fewer loads of it.
  std::string entry() const {
    const bool steps = goes_by_row(kernel_) || kernel_.steps > 1;
    const bool counts_elements = counts_tiles_in_elements(kernel_);
    const std::string_view tile = counts_elements ? "first" : "tile";
    const std::string_view run =
        transpose_map() != nullptr ? "run_tile(p, uniforms, tile);\n"
        : steps                    ? "run_vectors(p, uniforms, tile);\n"
        : counts_elements          ? "run_step(p, uniforms, first + static_cast<Index>(threadIdx.x) * kElements);\n"
        : kernel_.wide_index
            ? "run_step(p, uniforms, tile * blockDim.x + threadIdx.x);\n"
            : "run_step(p, uniforms, tile * static_cast<Index>(blockDim.x) + static_cast<Index>(threadIdx.x));\n";
    const std::string_view in_order =
        by_quotients() ? "p.first_tile + block * p.tile_step" : "p.reverse_order ? p.tiles - 1 - block : block";
    constexpr std::string_view kWhy =
        "// What a producer wrote last is still in the L2 cache: then blocks begin with it.\n";
    const std::string body =
        kernel_.wide_index
            ? fmt::format(
                  "  for (Index block = blockIdx.x; block < p.tiles; block += gridDim.x) {{\n    {}    const Index {} "
                  "= "
                  "{};\n    {}{}  }}\n",
                  kWhy, tile, in_order, run, transpose_map() != nullptr ? "    __syncthreads();\n" : "")
            : fmt::format("  {}  const Index block = static_cast<Index>(blockIdx.x);\n  const Index {} = {};\n  {}",
                          kWhy, tile, in_order, run);
    return fmt::format(
        "extern \"C\" __global__ void __launch_bounds__({}{}) {}(const Params p) {{\n"
        "  const Uniforms uniforms{{/*@if kHasUniforms*/load_uniforms(p)/*@endif*/}};\n{}}}\n",
        kernel_.threads, kernel_.tuning.resident_blocks > 0 ? fmt::format(", {}", kernel_.tuning.resident_blocks) : "",
        kKernelName, body);
  }

  const Program& program_;
  const KernelClass& kernel_;
  const std::vector<Kind>& input_kinds_;
  Prelude prelude_;
  ChainWriter chain_;
  AccessWriter accesses_;
};

}  // namespace

std::string emit_pointwise(const Program& program, const KernelClass& kernel_class,
                           const std::vector<Kind>& input_kinds) {
  if (kernel_class.map<plan::WindowTile>() != nullptr) return emit_window_tile(program, kernel_class, input_kinds);
  return PointwiseEmitter(program, kernel_class, input_kinds).emit();
}

}  // namespace epifuse::codegen
