// What a pass knows before it starts: its size, and which buffer holds which value.
#include "host/block.hpp"

namespace epifuse::host {
namespace {

// The same in every block: filled before the first.
bool is_filled_once(const Chain& chain, const Step& step) {
  if (step.is_loaded) return chain.path(step.value).is_uniform();
  return chain.node(step).op < ir::Op::cast;
}

}  // namespace

Path::Path(const plan::StridedOperand& strided, const Dims& dimensions, bool has_columns)
    : data(strided.data),
      dtype(strided.dtype),
      generated(strided.generated),
      origin(strided.origin),
      count(strided.count) {
  for (int d = 0; d < dimensions.size(); ++d) {
    const std::int64_t stride = strided.strides[static_cast<std::size_t>(d)];
    const int outer = extents.size() - 1;
    const bool may_merge = outer >= 0 && !(has_columns && d + 1 == dimensions.size());
    if (may_merge && strides[outer] == stride * dimensions[d]) {
      extents[outer] *= dimensions[d];
      strides[outer] = stride;
    } else {
      extents.push_back(dimensions[d]);
      strides.push_back(stride);
    }
  }
}

std::int64_t Chain::elements() const {
  std::int64_t elements = 1;
  for (const std::int64_t extent : extents) elements *= extent;
  return elements;
}

Slots assign_slots(const Chain& chain) {
  constexpr auto kForever = static_cast<std::size_t>(-1);
  std::vector<std::size_t> last_use(chain.program->nodes().size(), 0);
  const auto use = [&](ir::Value value, std::size_t when) {
    if (value != ir::kNone) last_use[static_cast<std::size_t>(value)] = when;
  };
  for (std::size_t i = 0; i < chain.steps.size(); ++i) {
    for (const ir::Value arg : chain.steps[i].args) use(arg, i);
  }
  for (const ir::Value target : chain.targets) use(target, kForever);
  for (const Step& step : chain.steps) {
    if (is_filled_once(chain, step)) use(step.value, kForever);
  }

  Slots slots{std::vector<int>(last_use.size(), -1), 0};
  std::vector<int> free;
  for (std::size_t i = 0; i < chain.steps.size(); ++i) {
    const Step& step = chain.steps[i];
    // What is filled before all blocks needs a buffer that no earlier value uses either.
    if (free.empty() || is_filled_once(chain, step)) free.push_back(slots.count++);
    slots.of[static_cast<std::size_t>(step.value)] = free.back();
    free.pop_back();
    for (const ir::Value arg : step.args) {
      if (arg == ir::kNone) continue;
      const int slot = slots.of[static_cast<std::size_t>(arg)];
      const bool dies = last_use[static_cast<std::size_t>(arg)] == i && std::ranges::find(free, slot) == free.end();
      if (dies) free.push_back(slot);
    }
  }
  return slots;
}

}  // namespace epifuse::host
