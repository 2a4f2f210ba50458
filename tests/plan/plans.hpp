// Views without memory, and plans of chains in text: what tests of chains with reductions are made of.
#pragma once

#include <string>
#include <vector>

#include <epifuse/epifuse.hpp>

#include "ir/program.hpp"
#include "plan/plan.hpp"

namespace epifuse::plan {

inline TensorView in(DType type, const Dims& shape) { return {nullptr, type, shape}; }
inline TensorView in(DType type, const Dims& shape, const Dims& strides) { return {nullptr, type, shape, strides}; }
inline TensorView channels_last(DType type, const Dims& shape) {
  return in(type, shape, {shape[1] * shape[2] * shape[3], 1, shape[3] * shape[1], shape[1]});
}

inline std::vector<TensorView> floats(const std::vector<Dims>& shapes) {
  std::vector<TensorView> views;
  for (const Dims& shape : shapes) views.push_back(in(DType::f32, shape));
  return views;
}

// Results dense and of the type of the first operand, unless views of them are given.
inline std::vector<OutputView> results_of(const ir::Program& program, const std::vector<TensorView>& inputs) {
  std::vector<OutputView> outputs;
  for (const Dims& shape : result_shapes(program, inputs)) outputs.emplace_back(nullptr, inputs[0].dtype, shape);
  return outputs;
}

inline Plan plan_of(const std::string& chain, const std::vector<TensorView>& inputs, const Machine& machine = {}) {
  const ir::Program program = Epilogue::parse(chain).program();
  return make_plan(program, results_of(program, inputs), inputs, Views::abstract, machine);
}

}  // namespace epifuse::plan
