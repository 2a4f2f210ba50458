// Chains that reduce neighbouring columns of a product, as blocks of a quantised tensor: amax over 128 columns makes a
// scale, and each element is divided by it. The threads that have a group's columns in registers reduce them, so that
// one kernel does all. Called by hosted.cpp.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <variant>

#include "plan/gemm/hosted.hpp"

namespace epifuse::plan {

/// What a chain is whose reductions are all over groups of columns; nothing where it has others, and a sentence where
/// the kernel cannot do what groups need.
std::optional<std::variant<Hosted, std::string>> grouped(const WithoutProducts& split,
                                                         std::span<const OutputView> outputs,
                                                         std::span<const TensorView> inputs);

}  // namespace epifuse::plan
