// A matrix product that hosts a chain: result = chain(left @ right^T, operands). The planner says how blocks divide the
// result, what each operand is to its tiles, and which boxes of tensors the kernel copies. Called by inside.cpp;
// codegen/gemm/ writes the kernel.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>
#include <vector>

#include <epifuse/tensor.hpp>

#include "base/inline_vector.hpp"
#include "ir/program.hpp"
#include "plan/bind/products.hpp"
#include "plan/device/machine.hpp"
#include "plan/gemm/patches.hpp"
#include "plan/kernel_class.hpp"

namespace epifuse::plan {

/// Of sm_90a: one warp group of a block copies, two multiply by wgmma. How these share the result. Tiles are 128 bytes
/// deep.
struct WarpGroupTile {
  static constexpr int kThreads = 384;
  static constexpr int kDepthBytes = 128;
  static constexpr int kSubtileColumns = 32;

  std::string_view name;  ///< for people
  bool takes_turns;       ///< each of the two warp groups that multiply has tiles of its own; else they share each
  int blocks;             ///< of 64 rows, that a warp group has at a time
  int columns;            ///< of all products together
  int cluster;            ///< blocks below each other that copy the right operand for each other
  int split;              ///< blocks of a cluster that share the depth of one tile, each with columns of its chain
  int stages;             ///< tiles of both operands on their way
  double pace;            ///< what products take for each of its elements, in times of the tile that takes the least
  int row_blocks = 0;     ///< blocks of a cluster that have the tiles of whole rows beside each other; 0: any tiles

  constexpr int rows() const { return 64 * blocks * (takes_turns ? 1 : 2); }

  static constexpr auto fields() {
    return std::tuple{Field{"takes_turns", &WarpGroupTile::takes_turns},
                      Field{"blocks", &WarpGroupTile::blocks},
                      Field{"columns", &WarpGroupTile::columns},
                      Field{"cluster", &WarpGroupTile::cluster},
                      Field{"split", &WarpGroupTile::split},
                      Field{"stages", &WarpGroupTile::stages},
                      Field{"row_blocks", &WarpGroupTile::row_blocks}};
  }
};

/// Of sm_80 to sm_89 and sm_120: a block of four warps has one tile, and each warp a quarter of it, which it multiplies
/// by mma.sync. Tiles are 64 bytes deep.
struct WarpTile {
  static constexpr int kThreads = 128;
  static constexpr int kDepthBytes = 64;
  static constexpr int cluster = 1, split = 1, row_blocks = 0;

  std::string_view name;
  int tile_rows;
  int columns;  ///< of all products together
  int stages;
  int per_multiprocessor;  ///< blocks that run at a time on one

  int rows() const { return tile_rows; }

  static constexpr auto fields() {
    return std::tuple{Field{"tile_rows", &WarpTile::tile_rows}, Field{"columns", &WarpTile::columns},
                      Field{"stages", &WarpTile::stages}, Field{"per_multiprocessor", &WarpTile::per_multiprocessor}};
  }
};

/// What an operand of the chain is to the result [batch, rows, columns].
enum class GemmRole : std::uint8_t {
  product,  ///< a product
  tile,     ///< a value for each element, which passes through shared memory
  row,      ///< a value for each column, or one for all
  column,   ///< a value for each row
};

struct GemmOperand {
  GemmRole role;
  DType dtype;
  int number;  ///< among the operands of its role

  static constexpr auto fields() {
    return std::tuple{Field{"role", &GemmOperand::role}, Field{"", &GemmOperand::dtype},
                      Field{"number", &GemmOperand::number}};
  }
};

/// Which elements of the result a partial result of a reduction is of.
enum class GemmScope : std::uint8_t {
  row,        ///< of a row, those in columns of a tile
  column,     ///< of a column, those in rows of a tile
  group,      ///< of a row, those of a group of columns: all of them, so that the chain goes on with what they make
  whole_row,  ///< all of a row, whose tiles a cluster has: the chain goes on likewise
};

/// A value of the chain that the kernel reduces, in f32.
struct GemmReduction {
  ir::Op op;  ///< sum, amax or amin; of whole rows also mean
  GemmScope scope;

  static constexpr auto fields() {
    return std::tuple{Field{"op", &GemmReduction::op}, Field{"scope", &GemmReduction::scope}};
  }
};
inline constexpr std::size_t kMostGemmReductions = 4;
using GemmReductions = base::InlineVector<GemmReduction, kMostGemmReductions>;

/// Chains that go on where groups of columns, or whole rows, are reduced. The chain's first result is held for them,
/// and the others are reduced. Those of whole rows also read vectors, by the names of the chain's operands.
struct GemmGroups {
  int columns = 0;       ///< of a group; 0: groups are whole rows
  ir::Program elements;  ///< of the held value, and of what its group is reduced to: the tensor
  ir::Program scales;    ///< of the latter: results with a value for each group; without results if there are none
  /// Of whole rows, and of the held value and what its row is reduced to first: what is held from there on, and what is
  /// reduced second; without results if nothing is.
  ir::Program second = {};

  int reduced_second() const { return second.results().empty() ? 0 : static_cast<int>(second.results().size()) - 1; }
};

/// Which lines of a factor have a scale of their own for each 128 numbers of the depth: its rows, or the columns of a
/// right one.
enum class ScaledLines : std::uint8_t {
  none,
  each,
  blocks,  ///< of 128
};

/// Scales of the left factor, and of each product's right one; perhaps of one side alone.
struct GemmScaling {
  std::optional<ScaleView> left = std::nullopt;
  std::vector<ScaleView> rights = {};

  bool is_empty() const { return !left && rights.empty(); }
};

/// What a chain has beside a value for each element.
struct GemmHost {
  GemmReductions reductions = {};
  std::shared_ptr<const GemmGroups> groups = nullptr;
  std::vector<OutputView> scales = {};  ///< of `groups->scales`: [rows, groups], or with a batch in front
  GemmScaling scaling = {};             ///< of the factors
};

/// What decides the text of a kernel that goes on with groups of columns, or with whole rows.
struct GemmGroupClass {
  int columns = 0;
  KernelClass elements, scales;
  base::InlineVector<std::uint64_t, 4> chains;  ///< their fingerprints
  base::InlineVector<DType, 4> results;         ///< of the scales
  int reduced_second = 0;                       ///< reductions of whole rows that read what others made
  KernelClass second;

  static constexpr auto fields() {
    return std::tuple{
        Field{"columns", &GemmGroupClass::columns}, Field{"elements", &GemmGroupClass::elements},
        Field{"scales", &GemmGroupClass::scales},   Field{"chains", &GemmGroupClass::chains},
        Field{"results", &GemmGroupClass::results}, Field{"reduced_second", &GemmGroupClass::reduced_second},
        Field{"second", &GemmGroupClass::second}};
  }
};

/// All that decides the text of the kernel, beside the chain.
struct GemmClass {
  std::variant<WarpGroupTile, WarpTile> tile;  ///< and with it the family of kernels
  int slots;             ///< sub-tiles of the result that a warp group, or four warps, have in shared memory
  DType factor;          ///< of both factors: f16, bf16, f8e4m3, f8e5m2, i8, or f32 as TF32
  DType result;          ///< likewise, or f32 or u8
  bool has_windows;      ///< the rows of the left factor are windows of images
  bool left_transposed;  ///< its rows are contiguous, not its depth
  bool right_transposed;
  ScaledLines left_scales = ScaledLines::none, right_scales = ScaledLines::none;
  base::InlineVector<GemmOperand, 8> operands;  ///< by input of the chain
  GemmReductions reductions;                    ///< by result of the chain behind the first, which is the tensor
  std::optional<GemmGroupClass> groups;
  /// The code of the chain stands once for each sub-tile of a tile, else once for each 64 rows, or once where warps
  /// multiply.
  bool unrolls = true;
  KernelClass chain;  ///< of the chain as a kernel of its own: how exact it has to be

  /// Null where the kernel is of the other family.
  const WarpGroupTile* warp_group_tile() const { return std::get_if<WarpGroupTile>(&tile); }
  const WarpTile* warp_tile() const { return std::get_if<WarpTile>(&tile); }
  std::string_view tile_name() const;
  /// Of the result, and of all products.
  int tile_rows() const;
  int tile_columns() const;
  int cluster() const;
  int split() const;
  int stages() const;
  int threads() const;
  /// Blocks of a cluster that have the tiles of whole rows; 0 where rows are not whole.
  int row_blocks() const;
  /// That run together on multiprocessors beside each other.
  int blocks_of_cluster() const { return cluster() * split() * std::max(row_blocks(), 1); }

  int count(GemmRole role) const;
  int count(GemmScope scope) const;
  /// Of a reduction among all, those of rows first.
  int number_of(std::size_t reduction) const;
  /// Whether the chain goes on with what whole rows are reduced to.
  bool has_whole_rows() const { return groups && groups->columns == 0; }
  /// Of whole rows: the most values of a row that blocks give each other at a time.
  int most_exchanged() const;
  /// Rows of the left tile that a block copies at a time: for all blocks of its cluster, which have the same rows.
  int left_box_rows() const;
  /// Of a group; 0 where there are none.
  int group_columns() const { return groups ? groups->columns : 0; }
  /// Of the result, that a tile is of.
  int result_columns() const { return tile_columns() / count(GemmRole::product); }
  /// Of these, whose chain one block runs.
  int chain_columns() const { return result_columns() / split(); }
  /// Of a tile, along the depth.
  int depth_bytes() const;
  int depth() const { return depth_bytes() / static_cast<int>(size_of(factor)); }
  /// Of sums: i32 of i8, else f32.
  DType sums() const { return factor == DType::i8 ? DType::i32 : DType::f32; }
  /// Whether sums are taken out of the tensor cores, which keep few bits of sums of 8-bit floating-point numbers, and
  /// added in f32.
  bool promotes() const { return factor == DType::f8e4m3 || factor == DType::f8e5m2; }
  /// Numbers of the depth whose sums are taken out at a time.
  int promoted_depth() const;
  /// Whether they are multiplied by scales then.
  bool is_scaled() const { return left_scales != ScaledLines::none || right_scales != ScaledLines::none; }
  /// Whether all scales of the next 128 numbers wait in registers. 256 columns that have scales of their own leave none
  /// for that.
  bool prefetches_scales() const { return prefetches_scales(right_scales, tile_columns()); }
  static bool prefetches_scales(ScaledLines right, int columns) { return right != ScaledLines::each || columns <= 128; }
  /// Columns of one instruction of warp groups. Sums that are taken out need registers beside the others.
  int instruction_columns() const { return promotes() ? std::min(tile_columns(), 128) : tile_columns(); }
  /// Of a sub-tile of the result, which has 64 rows: those of four warps.
  int subtile_columns() const;
  /// Partial results of a row that a tile leaves: one of each block or warp that has columns of it.
  int row_partials() const;
  /// Rows of a tile that a partial result of a column is of.
  int reduced_rows() const;
  /// Whether a group has more columns than a warp: the two beside each other meet for it.
  bool joins_warps() const { return warp_tile() != nullptr && group_columns() > subtile_columns(); }
  int subtile_bytes(DType type) const { return 64 * subtile_columns() * static_cast<int>(size_of(type)); }
  /// Of a sub-tile of all operands that have a value for each element; and where in a slot that of one begins.
  int input_bytes() const { return input_at(count(GemmRole::tile)); }
  int input_at(int number) const;
  /// Where a slot has the result's sub-tile: in the place of the first operand's, where its numbers have the same size.
  int result_at() const;
  int slot_bytes() const;
  /// Of a block whose warps multiply: what each warp reduces columns to, or its columns of a group.
  std::int64_t warps_reduced_bytes() const;
  std::int64_t shared_bytes() const;

  static constexpr auto fields() {
    return std::tuple{Field{"tile", &GemmClass::tile},
                      Field{"slots", &GemmClass::slots},
                      Field{"factor", &GemmClass::factor},
                      Field{"result", &GemmClass::result},
                      Field{"has_windows", &GemmClass::has_windows},
                      Field{"left_transposed", &GemmClass::left_transposed},
                      Field{"right_transposed", &GemmClass::right_transposed},
                      Field{"left_scales", &GemmClass::left_scales},
                      Field{"right_scales", &GemmClass::right_scales},
                      Field{"operands", &GemmClass::operands},
                      Field{"reductions", &GemmClass::reductions},
                      Field{"groups", &GemmClass::groups},
                      Field{"unrolls", &GemmClass::unrolls},
                      Field{"chain", &GemmClass::chain}};
  }
};

/// A tensor of three dimensions, or of four, as a kernel copies tiles of it: the innermost dimension first, and
/// contiguous. A fourth one that is not there has one element.
struct GemmMap {
  const void* data;
  DType dtype;
  std::array<std::int64_t, 4> extents;
  std::array<std::int64_t, 3> strides;  ///< of the others, in bytes
  /// Of warp groups alone, which copy boxes by TMA:
  std::array<int, 4> box;  ///< elements that are copied
  int swizzle;             ///< 32, 64 or 128 bytes: those of a row of the box
  int rank = 3;
  std::array<int, 4> steps = {1, 1, 1, 1};  ///< from one of these elements to the next
};

/// A vector that threads read themselves: strides in elements, along the batch and along the vector.
struct GemmVector {
  const void* data;
  std::int64_t batch_stride, stride;
};

/// Scales of a factor: strides in elements, along its lines or blocks of them, and along blocks of the depth.
struct GemmFactorScales {
  const void* data;
  std::int64_t line_stride, depth_stride;
  std::int64_t count;
};

/// Partial results of one reduction: f32 [count, extent].
struct GemmPartials {
  std::int64_t
      count;  ///< of one value: blocks or warps beside each other, or runs of rows below each other in all batches
  std::int64_t extent;  ///< rows of all batches, or columns

  std::int64_t bytes() const { return count * extent * static_cast<std::int64_t>(sizeof(float)); }
};

/// A result with a value for each group of columns: strides in elements.
struct GemmScales {
  void* data;
  std::int64_t batch_stride, row_stride, group_stride;
};

struct GemmPlan {
  GemmClass gemm_class;
  std::vector<ir::Kind> input_kinds;  ///< of the chain's operands
  std::int64_t rows, columns, depth, batches;
  std::int64_t cluster_rows, tile_columns, tiles;  ///< tiles of clusters, in all
  int band;                                        ///< rows of clusters that are worked on column by column
  int blocks;                                      ///< of the grid
  std::optional<Convolution> convolution;          ///< then rows are pixels, of warp groups those of patches
  std::vector<GemmMap> maps;  ///< left, right of each product, result, then the operands that are tiles
  std::vector<GemmVector> row_vectors, column_vectors;
  std::vector<GemmFactorScales> factor_scales;  ///< of the left factor, then of the right ones; those that there are
  std::shared_ptr<const GemmGroups> groups;
  std::vector<GemmScales> scales;
  std::vector<GemmPartials> partials;  ///< by reduction of rows or columns; they lie behind each other in the workspace
  std::byte* workspace = nullptr;      ///< of partial_bytes() bytes

  std::int64_t partial_bytes() const { return partials_at(partials.size()); }
  /// Where in the workspace those of a reduction begin, at a multiple of 256 bytes.
  std::int64_t partials_at(std::size_t reduction) const;

  /// The same of other memory, of which all else is equal. `inputs` are those of the chain, `scales` those of groups.
  /// Throws Error(invalid_argument) where the result overlaps what is still to be read.
  void move_to(const TensorView& left, std::span<const TensorView> right, const OutputView& output,
               std::span<const TensorView> inputs, const ir::Program& program, std::span<const OutputView> scales = {},
               const GemmScaling& scaling = {});
};

/// `product` names the operand of the chain that stands for left @ right^T; its own view in `inputs` is not looked at.
/// `left` is [rows, depth], `right` [columns, depth], as in torch.nn.functional.linear, both perhaps with a batch in
/// front. Throws Error(invalid_argument) for what does not fit, and Error(unsupported) for what this kernel does not
/// do.
GemmPlan plan_gemm(const ir::Program& program, std::string_view product, const TensorView& left,
                   const TensorView& right, const OutputView& output, std::span<const TensorView> inputs,
                   const Machine& machine);
/// The same of one or two products of `left`, with a right factor each, of equal shapes. The program has a result for
/// `output`, and behind it one for each of `host.reductions`.
GemmPlan plan_gemm(const ir::Program& program, std::span<const std::string_view> products, const TensorView& left,
                   std::span<const TensorView> right, const OutputView& output, std::span<const TensorView> inputs,
                   const Machine& machine, const GemmHost& host = {});
/// The same of one or two convolutions. Dimensions stand in the order of a channels-last tensor: `images` are
/// [N, H, W, C], `filters` [K, R, S, C], the result and the chain's operands [N, OH, OW, K].
GemmPlan plan_convolution(const ir::Program& program, std::span<const std::string_view> products,
                          const ir::Windows2d& windows, const TensorView& images, std::span<const TensorView> filters,
                          const OutputView& output, std::span<const TensorView> inputs, const Machine& machine);
/// The most products of one left factor that a kernel computes.
inline constexpr std::size_t kMostProducts = 2;

/// The class for people, in a line: "gemm 128 x 256, shared by both warp groups".
std::string name_of(const GemmClass& gemm_class);

}  // namespace epifuse::plan
