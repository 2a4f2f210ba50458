// A pointwise chain is one pass over the iteration space that computes every value of the program and stores the
// results. Chains with reductions are several: reduce.cpp.
#include "host/execute.hpp"

#include <cstring>

#include "host/block.hpp"
#include "host/reduce.hpp"

namespace epifuse::host {
namespace {

template <class Real>
void execute_pointwise(const ir::Program& program, const plan::Space& space, std::span<const double> scalars,
                       int most_threads) {
  Chain chain;
  chain.program = &program;
  chain.extents = space.extents;
  chain.paths.resize(program.nodes().size());
  for (std::size_t i = 0; i < program.nodes().size(); ++i) {
    const ir::Node& node = program.nodes()[i];
    const bool is_input = ir::is_operand(node.op);
    if (is_input) {
      const auto ordinal = static_cast<std::size_t>(node.ordinal);
      chain.paths[i] = operand_path(program, space, ordinal,
                                    [&](const plan::StridedOperand& strided) { return Path(strided, space.extents); });
    }
    chain.steps.push_back({static_cast<ir::Value>(i), node.args, is_input});
  }
  for (const ir::Result& result : program.results()) chain.targets.push_back(result.value);
  for (std::size_t i = 0; i < space.outputs.size(); ++i) {
    chain.outputs.push_back(
        output_path(space, i, [&](const plan::StridedOperand& strided) { return Path(strided, space.extents); }));
  }
  write_all<Real>(chain, scalars, most_threads);
}

// What pads tiles of scales is 0.
void clear_tiles(const plan::StridedOperand& output) {
  const auto clear = [&](const auto& self, const plan::GatheredDimension* along, std::int64_t offset) -> void {
    if (along == output.gathers.end()) {
      const std::size_t bytes = size_of(output.dtype);
      std::memset(static_cast<std::byte*>(const_cast<void*>(output.data)) + offset * static_cast<std::int64_t>(bytes),
                  0, bytes);
      return;
    }
    for (std::int64_t i = 0; i < along->extent; ++i) self(self, along + 1, offset + i * along->stride);
  };
  clear(clear, output.gathers.begin(), 0);
}

}  // namespace

void execute(const ir::Program& program, const plan::Space& space, std::span<const double> scalars, int most_threads) {
  // A reduction of no elements has a result; but where the space has no extents, no result has elements.
  if (space.elements == 0 && (!program.has_shaping() || space.extents.empty())) return;
  for (std::size_t i = 0; i < program.scatters().size(); ++i) {
    if (program.scatters()[i].is_computed()) clear_tiles(space.outputs[i]);
  }
  const auto run = program.has_shaping() ? (space.f64 ? execute_passes<double> : execute_passes<float>)
                                         : (space.f64 ? execute_pointwise<double> : execute_pointwise<float>);
  run(program, space, scalars, most_threads);
}

}  // namespace epifuse::host
