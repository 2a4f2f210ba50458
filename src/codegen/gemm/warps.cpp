// The family of sm_80 to sm_89 and sm_120: templates/gemm/warp_gemm.cuh.
#include "codegen/chain.hpp"
#include "codegen/gemm/family.hpp"

namespace epifuse::codegen {
namespace {

using plan::GemmOperand;
using plan::GemmRole;

class Warps : public Family {
 public:
  Warps(const plan::GemmClass& made, const plan::WarpTile& tile) : Family(made), tile_(tile) {}

  std::string_view architecture() const override { return made_.promotes() ? "sm_89" : "sm_80"; }

  std::string settings() const override {
    std::string out;
    add(out, "int", "kTileM", tile_.tile_rows, "rows of a tile");
    add(out, "int", "kTileN", tile_.columns, "and columns");
    add(out, "int", "kProducts", made_.count(GemmRole::product), "of one left factor, which share a tile's columns");
    add(out, "int", "kStages", tile_.stages, "tiles of both factors on their way");
    add(out, "int", "kSlots", made_.slots, "sub-tiles of the result that are in shared memory at a time");
    add_operands(out);
    add(out, "bool", "kPromotes", made_.promotes(), "sums of each instruction are added in f32");
    add_layout(out);
    out += "//@let kRowBlocks = 0\n";
    out += fmt::format("//@let kWindows = {}\n", made_.has_windows);
    out += fmt::format("//@let kIntegers = {}\n", is_integer());
    out += fmt::format("//@let kLoops = {}\n", !made_.unrolls);
    add_scales(out, 16, made_.subtile_columns());
    return out + "\n";
  }

  std::vector<std::string_view> instructions() const override {
    std::vector<std::string_view> all = {"warp_layout", "copies", "matrices", "fragments"};
    if (made_.has_windows) all.emplace_back("divisor32");
    if (made_.groups) all.emplace_back("held_sums");
    if (made_.joins_warps()) all.emplace_back("pairs_of_warps");
    return all;
  }
  std::string_view boxes() const override { return "rows_of_boxes"; }
  std::string_view skeleton() const override { return "warp_gemm"; }

  std::string_view tensor_name() const override { return "Matrix"; }
  std::string tensor() const override {
    std::string out =
        "// A matrix, or a batch of them: strides in bytes, of rows, or of columns where these are contiguous.\n"
        "struct Matrix {\n  const void* data;\n  long long stride, batch_stride;\n};\n\n";
    if (made_.has_windows)
      out +=
          "// Images whose channels are contiguous: strides in bytes.\n"
          "struct Images {\n  const void* data;\n  long long pixel_stride, row_stride, image_stride;\n};\n\n";
    return out;
  }
  std::string factors() const override {
    if (!made_.has_windows) return Family::factors();
    return "  Images left;\n  Matrix right[kProducts], result;  // of filters a batch has one pixel of each\n";
  }
  std::string_view numbers() const override {
    if (made_.has_windows)
      return "  int m, n, k;  // pixels and channels of the result, and the depth\n  int tile_rows, tile_columns;\n"
             "  int band;  // rows of tiles\n"
             "  int channels;  // of the images\n  int filter_reach;  // across, in pixels of the images\n"
             "  int input_height, input_width;  // of an image, in pixels\n"
             "  int height, width;  // of an image of the result, in pixels\n"
             "  Divisor by_height, by_width;\n"
             "  int stride_x, stride_y, padding_x, padding_y, dilation_x, dilation_y;\n";
    return "  int m, n, k;  // of the result, and the depth\n  int tile_rows, tile_columns;  // of a batch\n"
           "  int band;  // rows of tiles\n";
  }

  std::string places_of_inputs() const override {
    std::string copies;
    for (const GemmOperand& operand : made_.operands) {
      if (operand.role != GemmRole::tile) continue;
      copies += fmt::format(
          "  if (input == {}) copy_rows<{}>(slot + {}, {}, matrix.stride, p.m - row, p.n - column);\n", operand.number,
          size_of(operand.dtype), made_.input_at(operand.number), place_in_memory("const char*", operand.dtype));
    }
    return fmt::format(
        "// A warp's 16 rows of an operand, into a slot.\n"
        "__device__ __forceinline__ void copy_input(const Params& p, int input, unsigned slot, int row, int column, "
        "int batch) {{\n  const Matrix& matrix = p.inputs[input];\n{}}}\n\n",
        copies);
  }
  std::string_view store_halves() const override { return "store_pairs_of_halves"; }
  std::string store_to_memory() const override {
    return fmt::format(
        "// A warp's 16 rows of the result, from its sub-tile to memory.\n"
        "__device__ __forceinline__ void store_rows_of_result(const Params& p, unsigned box, int row, int column, "
        "int batch) {{\n  const Matrix& matrix = p.result;\n"
        "  store_rows<{}>(box, {}, matrix.stride, p.m - row, p.n - column);\n}}\n\n",
        size_of(made_.result), place_in_memory("char*", made_.result));
  }

  // 16 rows, 8 columns and 32 bytes of the depth. Sums that are taken out begin at zero.
  std::string multiply() const override {
    const char letter = is_integer() ? 'r' : 'f';
    std::string sums;
    for (int i = 0; i < 4; ++i)
      sums += fmt::format("\"{}{}\"(sums[{}]){}", made_.promotes() ? '=' : '+', letter, i, i == 3 ? "" : ", ");
    const std::string_view added = made_.promotes() ? "%10, %10, %10, %10" : "%0, %1, %2, %3";
    return fmt::format(
        "// sums {0} left * right, for 16 rows and 8 columns, {1} numbers deep.\n"
        "__device__ __forceinline__ void multiply(Sum (&sums)[4], const unsigned (&left)[4], unsigned right, "
        "unsigned right_below) {{\n#if defined(__CUDACC__)\n"
        "  asm(\"mma.sync.aligned.m16n8k{1}.row.col.{2}.{3}.{3}.{2} {{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, "
        "{{%8, %9}}, {{{4}}};\"\n      : {5}\n"
        "      : \"r\"(left[0]), \"r\"(left[1]), \"r\"(left[2]), \"r\"(left[3]), \"r\"(right), "
        "\"r\"(right_below){6});\n"
        "#else\n  multiply_by_warp<{7}, {8}>(sums, left, right, right_below, [](unsigned bits) {{\n"
        "    return {9};\n  }});\n#endif\n}}\n\n",
        made_.promotes() ? "=" : "+=", 32 / size_of(made_.factor), is_integer() ? "s32" : "f32", factor_in_ptx(), added,
        sums, made_.promotes() ? ", \"f\"(0.0f)" : "", size_of(made_.factor), !made_.promotes(), number_of_bits());
  }

  std::string entry(const std::string& name) const override {
    return fmt::format(
        "extern \"C\" __global__ void __launch_bounds__({}, {}) {}(const __grid_constant__ Params p) {{\n"
        "  run_gemm(p);\n}}\n",
        plan::WarpTile::kThreads, tile_.per_multiprocessor, name);
  }

 private:
  // Of the element at (row, column) of `matrix`.
  static std::string place_in_memory(std::string_view pointer, DType type) {
    const bool is_const = pointer.starts_with("const");
    return fmt::format("static_cast<{}>({}) + batch * matrix.batch_stride + row * matrix.stride + column * {}", pointer,
                       is_const ? "matrix.data" : "const_cast<void*>(matrix.data)", size_of(type));
  }

  const plan::WarpTile& tile_;
};

}  // namespace

std::unique_ptr<const Family> family_of(const plan::GemmClass& made, const plan::WarpTile& tile) {
  return std::make_unique<Warps>(made, tile);
}

}  // namespace epifuse::codegen
