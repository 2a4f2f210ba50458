// Launches as JSON. Addresses are written as numbers. Operands may stand under their names, and a result may leave its
// shape to the chain ("layout" instead of "shape").
#include "same/launch.hpp"
#include "support/as_written.hpp"

#include <stdexcept>

#include <nlohmann/json.hpp>

#include <epifuse/epilogue.hpp>

namespace epifuse::same {
namespace {

using nlohmann::json;

DType dtype_of(const json& name) {
  for (const DType type : kAllDTypes) {
    if (to_string(type) == name.get<std::string>()) return type;
  }
  throw std::invalid_argument("'" + name.get<std::string>() + "' is no element type");
}

json to_json(const TensorView& view) {
  return {{"dtype", to_string(view.dtype)},
          {"shape", std::vector<std::int64_t>(view.shape.begin(), view.shape.end())},
          {"strides", std::vector<std::int64_t>(view.strides.begin(), view.strides.end())},
          {"address", reinterpret_cast<std::uintptr_t>(view.data)}};
}

Dims dims_of(const json& list) { return Dims(std::span<const std::int64_t>(list.get<std::vector<std::int64_t>>())); }

void* address_of(const json& view) { return reinterpret_cast<void*>(view.value("address", std::uintptr_t{0})); }

TensorView input_of(const json& view) {
  const Dims shape = dims_of(view.at("shape"));
  const Dims strides = view.contains("strides") ? dims_of(view["strides"]) : row_major(shape);
  return {address_of(view), dtype_of(view.at("dtype")), shape, strides};
}

OutputView output_of(const json& view, const Dims& own_shape) {
  const Dims shape = view.contains("shape") ? dims_of(view["shape"]) : own_shape;
  // Older commits describe tensors of four dimensions alone as channels-last; the layouts of both must be the same.
  const bool channels_innermost = shape.size() == 4 && view.value("layout", "") == "channels_last";
  Dims strides = channels_innermost ? channels_last(shape) : row_major(shape);
  if (view.contains("strides")) strides = dims_of(view["strides"]);
  return {address_of(view), dtype_of(view.at("dtype")), shape, strides};
}

}  // namespace

std::string to_line(const Launch& launch) {
  json line = {{"id", launch.id},
               {"chain", launch.chain},
               {"architecture", launch.machine.architecture},
               {"multiprocessors", launch.machine.multiprocessors},
               {"abstract", launch.views == plan::Views::abstract},
               {"inputs", json::array()},
               {"outputs", json::array()}};
  for (const TensorView& view : launch.inputs) line["inputs"].push_back(to_json(view));
  for (const OutputView& view : launch.outputs) line["outputs"].push_back(to_json(view));
  return line.dump(-1, ' ', true, json::error_handler_t::replace);
}

Launch from_line(std::string_view text) {
  const json line = json::parse(text);
  Launch launch;
  launch.id = line.at("id");
  launch.chain = line.at("chain");
  launch.machine = plan::Machine(line.at("architecture").get<int>(), line.value("multiprocessors", 132));
  launch.views = line.value("abstract", false) ? plan::Views::abstract : plan::Views::real;
  const json& inputs = line.at("inputs");
  if (inputs.is_object()) {
    const Epilogue tail = Epilogue::parse(launch.chain);
    for (const std::string& name : tail.inputs()) launch.inputs.push_back(input_of(inputs.at(name)));
  } else {
    for (const json& view : inputs) launch.inputs.push_back(input_of(view));
  }
  std::vector<Dims> shapes(line.at("outputs").size());
  bool is_open = false;  // some result leaves its shape to the chain
  for (const json& view : line["outputs"]) is_open = is_open || !view.contains("shape");
  if (is_open) shapes = test::as_written(launch.chain).result_shapes(launch.inputs);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    launch.outputs.push_back(output_of(line["outputs"].at(i), shapes[i]));
  }
  return launch;
}

}  // namespace epifuse::same
