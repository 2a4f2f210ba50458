// Plans of chains without reductions. plan.cpp calls plan_pointwise(), explain.cpp why_pointwise(); the rest is for the
// files of this folder, one for each map that needs one.
#pragma once

#include <string>

#include <epifuse/inspect.hpp>

#include "plan/planning.hpp"

namespace epifuse::plan {

/// Class, sizes and grid; plan.space is bound, and nothing else is there yet.
void plan_pointwise(Plan& plan, const ir::Program& program, const Machine& machine);

/// A map that was chosen: the space in the order in which the kernel iterates, and the class without what depends on
/// neither.
struct Mapped {
  Space space;
  KernelClass kernel;
  ElementRange existing_rows = {}, existing_columns = {};  ///< window_tile: as Plan has them

  Mapped(Space iterated, PointwiseClass map) : space(std::move(iterated)) {
    kernel.body = map;
    kernel.f64 = space.f64;
    kernel.threads = kPolicy.block_threads;
  }
};

/// Elements of the tiles that cover all planes of two dimensions, those beyond the tensor too.
struct TileSide {
  int dimension;
  std::int64_t tile;
};
std::int64_t tiled_elements(const Space& space, TileSide a, TileSide b);
void move_dimension(Space& space, int from, int to);
/// The dimension along which most bytes of inputs are contiguous while all outputs are along the innermost one, or -1.
int find_input_dimension(const Space& space);
/// Tiles of that dimension and the innermost one; nothing where most tiles would be empty. Its lanes are chosen with
/// the accesses.
std::optional<Mapped> tile_2d(const Space& space, int dimension);
/// `elements`, or fewer: as many as every row of every operand that is contiguous along the innermost dimension holds
/// aligned.
int aligned_elements(const KernelClass& kernel, const Space& space, int elements);
/// How many lanes and threads of `kernel` work side by side along the inputs' dimension: full sectors and lines of
/// these inputs.
Tiled2D choose_lanes(const KernelClass& kernel, const Space& space);
/// Tiles that are transposed in shared memory; nothing unless all inputs are contiguous along that dimension and tiles
/// fit. The class is whole.
std::optional<Mapped> transpose(const Space& space, int dimension, int instructions);

/// Tiles of what overlapping windows share; nothing where it is cheap, or views are no windows. The class is whole.
std::optional<Mapped> tile_windows(const Space& space, const ir::Program& program, const Machine& machine);
/// How often a value of the tile is computed for each result: elements of all tiles, beside results.
double computed_per_result(const WindowTile& tile, const Space& space);
/// Elements of the tensor that all tiles read.
std::int64_t elements_of_tiles(const Plan& plan);
/// How often what windows share is computed, in words and in instructions; the rest of the summary is there.
void explain_tile(PlanSummary& summary, const ir::Program& program, const Plan& plan);
/// The value, and all that it is computed of, in the chain's order.
std::vector<ir::Value> nodes_of_function(const ir::Program& program, ir::Value value);

/// Whether operands are views of tensors: then their kernels serve few shapes, and are made for these.
inline bool reads_views(const ir::Program& program) { return !program.viewed().empty(); }
/// Of vectors of so many elements: views of one tensor that a run of memory serves are accessed so, the others as they
/// were. Rows must be multiples of vectors.
void share_runs(KernelClass& kernel, const Space& space, const ir::Program& program, int elements);
/// Where some rows of a run do not exist, its address is that of a run of the same tensor of which all do, and a number
/// of elements: of both a vector then has one offset. Where masks are values of the chain it is not: compilers make
/// longer code of their tests then. Nor where a thread has several vectors, which would take more registers.
void find_bases(KernelClass& kernel, const Space& space, const ir::Program& program);
/// Along which dimensions operands move, of kernels that go by coordinates or by quotients.
void find_moves(KernelClass& kernel, const Space& space, bool by_quotients);
/// Masks that only say where rows end, for views whose runs end there: nothing asks them.
void drop_masks_of_runs(KernelClass& kernel, const ir::Program& program);
/// Operands with the same strides have one parameter for them, and so one offset. The space is padded.
void share_strides(
    KernelClass& kernel, const Space& space,
    bool (*shares)(const OperandPlan& operand) = [](const OperandPlan&) { return true; });

/// Why threads map to the iteration space as they do. Each map says it beside its planner.
std::string why_pointwise(const KernelClass& kernel);
std::string why(const Flat& map, const KernelClass& kernel);
std::string why(const ByRow& map, const KernelClass& kernel);
std::string why(const Tiled2D& map, const KernelClass& kernel);
std::string why(const Transpose& map, const KernelClass& kernel);
std::string why(const WindowTile& map, const KernelClass& kernel);

}  // namespace epifuse::plan
