// `epifuse run --gradient`: the forward pass first, for what the backward pass needs of it, then that one.
#pragma once

#include "execute.hpp"

namespace epifuse::tool {

struct BackwardTask {
  Task forward;  ///< results, then what is saved
  Task task;     ///< the backward pass
};

/// The operands may also name gradients of results ("dout"): files, or random data of a shape that must be that of the
/// result. Those that are not named are random.
BackwardTask make_backward_task(const TaskOptions& options);
/// The data of the backward pass. Runs the forward pass if that leaves anything for it.
HostData load_backward(Engine& engine, const BackwardTask& backward, std::uint64_t seed);

}  // namespace epifuse::tool
