// Elements that several views read come from memory once, if the views read them at about the same time.
#include "plan/traffic.hpp"

#include <algorithm>
#include <string_view>

#include <spdlog/fmt/fmt.h>

#include "plan/distinct.hpp"
#include "plan/planning.hpp"
#include "plan/pointwise/pointwise.hpp"

namespace epifuse::plan {
namespace {

// An operand of a tensor that others read through views, too.
struct ViewOfTensor {
  std::size_t operand;
  Box box;
};

// Steps alike through a tensor, dimension by dimension from the innermost on.
bool steps_alike(const Lowered::Operand& a, const Lowered::Operand& b) {
  const int rank = std::max(a.shape.size(), b.shape.size());
  const auto step = [](const Lowered::Operand& operand, int behind) {
    const int d = operand.shape.size() - 1 - behind;
    return d < 0 || operand.shape[d] == 1 ? 0 : operand.strides[d];
  };
  for (int behind = 0; behind < rank; ++behind)
    if (step(a, behind) != step(b, behind)) return false;
  return true;
}

// Of the views of a tensor that step alike an element is read by one as long after another as their first elements lie
// apart.
std::vector<std::vector<ViewOfTensor>> views_side_by_side(const Lowered& lowered, const Plan& plan,
                                                          const Machine& machine) {
  std::vector<std::vector<ViewOfTensor>> groups;
  for (std::size_t i = 0; i < lowered.operands.size(); ++i) {
    const Lowered::Operand& read = lowered.operands[i];
    const auto box = plan.space.inputs[i].used ? box_of(read, lowered.tensors[read.input]) : std::nullopt;
    if (!box) continue;
    const auto is_beside = [&](const std::vector<ViewOfTensor>& group) {
      const std::size_t first = group.front().operand;
      const Lowered::Operand& other = lowered.operands[first];
      return other.input == read.input && std::abs(other.offset - read.offset) <= machine.l2_bytes &&
             plan.kernel_class.inputs[first].written == plan.kernel_class.inputs[i].written && steps_alike(other, read);
    };
    const auto group = std::ranges::find_if(groups, is_beside);
    if (group == groups.end()) {
      groups.push_back({{i, *box}});
    } else {
      group->push_back({i, *box});
    }
  }
  return groups;
}

// Bytes that the kernel asks for: a run has what all of its views read, and tiles what their windows span.
std::uint64_t requested_bytes(const OperandSummary& operand, const OperandPlan& planned, const Plan& plan) {
  if (planned.access == Access::tiled) return size_of(planned.dtype, elements_of_tiles(plan));
  if (planned.access == Access::of_run || planned.access == Access::of_tile) return 0;
  return operand.bytes * static_cast<std::uint64_t>(planned.access == Access::run ? planned.run->step : 1);
}

// Each operand has what those before it have not read.
void count_group_once(PlanSummary& summary, const std::vector<ViewOfTensor>& group, const Plan& plan) {
  std::vector<Box> boxes;
  std::vector<std::uint64_t> distinct;
  for (const ViewOfTensor& view : group) {
    boxes.push_back(view.box);
    const auto elements = distinct_elements(boxes);
    if (!elements) return;
    distinct.push_back(*elements);
  }
  std::uint64_t requested = 0;
  std::uint64_t before = 0;
  for (std::size_t i = 0; i < group.size(); ++i) {
    OperandSummary& operand = summary.operands[group[i].operand];
    requested += requested_bytes(operand, plan.kernel_class.inputs[group[i].operand], plan);
    const std::uint64_t bytes = size_of(operand.dtype, 1) * (distinct[i] - before);
    const bool is_read = plan.kernel_class.inputs[group[i].operand].access != Access::of_run;
    if (bytes < operand.bytes && is_read) operand.why += "; what other views have read, from a cache";
    operand.bytes = bytes;
    before = distinct[i];
  }
  const std::uint64_t read = size_of(summary.operands[group.front().operand].dtype, 1) * before;
  if (requested > read) summary.bytes_from_caches += requested - read;
}

// What is read of a row: which bytes of it, and how far apart rows lie.
struct RowReach {
  std::size_t input;
  std::int64_t first, last, elements;
  Strides between;
  friend bool operator==(const RowReach&, const RowReach&) = default;
  // Among the bytes of the other one.
  bool lies_in(const RowReach& other) const {
    return input == other.input && first >= other.first && last <= other.last && between == other.between;
  }
};

// Nothing for an operand of which some elements do not exist, or which indices find.
std::optional<RowReach> reach_of_row(const Lowered& lowered, std::size_t input, const Plan& plan) {
  const Lowered::Operand& operand = lowered.operands[input];
  const Space& space = space_of(plan, plan.kernel_class.inputs[input]);
  const StridedOperand& strided = space.inputs[input];
  if (operand.is_mask || operand.is_index || !strided.used || strided.bounded || !strided.gathers.empty())
    return std::nullopt;
  const std::int64_t size = size_of(strided.dtype, 1);
  RowReach reach{operand.input, operand.offset, operand.offset, 1, {}};
  for (int d = 0; d < space.rank(); ++d) {
    const auto at = static_cast<std::size_t>(d);
    if (d < plan.kernel_class.reduction()->layout.outer) {
      reach.between[at] = strided.strides[at];
      continue;
    }
    if (strided.strides[at] == 0) continue;
    const std::int64_t last = strided.strides[at] * (space.extents[d] - 1) * size;
    (last < 0 ? reach.first : reach.last) += last;
    reach.elements *= space.extents[d];
  }
  return reach;
}

// All bytes between the first and the last.
std::optional<RowReach> reach_of_dense_row(const Lowered& lowered, std::size_t input, const Plan& plan) {
  const auto reach = reach_of_row(lowered, input, plan);
  if (!reach || reach->elements < 2 || plan.kernel_class.inputs[input].written) return std::nullopt;
  const std::int64_t size = size_of(plan.kernel_class.inputs[input].dtype, 1);
  return reach->last - reach->first == (reach->elements - 1) * size ? reach : std::nullopt;
}

}  // namespace

void count_views_once(PlanSummary& summary, const Lowered& lowered, const Plan& plan, const Machine& machine) {
  for (const std::vector<ViewOfTensor>& group : views_side_by_side(lowered, plan, machine))
    if (group.size() > 1) count_group_once(summary, group, plan);
}

// Counts operands once that are other views of the same rows, where a thread group holds a row: their elements come
// from a cache.
void count_rows_once(PlanSummary& summary, const Lowered& lowered, const Plan& plan) {
  if (!plan.kernel_class.reduction() || !plan.kernel_class.reduction()->is_resident()) return;
  std::vector<std::pair<RowReach, std::string>> seen;
  for (std::size_t i = 0; i < lowered.operands.size(); ++i) {
    const auto reach = reach_of_dense_row(lowered, i, plan);
    if (!reach) continue;
    OperandSummary& operand = summary.operands[i];
    const auto same = std::ranges::find(seen, *reach, &std::pair<RowReach, std::string>::first);
    if (same == seen.end()) {
      seen.emplace_back(*reach, operand.name);
      continue;
    }
    summary.bytes_read -= operand.bytes;
    summary.bytes_from_caches += operand.bytes;
    operand.bytes = 0;
    operand.why += fmt::format("; the elements of '{}' in another order, from a cache", same->second);
  }
}

// Elements that windows share are read from memory once, and again from a cache.
void count_windows_once(PlanSummary& summary, const Lowered& lowered) {
  for (std::size_t i = 0; i < lowered.operands.size(); ++i) {
    const Lowered::Operand& read = lowered.operands[i];
    OperandSummary& operand = summary.operands[i];
    if (read.is_mask || !read.gathers.empty() || !read.wraps.empty() || operand.bytes == 0) continue;
    const auto of_windows = [&](int d) {
      return std::ranges::any_of(read.within, [&](const Lowered::Operand::Within& within) {
        return within.is_of_windows() && (within.dimension == d || within.inner == d);
      });
    };
    std::int64_t span = 1;
    for (int d = 0; d < read.shape.size(); ++d) {
      if (!of_windows(d)) span += std::abs(read.strides[d]) * (read.shape[d] - 1);
    }
    for (const Lowered::Operand::Within& within : read.within) {
      if (within.is_of_windows()) span += std::abs(read.strides[within.inner] / within.inner_step) * (within.count - 1);
    }
    const auto bytes = static_cast<std::uint64_t>(size_of(operand.dtype, span));
    if (bytes >= operand.bytes) continue;
    summary.bytes_read -= operand.bytes - bytes;
    summary.bytes_from_caches += operand.bytes - bytes;
    operand.bytes = bytes;
    operand.why += "; what windows share, from a cache";
  }
}

namespace {

// Where what is written in place of a row's elements finds them, and which bytes they count as.
struct ReadAgain {
  std::string_view where;
  std::uint64_t PlanSummary::*bytes;  // null: none, since shared memory has the row
};

ReadAgain read_again_from(const KernelClass& kernel, const OperandPlan& input) {
  if (input.staged_row != OperandPlan::kOwn) return {"in shared memory", nullptr};
  if (kernel.reduction()->is<Looped>())
    return {"again, from the L2 cache as far as that holds them", &PlanSummary::bytes_read_again};
  return {"again, from a cache", &PlanSummary::bytes_from_caches};
}

}  // namespace

// What is written in place of a row's elements is read from rows that were read for their statistics just before.
void count_rows_read_again(PlanSummary& summary, const Lowered& lowered, const Plan& plan) {
  if (!plan.kernel_class.reduction() || !plan.kernel_class.reduction()->structure.has_written()) return;
  for (std::size_t i = 0; i < lowered.operands.size(); ++i) {
    const OperandPlan& input = plan.kernel_class.inputs[i];
    const auto reach = input.written ? reach_of_row(lowered, i, plan) : std::nullopt;
    for (std::size_t k = 0; reach && k < lowered.operands.size(); ++k) {
      const auto row = reach_of_dense_row(lowered, k, plan);
      if (!row || !reach->lies_in(*row)) continue;
      const ReadAgain again = read_again_from(plan.kernel_class, input);
      OperandSummary& operand = summary.operands[i];
      summary.bytes_read -= operand.bytes;
      if (again.bytes != nullptr) summary.*again.bytes += operand.bytes;
      operand.bytes = 0;
      operand.why += fmt::format("; elements of '{}' {}", summary.operands[k].name, again.where);
      break;
    }
  }
}

}  // namespace epifuse::plan
