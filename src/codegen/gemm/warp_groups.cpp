// The family of sm_90a: templates/gemm/gemm.cuh.
#include "codegen/gemm/family.hpp"

namespace epifuse::codegen {
namespace {

using plan::GemmRole;

class WarpGroups : public Family {
 public:
  WarpGroups(const plan::GemmClass& made, const plan::WarpGroupTile& tile) : Family(made), tile_(tile) {}

  std::string_view architecture() const override { return "sm_90a"; }

  std::string settings() const override {
    std::string out;
    add(out, "bool", "kTakesTurns", tile_.takes_turns, "each warp group that multiplies has tiles of its own");
    add(out, "int", "kBlocks", tile_.blocks, "of 64 rows, that a warp group has at a time");
    add(out, "int", "kTileN", tile_.columns, "columns of a tile");
    add(out, "int", "kProducts", made_.count(GemmRole::product), "of one left factor, which share a tile's columns");
    add(out, "int", "kCluster", tile_.cluster, "blocks that copy the right operand for each other");
    add(out, "int", "kSplit", tile_.split, "blocks that share the depth of a tile");
    add(out, "int", "kStages", tile_.stages, "tiles of both factors on their way");
    add(out, "bool", "kUnrolls", made_.unrolls, "the chain's code stands once for each sub-tile");
    add(out, "int", "kSlots", made_.slots, "sub-tiles of the result that a warp group has in shared memory");
    add_operands(out);
    add(out, "int", "kInstructionN", made_.instruction_columns(), "columns that one instruction multiplies");
    add(out, "bool", "kPromotes", made_.promotes(), "sums of each stage are added in f32");
    add(out, "bool", "kIntegers", is_integer(), "sums are integers");
    add(out, "int", "kInputBytes", made_.input_bytes(), "of a sub-tile of all operands with a value for each element");
    add_layout(out);
    if (made_.has_whole_rows()) {
      const int second = made_.groups->reduced_second;
      add(out, "int", "kRowBlocks", made_.row_blocks(), "blocks of a cluster that have the tiles of a row");
      add(out, "int", "kLeftBoxRows", made_.left_box_rows(),
          "of the left operand, that a block copies for all of them");
      add(out, "int", "kReducedFirst", static_cast<int>(made_.reductions.size()) - second,
          "values that rows are reduced to at first, of kPartials");
      add(out, "int", "kMostExchanged", made_.most_exchanged(), "values of a row that blocks exchange at a time");
    } else {
      out += "//@let kRowBlocks = 0\n";
    }
    out += fmt::format("//@let kWindows = {}\n", made_.has_windows);
    add_scales(out, 64, made_.result_columns());
    return out + "\n";
  }

  std::vector<std::string_view> instructions() const override {
    std::vector<std::string_view> all = {"gemm_layout", "shared_barriers", "clusters", "tensor_maps"};
    if (tile_.split > 1) all.emplace_back("distributed_sums");
    if (made_.row_blocks() > 1) all.emplace_back("row_blocks");
    if (made_.has_windows) all.emplace_back("pixel_maps");
    all.insert(all.end(), {"matrices", "products"});
    return all;
  }
  std::string_view boxes() const override { return "boxes"; }
  std::string_view skeleton() const override { return "gemm"; }

  std::string_view tensor_name() const override { return "TensorMap"; }
  std::string tensor() const override { return {}; }
  std::string_view numbers() const override {
    if (made_.has_windows)
      return "  int m, n;  // rows of all patches, and channels of the result\n  int k_blocks;  // tiles along the "
             "depth\n"
             "  int cluster_rows, tile_columns, tiles;\n  int band;  // rows of clusters\n"
             "  int channels, filter_width;  // of the images, and of the filters in pixels\n"
             "  int patches_across, patches_down;  // of an image of the result\n"
             "  int width_shift, height_shift;  // a patch has 1 << these pixels\n"
             "  int stride_x, stride_y, padding_x, padding_y, dilation_x, dilation_y;\n";
    return "  int m, n;  // of the result\n  int k_blocks;  // tiles along the depth\n"
           "  int cluster_rows, tile_columns, tiles;  // of a batch, and of all\n  int band;  // rows of clusters\n";
  }

  std::string places_of_inputs() const override {
    std::string places;
    for (const plan::GemmOperand& operand : made_.operands) {
      if (operand.role != GemmRole::tile) continue;
      const int at = made_.input_at(operand.number);
      if (at > 0) places += fmt::format("  if (input == {}) return {};\n", operand.number, at);
    }
    return fmt::format(
        "// Where a slot holds an operand's sub-tile, in bytes.\n"
        "__device__ __forceinline__ int input_at(int input) {{\n{}  return 0;\n}}\n\n",
        places);
  }
  std::string_view store_halves() const override { return "store_halves"; }
  std::string store_to_memory() const override { return {}; }

  // The instruction takes as many registers as a thread has sums, each by its name.
  std::string multiply() const override {
    const int columns = made_.instruction_columns();
    const int sums = columns / 2;
    std::string names;
    std::string registers;
    for (int i = 0; i < sums; ++i) {
      const bool ends = i % 16 == 15;
      names += fmt::format("%{}{}", i, i + 1 == sums ? "" : ends ? ", \"\n      \"" : ", ");
      registers += fmt::format("\"+{}\"(sums[{}]){}", is_integer() ? 'r' : 'f', i,
                               i + 1 == sums ? ""
                               : i % 8 == 7  ? ",\n        "
                                             : ", ");
    }
    // Integers have no signs to choose, and only 16-bit numbers may stand either way.
    std::string choices = is_integer() ? "" : ", 1, 1";
    if (size_of(made_.factor) == 2)
      choices += fmt::format(", {:d}, {:d}", made_.left_transposed, made_.right_transposed);
    return fmt::format(
        "// sums = left * right + (adds ? sums : 0), for 64 rows and {0} columns, {1} numbers deep. The factors are "
        "matrix "
        "descriptors.\n"
        "__device__ __forceinline__ void multiply(Sum (&sums)[{2}], unsigned long long left, unsigned long long "
        "right, "
        "bool adds) {{\n#if defined(__CUDACC__)\n  asm volatile(\n      \"{{\\n\"\n      \".reg .pred adds;\\n\"\n"
        "      \"setp.ne.b32 adds, %{3}, 0;\\n\"\n"
        "      \"wgmma.mma_async.sync.aligned.m64n{0}k{1}.{4}.{5}.{5} {{\"\n      \"{6}}}, \"\n"
        "      \"%{2}, %{7}, adds{8};\\n\"\n      \"}}\"\n      : {9}\n"
        "      : \"l\"(left), \"l\"(right), \"r\"(static_cast<int>(adds)));\n#else\n"
        "  multiply_by_model<{10}, {11:d}, {12:d}>(sums, left, right, adds, [](unsigned bits) {{\n"
        "    return {13};\n  }});\n#endif\n}}\n\n",
        columns, 32 / size_of(made_.factor), sums, sums + 2, is_integer() ? "s32" : "f32", factor_in_ptx(), names,
        sums + 1, choices, registers, size_of(made_.factor), made_.left_transposed, made_.right_transposed,
        number_of_bits());
  }

  std::string entry(const std::string& name) const override {
    return fmt::format(
        "extern \"C\" __global__ void __attribute__((cluster_dims({}, 1, 1))) __launch_bounds__(384, 1) "
        "{}(const __grid_constant__ Params p) {{\n  run_gemm(p);\n}}\n",
        made_.blocks_of_cluster(), name);
  }

 private:
  const plan::WarpGroupTile& tile_;
};

}  // namespace

std::unique_ptr<const Family> family_of(const plan::GemmClass& made, const plan::WarpGroupTile& tile) {
  return std::make_unique<WarpGroups>(made, tile);
}

}  // namespace epifuse::codegen
