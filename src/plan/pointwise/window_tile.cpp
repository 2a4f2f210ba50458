// What windows that overlap compute of each element, as exp(x) in avg_pool2d(exp(x), 5, 1, 2), once for a tile: values
// of the chain that are the same function of several views of a tensor. A block computes them for the elements that
// its tile of results reads, into shared memory. Which values these are, when that pays, and how large tiles are.
// Called by pointwise.cpp.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include <spdlog/fmt/ranges.h>

#include "base/text.hpp"
#include "ir/marks.hpp"
#include "plan/analysis/accuracy.hpp"
#include "plan/pointwise/pointwise.hpp"
#include "plan/runs.hpp"

namespace epifuse::plan {
namespace {

using ir::Node;
using ir::Op;
using ir::Value;

constexpr std::size_t kNone = static_cast<std::size_t>(-1);

// Of the steps between windows, and of the elements that a window spans along a dimension.
constexpr std::int64_t kMostWindowStep = 4;
constexpr std::int64_t kMostSpan = 32;
// Instructions of a result beside its chain: coordinates, and an access of one element of each operand.
constexpr int kOwnInstructions = 40;
// To read a value from the tile, and to compute where its element lies.
constexpr int kReadInstructions = 2;
constexpr int kFillInstructions = 12;
constexpr std::int64_t kWindowTileBytes = 16'384;  // three blocks leave most of a multiprocessor's L1 cache

// A value that is a function of one view at most, and of what is the same for all of a tile.
struct Function {
  int form = 0;              // equal for equal functions; 0: of several views, or of anything else
  std::size_t view = kNone;  // the operand
};

// Elements of a tensor between two results, one below and one beside the other, and between two windows.
struct Steps {
  std::int64_t row_stride = 1, row_step = 1, column_step = 1;
};

// Of a view: where its windows' element stands from the first one's.
struct Displacement {
  std::int64_t rows = 0, columns = 0;
};

class Finder {
 public:
  Finder(const Space& space, const ir::Program& program)
      : space_(space), program_(program), kinds_(space.input_kinds()), functions_(program.nodes().size()) {
    for (std::size_t i = 0; i < functions_.size(); ++i) functions_[i] = function_of(static_cast<Value>(i));
  }

  // The values of one function that cost the most, of two views or more. All that reads these views is among them.
  std::vector<Value> shared_values() const {
    std::map<int, std::vector<Value>> by_form;
    for (std::size_t i = 0; i < functions_.size(); ++i)
      if (is_last(static_cast<Value>(i))) by_form[functions_[i].form].push_back(static_cast<Value>(i));
    std::vector<Value> most;
    for (const auto& [form, values] : by_form)
      if (values.size() > most.size()) most = values;
    return most.size() > 1 && have_views_alone(most) ? most : std::vector<Value>{};
  }

  std::size_t view(Value value) const { return functions_[static_cast<std::size_t>(value)].view; }

  int instructions(Value value) const {
    int sum = 0;
    for (const Value node : nodes_of_function(program_, value)) {
      const Node& n = program_.node(node);
      sum += ir::is_elementwise(n.op) ? ir::row(n.op).cost : n.op == Op::cast ? 1 : 0;
    }
    return sum;
  }

 private:
  const StridedOperand& strided(std::size_t input) const { return space_.inputs[input]; }

  bool is_view(std::size_t input) const {
    const StridedOperand& read = strided(input);
    const auto inner = static_cast<std::size_t>(space_.rank()) - 1;
    return program_.viewed(input).tensor != ir::kNone && !read.is_generated() && !read.is_index &&
           read.gathers.empty() && read.wraps.empty() && !is_packed(read.dtype) && read.strides[inner] >= 1 &&
           read.strides[inner] <= kMostWindowStep && read.strides[inner - 1] >= 1;
  }

  // The same for all of a tile, and read where the element stands.
  bool is_of_plane(std::size_t input) const {
    const StridedOperand& read = strided(input);
    const auto inner = static_cast<std::size_t>(space_.rank()) - 1;
    return !read.is_generated() && read.gathers.empty() && !read.bounded && !varies_along(read, space_, inner) &&
           !varies_along(read, space_, inner - 1);
  }

  Function function_of(Value value) {
    const Node& n = program_.node(value);
    const auto ordinal = static_cast<std::size_t>(n.ordinal);
    if (n.op == Op::input && is_of_plane(ordinal)) return {form(n, {n.ordinal}), kNone};
    if (n.op == Op::input && is_view(ordinal)) return {form(n, {-1 - program_.viewed(ordinal).tensor}), ordinal};
    if (n.op == Op::scalar) return {form(n, {n.ordinal}), kNone};
    if (n.op == Op::constant) return {form(n, {}), kNone};
    if (!ir::is_elementwise(n.op) && n.op != Op::cast) return {};
    Function result;
    std::vector<int> arguments;
    for (int k = 0; k < n.computed_arity(); ++k) {
      const Function& argument = functions_[static_cast<std::size_t>(n.args[static_cast<std::size_t>(k)])];
      if (argument.form == 0) return {};
      if (argument.view != kNone && result.view != kNone && argument.view != result.view) return {};
      if (argument.view != kNone) result.view = argument.view;
      arguments.push_back(argument.form);
    }
    result.form = form(n, std::move(arguments));
    return result;
  }

  int form(const Node& n, std::vector<int> arguments) {
    const auto key = std::tuple(n.op, n.dtype, std::bit_cast<std::uint64_t>(n.constant), std::move(arguments));
    return forms_.try_emplace(key, static_cast<int>(forms_.size()) + 1).first->second;
  }

  // A real function of a view that nothing but other functions, or results, need.
  bool is_last(Value value) const {
    if (functions_[static_cast<std::size_t>(value)].view == kNone || !ir::is_computed(program_.node(value).op) ||
        program_.kind(value, kinds_) != ir::Kind::real)
      return false;
    for (std::size_t i = 0; i < functions_.size(); ++i)
      if (functions_[i].view != kNone && functions_[i].form != 0 && reads(static_cast<Value>(i), value)) return false;
    return true;
  }

  bool reads(Value reader, Value value) const {
    const Node& n = program_.node(reader);
    return std::find(n.args.begin(), n.args.begin() + n.computed_arity(), value) != n.args.begin() + n.computed_arity();
  }

  // Nothing else reads these views, and they step alike.
  bool have_views_alone(const std::vector<Value>& values) const {
    std::vector<bool> is_needed(functions_.size(), false);
    for (const Value value : values)
      for (const Value node : nodes_of_function(program_, value)) is_needed[static_cast<std::size_t>(node)] = true;
    const StridedOperand& first = strided(view(values[0]));
    const auto is_shared_view = [&](Value value) {
      const Node& n = program_.node(value);
      return n.op == Op::input && std::ranges::any_of(values, [&](Value shared) {
               return view(shared) == static_cast<std::size_t>(n.ordinal);
             });
    };
    for (std::size_t i = 0; i < functions_.size(); ++i) {
      const Node& n = program_.nodes()[i];
      for (int k = 0; k < n.computed_arity() && !is_needed[i]; ++k)
        if (is_shared_view(n.args[static_cast<std::size_t>(k)])) return false;
    }
    return std::ranges::all_of(values, [&](Value value) {
      return first.strides == strided(view(value)).strides && first.dtype == strided(view(value)).dtype;
    });
  }

  const Space& space_;
  const ir::Program& program_;
  const std::vector<ir::Kind> kinds_;
  std::vector<Function> functions_;  // by node
  std::map<std::tuple<Op, DType, std::uint64_t, std::vector<int>>, int> forms_;
};

// From one view's element to another's. Views of one window are few rows and columns apart: the rows that make them so
// are the tensor's.
std::optional<Displacement> displacement(std::int64_t elements, std::int64_t row_stride) {
  const auto rows =
      static_cast<std::int64_t>(std::llround(static_cast<double>(elements) / static_cast<double>(row_stride)));
  const Displacement found{rows, elements - rows * row_stride};
  if (std::abs(found.rows) > kMostSpan || std::abs(found.columns) > kMostSpan) return std::nullopt;
  return found;
}

// Elements that exist, from first to last.
struct FirstAndLast {
  std::int64_t first = 0, last = 0;
};

// The windows of a chain, as a tile sees them. Rows and columns count from the element of the view that stands first.
struct Windows {
  std::vector<Value> values;
  std::vector<std::size_t> views;  // of each value
  std::vector<Displacement> places;
  Steps steps;
  FirstAndLast rows, columns;
  std::int64_t height = 1, width = 1;  // of a window
  int instructions = 0;                // of a value
};

// Of the dimensions along which a mask moves.
bool moves_alone(std::uint16_t moves, int dimension) {
  return (moves & (OperandPlan::kKnown - 1)) == std::uint16_t{1} << dimension;
}

// Rows and columns in which the view has elements. Nothing where a mask is of another dimension, or of several.
std::optional<std::array<FirstAndLast, 2>> existing_of(const ir::Program& program, const Space& space,
                                                       std::size_t view) {
  const int inner = space.rank() - 1;
  std::array<FirstAndLast, 2> found{FirstAndLast{0, space.extents[inner - 1] - 1},
                                    FirstAndLast{0, space.extents[inner] - 1}};
  if (program.bounds().empty()) return found;
  for (const int by : program.bounds()[view].by) {
    const StridedOperand& mask = space.inputs[static_cast<std::size_t>(by)];
    const auto moves = moves_of(space, [&](int d) { return mask.strides[static_cast<std::size_t>(d)]; });
    const int along = moves_alone(moves, inner) ? inner : inner - 1;
    if (!moves_alone(moves, along) || mask.strides[static_cast<std::size_t>(along)] != 1) return std::nullopt;
    FirstAndLast& own = found[along == inner ? 1 : 0];
    own = {std::max(own.first, mask.origin), std::min(own.last, mask.origin + mask.count - 1)};
  }
  return found;
}

// Places of all views for this step between rows; false where they are not those of windows.
bool place(Windows& windows, const Space& space, std::int64_t row_step) {
  const auto inner = static_cast<std::size_t>(space.rank()) - 1;
  const StridedOperand& first = space.inputs[windows.views[0]];
  const std::int64_t row_stride = first.strides[inner - 1] / row_step;
  if (first.strides[inner - 1] % row_step != 0) return false;
  Displacement low, high;
  windows.places.clear();
  for (const std::size_t view : windows.views) {
    const auto found = displacement(elements_between(first, space.inputs[view]), row_stride);
    if (!found) return false;
    windows.places.push_back(*found);
    low = {std::min(low.rows, found->rows), std::min(low.columns, found->columns)};
    high = {std::max(high.rows, found->rows), std::max(high.columns, found->columns)};
  }
  for (Displacement& one : windows.places) one = {one.rows - low.rows, one.columns - low.columns};
  windows.height = high.rows - low.rows + 1;
  windows.width = high.columns - low.columns + 1;
  windows.steps = {row_stride, row_step, first.strides[inner]};
  return windows.height <= kMostSpan && windows.width <= kMostSpan && 2 * windows.width < row_stride;
}

// Which rows and columns exist. No element of the rectangle lies beyond those that views have: else the tensor has
// other rows than was thought.
bool find_existing(Windows& windows, const Space& space, const ir::Program& program) {
  const Steps& steps = windows.steps;
  std::optional<FirstAndLast> places;  // in memory, from the first view's first element
  windows.rows = windows.columns = {std::numeric_limits<std::int64_t>::max(), -1};
  for (std::size_t i = 0; i < windows.views.size(); ++i) {
    const auto existing = existing_of(program, space, windows.views[i]);
    if (!existing) return false;
    const auto& [rows, columns] = *existing;
    if (rows.first > rows.last || columns.first > columns.last) continue;
    const auto include = [](FirstAndLast& all, const FirstAndLast& own, std::int64_t step, std::int64_t at) {
      all = {std::min(all.first, own.first * step + at), std::max(all.last, own.last * step + at)};
    };
    include(windows.rows, rows, steps.row_step, windows.places[i].rows);
    include(windows.columns, columns, steps.column_step, windows.places[i].columns);
    const auto at = [&](std::int64_t row, std::int64_t column) {
      return (row * steps.row_step + windows.places[i].rows) * steps.row_stride + column * steps.column_step +
             windows.places[i].columns;
    };
    const FirstAndLast own{at(rows.first, columns.first), at(rows.last, columns.last)};
    places = places ? FirstAndLast{std::min(places->first, own.first), std::max(places->last, own.last)} : own;
  }
  return places && windows.rows.first * steps.row_stride + windows.columns.first == places->first &&
         windows.rows.last * steps.row_stride + windows.columns.last == places->last;
}

std::optional<Windows> find_windows(const Space& space, const ir::Program& program) {
  const Finder finder(space, program);
  Windows windows;
  windows.values = finder.shared_values();
  if (windows.values.empty()) return std::nullopt;
  for (const Value value : windows.values) windows.views.push_back(finder.view(value));
  windows.instructions = finder.instructions(windows.values[0]);
  for (std::int64_t row_step = 1; row_step <= kMostWindowStep; ++row_step)
    if (place(windows, space, row_step) && find_existing(windows, space, program)) return windows;
  return std::nullopt;
}

WindowTile tile_of(const Windows& windows, int rows, int columns) {
  WindowTile tile{
      rows, columns, static_cast<int>(windows.steps.row_step), static_cast<int>(windows.steps.column_step), 0, 0, {}};
  tile.height = static_cast<int>((rows - 1) * windows.steps.row_step + windows.height);
  tile.width = static_cast<int>((columns - 1) * windows.steps.column_step + windows.width);
  for (const Value value : windows.values) tile.values.push_back(value);
  return tile;
}

std::int64_t tiles_of(const WindowTile& tile, const Space& space) {
  const int inner = space.rank() - 1;
  const std::int64_t plane = space.extents[inner - 1] * space.extents[inner];
  return space.elements / plane * divide_up(space.extents[inner - 1], tile.rows) *
         divide_up(space.extents[inner], tile.columns);
}

// The tile of which the fewest values are computed for each result, of those that give all multiprocessors blocks.
std::optional<WindowTile> choose_tile(const Windows& windows, const Space& space, const Machine& machine) {
  std::optional<WindowTile> best;
  std::pair<bool, double> least;  // too few blocks; computed for each result
  for (int rows = 1; rows <= 32; rows *= 2) {
    for (int columns = 32; rows * columns <= 8 * kPolicy.block_threads; columns *= 2) {
      if (rows * columns < kPolicy.block_threads) continue;
      const WindowTile tile = tile_of(windows, rows, columns);
      if (std::int64_t{tile.height} * tile.width * 4 > kWindowTileBytes) continue;
      const bool are_few = tiles_of(tile, space) < std::int64_t{kPolicy.least_blocks} * machine.multiprocessors;
      const std::pair found(are_few, computed_per_result(tile, space));
      if (best && found >= least) continue;
      best = tile;
      least = found;
    }
  }
  return best;
}

// At least half of the instructions go: the chain reads its operands in wide accesses, and a tile one by one.
bool pays(const Windows& windows, const WindowTile& tile, const Space& space) {
  const auto views = static_cast<double>(windows.values.size());
  const double computed = computed_per_result(tile, space) * (windows.instructions + kFillInstructions);
  return 2 * (computed + views * kReadInstructions + kOwnInstructions) <= views * windows.instructions;
}

bool are_read_and_written_one_by_one(const Space& space) {
  const auto is_plain = [](const StridedOperand& strided) {
    return strided.gathers.empty() && strided.wraps.empty() && !is_packed(strided.dtype) &&
           strided.generated != Generated::random;
  };
  return !space.f64 && std::ranges::all_of(space.inputs, is_plain) && std::ranges::all_of(space.outputs, is_plain);
}

// Whether no operand but those asks the mask.
template <class Those>
bool bounds_only(const ir::Program& program, std::size_t mask, const Those& those) {
  for (std::size_t i = 0; i < program.bounds().size(); ++i) {
    const auto masks = program.bounds()[i].masks();
    if (std::ranges::find(masks, static_cast<int>(mask)) != masks.end() && !those(i)) return false;
  }
  return true;
}

Access classify_beside(const StridedOperand& strided, const Space& space) {
  const Access access = classify(strided, space, Strides{}, false);
  return access == Access::contiguous ? Access::strided : access;
}

}  // namespace

std::vector<Value> nodes_of_function(const ir::Program& program, Value value) {
  std::vector<bool> is_needed(static_cast<std::size_t>(value) + 1, false);
  is_needed.back() = true;
  ir::mark_arguments(program.nodes(), is_needed, [](std::size_t) { return false; });
  std::vector<Value> nodes;
  for (std::size_t i = 0; i < is_needed.size(); ++i)
    if (is_needed[i]) nodes.push_back(static_cast<Value>(i));
  return nodes;
}

double computed_per_result(const WindowTile& tile, const Space& space) {
  return static_cast<double>(tiles_of(tile, space)) * tile.height * tile.width / static_cast<double>(space.elements);
}

std::optional<Mapped> tile_windows(const Space& space, const ir::Program& program, const Machine& machine) {
  if (!reads_views(program) || space.rank() < 2 || space.elements == 0 || !are_read_and_written_one_by_one(space))
    return std::nullopt;
  const auto windows = find_windows(space, program);
  if (!windows) return std::nullopt;
  const auto tile = choose_tile(*windows, space, machine);
  if (!tile || !pays(*windows, *tile, space)) return std::nullopt;
  Mapped mapped(space, {*tile});
  KernelClass& kernel = mapped.kernel;
  kernel.steps = tile->rows * tile->columns / kernel.threads;
  for (const StridedOperand& strided : space.inputs)
    kernel.inputs.push_back({strided.dtype, classify_beside(strided, space), 1});
  for (const StridedOperand& strided : space.outputs) kernel.outputs.push_back({strided.dtype, Access::strided, 1});
  for (std::size_t i = 0; i < windows->views.size(); ++i) {
    OperandPlan& input = kernel.inputs[windows->views[i]];
    input.access = i == 0 ? Access::tiled : Access::of_tile;
    input.place = PlaceInTile{static_cast<int>(windows->places[i].rows), static_cast<int>(windows->places[i].columns)};
  }
  const auto has_place = [&](std::size_t input) { return kernel.inputs[input].place.has_value(); };
  for (std::size_t mask = 0; mask < kernel.inputs.size(); ++mask)
    if (kernel.inputs[mask].access == Access::bound && bounds_only(program, mask, has_place))
      kernel.inputs[mask].access = Access::unused;
  // The first view steps through all elements, from the first one's place on.
  StridedOperand& reader = mapped.space.inputs[windows->views[0]];
  const auto inner = static_cast<std::size_t>(space.rank()) - 1;
  reader.strides[inner - 1] = windows->steps.row_stride;
  reader.strides[inner] = 1;
  reader.origin += windows->places[0].rows * windows->steps.row_stride + windows->places[0].columns;
  mapped.existing_rows = {windows->rows.first, windows->rows.last + 1};
  mapped.existing_columns = {windows->columns.first, windows->columns.last + 1};
  return mapped;
}

std::int64_t elements_of_tiles(const Plan& plan) {
  const WindowTile& tile = *plan.kernel_class.map<WindowTile>();
  const int inner = plan.space.rank() - 1;
  // Of all tiles along a dimension, those that exist.
  const auto along = [](std::int64_t tiles, std::int64_t step, std::int64_t span, const ElementRange& existing) {
    std::int64_t sum = 0;
    for (std::int64_t i = 0; i < tiles; ++i)
      sum += std::max<std::int64_t>(std::min(i * step + span, existing.end) - std::max(i * step, existing.first), 0);
    return sum;
  };
  const std::int64_t planes = plan.space.elements / plan.space.extents[inner - 1] / plan.space.extents[inner];
  return planes * along(plan.input_tiles, std::int64_t{tile.rows} * tile.row_step, tile.height, plan.existing_rows) *
         along(plan.output_tiles, std::int64_t{tile.columns} * tile.column_step, tile.width, plan.existing_columns);
}

void explain_tile(PlanSummary& summary, const ir::Program& program, const Plan& plan) {
  const WindowTile& tile = *plan.kernel_class.map<WindowTile>();
  const Arithmetic arithmetic = choose_arithmetic(program, plan.kernel_class);
  const double computed = computed_per_result(tile, plan.space);
  const auto views = static_cast<double>(tile.values.size());
  double instructions = 0;
  std::vector<std::string> names;
  for (const Value node : nodes_of_function(program, tile.values[0])) {
    const Node& n = program.node(node);
    if (!ir::is_elementwise(n.op)) continue;
    const Formula* const formula = arithmetic.formulas[static_cast<std::size_t>(node)];
    instructions += formula != nullptr ? formula->cost : ir::row(n.op).cost;
    names.push_back(fmt::format("'{}'", ir::written_name(n)));
    std::erase(summary.repeated, fmt::format("{} {} times", names.back(), tile.values.size()));
  }
  summary.instructions -= static_cast<int>((views - computed) * instructions);
  summary.repeated.push_back(
      fmt::format("{} once per tile of {} x {} results, {:.2f} times per result with the overlap",
                  fmt::join(names, ", "), tile.rows, tile.columns, computed));
}

std::string why(const WindowTile& tile, const KernelClass&) {
  return fmt::format(
      "windows overlap, and what they take of each element is expensive: a block computes it once for its tile of "
      "{} x {} results, and reads it from shared memory",
      tile.rows, tile.columns);
}

}  // namespace epifuse::plan
