// Indices are read before anything is computed: a kernel cannot say which of them is out of range, and the CPU can.
#include <algorithm>

#include "base/text.hpp"
#include "host/block.hpp"
#include "host/execute.hpp"

namespace epifuse::host {
namespace {

// Calls visit(index) for each element.
template <class Visit>
void each_index(const TensorView& view, const Visit& visit) {
  if (std::ranges::find(view.shape, 0) != view.shape.end()) return;
  Dims at;
  for (int d = 0; d < view.shape.size(); ++d) at.push_back(0);
  const auto* base = static_cast<const std::byte*>(view.data);
  for (std::int64_t offset = 0;;) {
    visit(index_at(base, view.dtype, offset));
    int d = view.shape.size();
    for (; d > 0; --d) {
      offset += view.strides[d - 1];
      if (++at[d - 1] < view.shape[d - 1]) break;
      offset -= at[d - 1] * view.strides[d - 1];
      at[d - 1] = 0;
    }
    if (d == 0) return;
  }
}

}  // namespace

void check_indices(const ir::Program& program, std::span<const TensorView> inputs) {
  for (std::size_t i = 0; i < program.bounds().size(); ++i) {
    for (const ir::Bounds::Gather& gather : program.bounds()[i].gathers) {
      if (gather.computed.exists()) continue;  // from positions, which are in range
      const auto index = static_cast<std::size_t>(gather.index);
      const std::int64_t least = gather.wraps ? -gather.extent : 0;
      each_index(inputs[index], [&](std::int64_t value) {
        if (value >= least && value < gather.extent) return;
        base::fail(ErrorCode::invalid_argument,
                   "'{}' is out of range: operand '{}' holds {}, and '{}' has indices from {} to {}", gather.written,
                   program.operand_text(index), value, program.operand_text(i), least, gather.extent - 1);
      });
    }
  }
}

}  // namespace epifuse::host
