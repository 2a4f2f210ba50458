// The chain falls into two functions: shared(), which a block computes once for each element of its tile, and chain(),
// which takes it at the places of a window. templates/pointwise/window_tile.cuh has what calls both.
#include "codegen/pointwise/window_tile.hpp"

#include <algorithm>

#include <spdlog/fmt/ranges.h>

#include "codegen/chain.hpp"
#include "codegen/emit.hpp"
#include "codegen/offsets.hpp"
#include "codegen/params.hpp"
#include "codegen/prelude.hpp"
#include "codegen/source.hpp"
#include "ir/marks.hpp"
#include "plan/analysis/accuracy.hpp"
#include "plan/pointwise/pointwise.hpp"

namespace epifuse::codegen {
namespace {

using ir::Kind;
using ir::Program;
using ir::Value;
using plan::Access;
using plan::KernelClass;
using plan::OperandPlan;

// Names values of the tile, where chain() takes them.
class TileChainWriter : public ChainWriter {
 public:
  TileChainWriter(const Program& program, const KernelClass& kernel, const std::vector<Kind>& input_kinds,
                  Prelude& prelude)
      : ChainWriter(program, kernel, input_kinds, prelude), values_(kernel.map<plan::WindowTile>()->values) {}

  bool is_of_tile(Value value) const { return std::ranges::find(values_, value) != values_.end(); }

 private:
  const plan::Values& values_;
};

class WindowTileEmitter {
 public:
  WindowTileEmitter(const Program& program, const KernelClass& kernel, const std::vector<Kind>& input_kinds)
      : program_(program),
        kernel_(kernel),
        map_(*kernel.map<plan::WindowTile>()),
        input_kinds_(input_kinds),
        writer_(program, kernel, input_kinds, prelude_),
        shared_(plan::nodes_of_function(program, map_.values[0])),
        own_(nodes_of_results()) {}

  std::string emit() {
    require_sections();
    const std::string functions = shared_function() + chain();
    std::string out = write_header(program_, kernel_) + prelude_.take() + settings();
    prelude_.require(kernel_.wide_index ? "divisor64" : "divisor32");
    prelude_.require("split");
    if (!program_.bounds().empty()) prelude_.require("bounded");
    out += prelude_.take();
    out += write_params(program_, kernel_) + functions + write_uniforms(program_, kernel_, input_kinds_);
    out += shared_memory() + value_at() + write_result();
    prelude_.require("run_window_tile");
    return out + prelude_.take() + entry();
  }

 private:
  // ---- settings

  void require_sections() {
    prelude_.require("convert");
    for (const auto* operands : {&kernel_.inputs, &kernel_.outputs}) {
      for (const OperandPlan& operand : *operands)
        if (operand.access != Access::unused) prelude_.require(storage_type(operand.dtype));
    }
    const auto is_truth = [&](const ir::Result& result) {
      return program_.kind(result.value, input_kinds_) == Kind::truth;
    };
    if (std::ranges::any_of(program_.results(), is_truth)) prelude_.require("truth");
  }

  std::string settings() const {
    return fmt::format(
        "typedef float Real;  // what the chain computes in\ntypedef {} Index;\n"
        "constexpr int kCoordinates = {};\n"
        "constexpr int kThreads = {};  // of a block\n"
        "constexpr int kTileRows = {};  // results of a tile, one below the other\n"
        "constexpr int kTileColumns = {};  // and side by side\n"
        "constexpr int kRowStep = {};  // rows from one window to the next\n"
        "constexpr int kColumnStep = {};  // columns likewise\n"
        "constexpr int kHeight = {};  // rows that the tile's windows span\n"
        "constexpr int kWidth = {};  // columns likewise\n\n",
        kernel_.wide_index ? "long long" : "int", kernel_.coordinates, kernel_.threads, map_.rows, map_.columns,
        map_.row_step, map_.column_step, map_.height, map_.width);
  }

  // ---- the chain, in two functions

  // What the results are computed of, up to the values of the tile.
  std::vector<Value> nodes_of_results() const {
    std::vector<bool> is_needed(program_.nodes().size(), false);
    for (std::size_t i = 0; i < program_.results().size(); ++i) is_needed[index(stored_value(i))] = true;
    ir::mark_arguments(program_.nodes(), is_needed,
                       [&](std::size_t i) { return writer_.is_of_tile(static_cast<Value>(i)); });
    std::vector<Value> nodes;
    for (std::size_t i = 0; i < is_needed.size(); ++i)
      if (is_needed[i]) nodes.push_back(static_cast<Value>(i));
    return nodes;
  }

  static std::size_t index(Value value) { return static_cast<std::size_t>(value); }
  Value stored_value(std::size_t i) const { return plan::stored_value(program_, i, kernel_.outputs[i].dtype); }

  // Operands, scalars and counts that these values are, as parameters or as what is passed for them.
  template <class Text>
  std::vector<std::string> leaves(const std::vector<Value>& nodes, const Text& text) const {
    std::vector<std::string> all;
    for (const Value value : nodes) {
      const ir::Node& node = program_.node(value);
      if (node.op == ir::Op::input || node.op == ir::Op::iota || node.op == ir::Op::scalar || node.op == ir::Op::count)
        all.push_back(text(value, node));
    }
    return all;
  }

  std::string parameter(Value value) const {
    return fmt::format("{} {}", type_of(writer_.kind(value)), writer_.reference(value));
  }

  std::string statements(const std::vector<Value>& nodes, bool takes_tile) {
    std::string out;
    for (const Value value : nodes) {
      if (!ir::is_computed(program_.node(value).op) || (takes_tile && writer_.is_of_tile(value))) continue;
      out += fmt::format("  const {} {} = {};\n", type_of(writer_.kind(value)), writer_.reference(value),
                         writer_.computation(value));
    }
    return out;
  }

  std::string shared_function() {
    const auto parameters = leaves(shared_, [&](Value value, const ir::Node&) { return parameter(value); });
    return fmt::format(
        "// What windows share, for one element.\n__device__ __forceinline__ Real shared_value({}) {{\n{}  return "
        "{};\n}}\n\n",
        fmt::join(parameters, ", "), statements(shared_, false), writer_.reference(map_.values[0]));
  }

  std::string chain() {
    auto parameters = leaves(own_, [&](Value value, const ir::Node&) { return parameter(value); });
    for (const Value value : map_.values) parameters.push_back(parameter(value));
    std::string stores;
    for (std::size_t i = 0; i < program_.results().size(); ++i) {
      parameters.push_back(fmt::format("{}& result_{}", result_type(i), i));
      stores += fmt::format("  result_{} = {};\n", i, writer_.reference(stored_value(i)));
    }
    return fmt::format(
        "// The chain for one result, of what windows share.\n__device__ __forceinline__ void chain({}) {{\n{}{}}}\n\n",
        fmt::join(parameters, ", "), statements(own_, true), stores);
  }

  std::string_view result_type(std::size_t i) const { return type_of(writer_.kind(program_.results()[i].value)); }

  // ---- operands

  // An operand as it is passed, at the coordinates `at`.
  std::string argument(Value value, const ir::Node& node) const {
    if (node.op == ir::Op::scalar || node.op == ir::Op::count) return "p." + writer_.reference(value);
    const auto i = static_cast<std::size_t>(node.ordinal);
    const OperandPlan& operand = kernel_.inputs[i];
    const std::string name = input_name(program_, i);
    if (operand.access == Access::uniform) return "uniforms." + name;
    const std::string_view type = type_of(writer_.kind(value));
    if (operand.access == Access::tiled)
      return fmt::format("to_real<{}>(exists ? p.{}[{} - p.origin_{}] : {}{{}})", type, name,
                         offset_at(program_, kernel_, "at")(name), name, storage_type(operand.dtype));
    return fmt::format("to_real<{}>({})", type, element_of(program_, kernel_, i, offset_at(program_, kernel_, "at")));
  }
  std::vector<std::string> arguments(const std::vector<Value>& nodes) const {
    return leaves(nodes, [&](Value value, const ir::Node& node) { return argument(value, node); });
  }

  static std::string shared_memory() {
    return "// Of a block, in shared memory: what windows share of each element.\nstruct Shared {\n"
           "  Real values[kHeight][kWidth];\n};\n\n";
  }

  std::string value_at() const {
    return fmt::format(
        "// Of the element at these coordinates, which count elements of the tensor along the last two dimensions.\n"
        "__device__ __forceinline__ Real value_at(const Params& p, const Uniforms& uniforms, const Index "
        "(&at)[kCoordinates], bool exists) {{\n  return shared_value({});\n}}\n\n",
        fmt::join(arguments(shared_), ", "));
  }

  std::string write_result() const {
    auto passed = arguments(own_);
    for (const Value value : map_.values) {
      const plan::PlaceInTile& place = *kernel_.inputs[view_of(value)].place;
      passed.push_back(fmt::format("shared.values[row + {}][column + {}]", place.row, place.column));
    }
    std::string before, stores;
    for (std::size_t i = 0; i < program_.results().size(); ++i) {
      const std::string name = output_name(program_, i);
      before += fmt::format("  {} result_{};\n", result_type(i), i);
      passed.push_back(fmt::format("result_{}", i));
      stores += fmt::format("  p.{}[{}] = from_real<{}>(result_{});\n", name, offset_at(program_, kernel_, "at")(name),
                            storage_type(kernel_.outputs[i].dtype), i);
    }
    return fmt::format(
        "// The results at these coordinates, whose window begins at a row and a column of the tile.\n"
        "__device__ __forceinline__ void write_result(const Params& p, const Uniforms& uniforms, const Index "
        "(&at)[kCoordinates], const Shared& shared, int row, int column) {{\n{}  chain({});\n{}}}\n\n",
        before, fmt::join(passed, ", "), stores);
  }

  // The one view that a value of the tile is a function of.
  std::size_t view_of(Value value) const {
    for (const Value taken : plan::nodes_of_function(program_, value)) {
      const ir::Node& node = program_.node(taken);
      if (node.op != ir::Op::input) continue;
      const auto i = static_cast<std::size_t>(node.ordinal);
      if (kernel_.inputs[i].place) return i;
    }
    throw std::logic_error("a value of a tile is a function of no view");
  }

  std::string entry() const {
    const std::string_view run =
        kernel_.wide_index ? "  for (Index number = blockIdx.x; number < p.tiles; number += gridDim.x) {\n"
                             "    run_tile(p, uniforms, in_order(number, p), shared);\n    __syncthreads();\n  }\n"
                           : "  run_tile(p, uniforms, in_order(static_cast<Index>(blockIdx.x), p), shared);\n";
    return fmt::format(
        "// What a producer wrote last is still in the L2 cache: then blocks begin with it.\n"
        "__device__ __forceinline__ Index in_order(Index tile, const Params& p) {{ return p.reverse_order ? "
        "p.tiles - 1 - tile : tile; }}\n\n"
        "extern \"C\" __global__ void __launch_bounds__({}) {}(const Params p) {{\n  __shared__ Shared shared;\n"
        "  const Uniforms uniforms{{/*@if kHasUniforms*/load_uniforms(p)/*@endif*/}};\n{}}}\n",
        kernel_.threads, kKernelName, run);
  }

  const Program& program_;
  const KernelClass& kernel_;
  const plan::WindowTile& map_;
  const std::vector<Kind>& input_kinds_;
  Prelude prelude_;
  TileChainWriter writer_;
  const std::vector<Value> shared_;  // what a value of the tile is computed of
  const std::vector<Value> own_;     // what results are computed of, values of the tile included
};

}  // namespace

std::string emit_window_tile(const Program& program, const KernelClass& kernel_class,
                             const std::vector<Kind>& input_kinds) {
  return WindowTileEmitter(program, kernel_class, input_kinds).emit();
}

}  // namespace epifuse::codegen
