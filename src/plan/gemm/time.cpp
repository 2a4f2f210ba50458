// Counts what each way must do, and divides by rates. docs/internals/plan/gemm.md has the estimates beside measured
// times.
#include "plan/gemm/time.hpp"

#include <algorithm>
#include <array>

#include "plan/analysis/accuracy.hpp"
#include "plan/gemm/tiles.hpp"
#include "plan/planning.hpp"

namespace epifuse::plan {
namespace {

// Of a multiprocessor of an H100 at the clock that it keeps under such a load, as measured with products of 8192 x 8192
// x 8192 (bench/products.py).
constexpr double kFlops16 = 5.3e12;      // of 16-bit numbers, in a second
constexpr double kFlops8 = 9.3e12;       // of 8-bit ones
constexpr double kInstructions = 190e9;  // 128 lanes at 1.5 GHz, in a second
constexpr double kTileBytes = 80e9;      // that copies bring from the L2 cache in a second, while others copy too
constexpr double kShare =
    0.71;  // of the data sheet's rate of tensor cores that this is, and that others are taken to keep
constexpr double kMemory = 0.93;         // of the bandwidth of the data sheet is what copies reach
constexpr double kStart = 3e-6;          // seconds until the first stage is there, and after the last store
constexpr double kSecondStart = 2.8e-6;  // between the product's kernel and the chain's
constexpr double kSecondLaunch = 2e-6;   // of the host, which calls cuBLASLt and then launches the chain's kernel
// For each element beside the chain's own: conversions, shared memory, addresses.
constexpr int kStoreInstructions = 12;

class Estimate {
 public:
  Estimate(const GemmPlan& plan, const ir::Program& chain, double operand_bytes, const Machine& machine)
      : plan_(plan), made_(plan.gemm_class), machine_(machine), products_(made_.count(GemmRole::product)) {
    factor_bytes_ = static_cast<double>(plan.batches * plan.depth * (plan.rows + products_ * plan.columns)) *
                    static_cast<double>(size_of(made_.factor));
    stages_ = static_cast<double>(divide_up(plan.depth, made_.depth()));
    elements_ = static_cast<double>(plan.batches * plan.rows * plan.columns);
    result_bytes_ = elements_ * static_cast<double>(size_of(made_.result));
    operand_bytes_ = operand_bytes;
    instructions_ = instructions_of(chain, choose_arithmetic(chain, made_.chain)) + kStoreInstructions;
  }

  double inside() const {
    const auto* const tile = made_.warp_group_tile();
    const double tiles = tile != nullptr ? tiles_of(*tile) : tiles_of(*made_.warp_tile());
    return kStart + std::max(tiles, memory(factor_bytes_ + operand_bytes_ + result_bytes_));
  }

  double apart() const {
    const double product_bytes = elements_ * products_ * (size_of(made_.factor) == 2 ? 2 : 4);
    const double product = std::max(best_tiling(), memory(factor_bytes_ + product_bytes));
    const double chain = std::max(memory(product_bytes + operand_bytes_ + result_bytes_),
                                  elements_ * instructions_ / instruction_rate() / machine_.multiprocessors);
    return kStart + product + kSecondStart + kSecondLaunch + chain;
  }

 private:
  bool has_warp_groups() const { return made_.warp_group_tile() != nullptr; }
  double flops() const {
    if (has_warp_groups()) return size_of(made_.factor) == 2 ? kFlops16 : kFlops8;
    return kShare * machine_.tensor_flops * (size_of(made_.factor) == 2 ? 1 : 2);
  }
  double instruction_rate() const { return has_warp_groups() ? kInstructions : machine_.instructions; }
  double chain_of_a_tile() const {
    return made_.tile_rows() * made_.result_columns() * instructions_ / instruction_rate();
  }

  // All tiles, one round after another.
  double tiles_of(const WarpGroupTile& tile) const {
    const double products = stages_ * stage(tile.rows(), tile.columns, tile.cluster);
    const double chain = chain_of_a_tile();
    // One warp group's chain runs beside the other's products.
    const double of_a_tile = tile.takes_turns ? std::max(products, chain) : products + chain;
    const auto rounds = static_cast<double>(divide_up(plan_.tiles * tile.cluster, plan_.blocks));
    const double last = tile.takes_turns ? chain : 0;
    return rounds * of_a_tile + last;
  }
  // Blocks of a multiprocessor share its tensor cores: the chain of one runs beside the products of another.
  double tiles_of(const WarpTile& tile) const {
    const double products = stages_ * stage(tile.rows(), tile.columns, tile.cluster);
    const double chain = chain_of_a_tile();
    const auto rounds = static_cast<double>(divide_up(plan_.tiles, machine_.multiprocessors));
    if (tile.per_multiprocessor == 1) return rounds * (products + chain);
    return rounds * std::max(products, chain) + std::min(products, chain);
  }

  double memory(double bytes) const { return bytes / (kMemory * machine_.bandwidth); }

  // Products of one stage of a tile, or what its copies take.
  double stage(int rows, int columns, int cluster) const {
    if (!has_warp_groups()) return 2.0 * work_of_warps(rows, columns) * made_.depth() / flops();
    const double products = 2.0 * rows * columns * made_.depth() / flops();
    const double bytes = 128.0 * (rows + columns / cluster);
    return std::max(products, bytes / kTileBytes);
  }

  // cuBLASLt has tiles of all sizes, and cuts the depth where there are few of them.
  double best_tiling() const {
    static constexpr auto kTilings = std::to_array<std::array<int, 2>>({{128, 256}, {128, 128}, {64, 128}, {64, 64}});
    double best = 0;
    for (const auto& [rows, columns] : kTilings) {
      const std::int64_t tiles =
          plan_.batches * divide_up(plan_.rows, rows) * divide_up(plan_.columns * products_, columns);
      const double rounds = tiles < machine_.multiprocessors
                                ? std::max(static_cast<double>(tiles) / machine_.multiprocessors, 1 / stages_)
                                : static_cast<double>(divide_up(tiles, machine_.multiprocessors));
      const double time = rounds * stages_ * stage(rows, columns, 1);
      if (best == 0 || time < best) best = time;
    }
    return best;
  }

  const GemmPlan& plan_;
  const GemmClass& made_;
  const Machine& machine_;
  int products_;
  double stages_, factor_bytes_, elements_, result_bytes_, operand_bytes_;
  int instructions_;
};

}  // namespace

ProductTimes estimate(const GemmPlan& plan, const ir::Program& chain, double operand_bytes, const Machine& machine) {
  const Estimate of(plan, chain, operand_bytes, machine);
  return {of.inside(), of.apart()};
}

}  // namespace epifuse::plan
