// What the text of a product's kernel has of its own by how its GPU multiplies: warp groups asynchronously (sm_90a), or
// warps (sm_80 to sm_89, sm_120). For gemm.cpp, which writes what both have.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/text.hpp"
#include "plan/gemm/gemm.hpp"

namespace epifuse::codegen {

class Family {
 public:
  explicit Family(const plan::GemmClass& made) : made_(made) {}
  virtual ~Family() = default;
  Family(const Family&) = delete;
  Family& operator=(const Family&) = delete;

  /// As nvcc names the GPUs that run it.
  virtual std::string_view architecture() const = 0;
  /// The constants of the skeleton.
  virtual std::string settings() const = 0;
  /// Sections of templates/gemm/: sizes and instructions, sub-tiles, and the skeleton.
  virtual std::vector<std::string_view> instructions() const = 0;
  virtual std::string_view boxes() const = 0;
  virtual std::string_view skeleton() const = 0;
  /// The type of a tensor in Params, and its definition.
  virtual std::string_view tensor_name() const = 0;
  virtual std::string tensor() const = 0;
  /// Members of Params: the factors and the result.
  virtual std::string factors() const { return fmt::format("  {} left, right[kProducts], result;\n", tensor_name()); }
  /// Members of Params in which numbers_of() goes.
  virtual std::string_view numbers() const = 0;
  /// Where a slot has operands, and how they come there.
  virtual std::string places_of_inputs() const = 0;
  /// The function that writes two pairs of 16-bit numbers of a result to its sub-tile, and how that goes to memory.
  virtual std::string_view store_halves() const = 0;
  virtual std::string store_to_memory() const = 0;
  /// One instruction of products.
  virtual std::string multiply() const = 0;
  virtual std::string entry(const std::string& name) const = 0;

 protected:
  const plan::GemmClass& made_;

  bool is_integer() const { return made_.sums() == DType::i32; }
  /// Adds a line to settings().
  template <class T>
  static void add(std::string& settings, std::string_view type, std::string_view name, T value, std::string_view what) {
    settings += fmt::format("constexpr {} {} = {};{}{}\n", type, name, value, what.empty() ? "" : "  // ", what);
  }
  /// What both families have of constants, in two runs: how many operands there are, and where results and factors lie.
  void add_operands(std::string& settings) const;
  void add_layout(std::string& settings) const;
  /// And of scales of the factors: `rows` from one pair of a thread's rows to the next, and the columns of a product
  /// that a warp multiplies.
  void add_scales(std::string& settings, int rows, int columns) const;
  /// As PTX names the type of factors: PTX ISA, wgmma.mma_async and mma.
  std::string_view factor_in_ptx() const;
  /// The bits of a factor's number as a float, for who runs the text on the CPU.
  std::string number_of_bits() const;
};

std::unique_ptr<const Family> family_of(const plan::GemmClass& made);
/// The same, whose tile is `made.tile`.
std::unique_ptr<const Family> family_of(const plan::GemmClass& made, const plan::WarpGroupTile& tile);
std::unique_ptr<const Family> family_of(const plan::GemmClass& made, const plan::WarpTile& tile);

/// What the kernel's parameter has of extents and tiles, in the order of Family::numbers().
std::vector<std::int64_t> numbers_of(const plan::GemmPlan& plan);

}  // namespace epifuse::codegen
