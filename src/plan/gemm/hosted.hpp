// What of a chain with reductions a product's kernel hosts: the kernel computes a value for each element, and leaves
// partial results of what is reduced over rows, columns or all elements. Chains of their own make the other results of
// these. Called by inside.cpp.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "ir/program.hpp"
#include "plan/bind/products.hpp"
#include "plan/gemm/gemm.hpp"

namespace epifuse::plan {

/// A chain that makes results of one shape of partial results, and of operands.
struct Finish {
  struct Read {
    std::optional<std::size_t> partials;  ///< of that reduction of the kernel; else:
    WithoutProducts::Read operand = {};   ///< no product
  };
  ir::Program program;
  std::vector<Read> reads;           ///< in the order of program.inputs()
  std::vector<std::size_t> results;  ///< of the whole chain, those of `program`
};

struct Hosted {
  WithoutProducts split;   ///< of the kernel: the first result is a tensor's, each other one is reduced
  std::size_t result = 0;  ///< of the whole chain, the first of `split`
  GemmReductions reductions;
  std::vector<Finish> finishes;
  std::shared_ptr<const GemmGroups> groups = nullptr;  ///< then the first result of `split` is the value that is held
  std::vector<std::size_t> of_groups = {};             ///< of the whole chain, the results of `groups->scales`
};

/// `split` is of a chain without views, whose products have one shape. A chain without reductions is hosted as it is.
/// Else a sentence where the kernel cannot leave what the results need.
std::variant<Hosted, std::string> hosted(const WithoutProducts& split, std::span<const OutputView> outputs,
                                         std::span<const TensorView> inputs);

/// What an operand of a finish is: partial results of `plan`, whose workspace is `memory`, or an operand of the chain
/// with products. `shape` is the product's.
TensorView operand_of(const Finish::Read& read, const GemmPlan& plan, const void* memory, const Dims& shape,
                      std::span<const TensorView> inputs);

}  // namespace epifuse::plan
