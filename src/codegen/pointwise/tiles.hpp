// The constants of kernels whose blocks work for tiles of two dimensions. For pointwise.cpp.
#pragma once

#include <string>

#include "plan/kernel_class.hpp"

namespace epifuse::codegen {

/// For templates/pointwise/transpose.cuh, and for locate_tiled_2d in pointwise.cuh: lines `constexpr int kName = …;`
/// with their comments.
std::string tile_constants(const plan::KernelClass& kernel, const plan::Transpose& map);
std::string tile_constants(const plan::KernelClass& kernel, const plan::Tiled2D& map);

}  // namespace epifuse::codegen
