// Device times by CUDA events: several pieces of work measured in turns, so that clocks and temperature are the same
// for all.
#pragma once

#include <functional>
#include <vector>

#include <cuda_runtime_api.h>

namespace examples {

/// Enqueues every piece once per round on `stream`, and returns each piece's median milliseconds over `rounds` rounds
/// after a few unmeasured ones. Nothing waits in between: the host runs ahead, so launches do not show in the times.
std::vector<double> measure(cudaStream_t stream, int rounds, const std::vector<std::function<void()>>& pieces);

}  // namespace examples
