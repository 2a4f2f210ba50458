// Copies of values of a chain behind a product: hosted.cpp and groups.cpp cut chains into chains of their own.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "ir/program.hpp"
#include "plan/bind/products.hpp"

namespace epifuse::plan {

/// Value `i` of `chain` in `builder`, of arguments that are among `copies`. What splits a dimension, or merges two, is
/// its argument: a kernel computes element by element.
ir::Value copied(ir::Builder& builder, const ir::Program& chain, std::size_t i, const std::vector<ir::Value>& copies);

/// The chain that computes the values `writes` of every element, with all scalars of `split.chain`. Its first result is
/// called `name`. It also has the operands `beside`, which later chains read.
WithoutProducts chain_of_elements(const WithoutProducts& split, std::span<const ir::Value> writes,
                                  const std::string& name, std::span<const ir::Value> beside = {});

/// `name`, or a name behind it that no operand, scalar or result of `chain` has.
std::string fresh_name(const ir::Program& chain, std::string name);

}  // namespace epifuse::plan
