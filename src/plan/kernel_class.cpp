// Names of a class's parts, and what its alternatives have in common.
#include "plan/kernel_class.hpp"

#include <algorithm>
#include <array>

#include "base/text.hpp"

namespace epifuse::plan {
namespace {

constexpr std::array<std::string_view, 21> kAccessNames = {
    "unused",         "linear",   "uniform", "random_linear", "row",
    "contiguous",     "strided",  "hoisted", "transposed",    "transposed_unaligned",
    "random_strided", "position", "bounded", "inside",        "gathered",
    "index",          "bound",    "run",     "of_run",        "tiled",
    "of_tile"};
constexpr std::array<std::string_view, 2> kLinesNames = {"rows", "elements"};

}  // namespace

std::string_view to_string(Access access) noexcept { return kAccessNames[static_cast<std::size_t>(access)]; }

std::string_view to_string(TransposedStore::Lines lines) noexcept {
  return kLinesNames[static_cast<std::size_t>(lines)];
}

std::string OperandPlan::text() const {
  std::string text = fmt::format("{}:{}", to_string(dtype), to_string(access));
  if (width > 1) text += fmt::format("x{}", width);
  if (run && access == Access::run) text += fmt::format(":step {}", run->step);
  if (run && access == Access::run && run->base != run->reader) text += fmt::format(":from {}", run->base);
  if (run && access == Access::of_run) text += fmt::format(":{} of {}", run->first, run->reader);
  if (place) text += fmt::format(":at {} {}", place->row, place->column);
  if (written) text += ":written";
  if (staged_row != kOwn) text += fmt::format(":in row of {}", staged_row);
  if (moves != 0) text += fmt::format(":moves {:b}", moves & ~kKnown);
  if (unit_step) text += ":unit";
  if (strides_of != kOwn) text += fmt::format(":strides of {}", strides_of);
  if (aligned) text += ":aligned";
  if (per_row) text += ":per_row";
  if (pads) text += ":pads";
  return read_only ? text + ":read_only" : text;
}

std::string_view ReductionClass::schedule() const {
  return std::visit([](const auto& own) { return own.kSchedule; }, driver);
}

bool ReductionClass::is_in_shared_memory() const {
  return std::visit([](const auto& own) { return own.kInSharedMemory; }, driver);
}

bool ReductionClass::holds_full_rows() const {
  return is<Resident>() && threads.full && layout.inner_reduction && !layout.tensor_aligned &&
         (layout.reduced == 1 || layout.whole_lines) && !structure.has_segments() && structure.grid == 0 &&
         !lane_segments && !columns && !store;
}

bool ReductionClass::shares_rows() const {
  return std::visit([](const auto& own) { return own.kSharesRows; }, driver);
}

bool ReductionClass::prefetches() const {
  return std::visit(
      [](const auto& own) {
        if constexpr (requires { own.prefetches; }) return own.prefetches;
        return false;
      },
      driver);
}

bool ReductionClass::l2_evict_first() const {
  const auto* own = std::get_if<SplitResident>(&driver);
  return own != nullptr && own->l2_evict_first;
}

bool ReductionClass::reduces_segments_by_lanes() const {
  const auto* own = std::get_if<Resident>(&driver);
  return own != nullptr && own->segments_by_lanes;
}

int ReductionClass::cluster() const {
  return std::visit(
      [](const auto& own) {
        if constexpr (requires { own.cluster; }) return own.cluster;
        return 1;
      },
      driver);
}

int ReductionClass::cluster_blocks() const { return columns ? columns->cluster * cluster() : cluster(); }

int ReductionClass::rows_per_group() const {
  const auto* own = std::get_if<RowsPerGroup>(&driver);
  return own == nullptr ? 1 : own->rows;
}

bool ReductionClass::interleaves_rows() const {
  const auto* own = std::get_if<ResidentShared>(&driver);
  return store ? store->interleaved_rows : own != nullptr && own->interleaved;
}

int ReductionClass::vectors_per_run() const {
  if (store) return store->vectors_per_run;
  return interleaves_rows() ? std::get<ResidentShared>(driver).interleaved->vectors_per_run : 1;
}

std::vector<BesideRun> beside_run(const KernelClass& kernel, std::size_t reader) {
  std::vector<BesideRun> beside;
  const int length = kernel.inputs[reader].run->step * kernel.elements;
  for (std::size_t i = 0; i < kernel.inputs.size(); ++i) {
    const auto& run = kernel.inputs[i].run;
    if (!run || run->reader != static_cast<int>(reader)) continue;
    for (int e = 0; e < kernel.elements; ++e) {
      const int at = run->step * e + run->first;
      const bool is_known = std::ranges::find(beside, at, &BesideRun::at) != beside.end();
      if ((at < 0 || at >= length) && !is_known) beside.push_back({at, static_cast<int>(i), e});
    }
  }
  return beside;
}

std::string_view KernelClass::schedule() const {
  if (reduction() != nullptr) return reduction()->schedule();
  return std::visit([](const auto& map) { return map.kSchedule; }, std::get<PointwiseClass>(body).map);
}

}  // namespace epifuse::plan
