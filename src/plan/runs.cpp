#include "plan/runs.hpp"

#include <bit>
#include <span>
#include <vector>

namespace epifuse::plan {
namespace {

// Which operands lie beside operand `first` in its run, in their order. None where these are not all of the run.
std::vector<std::size_t> operands_of_run(std::span<const StridedOperand> operands, const Space& space,
                                         std::size_t first, const MayShare& belongs) {
  const StridedOperand& run = operands[first];
  const std::int64_t step = run.strides[static_cast<std::size_t>(space.rank()) - 1];
  std::vector<std::size_t> all;
  for (std::int64_t at = 0; at < step; ++at) {
    const auto lies_there = [&](std::size_t i) {
      const std::int64_t bytes = address_of_first(operands[i]) - address_of_first(run);
      return belongs(i) && have_equal_strides(operands[i], run, space) &&
             bytes == at * static_cast<std::int64_t>(size_of(run.dtype));
    };
    std::size_t i = 0;
    while (i < operands.size() && !lies_there(i)) ++i;
    if (i == operands.size()) return {};
    all.push_back(i);
  }
  return all;
}

// `is_beside` says of two operands whether they are of one tensor.
template <class Operands, class IsBeside>
void share(Operands& plans, std::span<const StridedOperand> operands, const Space& space, int elements,
           const MayShare& may_share, const IsBeside& is_beside) {
  if (space.rank() == 0 || space.extents[space.rank() - 1] % elements != 0) return;
  const auto inner = static_cast<std::size_t>(space.rank()) - 1;
  const auto is_free = [&](std::size_t i) { return !plans[i].run && may_share(i); };
  for (std::size_t first = 0; first < plans.size(); ++first) {
    const std::int64_t step = operands[first].strides[inner];
    if (!is_free(first) || step < 2 || step > kMostRunStep) continue;
    const std::vector<std::size_t> members =
        operands_of_run(operands, space, first, [&](std::size_t i) { return is_free(i) && is_beside(first, i); });
    const int width = width_of_run(operands[first], space, elements);
    if (members.empty() || width * size_in_bytes(plans[first]) < kLeastRunBytes) continue;
    const int reader = static_cast<int>(first);
    for (std::size_t at = 0; at < members.size(); ++at)
      put_in_run(plans[members[at]], members[at], {reader, static_cast<int>(step), static_cast<int>(at), reader},
                 width);
  }
}

}  // namespace

std::intptr_t address_of_first(const StridedOperand& strided) {
  return static_cast<std::intptr_t>(reinterpret_cast<std::uintptr_t>(strided.data)) -
         strided.origin * static_cast<std::int64_t>(size_of(strided.dtype));
}

std::int64_t elements_between(const StridedOperand& base, const StridedOperand& strided) {
  return (address_of_first(strided) - address_of_first(base)) / static_cast<std::int64_t>(size_of(strided.dtype));
}

bool have_equal_strides(const StridedOperand& a, const StridedOperand& b, const Space& space) {
  for (int d = 0; d < space.rank(); ++d) {
    const auto at = static_cast<std::size_t>(d);
    if (space.extents[d] > 1 && a.strides[at] != b.strides[at]) return false;
  }
  return true;
}

int width_of_run(StridedOperand run, const Space& space, int elements) {
  const int inner = space.rank() - 1;
  run.data = reinterpret_cast<const void*>(address_of_first(run));
  const int length = elements * static_cast<int>(run.strides[static_cast<std::size_t>(inner)]);
  const auto most = static_cast<int>(std::bit_floor(static_cast<unsigned>(length)));
  return access_width(run.dtype, most,
                      [&](int width) { return length % width == 0 && is_aligned(run, space, inner, width); });
}

void put_in_run(OperandPlan& operand, std::size_t i, const RunOfViews& run, int width) {
  const bool moves_it = static_cast<int>(i) == run.reader;
  operand.access = moves_it ? Access::run : Access::of_run;
  operand.width = moves_it ? width : 1;
  operand.run = run;
}

void share_written_runs(KernelClass& kernel, const Space& space, const ir::Program& program, int elements,
                        const MayShare& may_share) {
  const auto may_be_written = [&](std::size_t i) { return program.slice_of(i) != ir::kNone && may_share(i); };
  const auto is_beside = [&](std::size_t a, std::size_t b) { return program.slice_of(a) == program.slice_of(b); };
  share(kernel.outputs, {space.outputs.begin(), space.outputs.size()}, space, elements, may_be_written, is_beside);
}

void share_read_runs(KernelClass& kernel, const Space& space, const ir::Program& program, int elements,
                     const MayShare& may_share) {
  if (program.viewed().empty()) return;
  const auto may_be_read = [&](std::size_t i) { return program.viewed(i).tensor != ir::kNone && may_share(i); };
  const auto is_beside = [&](std::size_t a, std::size_t b) {
    return program.viewed(a).tensor == program.viewed(b).tensor;
  };
  share(kernel.inputs, {space.inputs.begin(), space.inputs.size()}, space, elements, may_be_read, is_beside);
}

}  // namespace epifuse::plan
