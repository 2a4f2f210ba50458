// The list of fields, where they lie in the struct, and their values as bytes.
#include "codegen/params.hpp"

#include <algorithm>
#include <array>
#include <bit>

#include <spdlog/fmt/fmt.h>

#include "codegen/emit.hpp"
#include "plan/planning.hpp"
#include "plan/runs.hpp"

namespace epifuse::codegen {
namespace {

using plan::Access;
using plan::KernelClass;
using plan::OperandPlan;
using plan::Plan;

__extension__ using Wide = unsigned __int128;

// The numbers of templates/index.cuh's Divisor: l = ceil(log2 d), m = ceil(2^(bits-1+l) / d).
template <class Word, class Double>
std::array<Word, 2> divisor_words(std::int64_t divisor) {
  const auto d = static_cast<Word>(divisor);
  const auto shift = static_cast<Word>(std::bit_width(static_cast<Word>(d - 1)));
  const Double numerator = Double{1} << (sizeof(Word) * 8 - 1 + shift);
  return {static_cast<Word>((numerator + d - 1) / d), shift};
}

std::size_t offset_of(const plan::Workspace& workspace, plan::Workspace::Use use, int stage) {
  const auto matches = [&](const plan::Workspace::Region& region) {
    return region.use == use && region.stage == stage;
  };
  return std::ranges::find_if(workspace.regions, matches)->offset;
}

void add_operand(std::vector<Field>& fields, const OperandPlan& operand, const std::string& name, std::size_t i,
                 bool is_output, int coordinates, const ir::Bounds& bounds = {}) {
  if (operand.access == Access::unused || operand.access == Access::of_run || operand.access == Access::of_tile) return;
  const bool has_base = operand.access == Access::run && operand.run->base != operand.run->reader;
  const bool is_staged = operand.staged_row != OperandPlan::kOwn;
  if (!plan::is_generated(operand.access) && !has_base && !is_staged)
    fields.push_back({is_output ? FieldKind::output_pointer : FieldKind::input_pointer,
                      fmt::format("{}{}*", is_output ? "" : "const ",
                                  operand.dtype == DType::boolean ? "boolean" : to_string(operand.dtype)),
                      name, std::string(to_string(operand.access)), i, is_output});
  if (operand.is_gathered() && operand.strides_of == OperandPlan::kOwn) {
    // A prefix, not a suffix: operands may be named x and x_strides.
    fields.push_back({FieldKind::strides, "Index", fmt::format("strides_{}[{}]", name, coordinates), "", i, is_output});
  }
  if (is_staged)
    fields.push_back({FieldKind::place_in_row, "Index", "place_in_row_" + name, "of its first element", i, false});
  if (has_base)
    fields.push_back({FieldKind::distance, "Index", "distance_" + name, "elements from its base", i, false});
  else if (!bounds.by.empty() || !bounds.wraps.empty() || operand.access == Access::tiled)
    fields.push_back({FieldKind::origin, "Index", "origin_" + name, "offset of its first element", i, false});
  if (!bounds.wraps.empty())
    fields.push_back({FieldKind::wraps, "Index", fmt::format("wraps_{}[{}]", name, bounds.wraps.size()),
                      "added where a rolled dimension begins again", i, false});
  if (operand.access == Access::inside || operand.access == Access::bound)
    fields.push_back(
        {FieldKind::inside, "Index", fmt::format("inside_{}[2]", name), "from there on, so many", i, false});
  if (operand.access == Access::gathered)
    fields.push_back({FieldKind::gathers, "Index", fmt::format("gathers_{}[{}][3]", name, bounds.gathers.size()),
                      "stride, extent, what is added to negative indices", i, false});
}

// What the numbers of tiles count.
std::int64_t tile_unit(const Plan& plan) {
  return counts_tiles_in_elements(plan.kernel_class) ? std::int64_t{plan.threads} * plan.kernel_class.elements : 1;
}

}  // namespace

std::array<std::uint32_t, 2> divisor32(std::int64_t divisor) {
  return divisor_words<std::uint32_t, std::uint64_t>(divisor);
}

bool counts_tiles_in_elements(const KernelClass& kernel) {
  return goes_by_quotients(kernel) && kernel.steps == 1 && !kernel.wide_index;
}

bool takes_numbers(const ir::Program& program) { return !program.scalars().empty() || !counts_of(program).empty(); }

bool has_bytes(const KernelClass& kernel) {
  const auto is_byte = [](const OperandPlan& operand) {
    return operand.access != Access::unused && operand.access != Access::bound && size_of(operand.dtype) == 1;
  };
  return std::ranges::any_of(kernel.inputs, is_byte) || std::ranges::any_of(kernel.outputs, is_byte);
}

std::string input_name(const ir::Program& program, std::size_t i) {
  return (i < program.inputs().size() ? "in_" : "") + program.operand_name(i);
}

std::string output_name(const ir::Program& program, std::size_t i) {
  const std::string& name = program.results()[i].name;
  // "out0" cannot collide with "out_…".
  return !name.empty() ? "out_" + name : program.results().size() == 1 ? "out" : fmt::format("out{}", i);
}

std::string scalar_name(const ir::Program& program, std::size_t i) { return "scalar_" + program.scalars()[i]; }

std::string count_name(ir::Value value) { return fmt::format("count_{}", value); }

std::vector<ir::Value> counts_of(const ir::Program& program) {
  std::vector<ir::Value> counts;
  for (std::size_t i = 0; i < program.nodes().size(); ++i) {
    if (program.nodes()[i].op == ir::Op::count) counts.push_back(static_cast<ir::Value>(i));
  }
  return counts;
}

bool goes_by_quotients(const KernelClass& kernel) {
  return kernel.map<plan::Flat>() != nullptr && kernel.map<plan::Flat>()->by_quotients;
}

bool has_coordinates(const KernelClass& kernel) {
  const plan::ReductionClass* reduction = kernel.reduction();
  // Beside ragged rows the compiler makes longer paths of the shorter text (measured: softmax of rows of 257).
  if (reduction == nullptr || !reduction->threads.full || !reduction->layout.inner_reduction ||
      reduction->structure.has_segments() || reduction->columns || reduction->store || reduction->interleaves_rows())
    return true;
  const auto finds = [](const plan::OperandPlan& operand) { return operand.is_gathered(); };
  const auto lacks = [](const auto dimensions) { return dimensions != 0; };
  return std::ranges::any_of(kernel.inputs, finds) || std::ranges::any_of(kernel.outputs, finds) ||
         std::ranges::any_of(reduction->missing, lacks);
}

std::vector<Field> parameter_fields(const ir::Program& program, const KernelClass& kernel) {
  std::vector<Field> fields;
  for (std::size_t i = 0; i < kernel.inputs.size(); ++i) {
    const plan::OperandPlan& input = kernel.inputs[i];
    if (plan::is_random(input.access)) {
      fields.push_back({FieldKind::random, "Random", input_name(program, i), std::string(to_string(input.access)),
                        static_cast<std::size_t>(program.generated()[i - program.inputs().size()])});
    }
    add_operand(fields, input, input_name(program, i), i, false, kernel.coordinates,
                program.bounds().empty() || i >= program.bounds().size() ? ir::Bounds() : program.bounds()[i]);
  }
  for (std::size_t i = 0; i < kernel.outputs.size(); ++i) {
    const std::string name = output_name(program, i);
    add_operand(fields, kernel.outputs[i], name, i, true, kernel.coordinates);
    if (const ir::Scatter* const scatter = program.scatter_of(i))
      fields.push_back({FieldKind::gathers, "Index", fmt::format("gathers_{}[{}][3]", name, scatter->along.size()),
                        "stride and extent of each dimension that is indexed", i, true});
  }
  for (std::size_t i = 0; i < program.scalars().size(); ++i) {
    fields.push_back({FieldKind::scalar, "Real", scalar_name(program, i), "run-time scalar", i, false});
  }
  for (const ir::Value value : counts_of(program)) {
    fields.push_back({FieldKind::count, "Real", count_name(value), "elements that become one",
                      static_cast<std::size_t>(value), false});
  }
  if (kernel.coordinates > 0 && has_coordinates(kernel)) {
    fields.push_back({FieldKind::extents_and_divisors, "Space", "space", "extents of the iteration space", 0, false});
  }
  const auto index = [&](const char* name, const char* comment, Number number) {
    fields.push_back({FieldKind::index, "Index", name, comment, 0, false, number});
  };
  const auto divisor = [&](const char* name, Number number) {
    fields.push_back({FieldKind::divisor, "Divisor", name, "", 0, false, number});
  };
  if (const plan::ReductionClass* reduction = kernel.reduction()) {
    index("rows", "elements of the outer parallel dimensions", [](const Plan& plan) { return plan.rows; });
    index("row_length", "elements of a row", [](const Plan& plan) { return plan.row_length; });
    if (reduction->structure.has_written()) {
      fields.push_back(
          {FieldKind::written_extents, "Space", "written_space", "of what is written in place of rows' elements"});
      index("written_length", "elements of that, for each row", [](const Plan& plan) { return plan.written_length; });
    }
    if (reduction->structure.has_segments()) {
      if (reduction->reduces_segments_by_lanes()) {
        index("segment_lanes_log2", "of the lanes that reduce one segment", [](const Plan& plan) {
          return std::int64_t{std::countr_zero(static_cast<unsigned>(plan.segment_lanes))};
        });
      } else {
        divisor("segment_divisor", [](const Plan& plan) { return plan.segment_length; });
      }
      index("segment_length", "elements of each segment of a row",
            [](const Plan& plan) { return plan.segment_length; });
      index("segments_per_row", "segments of a row", [](const Plan& plan) { return plan.segments_per_row; });
    }
    if (!reduction->layout.inner_reduction) {
      divisor("column_tiles_divisor", [](const Plan& plan) { return plan.column_tiles; });
      index("column_tiles", "blocks side by side", [](const Plan& plan) { return plan.column_tiles; });
      index("row_columns", "rows side by side", [](const Plan& plan) { return plan.row_columns; });
    }
    if (reduction->prefetches() && !reduction->columns)
      index("prefetch_distance", "blocks between one and that for which it prefetches",
            [](const Plan& plan) { return plan.prefetch_distance; });
    const auto workspace = [&](plan::Workspace::Use use, int stage, const std::string& name, const char* type,
                               const char* comment) {
      fields.push_back({FieldKind::workspace, type, name, comment, 0, false, nullptr, use, stage});
    };
    if (reduction->is<plan::Looped>() || reduction->is<plan::BySegments>())
      index("chunks", "rounds of a pass", [](const Plan& plan) { return plan.chunks; });
    if (reduction->is<plan::Split>()) {
      index("tiles", "blocks' worth of rows", [](const Plan& plan) { return plan.tiles; });
      index("chunks", "blocks that share a row", [](const Plan& plan) { return plan.chunks; });
      index("rounds", "of a block over its chunk", [](const Plan& plan) { return plan.rounds; });
      index("lag", "tiles between one pass and the next", [](const Plan& plan) { return plan.lag; });
      workspace(plan::Workspace::Use::signals, 0, "signals", "unsigned*",
                "ticket; arrivals and flag of each tile and pass");
      for (int stage = 1; stage <= reduction->structure.stages; ++stage) {
        workspace(plan::Workspace::Use::partials, stage, fmt::format("partials_{}", stage), "Real*", "of each chunk");
        workspace(plan::Workspace::Use::finals, stage, fmt::format("finals_{}", stage), "Real*", "of each row");
      }
    }
    if (reduction->is<plan::SplitResident>()) {
      index("chunks", "blocks that share a row", [](const Plan& plan) { return plan.chunks; });
      workspace(plan::Workspace::Use::signals, 0, "signals", "unsigned*", "arrivals of each row");
      workspace(plan::Workspace::Use::states, 0, "states", "unsigned*", "of each chunk of a row");
      workspace(plan::Workspace::Use::partials, 1, "partials_1", "void*", "of each chunk: values with a status");
    }
    const auto left_columns = [&](const char* type, const char* of) {
      index("columns", "of all results",
            [](const Plan& plan) { return plan::grid_results(plan) * plan.columns_per_row; });
      index("summing_blocks", "blocks that sum up what all have left", plan::summing_blocks);
      workspace(plan::Workspace::Use::column_signals, 0, "column_signals", "unsigned*",
                "arrivals; states of the blocks that sum up");
      workspace(plan::Workspace::Use::column_partials, 0, "column_partials", type, of);
    };
    if (reduction->columns) {
      index("rows_per_result", "rows that a column sum combines",
            [](const Plan& plan) { return plan.rows_per_result; });
      index("blocks_per_result", "blocks, or clusters, that share them",
            [](const Plan& plan) { return plan.blocks_per_result; });
      index("columns_per_row", "that sums keep of a row", [](const Plan& plan) { return plan.columns_per_row; });
      if (reduction->columns->coordinates > 0) {
        index("column_vectors", "vectors of a row in each",
              [](const Plan& plan) { return plan.column_length / plan.kernel_class.elements; });
      }
      index("tiles", "rows of one result, in those of a block at a time", [](const Plan& plan) { return plan.tiles; });
      if (reduction->columns->several_blocks) left_columns("Real*", "of each block");
    }
    if (reduction->structure.has_column_runs()) {
      index("rows_per_result", "rows that a column sum combines",
            [](const Plan& plan) { return plan.rows_per_result; });
      index("row_step", "rows from one of them to the next", [](const Plan& plan) { return plan.row_step; });
      index("result_step", "rows from the first of one result to that of the next",
            [](const Plan& plan) { return plan.row_step == 1 ? plan.rows_per_result : 1; });
      index("slots_per_row", "for what its runs have of segments", plan::slots_per_row);
      index("runs_per_segment", "of a row, at most", plan::runs_per_segment);
      left_columns("void*", "of each run and segment");
    }
    if (reduction->structure.grid != 0) {
      index("rows_per_result", "rows that a grid reduction combines",
            [](const Plan& plan) { return plan.rows_per_result; });
      index("blocks_per_result", "blocks that contribute to it",
            [](const Plan& plan) { return plan.blocks_per_result; });
      if (reduction->grid->several_blocks) {
        workspace(plan::Workspace::Use::grid_arrivals, 0, "grid_arrivals", "unsigned*", "");
        workspace(plan::Workspace::Use::grid_partials, 0, "grid_partials", "void*", "values with a status");
      }
    }
    return fields;
  }
  if (kernel.map<plan::WindowTile>() != nullptr) {
    divisor("row_tiles_divisor", [](const Plan& plan) { return plan.input_tiles; });
    divisor("column_tiles_divisor", [](const Plan& plan) { return plan.output_tiles; });
    index("row_tiles", "tiles one below the other", [](const Plan& plan) { return plan.input_tiles; });
    index("column_tiles", "tiles side by side", [](const Plan& plan) { return plan.output_tiles; });
    index("first_row", "the tensor's first row, counted from that of the first window",
          [](const Plan& plan) { return plan.existing_rows.first; });
    index("end_row", "behind its last", [](const Plan& plan) { return plan.existing_rows.end; });
    index("first_column", "the same of its columns", [](const Plan& plan) { return plan.existing_columns.first; });
    index("end_column", "", [](const Plan& plan) { return plan.existing_columns.end; });
  } else if (kernel.map<plan::Tiled2D>() != nullptr || kernel.map<plan::Transpose>() != nullptr) {
    divisor("input_tiles_divisor", [](const Plan& plan) { return plan.input_tiles; });
    divisor("output_tiles_divisor", [](const Plan& plan) { return plan.output_tiles; });
    index("input_tiles", "blocks side by side along the inputs' dimension",
          [](const Plan& plan) { return plan.input_tiles; });
    index("output_tiles", "blocks one behind the other", [](const Plan& plan) { return plan.output_tiles; });
  } else if (kernel.map<plan::ByRow>() != nullptr) {
    divisor("vectors_per_row_divisor", [](const Plan& plan) { return plan.vectors_per_row; });
    index("vectors_per_row", "vectors of kElements in one row", [](const Plan& plan) { return plan.vectors_per_row; });
    index("vectors", "in all rows", [](const Plan& plan) { return plan.vectors; });
  } else {
    index("elements", "in all", [](const Plan& plan) { return plan.space.elements; });
  }
  if (!counts_tiles_in_elements(kernel))
    index("tiles", "blocks' worth of work", [](const Plan& plan) { return plan.tiles; });
  if (goes_by_quotients(kernel)) {
    // In elements where a thread has one vector: then no number of a tile is made.
    index("first_tile", "the last one, where a producer has left its end in the L2 cache",
          [](const Plan& plan) { return plan.reverse_order ? (plan.tiles - 1) * tile_unit(plan) : 0; });
    index("tile_step", "to the next tile",
          [](const Plan& plan) { return plan.reverse_order ? -tile_unit(plan) : tile_unit(plan); });
  } else {
    index("reverse_order", "from the last to the first",
          [](const Plan& plan) -> std::int64_t { return plan.reverse_order; });
  }
  return fields;
}

// Each field lies at a multiple of its alignment, as a C compiler puts it.
ParameterLayout::ParameterLayout(const ir::Program& program, const KernelClass& kernel)
    : coordinates_(kernel.coordinates),
      by_quotients_(goes_by_quotients(kernel)),
      wide_(kernel.wide_index),
      f64_(kernel.f64) {
  const std::size_t index = wide_ ? sizeof(std::int64_t) : sizeof(std::int32_t);
  const auto dimensions = static_cast<std::size_t>(coordinates_);
  std::size_t alignment = 1;
  for (const Field& field : parameter_fields(program, kernel)) {
    std::size_t unit = index;
    std::size_t count = 1;
    switch (field.kind) {
      case FieldKind::input_pointer:
      case FieldKind::output_pointer:
      case FieldKind::workspace:
        unit = sizeof(void*);
        break;
      case FieldKind::random:
        unit = sizeof(std::uint64_t);
        count = 2;
        break;
      case FieldKind::scalar:
      case FieldKind::count:
        unit = f64_ ? sizeof(double) : sizeof(float);
        break;
      case FieldKind::strides:
        count = dimensions;
        break;
      case FieldKind::divisor:
      case FieldKind::inside:
        count = 2;
        break;
      case FieldKind::extents_and_divisors:
      case FieldKind::written_extents:
        count = 3 * dimensions;
        break;
      case FieldKind::wraps:
        count = program.bounds()[field.operand].wraps.size();
        break;
      case FieldKind::gathers:
        count = 3 * (field.of_output ? program.scatter_of(field.operand)->along.size()
                                     : program.bounds()[field.operand].gathers.size());
        break;
      case FieldKind::index:
      case FieldKind::origin:
      case FieldKind::distance:
      case FieldKind::place_in_row:
        break;
    }
    bytes_ = (bytes_ + unit - 1) / unit * unit;
    const auto operand = static_cast<std::uint32_t>(field.operand);
    const auto offset = static_cast<std::uint32_t>(bytes_);
    const bool is_operand = field.kind == FieldKind::input_pointer || field.kind == FieldKind::output_pointer ||
                            field.kind == FieldKind::scalar;
    if (field.kind == FieldKind::random) add_random(program, program.nodes()[field.operand]);
    if (!is_operand && field.kind != FieldKind::random)
      places_.push_back({field.kind, field.of_output, field.use, field.stage, operand, offset, field.number});
    if (is_operand || field.kind == FieldKind::workspace) slots_.push_back({field.kind, operand, offset});
    bytes_ += unit * count;
    alignment = std::max(alignment, unit);
  }
  bytes_ = (bytes_ + alignment - 1) / alignment * alignment;
}

void ParameterLayout::add_random(const ir::Program& program, const ir::Node& node) {
  auto offset = static_cast<std::uint32_t>(bytes_);
  for (const ir::Value value : {node.args[1], node.args[2]}) {
    const ir::Node& word = program.node(value);
    if (word.op == ir::Op::scalar)
      slots_.push_back({FieldKind::random, static_cast<std::uint32_t>(word.ordinal), offset});
    else
      words_.push_back({ir::random_word(program, value, {}), offset});
    offset += sizeof(std::uint64_t);
  }
}

void ParameterLayout::put_index(std::byte*& at, std::int64_t value) const noexcept {
  wide_ ? put(at, value) : put(at, static_cast<std::int32_t>(value));
  at += wide_ ? sizeof(std::int64_t) : sizeof(std::int32_t);
}

void ParameterLayout::put_divisor(std::byte*& at, std::int64_t value) const noexcept {
  value = std::max<std::int64_t>(value, 1);  // of an empty row nothing is located
  wide_ ? put(at, divisor_words<std::uint64_t, Wide>(value))
        : put(at, divisor_words<std::uint32_t, std::uint64_t>(value));
  at += 2 * (wide_ ? sizeof(std::uint64_t) : sizeof(std::uint32_t));
}

void ParameterLayout::pack_plan(const Plan& plan, std::byte* params) const {
  std::fill_n(params, bytes_, std::byte{0});
  for (const Word& word : words_) put(params + word.offset, word.value);
  for (const Place& place : places_) {
    std::byte* at = params + place.offset;
    switch (place.kind) {
      case FieldKind::strides: {
        const plan::KernelClass& kernel = plan.kernel_class;
        const plan::Space& space =
            plan::space_of(plan, (place.of_output ? kernel.outputs : kernel.inputs)[place.operand]);
        const plan::StridedOperand& strided = (place.of_output ? space.outputs : space.inputs)[place.operand];
        for (int d = 0; d < coordinates_; ++d)
          put_index(at, by_quotients_ ? plan::stride_of_quotient(strided, plan.space, d)
                                      : strided.strides[static_cast<std::size_t>(d)]);
        break;
      }
      case FieldKind::origin:
      case FieldKind::inside:
        put_index(at, plan.space.inputs[place.operand].origin);
        if (place.kind == FieldKind::inside) put_index(at, plan.space.inputs[place.operand].count);
        break;
      case FieldKind::distance: {
        const auto base = static_cast<std::size_t>(plan.kernel_class.inputs[place.operand].run->base);
        put_index(at, plan::elements_between(plan.space.inputs[base], plan.space.inputs[place.operand]));
        break;
      }
      case FieldKind::place_in_row: {
        const auto row = static_cast<std::size_t>(plan.kernel_class.inputs[place.operand].staged_row);
        put_index(at, plan::elements_between(plan.space.inputs[row], plan.written.inputs[place.operand]));
        break;
      }
      case FieldKind::wraps:
        for (const plan::RolledDimension& wrap : plan.space.inputs[place.operand].wraps) put_index(at, wrap.offset);
        break;
      case FieldKind::gathers: {
        const auto& strided_operands = place.of_output ? plan.space.outputs : plan.space.inputs;
        for (const plan::GatheredDimension& gather : strided_operands[place.operand].gathers) {
          for (const std::int64_t number : {gather.stride, gather.extent, gather.wrapped}) put_index(at, number);
        }
        break;
      }
      case FieldKind::index:
        put_index(at, place.number(plan));
        break;
      case FieldKind::divisor:
        put_divisor(at, place.number(plan));
        break;
      case FieldKind::count: {
        const auto elements = static_cast<double>(plan.space.counts[place.operand]);
        f64_ ? put(at, elements) : put(at, static_cast<float>(elements));
        break;
      }
      case FieldKind::extents_and_divisors:
      case FieldKind::written_extents: {
        const plan::Space& space = place.kind == FieldKind::written_extents ? plan.written : plan.space;
        for (const std::int64_t extent : space.extents) put_index(at, extent);
        for (const std::int64_t extent : space.extents) put_divisor(at, extent);
        break;
      }
      default:
        put(at, offset_of(plan.workspace, place.use, place.stage));
    }
  }
}

std::vector<std::byte> pack(const ir::Program& program, const Plan& plan, std::span<const double> scalars,
                            const void* workspace) {
  const ParameterLayout layout(program, plan.kernel_class);
  std::vector<std::byte> params(layout.bytes());
  layout.pack_plan(plan, params.data());
  layout.pack_operands(plan.space.outputs, plan.space.inputs, scalars, workspace, params.data());
  return params;
}

}  // namespace epifuse::codegen
