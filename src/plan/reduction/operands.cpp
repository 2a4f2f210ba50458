// Which elements of rows a thread takes at once, in which widths they move, and what stays in registers or shared
// memory until later passes need it. Called by planner.hpp's class. docs/internals/plan/reduction.md explains every
// choice.
#include "plan/reduction/operands.hpp"

#include <algorithm>

#include "plan/policy.hpp"
#include "plan/runs.hpp"

namespace epifuse::plan {

// Of a thread's run that is written: a sector. The gradient of group_norm behind max_pool2d took 1.44 of a copy with 64
// bytes in f32, 1.15 with 32 and 1.34 with 16; in bf16 1.22 with 32, and 1.27 with 16 (an H100).
constexpr int kMostRunBytes = kSectorBytes;

bool holds_several(const ReductionClass& reduction) {
  return reduction.structure.has_write_pass() && reduction.residency.saved.empty() &&
         std::ranges::count(reduction.residency.held, true) > 1;
}

void ReductionOperands::choose() {
  describe();
  choose_elements();
  share_runs();
  choose_held();
  while (kernel_.elements > 1 && longest_written_run() > kMostRunBytes) take_fewer(kernel_.elements / 2);
}

void ReductionOperands::describe() {
  const Strides dense = dense_strides(space_);
  // What rows have one of is never read with their elements.
  for (std::size_t i = 0; i < space_.inputs.size(); ++i) {
    if (structure().has_written() && is_of_written(plan_.written.inputs[i], scope_of_input(i))) {
      kernel_.inputs.push_back(of_written(plan_.written.inputs[i], false));
      continue;
    }
    const StridedOperand& strided = space_.inputs[i];
    kernel_.inputs.push_back({strided.dtype, classify(strided, space_, dense, scope_of_input(i) == Scope::element), 1});
  }
  for (std::size_t i = 0; i < space_.outputs.size(); ++i) {
    if (scope_of_output(i) == Scope::written) {
      kernel_.outputs.push_back(of_written(plan_.written.outputs[i], true));
      continue;
    }
    const StridedOperand& strided = space_.outputs[i];
    kernel_.outputs.push_back(
        {strided.dtype, classify_result(strided, space_, dense, scope_of_output(i) == Scope::element), 1});
  }
  kernel_.wide_index = needs_wide_index(space_) || needs_wide_index(plan_.written);
  std::uint32_t dimensions = 0;
  for (int d = 0; d < space_.rank(); ++d) dimensions |= space_.extents[d] > 1 ? 1U << d : 0U;
  for (std::size_t i = 0; i < program_.results().size(); ++i) {
    if (scope_of_output(i) == Scope::column || scope_of_output(i) == Scope::written) {
      reduction().missing.push_back(0);
      continue;
    }
    const Scope scope = scope_of_output(i);
    const std::uint32_t gone = scope == Scope::segment        ? structure().segment
                               : scope == Scope::lane_segment ? structure().lane_segment
                                                              : structure().reduced;
    reduction().missing.push_back(dimensions & ~gone &
                                  ~space_.spans[static_cast<std::size_t>(program_.results()[i].value)]);
  }
}

// What says where others are read, or whether they exist, is no value and has no scope: its strides tell.
bool ReductionOperands::is_of_written(const StridedOperand& strided, Scope scope) const {
  const auto* const first = strided.strides.begin() + reduction().layout.outer;
  return scope == Scope::written ||
         std::any_of(first, first + reduction().layout.reduced, [](std::int64_t stride) { return stride != 0; });
}

// It is read, or written, one by one.
OperandPlan ReductionOperands::of_written(const StridedOperand& strided, bool is_result) const {
  OperandPlan operand{strided.dtype, is_result ? classify_result(strided, plan_.written, {}, false)
                                               : classify(strided, plan_.written, {}, false)};
  operand.written = true;
  return operand;
}

Scope ReductionOperands::scope_of_output(std::size_t i) const {
  return structure().nodes[static_cast<std::size_t>(program_.results()[i].value)].scope;
}

// Consecutive elements per thread. Along a row that begins anywhere, vectors are aligned to the tensor if all of them
// are dense; in outer reductions, and where an operand has gaps, a vector must divide the run that it may not leave.
void ReductionOperands::choose_elements() {
  const auto operands = streamed();
  int narrowest = 8;
  int widest = 1;
  bool dense = true;
  bool full = false;
  for (const auto& [operand, strided] : operands) {
    if (!is_full(*strided, space_)) continue;
    full = true;
    narrowest = std::min(narrowest, size_in_bytes(*operand));
    widest = std::max(widest, size_in_bytes(*operand));
    dense = dense && operand->access == Access::linear;
  }
  kernel_.elements = 1;
  if (full) {
    kernel_.elements = elements_of_vector(narrowest, widest);
    // A residual's row whose result has 8 bits: 16 elements at a time spill (residual + rms_norm + fp8 in f16: 1.22 of
    // the copy, 8 elements 1.11).
    int bytes = 0;
    int several = 0;
    for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) {
      bytes += is_full_size(i) ? size_in_bytes(kernel_.inputs[i]) : 0;
      several += is_full_size(i) ? 1 : 0;
    }
    if (several > 1 && kernel_.elements * bytes > 2 * kAccessBytes)
      kernel_.elements = std::min(kernel_.elements, kPolicy.thread_elements);
  }
  const std::int64_t innermost = space_.extents[space_.rank() - 1];
  if (reduction().layout.inner_reduction) {
    const std::int64_t run_length = structure().has_segment_means() ? plan_.segment_length : plan_.row_length;
    // Column sums stay with a thread: it has the same elements of all rows.
    const bool stays_with_thread = structure().has_column_sums() && !structure().has_column_runs();
    dense = dense && !stays_with_thread && !writes_at_indices(space_);
    const std::int64_t length = dense && !transposes_stores() ? run_length : innermost;
    while (kernel_.elements > 1 && length % kernel_.elements != 0 &&
           (transposes_stores() || length < std::int64_t{4} * kernel_.elements))
      kernel_.elements /= 2;
    // A vector has one index where it is written.
    while (writes_at_indices(space_) && kernel_.elements > 1 &&
           (innermost % kernel_.elements != 0 || !has_one_place_per_row(space_)))
      kernel_.elements /= 2;
    while (stays_with_thread && structure().column_segment != 0 && plan_.column_length % kernel_.elements != 0)
      kernel_.elements /= 2;
    if (structure().has_lane_segments()) fit_lane_segments();
    reduction().layout.tensor_aligned = dense && run_length % kernel_.elements != 0;
  } else {
    // Where one dimension lies inside, the last vector may be cut short: its rows do not exist. Then elements are moved
    // one by one, a few of them share the index arithmetic, and neighbouring threads move neighbours.
    if (!has_one_place_per_row(space_)) {
      kernel_.elements = 1;
    } else if (!transposes_stores() && !writes_at_indices(space_) && reduction().layout.inner == 1 &&
               innermost % kernel_.elements != 0 && innermost >= std::int64_t{kPolicy.outer_elements} * kWarp) {
      kernel_.elements = std::min(kernel_.elements, kPolicy.outer_elements);
      reduction().layout.striped =
          kernel_.elements > 1 && innermost % 2 != 0;  // of two elements at once memory makes no more
    } else {
      while (kernel_.elements > 1 && innermost % kernel_.elements != 0) kernel_.elements /= 2;
    }
  }
  for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) choose_width(kernel_.inputs[i], space_.inputs[i]);
  for (std::size_t i = 0; i < kernel_.outputs.size(); ++i) {
    if (scope_of_output(i) != Scope::column) choose_width(kernel_.outputs[i], space_.outputs[i]);
  }
}

int ReductionOperands::longest_written_run() const {
  int longest = 0;
  for (const OperandPlan& output : kernel_.outputs)
    if (output.run) longest = std::max(longest, output.run->step * kernel_.elements * size_in_bytes(output));
  return longest;
}

// Views that are read element by element, and slices that are written so: gradients of pools before a norm. One by one
// those of group_norm behind max_pool2d took 6.8 of a copy (bf16, an H200), and 1.22 in runs (an H100).
void ReductionOperands::share_runs() {
  const RowLayout& layout = reduction().layout;
  // Then each vector is full, or does not exist.
  const bool begin_with_lines = layout.inner_reduction && !layout.tensor_aligned && !transposes_stores() &&
                                !reduction().interleaves_rows() && !structure().has_segment_means();
  if (!begin_with_lines) return;
  share_read_runs(kernel_, space_, program_, kernel_.elements, [&](std::size_t i) {
    return kernel_.inputs[i].access == Access::strided && !kernel_.inputs[i].written &&
           scope_of_input(i) == Scope::element;
  });
  share_written_runs(kernel_, space_, program_, kernel_.elements, [&](std::size_t i) {
    return kernel_.outputs[i].access == Access::strided && !kernel_.outputs[i].written &&
           scope_of_output(i) == Scope::element;
  });
}

void ReductionOperands::choose_width(OperandPlan& operand, const StridedOperand& strided) {
  if (operand.written) return;
  const bool is_linear = operand.access == Access::linear || operand.access == Access::random_linear;
  const bool is_contiguous =
      operand.access == Access::random_strided && strided.strides[static_cast<std::size_t>(space_.rank()) - 1] == 1;
  // Aligned or not: that is checked in the kernel, vector by vector.
  if (operand.access == Access::bounded && has_runs(strided, space_) && !reduction().layout.striped &&
      !transposes_stores() && !reduction().interleaves_rows()) {
    operand.width = access_width(operand.dtype, kernel_.elements, [](int) { return true; });
    return;
  }
  const bool is_row = operand.access == Access::gathered && has_one_index_per_row(strided, space_);
  if (!is_streamed(operand.access) && !is_linear && !is_contiguous && !is_row) return;
  const auto fits = [&](int width) {
    if (!begins_aligned(strided, width)) return false;
    if (!reduction().layout.inner_reduction && plan_.row_columns % width != 0) return false;
    if (is_linear)
      return !reduction().layout.inner_reduction || reduction().layout.tensor_aligned || plan_.row_length % width == 0;
    // Vectors begin anywhere in a line where vectors are aligned to the tensor, or where lines end within a vector.
    if (reduction().layout.inner_reduction &&
        (reduction().layout.tensor_aligned || space_.extents[space_.rank() - 1] % width != 0))
      return false;
    return is_aligned(strided, space_, space_.rank() - 1, width);
  };
  operand.width = access_width(operand.dtype, kernel_.elements, fits);
}

// Operands that come from memory stay in registers from pass to pass, unless everything later is made of values that
// are saved.
void ReductionOperands::choose_held() {
  held_bytes_ = loaded_bytes_ = 0;
  reduction().residency.saved.clear();
  reduction().residency.held.assign(kernel_.inputs.size(), false);
  for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) reduction().residency.held[i] = is_full_size(i);
  choose_saved();
  for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) {
    if (!reduction().residency.held[i]) continue;
    const int bytes = size_in_bytes(kernel_.inputs[i]) * kernel_.elements;
    loaded_bytes_ += bytes;
    if (is_needed_later(i)) held_bytes_ += bytes;
  }
  held_bytes_ += static_cast<int>(reduction().residency.saved.size()) * kernel_.elements * word_bytes(kernel_);
  // What is saved instead of operands waits for all of them (residual + rms_norm + fp8 in f32: 148 bytes spilled and
  // 1.22 of the copy where only what stays counted, 1.08 so).
  held_bytes_ = std::max({held_bytes_, passes() > 1 ? loaded_bytes_ : loaded_bytes_ / 2, 4});
}

void ReductionOperands::take_fewer(int elements) {
  kernel_.elements = std::min(kernel_.elements, elements);
  for (auto* operands : {&kernel_.inputs, &kernel_.outputs}) {
    for (OperandPlan& operand : *operands) {
      const int length = kernel_.elements * (operand.run ? operand.run->step : 1);
      while (operand.width > length || (operand.run && length % operand.width != 0)) operand.width /= 2;
    }
  }
  choose_held();
}

// Has an element of its own for each of the rows' elements.
bool ReductionOperands::is_full_size(std::size_t i) const {
  const Access access = kernel_.inputs[i].access;
  return scope_of_input(i) == Scope::element && access != Access::uniform && is_value(access) &&
         !is_generated(access) && is_full(space_.inputs[i], space_);
}

// By a pass after the first that can.
bool ReductionOperands::is_computed_later(ir::Value value) const {
  for (int pass = structure().nodes[static_cast<std::size_t>(value)].stage + 1; pass < passes(); ++pass)
    if (computed_in_pass(program_, structure(), pass, {})[static_cast<std::size_t>(value)]) return true;
  return false;
}

// The arguments of the first pass's accumulators, where they are expensive and needed again. Where rows are quantised,
// an accumulator takes magnitudes that nothing else needs: then it is what they are the magnitudes of, in whatever pass
// (gate to fp8 per 128 elements in bf16: computed twice 1.54 of the copy, saved 0.99). Operands are held, or drawn
// again, and not saved.
void ReductionOperands::choose_saved() {
  Values& saved = reduction().residency.saved;
  for (const Accumulator& a : structure().accumulators) {
    if (!a.has_stage()) continue;
    ir::Value value = unshaped(program_, a.argument);
    const bool is_magnitude = program_.node(value).op == ir::Op::abs && !is_computed_later(value);
    if (is_magnitude) value = unshaped(program_, program_.node(value).args[0]);
    const bool is_expensive = structure().nodes[static_cast<std::size_t>(value)].scope == Scope::element &&
                              !ir::is_operand(program_.node(value).op) && cost_of(value) > kPolicy.saved_instructions;
    if ((a.stage == 1 || is_magnitude) && is_expensive && std::ranges::find(saved, value) == saved.end() &&
        is_computed_later(value))
      saved.push_back(value);
  }
  if (saved.empty()) save_instead_of_operands();
}

// A cheap value that takes no more space than the operands it is made of, if later passes need it and none of those: a
// sum with a residual. If it takes as much, it must save reads: of a bias, which comes from cache at every step of
// every pass.
void ReductionOperands::save_instead_of_operands() {
  const int saved_bytes = word_bytes(kernel_);
  int bytes = 0;
  for (std::size_t i = 0; i < kernel_.inputs.size(); ++i)
    bytes += reduction().residency.held[i] ? size_in_bytes(kernel_.inputs[i]) : 0;
  if (passes() == 1 || bytes < saved_bytes) return;
  const int reads = reads_of_later_passes();
  const Marks first = computed_in_pass(program_, structure(), 0, {});
  // The last such value: it stands for all that comes before it.
  for (std::size_t v = first.size(); v-- > 0;) {
    if (!first[v] || structure().nodes[v].scope != Scope::element || !ir::is_elementwise(program_.nodes()[v].op))
      continue;
    reduction().residency.saved.assign(1, static_cast<ir::Value>(v));
    if (saved_replaces_held(program_, reduction()) && (bytes > saved_bytes || reads_of_later_passes() < reads)) return;
  }
  reduction().residency.saved.clear();
}

// Operands of elements that passes after the first take from memory.
int ReductionOperands::reads_of_later_passes() const {
  int reads = 0;
  for (int pass = 1; pass < passes(); ++pass) {
    const Marks read = inputs_of_pass(program_, structure(), pass, reduction().residency.saved);
    for (std::size_t i = 0; i < read.size(); ++i)
      reads += read[i] && !reduction().residency.held[i] && kernel_.inputs[i].access != Access::uniform ? 1 : 0;
  }
  return reads;
}

// Of one pass's maximum: they are taken once, below the thread's own, and scaled when the row's is known. If they take
// no more registers, or few, and no later pass needs anything else that is held.
void ReductionOperands::hold_exponentials() {
  if (!reduction().is_resident() || reduction().is_in_shared_memory() || structure().has_segments()) return;
  const int word = word_bytes(kernel_);
  int bytes = static_cast<int>(reduction().residency.saved.size()) * word;
  if (bytes > word) return;
  for (std::size_t i = 0; i < kernel_.inputs.size(); ++i)
    bytes += is_needed_later(i) && reduction().residency.held[i] ? size_in_bytes(kernel_.inputs[i]) : 0;
  const bool is_wider = bytes < word;
  if (is_wider && kernel_.steps * kernel_.elements * word > kPolicy.held_exponential_bytes) return;
  const int of_a_row = kernel_.steps * (reduction().layout.inner_reduction ? kernel_.elements : 1);
  if (of_a_row < (is_wider ? 2 : 1) * kPolicy.least_held_exponentials) return;
  const Values saved = reduction().residency.saved;
  const Marks later = computed_in_pass(program_, structure(), passes() - 1, saved);
  for (std::size_t v = 0; v < later.size() && passes() > 1; ++v) {
    const int term = accumulator_of_exponential(program_, structure(), static_cast<ir::Value>(v));
    if (!later[v] || term < 0 || structure().accumulators[static_cast<std::size_t>(term)].stage != 1) continue;
    reduction().residency.saved.assign(1, static_cast<ir::Value>(v));
    if (saved_replaces_held(program_, reduction())) return;
  }
  reduction().residency.saved = saved;
}

bool ReductionOperands::is_needed_later(std::size_t input) const {
  for (int pass = 1; pass < passes(); ++pass) {
    if (inputs_of_pass(program_, structure(), pass, reduction().residency.saved)[input]) return true;
  }
  return passes() == 1;
}

// An operand of elements that passes read, not held: the same in all steps along dimensions first … end - 1.
bool ReductionOperands::repeats_along(std::size_t i, int first, int end) const {
  if (kernel_.reduction()->residency.held[i] || kernel_.inputs[i].access != Access::contiguous ||
      scope_of_input(i) != Scope::element)
    return false;
  const auto strides = space_.inputs[i].strides.begin();
  return std::all_of(strides + first, strides + end, [](std::int64_t stride) { return stride == 0; });
}

void ReductionOperands::find_common() {
  reduction().residency.hoisted.assign(kernel_.inputs.size(), false);
  for (std::size_t i = 0; i < kernel_.inputs.size(); ++i)
    reduction().residency.hoisted[i] = repeats_along(i, 0, reduction().layout.outer);
}

int ReductionOperands::common_bytes() const {
  int bytes = 0;
  for (std::size_t i = 0; i < kernel_.inputs.size(); ++i)
    bytes += reduction().residency.hoisted[i] ? size_in_bytes(kernel_.inputs[i]) : 0;
  return bytes * kernel_.elements;
}

void ReductionOperands::find_hoisted() {
  reduction().residency.hoisted.assign(kernel_.inputs.size(), false);
  const std::int64_t innermost = space_.extents[space_.rank() - 1];
  const bool turns =
      reduction().stores_lines_of(TransposedStore::Lines::elements) && reduction().layout.inner_reduction;
  const bool in_runs = reduction().is_in_shared_memory() && reduction().interleaves_rows() &&
                       innermost % kernel_.elements == 0 &&
                       std::int64_t{reduction().threads.group} * kernel_.elements % innermost == 0;
  if (!turns && !in_runs) return;
  const int first = reduction().layout.outer;
  const int end = first + std::max(reduction().layout.reduced - 1, 0);
  for (std::size_t i = 0; i < kernel_.inputs.size(); ++i)
    reduction().residency.hoisted[i] = repeats_along(i, first, end);
}

base::InlineVector<ReductionOperands::Streamed, 8> ReductionOperands::streamed() const {
  base::InlineVector<Streamed, 8> all;
  for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) {
    const Access access = kernel_.inputs[i].access;
    const bool is_row = access == Access::gathered && has_one_index_per_row(space_.inputs[i], space_);
    if (scope_of_input(i) == Scope::element && (is_streamed(access) || is_row))
      all.push_back({&kernel_.inputs[i], &space_.inputs[i]});
  }
  for (std::size_t i = 0; i < kernel_.outputs.size(); ++i) {
    if (scope_of_output(i) == Scope::element && is_streamed(kernel_.outputs[i].access))
      all.push_back({&kernel_.outputs[i], &space_.outputs[i]});
  }
  return all;
}

int ReductionOperands::narrowest_bytes() const {
  int narrowest = 8;
  for (const auto& [operand, strided] : streamed()) narrowest = std::min(narrowest, size_in_bytes(*operand));
  return narrowest;
}

bool ReductionOperands::reads_lines() const {
  for (std::size_t i = 0; i < kernel_.inputs.size(); ++i) {
    if (!reduction().residency.held[i] && scope_of_input(i) == Scope::element && is_streamed(kernel_.inputs[i].access))
      return true;
  }
  return false;
}

int ReductionOperands::cost_of(ir::Value value, const Arithmetic* arithmetic) const {
  Marks needed(program_.nodes().size(), false);
  needed[static_cast<std::size_t>(value)] = true;
  int cost = 0;
  for (std::size_t i = static_cast<std::size_t>(value) + 1; i-- > 0;) {
    if (!needed[i] || !is_computed_in_passes(structure().nodes[i].scope)) continue;
    const ir::Node& node = program_.nodes()[i];
    const Formula* formula = arithmetic == nullptr ? nullptr : arithmetic->formulas[i];
    if (node.op == ir::Op::rand_like) cost += ir::kRandomCost;
    if (ir::is_elementwise(node.op)) cost += formula == nullptr ? ir::row(node.op).cost : formula->cost;
    for (int k = 0; k < node.computed_arity(); ++k)
      needed[static_cast<std::size_t>(node.args[static_cast<std::size_t>(k)])] = true;
  }
  return cost;
}

}  // namespace epifuse::plan
