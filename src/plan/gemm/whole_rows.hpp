// Chains that reduce whole rows of a product and read its elements again, as norms and softmax do. Where the blocks of
// a cluster have the tiles of a row beside each other, one kernel does all. Called by hosted.cpp.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <variant>

#include "plan/gemm/hosted.hpp"

namespace epifuse::plan {

/// What a chain is that makes its tensor of elements and of what their rows are reduced to; nothing where the tensor
/// reads no reduction, and a sentence where the kernel cannot do what the chain needs.
std::optional<std::variant<Hosted, std::string>> with_whole_rows(const WithoutProducts& split,
                                                                 std::span<const OutputView> outputs,
                                                                 std::span<const TensorView> inputs);

}  // namespace epifuse::plan
