// What views that are read together share. Views of one tensor whose elements lie side by side in memory, as the
// columns of a pooling window, or every second element and the others, share a run: one of them reads it for each
// vector, in wide accesses, and all of them take their elements from it. Read one by one, each view would ask for the
// same sectors again, two bytes at a time. Operands of the same strides share an offset.
#include <algorithm>
#include <bit>
#include <optional>

#include "plan/pointwise/pointwise.hpp"
#include "plan/runs.hpp"

namespace epifuse::plan {
namespace {

// Single elements beside a run cost an access each.
constexpr int kMostBeside = 4;

bool is_along(const StridedOperand& mask, const Space& space) {
  return mask.strides[static_cast<std::size_t>(space.rank()) - 1] != 0;
}

std::vector<int> masks_across(const ir::Program& program, const Space& space, std::size_t input) {
  std::vector<int> across;
  if (program.bounds().empty()) return across;
  for (const int mask : program.bounds()[input].by)
    if (!is_along(space.inputs[static_cast<std::size_t>(mask)], space)) across.push_back(mask);
  return across;
}

// The elements of rows that exist: from `first` on up to `end`.
struct Existing {
  std::int64_t first = 0;
  std::int64_t end = 0;
};

// Nothing where other dimensions say, too, which elements of a row exist.
std::optional<Existing> existing_of_rows(const ir::Program& program, const Space& space, std::size_t input) {
  const auto inner = static_cast<std::size_t>(space.rank()) - 1;
  Existing existing{0, space.extents[static_cast<int>(inner)]};
  if (program.bounds().empty()) return existing;
  for (const int by : program.bounds()[input].by) {
    const StridedOperand& mask = space.inputs[static_cast<std::size_t>(by)];
    if (!is_along(mask, space)) continue;
    const std::int64_t step = mask.strides[inner];
    for (std::size_t d = 0; d < inner; ++d)
      if (varies_along(mask, space, d)) return std::nullopt;
    if (step < 0) return std::nullopt;
    existing.first = std::max(existing.first, divide_up(mask.origin, step));
    existing.end = std::min(existing.end, divide_up(mask.origin + mask.count, step));
  }
  return existing;
}

// Views that a run serves, each with where it begins.
using Members = std::vector<std::pair<std::size_t, int>>;

class Runs {
 public:
  Runs(const KernelClass& kernel, const Space& space, const ir::Program& program)
      : kernel_(kernel), space_(space), program_(program), inner_(static_cast<std::size_t>(space.rank()) - 1) {}

  // The views that a run of `reader` serves in vectors of so many elements, each with where it begins. Nothing where
  // there is no other, or where some of the run is no view's: what no view has is not read.
  Members members(std::size_t reader, int elements) const {
    Members found;
    if (!can_read(reader)) return found;
    for (std::size_t i = 0; i < space_.inputs.size(); ++i) {
      const auto first = first_in_run(reader, i);
      if (first && exist_in_run(i, step(reader), *first, elements) && knows_beside(found, i, *first, elements))
        found.emplace_back(i, *first);
    }
    for (int first = 0; first < step(reader); ++first) {
      const auto begins = [&](const auto& member) { return member.second == first && can_read(member.first); };
      if (std::ranges::none_of(found, begins)) return {};
    }
    return found;
  }

  int width(std::size_t reader, int elements) const { return width_of_run(space_.inputs[reader], space_, elements); }

  int step(std::size_t input) const { return static_cast<int>(space_.inputs[input].strides[inner_]); }

 private:
  bool has_mask_along(std::size_t input) const {
    if (program_.bounds().empty()) return false;
    return std::ranges::any_of(program_.bounds()[input].by, [&](int mask) {
      return is_along(space_.inputs[static_cast<std::size_t>(mask)], space_);
    });
  }

  // Read, where it lies, and not yet in a run.
  bool may_share(std::size_t input) const {
    if (kernel_.inputs[input].run) return false;
    const StridedOperand& strided = space_.inputs[input];
    const Access access = kernel_.inputs[input].access;
    const bool is_read = access == Access::linear || access == Access::contiguous || access == Access::strided ||
                         access == Access::bounded;
    return is_read && program_.viewed(input).tensor != ir::kNone && !is_packed(strided.dtype) &&
           strided.wraps.empty() && strided.gathers.empty() && strided.strides[inner_] >= 1 &&
           strided.strides[inner_] <= kMostRunStep;
  }

  // All elements of its rows exist.
  bool can_read(std::size_t input) const {
    if (!may_share(input)) return false;
    const auto existing = existing_of_rows(program_, space_, input);
    return existing && existing->first == 0 && existing->end == space_.extents[space_.rank() - 1];
  }

  std::optional<int> first_in_run(std::size_t reader, std::size_t input) const {
    const StridedOperand& run = space_.inputs[reader];
    const StridedOperand& strided = space_.inputs[input];
    if (!may_share(input) || program_.viewed(input).tensor != program_.viewed(reader).tensor) return std::nullopt;
    if (!have_equal_strides(run, strided, space_)) return std::nullopt;
    const std::int64_t bytes = address_of_first(strided) - address_of_first(run);
    const auto size = static_cast<std::int64_t>(size_of(run.dtype));
    const std::int64_t most = std::int64_t{kMostBeside} * step(reader);
    if (bytes % size != 0 || bytes / size < -most || bytes / size >= most + step(reader)) return std::nullopt;
    if (masks_across(program_, space_, input) != masks_across(program_, space_, reader)) return std::nullopt;
    return static_cast<int>(bytes / size);
  }

  // Whether all elements of vectors of this length exist that are taken from the run.
  bool exist_in_run(std::size_t input, int step, int first, int elements) const {
    const auto existing = existing_of_rows(program_, space_, input);
    const int before = first < 0 ? (-first + step - 1) / step : 0;
    const int behind = first < step ? 0 : first / step;
    return existing && before + behind < elements && before <= kMostBeside && behind <= kMostBeside &&
           existing->first <= before && existing->end >= space_.extents[space_.rank() - 1] - behind;
  }

  // Which vectors of a row have an element that stands beside their run.
  enum class Beside { all, all_but_first, all_but_last, others };
  Beside vectors_with(std::size_t input, int e, int elements) const {
    const auto existing = existing_of_rows(program_, space_, input);
    const std::int64_t last = space_.extents[space_.rank() - 1] - elements;
    const std::int64_t first = existing->first - e;
    const std::int64_t end = existing->end - e;
    if (first <= 0 && end > last) return Beside::all;
    if (first > 0 && first <= elements && end > last) return Beside::all_but_first;
    if (first <= 0 && end <= last && end > last - elements) return Beside::all_but_last;
    return Beside::others;
  }

  // Whether kernels know which vectors have what of a view stands beside the run, and it is the same for all views that
  // have it. A mask along rows says that something is not there, in the direction in which it stands.
  bool knows_beside(const Members& others, std::size_t input, int first, int elements) const {
    const int step = this->step(input);
    const bool has_mask = has_mask_along(input);
    for (int e = 0; e < elements; ++e) {
      const int at = step * e + first;
      if (at >= 0 && at < step * elements) continue;
      const Beside expected = !has_mask ? Beside::all : at < 0 ? Beside::all_but_first : Beside::all_but_last;
      if (vectors_with(input, e, elements) != expected) return false;
      for (const auto& [other, other_first] : others) {
        const int same = (at - other_first) / step;
        if ((at - other_first) % step != 0 || same < 0 || same >= elements) continue;
        if (has_mask_along(other) != has_mask) return false;
      }
    }
    return true;
  }

  const KernelClass& kernel_;
  const Space& space_;
  const ir::Program& program_;
  const std::size_t inner_;
};

}  // namespace

void share_runs(KernelClass& kernel, const Space& space, const ir::Program& program, int elements) {
  if (!reads_views(program) || space.rank() == 0 || space.extents[space.rank() - 1] % elements != 0) return;
  const Runs runs(kernel, space, program);
  for (std::size_t reader = 0; reader < kernel.inputs.size(); ++reader) {
    const auto members = runs.members(reader, elements);
    if (members.size() < 2) continue;
    const int width = runs.width(reader, elements);
    if (width * size_in_bytes(kernel.inputs[reader]) < kLeastRunBytes) continue;
    const int step = runs.step(reader);
    for (const auto& [input, first] : members)
      put_in_run(kernel.inputs[input], input, {static_cast<int>(reader), step, first, static_cast<int>(reader)}, width);
  }
}

void find_bases(KernelClass& kernel, const Space& space, const ir::Program& program) {
  const auto is_value_of_mask = [](const OperandPlan& input) { return input.access == Access::inside; };
  if (kernel.steps > 1 || std::ranges::any_of(kernel.inputs, is_value_of_mask)) return;
  const auto is_run = [&](std::size_t i) { return kernel.inputs[i].access == Access::run; };
  const auto has_base = [&](std::size_t i, std::size_t base) {
    return is_run(base) && !space.inputs[base].bounded && space.inputs[base].dtype == space.inputs[i].dtype &&
           program.viewed(base).tensor == program.viewed(i).tensor &&
           have_equal_strides(space.inputs[base], space.inputs[i], space);
  };
  for (std::size_t i = 0; i < kernel.inputs.size(); ++i) {
    if (!is_run(i) || !space.inputs[i].bounded) continue;
    for (std::size_t base = 0; base < kernel.inputs.size() && kernel.inputs[i].run->base == static_cast<int>(i); ++base)
      if (has_base(i, base)) kernel.inputs[i].run->base = static_cast<int>(base);
  }
}

void find_moves(KernelClass& kernel, const Space& space, bool by_quotients) {
  const auto find = [&](OperandPlan& operand, const StridedOperand& strided) {
    if (!operand.is_gathered() || operand.access == Access::of_run || operand.access == Access::of_tile) return;
    const auto stride = [&](int d) {
      return by_quotients ? stride_of_quotient(strided, space, d) : strided.strides[static_cast<std::size_t>(d)];
    };
    operand.moves = moves_of(space, stride);
    if (operand.access != Access::inside && operand.access != Access::bound) return;
    const int last = std::bit_width(static_cast<unsigned>(operand.moves & (OperandPlan::kKnown - 1))) - 1;
    operand.unit_step = kernel.steps == 1 && last >= 0 && stride(last) == 1;
  };
  for (std::size_t i = 0; i < kernel.inputs.size(); ++i) find(kernel.inputs[i], space.inputs[i]);
  for (std::size_t i = 0; i < kernel.outputs.size(); ++i) find(kernel.outputs[i], space.outputs[i]);
}

void drop_masks_of_runs(KernelClass& kernel, const ir::Program& program) {
  for (std::size_t mask = 0; mask < kernel.inputs.size() && !program.bounds().empty(); ++mask) {
    OperandPlan& own = kernel.inputs[mask];
    if (own.access != Access::bound || !own.moves_along(kernel.coordinates - 1)) continue;
    bool is_asked = false;
    for (std::size_t i = 0; i < program.bounds().size(); ++i) {
      const ir::Bounds& bounds = program.bounds()[i];
      const auto asks = [&](int other) { return other == static_cast<int>(mask); };
      const auto gathers = [&](const ir::Bounds::Gather& gather) { return asks(gather.index); };
      is_asked = is_asked || (!kernel.inputs[i].run && std::ranges::any_of(bounds.masks(), asks)) ||
                 std::ranges::any_of(bounds.gathers, gathers);
    }
    if (!is_asked) own.access = Access::unused;
  }
}

void share_strides(KernelClass& kernel, const Space& space, bool (*shares)(const OperandPlan& operand)) {
  const std::size_t inputs = kernel.inputs.size();
  const auto plan_of = [&](std::size_t i) -> OperandPlan& {
    return i < inputs ? kernel.inputs[i] : kernel.outputs[i - inputs];
  };
  const auto strided_of = [&](std::size_t i) -> const StridedOperand& {
    return i < inputs ? space.inputs[i] : space.outputs[i - inputs];
  };
  const auto has_strides = [&](std::size_t i) {
    return shares(plan_of(i)) && plan_of(i).is_gathered() && plan_of(i).access != Access::of_run &&
           plan_of(i).strides_of == OperandPlan::kOwn;
  };
  for (std::size_t i = 1; i < inputs + kernel.outputs.size(); ++i) {
    for (std::size_t k = 0; k < i && has_strides(i); ++k)
      if (has_strides(k) && have_equal_strides(strided_of(i), strided_of(k), space))
        plan_of(i).strides_of = static_cast<int>(k);
  }
}

}  // namespace epifuse::plan
