// Runs a task once, on any device, from and to host memory.
#pragma once

#include <span>
#include <vector>

#include "host_tensor.hpp"
#include "task.hpp"

namespace epifuse::tool {

/// The operands' data in order, then memory for each result; a result in place has none of its own.
struct HostData {
  std::vector<HostTensor> inputs;
  std::vector<HostTensor> outputs;
};
/// For a result.
HostTensor memory_for(const TensorInfo& info);
HostData load_all(const Task& task, std::uint64_t seed);

/// The results end up in `data`; that of an in-place task in the input's memory.
void execute(Engine& engine, const Task& task, const HostData& data);
/// Where result `i` lies.
const HostTensor& result_of(const Task& task, const HostData& data, std::size_t i);

}  // namespace epifuse::tool
