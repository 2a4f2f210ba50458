// Which elements of rows a thread takes at once, in which widths they move, and what stays in registers or shared memory until later walks need it.
// Called by the row planner. docs/internals/plan.md explains every choice.
#include "plan/row_operands.hpp"

#include <algorithm>

#include "plan/policy.hpp"

namespace epifuse::plan {

void RowOperands::describe() {
  const Strides dense = dense_strides(space_);
  // What rows have one of is never walked with their elements.
  for (std::size_t i = 0; i < space_.inputs.size(); ++i) {
    const Walk& walk = space_.inputs[i];
    kernel_.inputs.push_back({walk.dtype, classify(walk, space_, dense, extent_of_input(i) == Extent::element), 1});
  }
  for (std::size_t i = 0; i < space_.outputs.size(); ++i) {
    const Walk& walk = space_.outputs[i];
    kernel_.outputs.push_back({walk.dtype, classify(walk, space_, dense, extent_of_output(i) == Extent::element), 1});
  }
  kernel_.wide_index = needs_wide_index(space_);
  std::uint32_t kept = 0;
  for (int d = 0; d < space_.rank(); ++d) kept |= space_.extents[d] > 1 ? 1U << d : 0U;
  for (std::size_t i = 0; i < program_.results().size(); ++i) {
    const std::uint32_t gone = extent_of_output(i) == Extent::part ? structure().part : structure().reduced;
    rows().missing.push_back(kept & ~gone & ~space_.spans[static_cast<std::size_t>(program_.results()[i].value)]);
  }
}

Extent RowOperands::extent_of_output(std::size_t i) const {
  return structure().nodes[static_cast<std::size_t>(program_.results()[i].value)].extent;
}

// Consecutive elements per thread. Along a row that begins anywhere, groups are framed to the tensor if all of them are dense; across,
// and where an operand has gaps, a group must divide what it may not cross.
void RowOperands::choose_elements() {
  const auto operands = streamed();
  int narrowest = 8;
  int widest = 1;
  bool dense = true;
  bool full = false;
  for (const auto& [operand, walk] : operands) {
    if (!is_full(*walk, space_)) continue;
    full = true;
    narrowest = std::min(narrowest, size_in_bytes(*operand));
    widest = std::max(widest, size_in_bytes(*operand));
    dense = dense && operand->access == Access::linear;
  }
  kernel_.elements = 1;
  if (full) {
    kernel_.elements =
        std::min({kPolicy.bytes_per_access / narrowest, 2 * kPolicy.bytes_per_access / widest, kPolicy.most_elements});
    // A residual's row whose result has 8 bits: 16 elements at a time spill (residual + rms_norm + fp8 in f16: 1.22 of the copy, 8 elements 1.11).
    int bytes = 0;
    int several = 0;
    for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) {
      bytes += is_walked(i) ? size_in_bytes(kernel_.inputs[i]) : 0;
      several += is_walked(i) ? 1 : 0;
    }
    if (several > 1 && kernel_.elements * bytes > 2 * kPolicy.bytes_per_access)
      kernel_.elements = std::min(kernel_.elements, kPolicy.most_elements_of_several);
  }
  const std::int64_t innermost = space_.extents[space_.rank() - 1];
  if (rows().along) {
    const std::int64_t whole = structure().has_averages() ? plan_.part_length : plan_.row_length;
    const std::int64_t length = dense && !crosses() ? whole : innermost;
    while (kernel_.elements > 1 && length % kernel_.elements != 0 &&
           (crosses() || length < std::int64_t{4} * kernel_.elements))
      kernel_.elements /= 2;
    rows().framed = dense && whole % kernel_.elements != 0;
  } else {
    // Where one dimension lies inside, the last group may be cut short: its rows do not exist. Then elements are moved one by one, a few of
    // them share the index arithmetic, and neighbouring threads move neighbours.
    if (!crosses() && rows().inner == 1 && innermost % kernel_.elements != 0 &&
        innermost >= std::int64_t{kPolicy.uneven_elements} * kWarp) {
      kernel_.elements = std::min(kernel_.elements, kPolicy.uneven_elements);
      rows().spread = kernel_.elements > 1 && innermost % 2 != 0;  // of two elements at once memory makes no more
    } else {
      while (kernel_.elements > 1 && innermost % kernel_.elements != 0) kernel_.elements /= 2;
    }
  }
  for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) choose_width(kernel_.inputs[i], space_.inputs[i]);
  for (std::size_t i = 0; i < kernel_.outputs.size(); ++i) choose_width(kernel_.outputs[i], space_.outputs[i]);
}

void RowOperands::choose_width(OperandPlan& operand, const Walk& walk) {
  if (!is_streamed(operand.access)) return;
  const int size = size_in_bytes(operand);
  const auto address = reinterpret_cast<std::uintptr_t>(walk.data);
  const auto fits = [&](int width) {
    if (address % static_cast<std::uintptr_t>(width * size) != 0) return false;
    if (!rows().along && plan_.row_columns % width != 0) return false;
    if (operand.access == Access::linear) return !rows().along || rows().framed || plan_.row_length % width == 0;
    // Groups begin anywhere in a line where rows are framed, or where lines end within a group.
    if (rows().along && (rows().framed || space_.extents[space_.rank() - 1] % width != 0)) return false;
    for (int d = 0; d + 1 < space_.rank(); ++d) {
      if (space_.extents[d] > 1 && walk.strides[static_cast<std::size_t>(d)] % width != 0) return false;
    }
    return true;
  };
  operand.width = std::min(kernel_.elements, kPolicy.bytes_per_access / size);
  while (operand.width > 1 && !fits(operand.width)) operand.width /= 2;
}

// Operands that come from memory stay in registers from walk to walk, unless everything later is made of values that are carried.
void RowOperands::choose_held() {
  held_bytes_ = loaded_bytes_ = 0;
  rows().carried.clear();
  rows().held.assign(kernel_.inputs.size(), false);
  for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) rows().held[i] = is_walked(i);
  choose_carried();
  for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) {
    if (!rows().held[i]) continue;
    const int bytes = size_in_bytes(kernel_.inputs[i]) * kernel_.elements;
    loaded_bytes_ += bytes;
    if (is_needed_later(i)) held_bytes_ += bytes;
  }
  held_bytes_ += static_cast<int>(rows().carried.size()) * kernel_.elements * word_bytes(kernel_);
  // What is carried instead of operands waits for all of them (residual + rms_norm + fp8 in f32: 148 bytes spilled and 1.22 of the copy where only
  // what stays counted, 1.08 so).
  held_bytes_ = std::max({held_bytes_, walks() > 1 ? loaded_bytes_ : loaded_bytes_ / 2, 4});
}

void RowOperands::take_fewer(int elements) {
  kernel_.elements = std::min(kernel_.elements, elements);
  for (auto* operands : {&kernel_.inputs, &kernel_.outputs}) {
    for (OperandPlan& operand : *operands) operand.width = std::min(operand.width, kernel_.elements);
  }
  choose_held();
}

// Has an element of its own for each of the rows' elements.
bool RowOperands::is_walked(std::size_t i) const {
  const Access access = kernel_.inputs[i].access;
  return extent_of_input(i) == Extent::element && access != Access::uniform && access != Access::unused &&
         is_full(space_.inputs[i], space_);
}

// The arguments of the first walk's accumulators, where they are dear and needed again.
void RowOperands::choose_carried() {
  Values candidates;
  for (const Accumulator& a : structure().accumulators) {
    const ir::Value value = unshaped(program_, a.argument);
    if (!a.across && a.level == 1 && structure().nodes[static_cast<std::size_t>(value)].extent == Extent::element &&
        cost_of(value) > kPolicy.carried_instructions && std::ranges::find(candidates, value) == candidates.end())
      candidates.push_back(value);
  }
  for (const ir::Value value : candidates) {
    bool later = false;
    for (int walk = 1; walk < walks(); ++walk)
      later = later || computed_in_walk(program_, structure(), walk, {})[static_cast<std::size_t>(value)];
    if (later) rows().carried.push_back(value);
  }
  if (rows().carried.empty()) carry_instead_of_operands();
}

// A cheap value that takes no more room than the operands it is made of, if later walks need it and none of those: a sum with a residual. If it takes
// as much, it must save reads: of a bias, which comes from cache at every step of every walk.
void RowOperands::carry_instead_of_operands() {
  const int carried_bytes = word_bytes(kernel_);
  int bytes = 0;
  for (std::size_t i = 0; i < kernel_.inputs.size(); ++i)
    bytes += rows().held[i] ? size_in_bytes(kernel_.inputs[i]) : 0;
  if (walks() == 1 || bytes < carried_bytes) return;
  const int reads = reads_of_later_walks();
  const Marks first = computed_in_walk(program_, structure(), 0, {});
  // The last such value: it stands for all that comes before it.
  for (std::size_t v = first.size(); v-- > 0;) {
    if (!first[v] || !ir::is_elementwise(program_.nodes()[v].op)) continue;
    rows().carried.assign(1, static_cast<ir::Value>(v));
    if (carried_replaces_held(program_, rows()) && (bytes > carried_bytes || reads_of_later_walks() < reads)) return;
  }
  rows().carried.clear();
}

// Operands of elements that walks after the first take from memory.
int RowOperands::reads_of_later_walks() const {
  int reads = 0;
  for (int walk = 1; walk < walks(); ++walk) {
    const Marks read = inputs_of_walk(program_, structure(), walk, rows().carried);
    for (std::size_t i = 0; i < read.size(); ++i)
      reads += read[i] && !rows().held[i] && kernel_.inputs[i].access != Access::uniform ? 1 : 0;
  }
  return reads;
}

// Of one walk's maximum: they are taken once, below the thread's own, and scaled when the row's is known. If they take no more registers, or few, and
// no later walk needs anything else that is held.
void RowOperands::keep_exponentials() {
  if (kernel_.schedule != Schedule::team || rows().staged || structure().has_parts()) return;
  const int word = word_bytes(kernel_);
  int bytes = static_cast<int>(rows().carried.size()) * word;
  if (bytes > word) return;
  for (std::size_t i = 0; i < kernel_.inputs.size(); ++i)
    bytes += is_needed_later(i) && rows().held[i] ? size_in_bytes(kernel_.inputs[i]) : 0;
  const bool is_wider = bytes < word;
  if (is_wider && kernel_.steps * kernel_.elements * word > kPolicy.kept_exponential_bytes) return;
  const int of_a_row = kernel_.steps * (rows().along ? kernel_.elements : 1);
  if (of_a_row < (is_wider ? kPolicy.least_wider_exponentials : kPolicy.least_kept_exponentials)) return;
  const Values carried = rows().carried;
  const Marks later = computed_in_walk(program_, structure(), walks() - 1, carried);
  for (std::size_t v = 0; v < later.size() && walks() > 1; ++v) {
    const int term = accumulator_of_exponential(program_, structure(), static_cast<ir::Value>(v));
    if (!later[v] || term < 0 || structure().accumulators[static_cast<std::size_t>(term)].level != 1) continue;
    rows().carried.assign(1, static_cast<ir::Value>(v));
    if (carried_replaces_held(program_, rows())) return;
  }
  rows().carried = carried;
}

bool RowOperands::is_needed_later(std::size_t input) const {
  for (int walk = 1; walk < walks(); ++walk) {
    if (inputs_of_walk(program_, structure(), walk, rows().carried)[input]) return true;
  }
  return walks() == 1;
}

void RowOperands::find_steady() {
  rows().steady.assign(kernel_.inputs.size(), false);
  const std::int64_t innermost = space_.extents[space_.rank() - 1];
  const bool turns = rows().crossing == Crossing::walk && rows().along;
  const bool in_pieces = rows().staged && rows().interleaved && innermost % kernel_.elements == 0 &&
                         std::int64_t{rows().team} * kernel_.elements % innermost == 0;
  if (!turns && !in_pieces) return;
  for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) {
    const OperandPlan& operand = kernel_.inputs[i];
    bool stays = !rows().held[i] && operand.access == Access::contiguous && extent_of_input(i) == Extent::element;
    for (int d = rows().outer; d + 1 < rows().outer + rows().reduced; ++d)
      stays = stays && space_.inputs[i].strides[static_cast<std::size_t>(d)] == 0;
    rows().steady[i] = stays;
  }
}

base::InlineVector<RowOperands::Streamed, 8> RowOperands::streamed() const {
  base::InlineVector<Streamed, 8> all;
  for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) {
    if (extent_of_input(i) == Extent::element && is_streamed(kernel_.inputs[i].access))
      all.push_back({&kernel_.inputs[i], &space_.inputs[i]});
  }
  for (std::size_t i = 0; i < kernel_.outputs.size(); ++i) {
    if (extent_of_output(i) == Extent::element && is_streamed(kernel_.outputs[i].access))
      all.push_back({&kernel_.outputs[i], &space_.outputs[i]});
  }
  return all;
}

int RowOperands::narrowest_bytes() const {
  int narrowest = 8;
  for (const auto& [operand, walk] : streamed()) narrowest = std::min(narrowest, size_in_bytes(*operand));
  return narrowest;
}

bool RowOperands::reads_lines() const {
  for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) {
    if (!rows().held[i] && extent_of_input(i) == Extent::element && is_streamed(kernel_.inputs[i].access)) return true;
  }
  return false;
}

int RowOperands::cost_of(ir::Value value, const Arithmetic* arithmetic) const {
  Marks needed(program_.nodes().size(), false);
  needed[static_cast<std::size_t>(value)] = true;
  int cost = 0;
  for (std::size_t i = static_cast<std::size_t>(value) + 1; i-- > 0;) {
    if (!needed[i] || structure().nodes[i].extent != Extent::element) continue;
    const ir::Node& node = program_.nodes()[i];
    const Formula* formula = arithmetic == nullptr ? nullptr : arithmetic->formulas[i];
    if (ir::is_elementwise(node.op)) cost += formula == nullptr ? ir::row(node.op).cost : formula->cost;
    for (int k = 0; k < node.computed_arity(); ++k)
      needed[static_cast<std::size_t>(node.args[static_cast<std::size_t>(k)])] = true;
  }
  return cost;
}

}  // namespace epifuse::plan
