// The skeleton of a matrix product that hosts a chain, where warps multiply what they hold in registers (mma.sync: sm_80 to sm_89, sm_120). A block of four warps
// has one tile of the result, and each warp a quarter of it. All threads copy: kStages pairs of factors' tiles are on their way into shared memory. Then the chain
// runs over the sums, in registers. A multiprocessor has two blocks where they fit: the chain of one runs beside the products of the other. Two products of
// one left factor share a tile: each has half of its columns, and a thread that has an element of the one has that of the other.
//
// Codegen writes in front of this: the constants, Params, `multiply` (one mma.sync), `copy_input`, `load_input`, `store_result` and `store_rows_of_result` (what has the
// result's size), `row_vector` and `column_vector` (what has one value per column or row of the result), `host_chain`, and where the chain has reductions `combined` and
// `neutral`.
//
// A warp meets its quarter 16 rows at a time. Full operands and the result pass through shared memory, where the factors were, so that accesses to memory have
// 16 bytes and neighbours have neighbouring ones. These places are the warp's own: no block-wide barrier stands between a chain and its stores.
//
// The left factor of a convolution is the images (kWindows). A row is a pixel of the result, in the order of a matrix, so that results and operands are matrices. Only the copies
// of the factors differ (warp_copies.cuh).
//
// Reductions leave partial results: of a row, over the columns of a warp; of a column, over its rows. Chains of their own combine these. Groups of columns are reduced
// where they are: by four lanes that have a row of one, or by eight of two warps that meet for it.
//
// Sums of 8-bit floating-point factors keep few bits while tensor cores add to what is there. So each instruction begins at zero, and its sums are added in f32
// (kPromotes). Where factors have scales for 128 numbers of the depth (kScaled), they are multiplied by these then: templates/gemm/factor_scales.cuh.

//@section warp_layout
constexpr int kThreads = 128;
constexpr int kDepthBytes = 64;  // of a tile's rows, along the depth
constexpr int kTileK = kDepthBytes / kFactorBytes;
constexpr int kSteps = kDepthBytes / 32;  // instructions along the depth of a tile
constexpr int kWarpM = kTileM / 2;        // of a warp: two stand side by side, and two below them
constexpr int kWarpN = kTileN / 2;
constexpr int kResultN = kTileN / kProducts;         // columns of the result that a tile is of
constexpr int kSubtileColumns = kWarpN / kProducts;  // and that a warp is of
constexpr int kBlocks = kWarpM / 16;                 // of 16 rows, that a warp has

// Shared memory, in bytes. Slots of the result stand where stages stood before.
constexpr int kLeftBytes = kTileM * kDepthBytes;
constexpr int kStageBytes = kLeftBytes + kTileN * kDepthBytes;
constexpr int kRowVectorsAt = kStages * kStageBytes;
constexpr int kColumnVectorsAt = kRowVectorsAt + kRowVectors * kResultN * 4;
//@if kColumnPartials > 0 || kGroupColumns > kSubtileColumns
constexpr int kReducedAt = kColumnVectorsAt + kColumnVectors * kTileM * 4;  // what each warp reduced its columns to
//@if kColumnPartials > 0
constexpr int kReducedBytes = kColumnPartials * kSubtileColumns * 4;  // of a warp
//@else
constexpr int kReducedBytes = 2 * kPartials * 16 * 4;  // of a warp, in rows of two blocks: one is read while the next is written
//@endif
constexpr int kSharedBytes = kReducedAt + 4 * kReducedBytes;
//@else
constexpr int kSharedBytes = kColumnVectorsAt + kColumnVectors * kTileM * 4;
//@endif
static_assert(kSlots * kSlotBytes <= kRowVectorsAt, "slots fit where the stages were");
//@end

//@section warp_gemm : host_pairs, warp_layout, copies, matrices, fragments, rows_of_boxes, warp_copies
// A warp's quarter of a tile. Of each 8 columns a thread owns the pair 2 * (lane % 4), in rows lane / 4 and eight below of each 16.
struct Quarter {
  const Params& p;
  unsigned shared;
  Tile tile;
  int lane, warp_row, warp_column;
//@if kWindows
  Windows windows;
  FilterPixel pixel;
//@endif
  Sum sums[kBlocks][kWarpN / 8][4];
//@if kRowPartials > 0
  float row_partials[kRowPartials][2];  // of rows lane / 4 and lane / 4 + 8 of a block, over the columns so far
//@endif
//@if kGroupColumns > 0
  float group_values[2][kPartials];  // what the group at hand is reduced to, in these rows
  float shared_values[2][kShared];   // what its elements take of that
//@endif

  __device__ __forceinline__ Quarter(const Params& params, unsigned shared_memory)
      : p(params), shared(shared_memory), tile(tile_of(params, static_cast<int>(blockIdx.x))), lane(threadIdx.x % 32)/*@if kWindows*/, windows(p, tile.row)/*@endif*/ {
    const int warp = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 32, 0);
    warp_row = warp / 2;
    warp_column = warp % 2;
  }

  // The factors' tiles of a block of the depth. A group of copies also where no block is left: they are counted.
  __device__ __forceinline__ void copy_stage(int stage, int block) {
    const int k = block * kTileK;
    if (k < p.k) {
      const unsigned left = shared + stage * kStageBytes;
//@if kWindows
      windows.copy(p, pixel, left);
//@else
      copy_factor<kLeftTransposed, kTileM>(left, 0, p.left, tile.batch, tile.row, k, p.m, p.k);
//@endif
#pragma unroll
      for (int i = 0; i < kProducts; ++i) {
//@if kWindows
        copy_factor<kRightTransposed, kResultN>(left + kLeftBytes, i * kResultN, p.right[i], pixel.number, tile.column, pixel.channel, p.n, p.channels);
//@else
        copy_factor<kRightTransposed, kResultN>(left + kLeftBytes, i * kResultN, p.right[i], tile.batch, tile.column, k, p.n, p.k);
//@endif
      }
//@if kWindows
      pixel.next(p);
//@endif
    }
    end_copies();
  }

  // Each vector once for the tile, as f32.
  __device__ __forceinline__ void load_vectors() {
    const int thread = threadIdx.x;
//@if kRowVectors > 0
#pragma unroll
    for (int v = 0; v < kRowVectors; ++v) {
      if (thread < kResultN) {
        const int column = tile.column + thread;
        store_number(shared + kRowVectorsAt + (v * kResultN + thread) * 4, column < p.n ? row_vector(p, v, tile.batch, column) : 0.0f);
      }
    }
//@endif
//@if kColumnVectors > 0
#pragma unroll
    for (int v = 0; v < kColumnVectors; ++v) {
      if (thread < kTileM) {
        const int row = tile.row + thread;
        store_number(shared + kColumnVectorsAt + (v * kTileM + thread) * 4, row < p.m ? column_vector(p, v, tile.batch, row) : 0.0f);
      }
    }
//@endif
  }

  // What a warp multiplies at a time, 32 bytes deep: step `step` of a stage, of all its rows.
  __device__ __forceinline__ void load_left(unsigned (&fragments)[kBlocks][4], int stage, int step) const {
    const unsigned left = shared + stage * kStageBytes;
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      const int row = warp_row * kWarpM + block * 16;
      if constexpr (kLeftTransposed) {
        load_matrices_transposed(fragments[block], left + place_in_columns(row + lane / 8 % 2 * 8, step * 16 + lane / 16 * 8 + lane % 8));
      } else {
        load_matrices(fragments[block], left + row * kDepthBytes + place_in_rows(lane % 16, step * 32 + lane / 16 * 16));
      }
    }
  }

  // And of 16 columns.
  __device__ __forceinline__ void load_right(unsigned (&fragment)[4], int stage, int step, int pair) const {
    const unsigned right = shared + stage * kStageBytes + kLeftBytes;
    const int column = pair * 16 / kSubtileColumns * kResultN + warp_column * kSubtileColumns + pair * 16 % kSubtileColumns;
    if constexpr (kRightTransposed) {
      load_matrices_transposed(fragment, right + place_in_columns(column + lane / 16 * 8, step * 16 + lane / 8 % 2 * 8 + lane % 8));
    } else {
      load_matrices(fragment, right + column * kDepthBytes + place_in_rows(lane / 16 * 8 + lane % 8, step * 32 + lane / 8 % 2 * 16));
    }
  }

  // The first stages' copies are on their way, and sums are zero.
  __device__ __forceinline__ void begin_tile() {
#pragma unroll
    for (int stage = 0; stage < kStages - 1; ++stage) copy_stage(stage, stage);
    load_vectors();
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
#pragma unroll
      for (int column = 0; column < kWarpN / 8; ++column) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[block][column][i] = 0;
      }
    }
    wait_copies<kStages - 2>();
    __syncthreads();
  }

//@if kPromotes
  // Sums of instructions take registers, so that fragments of few columns are loaded at a time. After a stage all threads meet: the next one's copies have
  // arrived, and this one is filled anew.
  __device__ __forceinline__ void multiply_step(int stage, int step/*@if kScaled*/, const StageScales& scales/*@endif*/) {
    unsigned left[kBlocks][4];
    load_left(left, stage, step);
#pragma unroll
    for (int pair = 0; pair < kWarpN / 16; ++pair) {
      unsigned right[4];
      load_right(right, stage, step, pair);
//@if kScaled
      float of_columns[2][2];
#pragma unroll
      for (int i = 0; i < 4; ++i) of_columns[i / 2][i % 2] = column_scale(scales, pair * 16 + i / 2 * 8, i % 2);
//@endif
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          Sum made[4];
          multiply(made, left[block], right[half * 2], right[half * 2 + 1]);
#pragma unroll
//@if kScaled
          for (int i = 0; i < 4; ++i) {
            Sum& sum = sums[block][pair * 2 + half][i];
            sum = ::fmaf(made[i], scale_of_sum(scales, block * 2 + i / 2, of_columns[half][i % 2]), sum);
          }
//@else
          for (int i = 0; i < 4; ++i) sums[block][pair * 2 + half][i] += made[i];
//@endif
        }
      }
    }
  }

  __device__ __forceinline__ void multiply_tile() {
//@if kScaled
    // Of the 128 numbers at hand, which two stages have, and of the next ones.
    constexpr int kScaledStages = 128 / kTileK;
    const int row = tile.row + warp_row * kWarpM + lane / 4;
    const int column = tile.column + warp_column * kSubtileColumns;
    StageScales scales, next;
    load_scales(p, next, row, column, 0);
//@endif
    begin_tile();
    int stage = 0;
    int before = kStages - 1;
#pragma unroll 1
    for (int block = 0; block * kTileK < p.k; ++block) {
//@if kScaled
      if (block % kScaledStages == 0) {
        scales = next;
        const int further = block / kScaledStages + 1;
        if (further * 128 < p.k) load_scales(p, next, row, column, further);
      }
//@endif
      copy_stage(before, block + kStages - 1);
      // Not unrolled: ptxas would load the next step's fragments, too, and spill.
#pragma unroll 1
      for (int step = 0; step < kSteps; ++step) multiply_step(stage, step/*@if kScaled*/, scales/*@endif*/);
      wait_copies<kStages - 2>();
      __syncthreads();
      before = stage;
      stage = stage + 1 == kStages ? 0 : stage + 1;
    }
  }

//@else
  struct Fragments {
    unsigned left[kBlocks][4];
    unsigned right[kWarpN / 16][4];
  };
  __device__ __forceinline__ void load_fragments(Fragments& fragments, int stage, int step) const {
    load_left(fragments.left, stage, step);
#pragma unroll
    for (int pair = 0; pair < kWarpN / 16; ++pair) load_right(fragments.right[pair], stage, step, pair);
  }
  __device__ __forceinline__ void multiply_step(const Fragments& fragments) {
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
#pragma unroll
      for (int column = 0; column < kWarpN / 8; ++column) {
        const unsigned(&right)[4] = fragments.right[column / 2];
        multiply(sums[block][column], fragments.left[block], right[column % 2 * 2], right[column % 2 * 2 + 1]);
      }
    }
  }

  // While a step's products run, the next step's fragments are loaded. Before a stage's first ones all threads meet: its copies have arrived, and the stage before
  // was read by all, so that it is filled anew.
  __device__ __forceinline__ void multiply_tile() {
    begin_tile();
    Fragments fragments[2];
    load_fragments(fragments[0], 0, 0);
    int stage = 0;
    int before = kStages - 1;
#pragma unroll 1
    for (int block = 0; block * kTileK < p.k; ++block) {
      const int next = stage + 1 == kStages ? 0 : stage + 1;
#pragma unroll
      for (int step = 0; step < kSteps; ++step) {
        if (step + 1 == kSteps) {
          wait_copies<kStages - 2>();
          __syncthreads();
        }
        load_fragments(fragments[(step + 1) % 2], step + 1 == kSteps ? next : stage, (step + 1) % kSteps);
        if (step == 0) copy_stage(before, block + kStages - 1);
        multiply_step(fragments[step % 2]);
      }
      before = stage;
      stage = next;
    }
  }

//@endif
//@if kTileInputs > 0
  // The full operands' 16 rows of a block, into its slot. A group of copies, also where no block is left.
  __device__ __forceinline__ void copy_inputs(int block) {
    if (block < kBlocks) {
      const int row = tile.row + warp_row * kWarpM + block * 16;
      const int column = tile.column + warp_column * kSubtileColumns;
#pragma unroll
      for (int i = 0; i < kTileInputs; ++i) copy_input(p, i, shared + block % kSlots * kSlotBytes, row, column, tile.batch);
    }
    end_copies();
  }

//@endif
//@if kRowPartials > 0
  __device__ __forceinline__ void begin_rows() {
#pragma unroll
    for (int v = 0; v < kRowPartials; ++v) row_partials[v][0] = row_partials[v][1] = neutral(v);
  }

  // 16 columns; those behind the last one are none of the row.
  __device__ __forceinline__ void reduce_rows(int first, const float (&reduced)[kPartials][8]) {
#pragma unroll
    for (int v = 0; v < kRowPartials; ++v) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const int column = tile.column + warp_column * kSubtileColumns + first + i / 4 * 8 + lane % 4 * 2 + i % 2;
        float& partial = row_partials[v][i / 2 % 2];
        if (column < p.n) partial = combined(v, partial, reduced[v][i]);
      }
    }
  }

  // Four threads have a row's columns of the warp.
  __device__ __forceinline__ void write_rows(int block) const {
#pragma unroll
    for (int v = 0; v < kRowPartials; ++v) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float partial = row_partials[v][half];
        partial = combined(v, partial, __shfl_xor_sync(0xffffffffu, partial, 1));
        partial = combined(v, partial, __shfl_xor_sync(0xffffffffu, partial, 2));
        const int row = tile.row + warp_row * kWarpM + block * 16 + half * 8 + lane / 4;
        const Partials& all = p.partials[v];
        if (lane % 4 == 0 && row < p.m)
          all.data[(tile.column / kSubtileColumns + warp_column) * all.extent + static_cast<long long>(tile.batch) * p.m + row] = partial;
      }
    }
  }

//@endif
//@if kColumnPartials > 0
  __device__ __forceinline__ unsigned place_of_reduced(int v, int column) const {
    return shared + kReducedAt + (warp_row * 2 + warp_column) * kReducedBytes + (v * kSubtileColumns + column) * 4;
  }

  // 16 columns, over a block's 16 rows; rows behind the last one are none of the column. The same lanes add each block to those before.
  __device__ __forceinline__ void reduce_columns(int block, int column, const float (&reduced)[kPartials][8]) const {
    const int row = tile.row + warp_row * kWarpM + block * 16 + lane / 4;
#pragma unroll
    for (int v = kRowPartials; v < kPartials; ++v) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int first = i / 2 * 4 + i % 2;  // of the thread's two numbers of the column
        float partial = row < p.m ? reduced[v][first] : neutral(v);
        if (row + 8 < p.m) partial = combined(v, partial, reduced[v][first + 2]);
#pragma unroll
        for (int lanes = 4; lanes < 32; lanes *= 2) partial = combined(v, partial, __shfl_xor_sync(0xffffffffu, partial, lanes));
        if (lane < 4) {
          const unsigned place = place_of_reduced(v - kRowPartials, column + i / 2 * 8 + lane * 2 + i % 2);
          store_number(place, block == 0 ? partial : combined(v, load_number(place), partial));
        }
      }
    }
  }

  // The warp's columns, once its lanes have met.
  __device__ __forceinline__ void write_columns() const {
    const int row = tile.row + warp_row * kWarpM;
    if (row >= p.m) return;
    const long long run = static_cast<long long>(tile.batch) * ((p.m + kWarpM - 1) / kWarpM) + row / kWarpM;
#pragma unroll
    for (int v = kRowPartials; v < kPartials; ++v) {
      const Partials& all = p.partials[v];
#pragma unroll
      for (int first = 0; first < kSubtileColumns; first += 32) {
        const int of_warp = first + lane;
        const int column = tile.column + warp_column * kSubtileColumns + of_warp;
        if (of_warp < kSubtileColumns && column < p.n) all.data[run * all.extent + column] = load_number(place_of_reduced(v - kRowPartials, of_warp));
      }
    }
  }

//@endif
//@if kGroupColumns > 0
  // The chain's values take the place of the product's sums, and the group is reduced.
  __device__ __forceinline__ void keep_values(int front, int column, const float (&made)[8], const float (&reduced)[kPartials][8]) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      sums[front][column / 8 + i / 4][i % 4] = as_sum(made[i]);
#pragma unroll
      for (int v = 0; v < kPartials; ++v) group_values[i / 2 % 2][v] = combined(v, group_values[i / 2 % 2][v], reduced[v][i]);
    }
  }

//@if kGroupColumns > kSubtileColumns
  __device__ __forceinline__ unsigned place_of_reduced(int block, int of_column, int v, int row) const {
    return shared + kReducedAt + (warp_row * 2 + of_column) * kReducedBytes + ((block % 2 * kPartials + v) * 16 + row) * 4;
  }

  // Two warps have a row's columns: each gives the other what its own are reduced to.
  __device__ __forceinline__ void join_warps(int block) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int v = 0; v < kPartials; ++v) {
        if (lane % 4 == 0) store_number(place_of_reduced(block, warp_column, v, half * 8 + lane / 4), group_values[half][v]);
      }
    }
    meet_beside(warp_row);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int v = 0; v < kPartials; ++v) {
        const int row = half * 8 + lane / 4;
        group_values[half][v] = combined(v, load_number(place_of_reduced(block, 0, v, row)), load_number(place_of_reduced(block, 1, v, row)));
      }
    }
  }

//@endif
  // Four threads have a row's columns of the warp. The first of them is column `first` of it.
  __device__ __forceinline__ void reduce_group(int block, int first) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int v = 0; v < kPartials; ++v) {
        float& value = group_values[half][v];
        value = combined(v, value, __shfl_xor_sync(0xffffffffu, value, 1));
        value = combined(v, value, __shfl_xor_sync(0xffffffffu, value, 2));
      }
    }
//@if kGroupColumns > kSubtileColumns
    join_warps(block);
//@endif
#pragma unroll
    for (int half = 0; half < 2; ++half) {
//@if kScales > 0
      const int row = tile.row + warp_row * kWarpM + block * 16 + half * 8 + lane / 4;
      const int column = tile.column + warp_column * kSubtileColumns + first;
      if (lane % 4 == 0 && row < p.m && column < p.n/*@if kGroupColumns > kSubtileColumns*/ && warp_column == 0/*@endif*/)
        write_group(p, tile.batch, row, column / kGroupColumns, group_values[half]);
//@endif
      share_group(p, group_values[half], shared_values[half]);
    }
  }

  // 16 columns of the tensor, of a group that is reduced.
  __device__ __forceinline__ void write_elements(int front, int column, unsigned slot) {
    float made[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) made[i] = host_element(p, held_value(sums[front][column / 8 + i / 4][i % 4]), shared_values[i / 2 % 2]);
    store_result(made, slot + kResultAt, column);
  }

//@endif
  // 16 columns of a block, whose sums stand at `front`.
  __device__ __forceinline__ void run_chain(int block, int front, int column, unsigned slot) {
    constexpr int kInputs = kTileInputs > 0 ? kTileInputs : 1;
    float inputs[kInputs][8];
//@if kTileInputs > 0
#pragma unroll
    for (int i = 0; i < kTileInputs; ++i) load_input(i, inputs[i], slot, column);
//@endif
    float in_row[kRowVectors > 0 ? kRowVectors : 1][2][2];  // of two pairs of columns
#pragma unroll
    for (int v = 0; v < kRowVectors; ++v) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int at = v * kResultN + warp_column * kSubtileColumns + column + i * 8 + lane % 4 * 2;
        load_pair(in_row[v][i][0], in_row[v][i][1], shared + kRowVectorsAt + at * 4);
      }
    }
    float in_column[kColumnVectors > 0 ? kColumnVectors : 1][2];  // of two rows
#pragma unroll
    for (int v = 0; v < kColumnVectors; ++v) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        const int at = v * kTileM + warp_row * kWarpM + block * 16 + i * 8 + lane / 4;
        in_column[v][i] = load_number(shared + kColumnVectorsAt + at * 4);
      }
    }
    const auto product_of = [&](int i, int pair, int e) {
      return sums[front][(i * kSubtileColumns + column) / 8 + pair / 2][pair % 2 * 2 + e];
    };
    const auto column_of = [&](int v, int row) { return in_column[v][row]; };
    float made[8];
//@if kPartials > 0
    float reduced[kPartials][8];
    host_pairs(p, product_of, inputs, in_row, column_of, made, reduced);
//@else
    host_pairs(p, product_of, inputs, in_row, column_of, made);
//@endif
//@if kGroupColumns > 0
    keep_values(front, column, made, reduced);
//@else
    store_result(made, slot + kResultAt, column);
//@endif
//@if kRowPartials > 0
    reduce_rows(column, reduced);
//@endif
//@if kColumnPartials > 0
    reduce_columns(block, column, reduced);
//@endif
  }

//@if kGroupColumns > 0
  // A block's groups of columns one after the other: what a group is reduced to is known when all of its values are.
  __device__ __forceinline__ void run_groups(int block, int front, unsigned slot) {
    constexpr int kOfWarp = kGroupColumns < kSubtileColumns ? kGroupColumns : kSubtileColumns;  // columns of a group
#pragma unroll
    for (int first = 0; first < kSubtileColumns; first += kOfWarp) {
#pragma unroll
      for (int v = 0; v < kPartials; ++v) group_values[0][v] = group_values[1][v] = neutral(v);
#pragma unroll
      for (int column = first; column < first + kOfWarp; column += 16) run_chain(block, front, column, slot);
      reduce_group(block, first);
#pragma unroll
      for (int column = first; column < first + kOfWarp; column += 16) write_elements(front, column, slot);
    }
  }

//@endif
  // A block's chain and store, in the place of the slot that is its turn.
  __device__ __forceinline__ void finish_block(int block, int front) {
    // The compiler is told that these may change, or it would compute the addresses of all blocks first, and keep them in registers that it lacks.
    asm volatile("" : "+r"(lane), "+r"(shared), "+r"(tile.row), "+r"(tile.column), "+r"(warp_row), "+r"(warp_column));
    const unsigned slot = shared + block % kSlots * kSlotBytes;
//@if kTileInputs > 0
    wait_copies<kSlots - 1>();
    __syncwarp();
//@endif
//@if kGroupColumns > 0
    run_groups(block, front, slot);
//@else
//@if kRowPartials > 0
    begin_rows();
//@endif
#pragma unroll
    for (int column = 0; column < kSubtileColumns; column += 16) run_chain(block, front, column, slot);
//@if kRowPartials > 0
    write_rows(block);
//@endif
//@endif
    __syncwarp();
    store_rows_of_result(p, slot + kResultAt, tile.row + warp_row * kWarpM + block * 16, tile.column + warp_column * kSubtileColumns, tile.batch);
    __syncwarp();
//@if kTileInputs > 0
    copy_inputs(block + kSlots);
//@endif
  }

//@if kLoops
  // Registers have no numbers that are known at run time alone: the sums of the block at hand stand in front.
  __device__ __forceinline__ void shift_sums() {
#pragma unroll
    for (int block = 1; block < kBlocks; ++block) {
#pragma unroll
      for (int column = 0; column < kWarpN / 8; ++column) {
#pragma unroll
        for (int i = 0; i < 4; ++i) sums[block - 1][column][i] = sums[block][column][i];
      }
    }
  }

//@endif
  // Slots are free when no stage is read any more: the last step loads fragments, too, of which nothing becomes.
  __device__ __forceinline__ void finish_tile() {
    __syncthreads();
//@if kTileInputs > 0
#pragma unroll
    for (int block = 0; block < kSlots; ++block) copy_inputs(block);
//@endif
//@if kLoops
    // The chain is long, so its code stands once for all blocks.
#pragma unroll 1
    for (int block = 0; block < kBlocks; ++block) {
      finish_block(block, 0);
      shift_sums();
    }
//@else
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) finish_block(block, block);
//@endif
//@if kColumnPartials > 0
    write_columns();
//@endif
  }
};

__device__ __forceinline__ void run_gemm(const Params& p) {
  Quarter quarter(p, shared_memory<kSharedBytes>());
  quarter.multiply_tile();
  quarter.finish_tile();
}
//@end
