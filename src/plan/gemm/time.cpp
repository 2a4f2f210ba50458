// Counts what each way must do, and divides by rates. docs/internals/plan/gemm.md has the estimates beside measured
// times.
#include "plan/gemm/time.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "plan/analysis/accuracy.hpp"
#include "plan/gemm/tiles.hpp"
#include "plan/planning.hpp"

namespace epifuse::plan {
namespace {

// Of a multiprocessor of an H100 at the clock that it keeps under such a load, as measured with products of 8192 x 8192
// x 8192 (bench/products.py).
constexpr double kFlops16 = 5.3e12;      // of 16-bit numbers, in a second
constexpr double kFlops8 = 9.3e12;       // of 8-bit ones
constexpr double kFlopsTf32 = 2.6e12;    // of TF32, as on an H200 (bench/product_kinds.py)
constexpr double kInstructions = 190e9;  // 128 lanes at 1.5 GHz, in a second
// Of a chain inside a product, by both warp groups that multiply: two warps for each scheduler wait for each other's
// results more often. One group alone keeps half of it.
constexpr double kHostedInstructions = 100e9;
constexpr double kTileBytes = 80e9;  // that copies bring from the L2 cache in a second, while others copy too
constexpr double kShare =
    0.71;  // of the data sheet's rate of tensor cores that this is, and that others are taken to keep
constexpr double kMemory = 0.93;       // of the bandwidth of the data sheet is what copies reach
constexpr double kShortMemory = 0.78;  // and what a product of few rows reaches, which takes some 10 us
constexpr double kStart = 3e-6;        // seconds until the first stage is there, and after the last store
constexpr double kExchange = 3e-6;     // seconds in which blocks that share a tile's depth give each other sums
constexpr double kRowExchange = 1e-6;  // of a tile, in which the blocks of a row give each other what it is reduced to
constexpr double kSecondStart = 2.8e-6;  // between the product's kernel and the chain's
constexpr double kSecondLaunch = 2e-6;   // of the host, which calls cuBLASLt and then launches the chain's kernel
// For each element beside the chain's own: conversions, shared memory, addresses.
constexpr int kStoreInstructions = 12;

// How long tiles take: of one class, for one product.
class TileTimes {
 public:
  TileTimes(const GemmClass& made, const GemmWork& work, const Machine& machine)
      : made_(made),
        work_(work),
        machine_(machine),
        stages_(static_cast<double>(divide_up(work.depth, made.depth()))),
        has_warp_groups_(made.warp_group_tile() != nullptr) {}

  double all() const { return has_warp_groups_ ? of(*made_.warp_group_tile()) : of(*made_.warp_tile()); }

  /// What all() has of tensor cores.
  double of_products() const {
    const WarpGroupTile* const tile = made_.warp_group_tile();
    const double one = tile != nullptr ? product_of(*tile) : product_of(*made_.warp_tile());
    return rounds() * one;
  }
  /// Bytes of both factors that tiles copy. The blocks of a cluster copy what they share once.
  double copied() const {
    const int rows = made_.tile_rows() * made_.cluster();
    const int columns = made_.tile_columns() * std::max(made_.row_blocks(), 1);
    return static_cast<double>(tiles_of(made_, work_)) * stages_ * made_.depth() * (rows + columns) *
           static_cast<double>(size_of(made_.factor));
  }

  /// Elements of tiles in `rounds`, one of `rows` and `columns` after another, whose products keep `pace`.
  double products(double rounds, int rows, int columns, double pace) const {
    const double elements = has_warp_groups_ ? rows * columns * pace : work_of_warps(rows, columns);
    return rounds * stages_ * 2.0 * elements * made_.depth() / flops();
  }
  double instruction_rate() const { return has_warp_groups_ ? kInstructions : machine_.instructions; }
  double stages() const { return stages_; }
  /// What blocks that share a tile's depth do when all factors have been read.
  double after_products() const { return made_.split() > 1 ? kExchange + hosted_chain() / made_.split() : 0; }
  bool has_warp_groups() const { return has_warp_groups_; }

 private:
  double flops() const {
    const auto bytes = static_cast<int>(size_of(made_.factor));
    if (has_warp_groups_) return bytes == 4 ? kFlopsTf32 : bytes == 2 ? kFlops16 : kFlops8;
    return kShare * machine_.tensor_flops * 2 / bytes;
  }
  /// Of a tile, by both warp groups.
  double hosted_chain() const {
    return elements_of_a_tile() * (work_.instructions + kHostedStoreInstructions) / kHostedInstructions;
  }
  /// Of what rows are reduced to.
  double exchanges() const { return made_.groups->reduced_second > 0 ? 2 : 1; }
  double elements_of_a_tile() const { return static_cast<double>(made_.tile_rows()) * made_.result_columns(); }

  // Of one tile.
  double product_of(const WarpGroupTile& tile) const {
    return products(1, tile.rows(), tile.columns, tile.pace) / tile.split;
  }
  double product_of(const WarpTile& tile) const { return products(1, tile.rows(), tile.columns, 1); }
  // Of tiles, or of clusters of them.
  double rounds() const {
    const std::int64_t at_once = has_warp_groups_ ? clusters_at_once(made_, machine_) : machine_.multiprocessors;
    return static_cast<double>(divide_up(tiles_of(made_, work_), at_once));
  }

  // A cluster's blocks have a tile each, or a share of its depth and of its chain. Where groups take turns, one's chain
  // runs beside the other's products, and the last chain beside none.
  double of(const WarpGroupTile& tile) const {
    const double product = product_of(tile);
    if (tile.split > 1) return product + after_products();
    const double chain = hosted_chain() + (tile.row_blocks > 1 ? exchanges() * kRowExchange : 0);
    if (!tile.takes_turns) return rounds() * (product + chain);
    const double of_one_group = 2 * chain;
    return rounds() * std::max(product, (product + of_one_group) / 2) + of_one_group;
  }
  // Blocks of a multiprocessor share its tensor cores: the chain of one runs beside the products of another.
  double of(const WarpTile& tile) const {
    const double product = product_of(tile);
    const double chain = elements_of_a_tile() * (work_.instructions + kStoreInstructions) / instruction_rate();
    if (tile.per_multiprocessor == 1) return rounds() * (product + chain);
    return rounds() * std::max(product, chain) + std::min(product, chain);
  }

  const GemmClass& made_;
  const GemmWork& work_;
  const Machine& machine_;
  double stages_;
  bool has_warp_groups_;
};

class Estimate {
 public:
  Estimate(const GemmPlan& plan, const ir::Program& chain, double operand_bytes, std::size_t finishes,
           const Machine& machine)
      : made_(plan.gemm_class),
        work_{plan.batches, plan.rows, plan.columns, plan.depth, hosted_instructions(chain, plan)},
        machine_(machine),
        tiles_(made_, work_, machine),
        products_(made_.count(GemmRole::product)),
        elements_(static_cast<double>(plan.batches * plan.rows * plan.columns)),
        operand_bytes_(operand_bytes),
        finishes_(static_cast<double>(finishes)),
        partial_bytes_(static_cast<double>(plan.partial_bytes())) {
    factor_bytes_ = static_cast<double>(plan.batches * plan.depth * (plan.rows + products_ * plan.columns)) *
                    static_cast<double>(size_of(made_.factor));
    if (plan.convolution) {
      const Convolution& of = *plan.convolution;
      const auto size = static_cast<double>(size_of(made_.factor));
      const std::int64_t of_filters = of.filter_height * of.filter_width * of.channels;
      factor_bytes_ = size * static_cast<double>(of.images * of.input_height * of.input_width * of.channels +
                                                 products_ * plan.columns * of_filters);
      window_bytes_ = size * static_cast<double>(of.pixels() * of_filters);
      window_launches_ = static_cast<double>(of.filter_height * of.filter_width);
    }
    result_bytes_ = elements_ * static_cast<double>(size_of(made_.result));
  }

  ProductTimes times() const {
    const double bytes = factor_bytes_ + operand_bytes_ + result_bytes_ + partial_bytes_;
    const double reading = made_.split() > 1 ? memory(bytes) * kMemory / kShortMemory : memory(bytes);
    const double last = tiles_.after_products();
    const double inside = kStart + std::max(tiles_.all() - last, reading) + last +
                          finishes_ * (kSecondStart + kSecondLaunch) + memory(partial_bytes_);
    const double products = tiles_.of_products();
    return {inside, apart(), products, tiles_.all() - products, reading, bytes, tiles_.copied()};
  }

 private:
  double apart() const {
    const double product_bytes = elements_ * products_ * (size_of(made_.factor) == 2 ? 2 : 4);
    const double product = std::max(best_tiling(), memory(factor_bytes_ + product_bytes));
    const double instructions = elements_ * (work_.instructions + kStoreInstructions);
    const double chain = std::max(memory(product_bytes + operand_bytes_ + result_bytes_),
                                  instructions / tiles_.instruction_rate() / machine_.multiprocessors);
    const double windows = memory(2 * window_bytes_) + window_launches_ * (kSecondStart + kSecondLaunch);
    return kStart + windows + product + kSecondStart + kSecondLaunch + chain;
  }

  double memory(double bytes) const { return bytes / (kMemory * machine_.bandwidth); }

  // cuBLASLt has tiles of all sizes, and cuts the depth where there are few of them.
  double best_tiling() const {
    static constexpr auto kTilings = std::to_array<std::array<int, 2>>({{128, 256}, {128, 128}, {64, 128}, {64, 64}});
    double best = 0;
    for (const auto& [rows, columns] : kTilings) {
      const std::int64_t tiles =
          work_.batches * divide_up(work_.rows, rows) * divide_up(work_.columns * products_, columns);
      const double rounds = tiles < machine_.multiprocessors
                                ? std::max(static_cast<double>(tiles) / machine_.multiprocessors, 1 / tiles_.stages())
                                : static_cast<double>(divide_up(tiles, machine_.multiprocessors));
      double time = tiles_.products(rounds, rows, columns, 1);
      if (tiles_.has_warp_groups())
        time = std::max(time, rounds * tiles_.stages() * 128 * (rows + columns) / kTileBytes);
      if (best == 0 || time < best) best = time;
    }
    return best;
  }

  const GemmClass& made_;
  GemmWork work_;
  const Machine& machine_;
  TileTimes tiles_;
  int products_;
  double elements_, operand_bytes_;
  double finishes_, partial_bytes_;
  double factor_bytes_, result_bytes_;
  // Of a convolution apart from its chain: the matrix of its windows, and the launches that fill it.
  double window_bytes_ = 0, window_launches_ = 0;
};

// Of a chain for each element behind reductions of rows or groups. Its first operand is the held value, and the next
// are what a row was reduced to: what is made of these alone is computed once for a row.
int instructions_behind(const ir::Program& behind, const KernelClass& kernel, int reduced) {
  const Arithmetic arithmetic = choose_arithmetic(behind, kernel);
  std::vector<bool> varies(behind.nodes().size(), false);
  int instructions = 0;
  for (std::size_t i = 0; i < varies.size(); ++i) {
    const ir::Node& n = behind.nodes()[i];
    if (n.op == ir::Op::input) varies[i] = n.ordinal == 0 || n.ordinal > reduced;
    for (int k = 0; k < n.arity(); ++k)
      varies[i] = varies[i] || varies[static_cast<std::size_t>(n.args[static_cast<std::size_t>(k)])];
    if (!varies[i] || n.op == ir::Op::input) continue;
    const Formula* const formula = arithmetic.formulas[i];
    instructions += formula != nullptr ? formula->cost : ir::is_elementwise(n.op) ? ir::row(n.op).cost : 1;
  }
  return instructions;
}

}  // namespace

int hosted_instructions(const ir::Program& chain, const GemmPlan& plan) {
  const GemmClass& made = plan.gemm_class;
  const int own =
      instructions_of(chain, choose_arithmetic(chain, made.chain)) + static_cast<int>(made.reductions.size());
  if (plan.groups == nullptr) return own;
  const GemmGroupClass& groups = *made.groups;
  const int reduced = static_cast<int>(made.reductions.size());
  if (!made.has_whole_rows())
    return own + instructions_of(plan.groups->elements, choose_arithmetic(plan.groups->elements, groups.elements));
  const int second = groups.reduced_second == 0
                         ? 0
                         : instructions_behind(plan.groups->second, groups.second, reduced - groups.reduced_second);
  return own + second + instructions_behind(plan.groups->elements, groups.elements, reduced);
}

int element_instructions(int all, const GemmPlan& plan) {
  const GemmClass& made = plan.gemm_class;
  if (plan.groups == nullptr || made.has_whole_rows()) return all;
  const ir::Program& elements = plan.groups->elements;
  return all - instructions_of(elements, choose_arithmetic(elements, made.groups->elements)) +
         instructions_behind(elements, made.groups->elements, static_cast<int>(made.reductions.size()));
}

double seconds_of_tiles(const GemmClass& made, const GemmWork& work, const Machine& machine) {
  return TileTimes(made, work, machine).all();
}

ProductTimes estimate(const GemmPlan& plan, const ir::Program& chain, double operand_bytes, std::size_t finishes,
                      const Machine& machine) {
  return Estimate(plan, chain, operand_bytes, finishes, machine).times();
}

}  // namespace epifuse::plan
