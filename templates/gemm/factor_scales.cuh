// Scales of a product's factors that vary along its depth, one for 128 numbers of it. Sums of so many numbers are multiplied by them when they are added to the
// others. For templates/gemm/gemm.cuh, whose stages are that deep, and for templates/gemm/warp_gemm.cuh, of which two stages are.
//
// A thread has the scales of its own rows, and one of each 128 columns. Where each column has its own, lane l of a warp has those of columns l, l + 32, …, and who
// needs one gets it by a shuffle. So a warp reads each scale once, and it takes few registers while the products before it are computed.

//@section factor_scales
//@if kLeftScales == 1
constexpr int kRowScales = 2 * kBlocks;  // of a thread
//@endif
//@if kLeftScales == 2
constexpr int kRowScales = 1;  // all rows of a tile have the same
//@endif
//@if kRightScales == 1
constexpr int kColumnScales = kProducts * kScaledColumns / 32;
//@endif
//@if kRightScales == 2
constexpr int kColumnBlocks = (kScaledColumns + 127) / 128;  // of a product
constexpr int kColumnScales = kProducts * kColumnBlocks;
//@endif

// What the sums of 128 numbers of the depth are multiplied by.
struct StageScales {
//@if kLeftScales > 0
  float rows[kRowScales];
//@endif
//@if kRightScales > 0
  float columns[kColumnScales];
//@endif
};

__device__ __forceinline__ float scale_at(const FactorScales& scales, int line, int block) {
  return scales.data[line * scales.line_stride + block * scales.depth_stride];
}

// Those of a block of the depth. `row` is the first of the thread's rows. What is behind the last one has 0.
__device__ __forceinline__ void load_row_scales(const Params& p, StageScales& scales, int row, int block) {
//@if kLeftScales == 1
#pragma unroll
  for (int i = 0; i < kRowScales; ++i) {
    const int at = row + i / 2 * kScaledRows + i % 2 * 8;
    scales.rows[i] = at < p.m ? scale_at(p.left_scales, at, block) : 0.0f;
  }
//@endif
//@if kLeftScales == 2
  scales.rows[0] = row < p.m ? scale_at(p.left_scales, row / 128, block) : 0.0f;
//@endif
}

// And of columns, those from number `first` on. `column` is the first of the warp's columns.
__device__ __forceinline__ void load_column_scales(const Params& p, StageScales& scales, int column, int block, int first, int end) {
//@if kRightScales == 1
#pragma unroll
  for (int i = first; i < end; ++i) {
    const int of_products = i * 32 + static_cast<int>(threadIdx.x) % 32;
    const int at = column + of_products % kScaledColumns;
    scales.columns[i] = at < p.n ? scale_at(p.right_scales[of_products / kScaledColumns], at, block) : 0.0f;
  }
//@endif
//@if kRightScales == 2
#pragma unroll
  for (int i = first; i < end; ++i) {
    const int at = column + i % kColumnBlocks * 128;
    scales.columns[i] = at < p.n ? scale_at(p.right_scales[i / kColumnBlocks], at / 128, block) : 0.0f;
  }
//@endif
}

//@if kPrefetchesScales
__device__ __forceinline__ void load_scales(const Params& p, StageScales& scales, int row, int column, int block) {
  load_row_scales(p, scales, row, block);
//@if kRightScales > 0
  load_column_scales(p, scales, column, block, 0, kColumnScales);
//@endif
}

//@endif
// Of column lane % 4 * 2 + e of the eight of the warp's that begin at `first`. Columns of all products follow each other. All lanes of a warp ask together.
__device__ __forceinline__ float column_scale(const StageScales& scales, int first, int e) {
//@if kRightScales == 0
  return 1.0f;
//@endif
//@if kRightScales == 1
  return __shfl_sync(0xffffffffu, scales.columns[first / 32], first % 32 + static_cast<int>(threadIdx.x) % 4 * 2 + e);
//@endif
//@if kRightScales == 2
  return scales.columns[first / kScaledColumns * kColumnBlocks + first % kScaledColumns / 128];
//@endif
}

// Of the thread's row number `row` and of a column.
__device__ __forceinline__ float scale_of_sum(const StageScales& scales, int row, float of_column) {
//@if kLeftScales == 0
  return of_column;
//@endif
//@if kLeftScales == 1
  return /*@if kRightScales > 0*/of_column * /*@endif*/scales.rows[row];
//@endif
//@if kLeftScales == 2
  return /*@if kRightScales > 0*/of_column * /*@endif*/scales.rows[0];
//@endif
}
//@end
