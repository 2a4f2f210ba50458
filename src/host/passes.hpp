// The stage analysis: a chain with reductions as a list of passes, each of which needs only what the passes before it
// have left behind. For reduce.cpp.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/program.hpp"
#include "plan/bind/space.hpp"

namespace epifuse::host {

/// Of what is listed by node.
inline std::size_t index(ir::Value value) { return static_cast<std::size_t>(value); }

/// What a pass does with its values.
enum class Purpose {
  hold,    ///< keeps them in memory, element by element
  reduce,  ///< keeps the results of these reductions
  write,   ///< writes the outputs of these numbers
};

struct Pass {
  Purpose purpose = Purpose::write;
  std::uint32_t span = 0;      ///< dimensions of the space that are iterated over
  std::uint32_t parallel = 0;  ///< of reduce: those that the results vary over
  std::vector<int> members;    ///< values; of write: positions in Program::results
};

/// The value behind shape operations, which change no element. By node.
std::vector<ir::Value> roots_of(const ir::Program& program);

/// In the order in which they run.
std::vector<Pass> passes_of(const ir::Program& program, const plan::Space& space, const std::vector<ir::Value>& roots);

/// The values that a pass evaluates to have `targets` (these included), where `held` lie in memory already. By node.
std::vector<bool> needed_for(const ir::Program& program, const std::vector<ir::Value>& roots,
                             const std::vector<ir::Value>& targets, const std::vector<bool>& held);

/// Of these dimensions of the space.
std::int64_t elements_of(const plan::Space& space, std::uint32_t dimensions);

}  // namespace epifuse::host
