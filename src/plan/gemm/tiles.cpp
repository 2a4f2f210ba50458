// Lists the tiles of both families, and counts what a block of each has in shared memory.
#include "plan/gemm/tiles.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "plan/gemm/time.hpp"
#include "plan/planning.hpp"

namespace epifuse::plan {
namespace {

// From the tile with the least traffic to the one that leaves the fewest multiprocessors without work. Their paces were
// measured on an H100 (docs/internals/plan/gemm.md, with what was slower). Where tiles are few, blocks of a cluster
// share the depth of each.
constexpr auto kWarpGroupTiles = std::to_array<WarpGroupTile>({
    {"128 x 256, shared by both warp groups", false, 1, 256, 2, 1, 4, 1.00},
    {"128 x 192, warp groups take turns", true, 2, 192, 2, 1, 4, 1.01},
    {"128 x 128, warp groups take turns", true, 2, 128, 2, 1, 6, 1.12},
    {"128 x 128, shared by both warp groups of two blocks", false, 1, 128, 2, 1, 6, 1.03},
    {"128 x 128, shared by both warp groups", false, 1, 128, 1, 1, 6, 1.13},
    {"128 x 128, its depth shared by two blocks", false, 1, 128, 1, 2, 6, 1.13},
    {"128 x 128, its depth shared by four blocks", false, 1, 128, 1, 4, 6, 1.13},
});
// Of whole rows: as many blocks beside each other as a row needs tiles, for which one stands here. Each thread keeps a
// row's values of all passes in registers, so groups share tiles. Their paces are unmeasured, and taken from the tiles
// above.
constexpr auto kRowTiles = std::to_array<WarpGroupTile>({
    {"128 x 256, shared by both warp groups", false, 1, 256, 1, 1, 4, 1.00, 1},
    {"128 x 192, shared by both warp groups", false, 1, 192, 1, 1, 5, 1.02, 1},
    {"128 x 128, shared by both warp groups", false, 1, 128, 1, 1, 6, 1.03, 1},
});
constexpr int kMostRowBlocks = 8;  // of a cluster, that every GPU with clusters has: CUDA C++ Programming Guide
// With the most stages and blocks of a multiprocessor that are of use: two blocks hide each other's chain and stores.
constexpr auto kWarpTiles = std::to_array<WarpTile>({
    {"128 x 128, a quarter for each of four warps", 128, 128, 4, 2},
    {"64 x 128, a quarter for each of four warps", 64, 128, 4, 2},
    {"64 x 64, a quarter for each of four warps", 64, 64, 4, 2},
});
static_assert(std::ranges::all_of(kWarpGroupTiles, [](const WarpGroupTile& it) { return it.rows() == kPatchPixels; }));
constexpr int kFewestStages = 3;
// Of the multiprocessors, those that clusters of four blocks reach: 30 of these run at once on an H100, which has 132
// (cudaOccupancyMaxActiveClusters). A second wave of them took 1.4 times as long.
constexpr double kInClustersOfFour = 0.9;
// Of eight: the 30 clusters of four leave groups of 14 to 18 multiprocessors, which have 14 of eight. Unmeasured.
constexpr double kInClustersOfEight = 0.85;

std::int64_t most_shared_bytes(const Machine& machine, int blocks) {
  return machine.shared_bytes / blocks - kReservedShared;
}

// Of the chain, that a warp group of a block has of one tile.
int subtiles_of_block(const GemmClass& made, const WarpGroupTile& tile) {
  return tile.blocks * made.chain_columns() / WarpGroupTile::kSubtileColumns;
}

// A group of columns is reduced with the operands of all its sub-tiles in slots, and the last sub-tile's store has one.
int slots_of_group(const GemmClass& made) {
  return made.count(GemmRole::tile) > 0 ? made.group_columns() / WarpGroupTile::kSubtileColumns + 1 : 0;
}

// The fewest and the most that are of use. Two sub-tiles of slack are enough for stores, operands want one more. A
// block that shares a tile's depth has no next tile, whose operands could wait.
std::array<int, 2> slots_of(const GemmClass& made, const WarpGroupTile& tile) {
  constexpr int kMost = 4;
  const int of_group = slots_of_group(made);
  if (tile.split > 1) {
    const int needed = std::max(std::min(kMost, subtiles_of_block(made, tile) + 1), of_group);
    return {needed, needed};
  }
  return {std::max(kMost - 1, of_group), std::max(kMost, of_group)};
}

// As many slots and stages as fit.
std::optional<GemmClass> fitted(const GemmClass& made, WarpGroupTile tile, const Machine& machine) {
  GemmClass fit = made;
  const int most = tile.stages;
  const auto [fewest_slots, most_slots] = slots_of(made, tile);
  for (fit.slots = most_slots; fit.slots >= fewest_slots; --fit.slots) {
    for (tile.stages = most; tile.stages >= kFewestStages; --tile.stages) {
      fit.tile = tile;
      const bool fits = fit.shared_bytes() <= most_shared_bytes(machine, 1);
      if (fits && (tile.stages == most || fit.slots == fewest_slots)) return fit;
    }
  }
  return std::nullopt;
}

// Two blocks with fewer stages rather than one with more. Slots stand where the stages were, one for each 16 rows of a
// warp if they fit.
std::optional<GemmClass> fitted(const GemmClass& made, WarpTile tile, const Machine& machine) {
  GemmClass fit = made;
  const int most = tile.stages;
  for (; tile.per_multiprocessor >= 1; --tile.per_multiprocessor) {
    for (tile.stages = most; tile.stages >= kFewestStages; --tile.stages) {
      fit.tile = tile;
      const int staged = tile.stages * (tile.tile_rows + tile.columns) * WarpTile::kDepthBytes;
      fit.slots = std::min(staged / fit.slot_bytes(), tile.tile_rows / 32);
      if (fit.slots >= 1 && fit.shared_bytes() <= most_shared_bytes(machine, tile.per_multiprocessor)) return fit;
    }
  }
  return std::nullopt;
}

// 256 columns with scales of their own leave few registers. Of one product ptxas spilled 96 bytes. Of two it spilled 16
// where each row has a scale and the chain a vector along columns; with a vector along rows instead it spilled none.
bool has_registers_for_scales(const GemmClass& made, const WarpGroupTile& tile) {
  constexpr int kMostHeld = 3;
  if (GemmClass::prefetches_scales(made.right_scales, tile.columns)) return true;
  const int of_rows = made.left_scales == ScaledLines::each ? 2 : made.left_scales == ScaledLines::blocks ? 1 : 0;
  const int held = of_rows + 2 * made.count(GemmRole::column) + made.count(GemmRole::row);
  return made.count(GemmRole::product) > 1 && held <= kMostHeld;
}

// Of `made` with this tile. Operands are copied one sub-tile less ahead than there are slots, and no tile ahead. Groups
// of columns are of one block. A warp group whose turn it is would wait for the sums that are taken out of each stage,
// and the other would not fill the gap.
bool is_possible(const GemmClass& made, const WarpGroupTile& tile, const GemmWork& work, const Machine& machine) {
  constexpr int kTransposedBox = 64;  // columns of a right factor whose columns are contiguous, that a box has
  const int columns = made.chain_columns();
  if (tile.takes_turns && made.promotes()) return false;
  if (!has_registers_for_scales(made, tile)) return false;
  if (made.right_transposed && tile.columns / tile.cluster % kTransposedBox != 0) return false;
  if (columns % WarpGroupTile::kSubtileColumns != 0) return false;
  if (tile.columns % made.instruction_columns() != 0 || tile.row_blocks > machine.multiprocessors) return false;
  if (made.group_columns() != 0 && columns % made.group_columns() != 0) return false;
  if (tile.split > 1) {
    // All tiles run at once, and each block has depth enough to fill its stages.
    const double reached = machine.multiprocessors * (tile.split > 2 ? kInClustersOfFour : 1);
    return static_cast<double>(tiles_of(made, work) * tile.split) <= reached &&
           work.depth >= std::int64_t{kFewestStages} * tile.split * made.depth();
  }
  return subtiles_of_block(made, tile) >= slots_of(made, tile)[1];
}

// The tiles of whole rows, with as many blocks beside each other as the rows need.
std::vector<WarpGroupTile> row_tiles(const GemmClass& made, std::int64_t columns) {
  std::vector<WarpGroupTile> all;
  for (WarpGroupTile tile : kRowTiles) {
    const std::int64_t blocks = divide_up(columns, tile.columns / made.count(GemmRole::product));
    if (blocks > kMostRowBlocks) continue;
    tile.row_blocks = static_cast<int>(blocks);
    all.push_back(tile);
  }
  return all;
}

// A thread has 128 sums of the largest tile, which leave no registers for a loop over sub-tiles: ptxas spilled 4 bytes
// on sm_86. So chains that would need a loop get the next tile. Where sums are taken out, ptxas spilled registers of
// chains with 56 instructions, and with two products; not with 14. Of such chains that reduce it spilled with 38, not
// with 27. Windows take registers, too: it spilled where sums are taken out, and with two products. Scales of factors
// take registers throughout.
bool is_possible(const GemmClass& made, const WarpTile& tile, const GemmWork& work, const Machine& /*machine*/) {
  // A warp has whole groups of columns, or one of two halves of one.
  const bool has_groups = made.group_columns() != 0 && made.group_columns() != made.result_columns();
  if (has_groups && made.subtile_columns() % made.group_columns() != 0) return false;
  if (tile.tile_rows * tile.columns < 128 * 128) return true;
  if (made.is_scaled() || !unrolls(made, work.in_code)) return false;
  if (made.has_windows) return !made.promotes() && made.count(GemmRole::product) == 1;
  if (!made.promotes()) return true;
  return work.instructions <= (made.reductions.empty() ? 40 : 30) && made.count(GemmRole::product) == 1;
}

// Compared with the costs of other tiles of the family: seconds, or elements in waves of a tile for each
// multiprocessor.
double cost_of(const GemmClass& fit, const GemmWork& work, const Machine& machine) {
  if (fit.warp_group_tile() != nullptr) return seconds_of_tiles(fit, work, machine);
  return static_cast<double>(divide_up(tiles_of(fit, work), machine.multiprocessors)) *
         work_of_warps(fit.tile_rows(), fit.tile_columns());
}

template <class Tiles>
std::optional<GemmClass> best_of(const Tiles& tiles, const GemmClass& made, const GemmWork& work,
                                 const Machine& machine) {
  double best = 0;
  std::optional<GemmClass> chosen;
  for (const auto& tile : tiles) {
    GemmClass candidate = made;
    candidate.tile = tile;
    if (tile.cluster > machine.multiprocessors || !is_possible(candidate, tile, work, machine)) continue;
    const std::optional<GemmClass> fit = fitted(candidate, tile, machine);
    if (!fit) continue;
    const double cost = cost_of(*fit, work, machine);
    if (chosen && cost >= best) continue;
    best = cost;
    chosen = fit;
  }
  return chosen;
}

}  // namespace

std::optional<GemmClass> with_tile(const GemmClass& made, const GemmWork& work, const Machine& machine) {
  if (made.has_whole_rows()) return best_of(row_tiles(made, work.columns), made, work, machine);
  return machine.tensor_cores == TensorCores::warp_groups ? best_of(kWarpGroupTiles, made, work, machine)
                                                          : best_of(kWarpTiles, made, work, machine);
}

// Of a chain for all elements of a thread. 188 kB of code took twice as long as 65 kB: the instruction cache of a
// multiprocessor of sm_90 has 128 kB, and an instruction 16 bytes. NVRTC takes some 0.7 s for that many. Where groups
// of columns are reduced, a second pass writes the elements: beyond three quarters NVRTC takes more than 0.8 s.
bool unrolls(const GemmClass& made, int in_code) {
  constexpr int kMostUnrolled = 6144;
  constexpr int kMostOfGroups = 4608;
  constexpr int kGroupInstructions = 8;  // of the second pass, for an element
  const WarpGroupTile* const tile = made.warp_group_tile();
  const int elements = tile != nullptr ? tile->blocks * made.chain_columns() / 2
                                       : made.tile_rows() * made.result_columns() / WarpTile::kThreads;
  const int instructions = in_code + kHostedStoreInstructions;
  if (made.group_columns() == 0) return elements * instructions <= kMostUnrolled;
  return elements * (instructions + kGroupInstructions) <= kMostOfGroups;
}

int clusters_at_once(const GemmClass& made, const Machine& machine) {
  const int blocks = made.blocks_of_cluster();
  const double reached = made.row_blocks() > 4 ? kInClustersOfEight : made.row_blocks() > 2 ? kInClustersOfFour : 1;
  return std::max(static_cast<int>(machine.multiprocessors * reached) / blocks, 1);
}

std::int64_t tiles_of(const GemmClass& made, const GemmWork& work) {
  return work.batches * divide_up(work.rows, std::int64_t{made.tile_rows()} * made.cluster()) *
         (made.has_whole_rows() ? 1 : divide_up(work.columns, made.result_columns()));
}

double work_of_warps(int rows, int columns) {
  constexpr double kEdge =
      16;  // unmeasured: tiles of 64 x 64 take 1.23 times as long for an element as those of 128 x 128
  constexpr double kOfLargest = 128.0 * 128 / ((128 + kEdge) * (128 + kEdge));
  return (rows + kEdge) * (columns + kEdge) * kOfLargest;
}

std::string_view GemmClass::tile_name() const {
  return std::visit([](const auto& it) { return it.name; }, tile);
}
int GemmClass::tile_rows() const {
  return std::visit([](const auto& it) { return it.rows(); }, tile);
}
int GemmClass::tile_columns() const {
  return std::visit([](const auto& it) { return it.columns; }, tile);
}
int GemmClass::cluster() const {
  return std::visit([](const auto& it) { return it.cluster; }, tile);
}
int GemmClass::split() const {
  return std::visit([](const auto& it) { return it.split; }, tile);
}
int GemmClass::row_blocks() const {
  return std::visit([](const auto& it) { return it.row_blocks; }, tile);
}
int GemmClass::stages() const {
  return std::visit([](const auto& it) { return it.stages; }, tile);
}
int GemmClass::threads() const {
  return std::visit([](const auto& it) { return it.kThreads; }, tile);
}
int GemmClass::depth_bytes() const {
  return std::visit([](const auto& it) { return it.kDepthBytes; }, tile);
}

int GemmClass::promoted_depth() const {
  constexpr int kInstructionBytes = 32;
  return (warp_group_tile() != nullptr ? depth_bytes() : kInstructionBytes) / static_cast<int>(size_of(factor));
}

int GemmClass::most_exchanged() const {
  const int second = groups->reduced_second;
  return std::max(static_cast<int>(reductions.size()) - second, second);
}

int GemmClass::left_box_rows() const {
  constexpr int kOfAnyCluster = 16;
  constexpr int kTransposed = 64;  // a row of the swizzle has them
  if (left_transposed) return kTransposed;
  const int blocks = std::max(row_blocks(), 1);
  return tile_rows() % blocks == 0 ? tile_rows() / blocks : kOfAnyCluster;
}

int GemmClass::subtile_columns() const {
  return warp_group_tile() != nullptr ? WarpGroupTile::kSubtileColumns : result_columns() / 2;
}

int GemmClass::row_partials() const { return warp_group_tile() != nullptr ? split() : 2; }

int GemmClass::reduced_rows() const { return warp_group_tile() != nullptr ? 64 : tile_rows() / 2; }

int GemmClass::count(GemmRole role) const {
  return static_cast<int>(std::ranges::count(operands, role, &GemmOperand::role));
}

int GemmClass::count(GemmScope scope) const {
  return static_cast<int>(std::ranges::count(reductions, scope, &GemmReduction::scope));
}

int GemmClass::number_of(std::size_t reduction) const {
  const GemmScope scope = reductions[reduction].scope;
  int number = scope == GemmScope::column ? count(GemmScope::row) : 0;  // groups stand alone
  for (std::size_t i = 0; i < reduction; ++i) number += reductions[i].scope == scope ? 1 : 0;
  return number;
}

int GemmClass::input_at(int number) const {
  int at = 0;
  for (const GemmOperand& operand : operands) {
    if (operand.role == GemmRole::tile && operand.number < number) at += subtile_bytes(operand.dtype);
  }
  return at;
}

int GemmClass::result_at() const {
  const auto first = std::ranges::find(operands, GemmRole::tile, &GemmOperand::role);
  return first == operands.end() || size_of(first->dtype) == size_of(result) ? 0 : input_bytes();
}

int GemmClass::slot_bytes() const { return std::max(input_bytes(), result_at() + subtile_bytes(result)); }

std::int64_t GemmClass::warps_reduced_bytes() const {
  constexpr int kWarps = 4;
  // The rows of two blocks: one is read while the next is written.
  const int of_a_warp =
      joins_warps() ? 2 * 16 * static_cast<int>(reductions.size()) : count(GemmScope::column) * subtile_columns();
  return std::int64_t{kWarps} * of_a_warp * 4;
}

std::int64_t GemmClass::shared_bytes() const {
  const std::int64_t staged = std::int64_t{stages()} * (tile_rows() + tile_columns()) * depth_bytes();
  const std::int64_t row_vectors = std::int64_t{count(GemmRole::row)} * result_columns() * 4;
  if (warp_tile() != nullptr)
    return staged + row_vectors + std::int64_t{count(GemmRole::column)} * tile_rows() * 4 + warps_reduced_bytes();
  // Each warp group that multiplies has slots and vectors of its own, and of each slot's columns what its four warps
  // reduced them to; each stage has two barriers, and each slot one.
  const std::int64_t reduced_columns = std::int64_t{count(GemmScope::column)} * 4 * subtile_columns() * 4;
  // What a row's blocks give each other, of the exchange at hand and of the next, with a barrier for each.
  const bool exchanges = row_blocks() > 1;
  const std::int64_t exchanged = exchanges ? std::int64_t{2} * row_blocks() * most_exchanged() * 64 * 4 : 0;
  return staged + 2 * (std::int64_t{slots} * (slot_bytes() + reduced_columns) + row_vectors + exchanged) +
         (2 * stages() + 2 * slots + (exchanges ? 4 : 0)) * 8;
}

}  // namespace epifuse::plan
