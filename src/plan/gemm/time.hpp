// How long a product takes that hosts its chain, and how long the two take apart: what decides which tile it gets, and
// whether they are one kernel. Called by tiles.cpp and inside.cpp.
#pragma once

#include <cstddef>

#include "ir/program.hpp"
#include "plan/device/machine.hpp"
#include "plan/gemm/gemm.hpp"
#include "plan/gemm/tiles.hpp"

namespace epifuse::plan {

/// Estimates, in seconds: from tiles, bytes and instructions, at the rates that an H100 was measured to keep. Of GPUs
/// whose warps multiply no rate was measured: both ways are taken to keep the same share of the data sheet's.
struct ProductTimes {
  double inside;    ///< one kernel
  double apart;     ///< cuBLASLt's product, and then the chain's kernel
  double products;  ///< of the one kernel: tensor cores, in all rounds of tiles
  double chain;     ///< of the one kernel: of its chain what no products hide
  double memory;    ///< that the one kernel's bytes of memory take, beside both
  double bytes;     ///< of memory, of the one kernel
  double copied;    ///< bytes that its tiles copy of the factors, most of them from the L2 cache
};

/// `operand_bytes` are those of the chain's operands but its products, each element once; behind the one kernel
/// `finishes` others make results of partial ones.
ProductTimes estimate(const GemmPlan& plan, const ir::Program& chain, double operand_bytes, std::size_t finishes,
                      const Machine& machine);

/// Of a kernel that hosts a chain, for each element beside the chain's own: by stmatrix and TMA.
inline constexpr int kHostedStoreInstructions = 6;

/// Of a chain for each element of the result, that of groups included, roughly.
int hosted_instructions(const ir::Program& chain, const GemmPlan& plan);
/// These, `all`, without those that are computed once for a group of columns: what stands in the code of each element.
int element_instructions(int all, const GemmPlan& plan);

/// What one kernel takes for all of its tiles: their products, and the chain where no products hide it.
double seconds_of_tiles(const GemmClass& made, const GemmWork& work, const Machine& machine);

}  // namespace epifuse::plan
