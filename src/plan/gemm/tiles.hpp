// Which tile a product gets, of the family that the GPU's tensor cores take. For gemm.cpp.
#pragma once

#include <cstdint>
#include <optional>

#include "plan/device/machine.hpp"
#include "plan/gemm/gemm.hpp"

namespace epifuse::plan {

/// What a tile is chosen for.
struct GemmWork {
  std::int64_t batches, rows, columns;  ///< of the result
  std::int64_t depth;
  int instructions;  ///< of the chain, for an element
  int in_code = 0;   ///< of these in the code of each element: for the choice of a tile, not for its time
};

/// `made` with the tile that takes the least time for the product and its chain, and as many slots and stages as fit.
/// Nothing if no tile fits a multiprocessor's shared memory.
std::optional<GemmClass> with_tile(const GemmClass& made, const GemmWork& work, const Machine& machine);

/// Whether the code of a chain of so many instructions, in the code of an element, stands once for each of a thread's
/// elements. Else sub-tiles are a loop.
bool unrolls(const GemmClass& made, int in_code);

/// Clusters of blocks that run at a time; those of whole rows have up to eight, which multiprocessors are left over by.
int clusters_at_once(const GemmClass& made, const Machine& machine);

/// Tiles of all products of that work; of warp groups, clusters of tiles.
std::int64_t tiles_of(const GemmClass& made, const GemmWork& work);

/// What a tile costs that warps multiply, in elements of one of 128 x 128: each element of a small tile takes more
/// copies, and more loads of fragments.
double work_of_warps(int rows, int columns);

}  // namespace epifuse::plan
