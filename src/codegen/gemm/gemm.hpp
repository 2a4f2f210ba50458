// The source of a product that hosts a chain, and the struct that its kernel takes. For api/.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "codegen/lean/lean.hpp"
#include "ir/program.hpp"
#include "plan/gemm/gemm.hpp"

namespace epifuse::codegen {

/// CUtensorMap, as the driver encodes it.
using EncodedMap = std::array<std::byte, 128>;

/// The entry point's name: "epifuse_gemm_bf16_f16_3fa81c", the types of the factors and of the result.
std::string gemm_name(const ir::Program& program, const plan::GemmPlan& plan);

/// The same source with all that the skeleton has, for keys: emit_gemm() makes it lean.
std::string draft_gemm(const ir::Program& program, const plan::GemmPlan& plan);

/// One self-contained source, for sm_90a or for the GPUs of plan::WarpTile. It depends on the chain and on
/// plan.gemm_class only.
std::string emit_gemm(const ir::Program& program, const plan::GemmPlan& plan, Compilers compilers = Compilers::cuda);

/// The kernel's parameter. `maps` are plan.maps, encoded, where the kernel is for sm_90a; else none.
std::vector<std::byte> pack_gemm(const ir::Program& program, const plan::GemmPlan& plan,
                                 std::span<const EncodedMap> maps, std::span<const double> scalars);

}  // namespace epifuse::codegen
