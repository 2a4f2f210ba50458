// Host memory in, host memory out. On a GPU every tensor's whole memory travels, gaps and alignment included, so that a
// device sees exactly the layout that was asked for.
#include "execute.hpp"

#include <utility>

#include "support.hpp"

namespace epifuse::tool {
namespace {

struct OnDevice {
  Array memory;
  OutputView view;
};

OnDevice upload(Engine& engine, const HostTensor& tensor) {
  const auto bytes = static_cast<std::int64_t>(tensor.storage().bytes);
  Array memory = engine.array(DType::u8, {bytes}, tensor.memory());
  const OutputView view = bytes == 0 ? tensor.view_at(nullptr) : tensor.view_at(memory.view().writable());
  return {std::move(memory), view};
}

void execute_on_host(Engine& engine, const Task& task, const HostData& data) {
  std::vector<TensorView> inputs;
  std::vector<OutputView> outputs;
  for (const HostTensor& input : data.inputs) inputs.push_back(input.view());
  for (std::size_t i = 0; i < task.outputs.size(); ++i) outputs.push_back(result_of(task, data, i).view());
  engine.launch(task.tail, nullptr, outputs, inputs, task.scalars);
}

void execute_on_gpu(Engine& engine, const Task& task, const HostData& data) {
  std::vector<OnDevice> inputs;
  std::vector<OnDevice> outputs;
  for (const HostTensor& input : data.inputs) inputs.push_back(upload(engine, input));
  for (const HostTensor& output : data.outputs) outputs.push_back(upload(engine, output));
  const auto result = [&](std::size_t i) -> OnDevice& {
    const auto under = task.input_under(i);
    return under ? inputs[*under] : outputs[i];
  };
  std::vector<TensorView> in;
  std::vector<OutputView> out;
  in.reserve(inputs.size());
  for (const OnDevice& input : inputs) in.push_back(input.view);
  for (std::size_t i = 0; i < task.outputs.size(); ++i) out.push_back(result(i).view);
  engine.launch(task.tail, nullptr, out, in, task.scalars);
  engine.synchronize();
  for (std::size_t i = 0; i < task.outputs.size(); ++i) {
    if (result_of(task, data, i).storage().bytes > 0) result(i).memory.download(result_of(task, data, i).memory());
  }
}

}  // namespace

// Gaps between elements are filled, so that they are seen if they are ever read.
HostTensor memory_for(const TensorInfo& info) {
  const bool dense = info.strides == row_major(info.shape);
  return dense ? HostTensor::uninitialised(info) : HostTensor::filled(info);
}

HostData load_all(const Task& task, std::uint64_t seed) {
  HostData data;
  for (const Input& input : task.inputs) data.inputs.push_back(load(input, seed));
  for (std::size_t i = 0; i < task.outputs.size(); ++i) {
    data.outputs.push_back(task.input_under(i) ? HostTensor() : memory_for(task.outputs[i]));
  }
  return data;
}

const HostTensor& result_of(const Task& task, const HostData& data, std::size_t i) {
  const auto under = task.input_under(i);
  return under ? data.inputs[*under] : data.outputs[i];
}

void execute(Engine& engine, const Task& task, const HostData& data) {
  if (engine.device().kind == Device::Kind::cpu) {
    execute_on_host(engine, task, data);
  } else {
    execute_on_gpu(engine, task, data);
  }
}

}  // namespace epifuse::tool
