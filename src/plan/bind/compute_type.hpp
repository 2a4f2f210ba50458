// What a chain computes in: f32, or f64 where an operand is f64 and where integers need it. For space.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <epifuse/tensor.hpp>

#include "base/inline_vector.hpp"
#include "ir/program.hpp"
#include "ir/result_types.hpp"

namespace epifuse::plan {

std::vector<ir::OperandType> operand_types(std::span<const TensorView> inputs);

/// `counts`: how many elements each reduction makes one of, by value; empty for chains that have none.
bool computes_in_f64(const ir::Program& program, std::span<const OutputView> outputs,
                     std::span<const TensorView> inputs, const base::InlineVector<std::int64_t, 32>& counts);

}  // namespace epifuse::plan
