// The skeleton of a matrix product that hosts a chain, for sm_90a. A block stays on its multiprocessor and works on one tile of the result after
// another. One warp group copies (templates/gemm/producer.cuh): it keeps kStages pairs of operand tiles on their way into shared memory. Two warp groups multiply, and each runs the
// chain over its accumulators: together on the halves of a tile, or (kTakesTurns) on tiles of their own, where one's chain runs beside the other's
// products. Two blocks of a cluster have tiles one below the other and copy the right operand's tile for each other. Two products of one left factor share
// a tile: each has half of its columns, and a thread that has an element of the one has that of the other.
//
// Where tiles are few, the blocks of a cluster share the depth of one tile (kSplit). Each then has the chain of some of its columns, whose sums the others give it
// through distributed shared memory.
//
// The left factor of a convolution is the images (kWindows). A row of a tile is a pixel of the result, and all of them are a patch of pixels beside and below
// each other. What one pixel of the filters meets is a box of the images then, and zeros where that lies outside. Boxes of the result are halves of patches.
//
// Codegen writes in front of this: the constants, Params, `multiply` (one wgmma), `load_input`, `input_at` and `store_result` (what has the result's size), `row_vector` and
// `column_vector` (what has one value per column or row of the result), `host_chain`, and where the chain has reductions `combined` and `neutral`.
//
// A chain meets the result in sub-tiles of 64 rows and 32 columns, which lie in shared memory as TMA swizzles rows of so many bytes. Full operands arrive
// there by TMA ahead of need. The result takes the place of the first, or has a place of its own if its numbers are of another size.
//
// Reductions leave partial results: of a row, over the columns of a tile; of a column, over the 64 rows of a block. Chains of their own combine these.
//
// Where a chain goes on with what whole rows are reduced to, the blocks of a cluster have the tiles of one band of rows beside each other (kRowBlocks), and copy the
// left operand's tile for each other: templates/gemm/whole_rows.cuh.
//
// Sums of 8-bit floating-point factors keep about 14 bits while one instruction adds to what the one before left. So they are taken out after each stage, 128 numbers, and
// added in f32 (kPromotes); DeepSeek-V3's report, section 3.3.2, measured what that loses otherwise. Where factors have scales for 128 numbers of the depth (kScaled), the
// sums of a stage are multiplied by these then: templates/gemm/factor_scales.cuh.

//@section held_sums
//@if kGroupColumns > 0 || kRowBlocks > 0
// A value of the chain in the place of a sum, and back.
__device__ __forceinline__ Sum as_sum(float value) { return /*@if kIntegers*/__float_as_int(value)/*@endif*//*@if !kIntegers*/value/*@endif*/; }
__device__ __forceinline__ float held_value(Sum held) { return /*@if kIntegers*/__int_as_float(held)/*@endif*//*@if !kIntegers*/held/*@endif*/; }
//@endif
//@end

//@section multiplier : producer, host_pairs, held_sums, matrices, products
// A warp group that multiplies. Of sub-tile columns a thread owns the pairs 2 * (lane % 4) of every 8, in rows lane / 4 and lane / 4 + 8 of its warp's 16.
struct Multiplier {
  const Params& p;
  unsigned shared;
  Barriers barriers;
  unsigned rank;
//@if kSplit > 1
  unsigned share;  // of the tile's depth and columns
  int k_blocks;  // tiles along that depth
//@if kScaled
  int first_block;  // of these
//@endif
//@endif
  int group, thread, lane;
  unsigned slots, vectors;
  Ring<kStages> ring;
  Ring<kSlots> slot;
  Sum sums[kBlocks][kTileN / 2];
  float row_values[kRowVectors > 0 ? kRowVectors : 1][(kChainN + 127) / 128];
  float column_values[kColumnVectors > 0 ? kColumnVectors : 1][kBlocks][2];
//@if kGroupColumns > 0
  float group_values[2][kPartials];  // what the group at hand is reduced to, in rows lane / 4 and lane / 4 + 8
  float shared_values[2][kShared];   // what its elements take of that
//@endif
//@if kRowBlocks > 0
  float of_rows[2][kPartials];  // what rows lane / 4 and lane / 4 + 8 are reduced to
  Ring<kSlots> out;  // where the next sub-tile of the result goes
//@endif
//@if kRowBlocks > 1
  Ring<2> exchange;
//@endif
//@if kRowPartials > 0
  float row_partials[kRowPartials][2];  // of rows lane / 4 and lane / 4 + 8, over the columns so far
//@endif

//@if kSplit > 1
  __device__ __forceinline__ Multiplier(const Params& params, unsigned shared_memory, Barriers all, unsigned of_depth, Depth depth, int which)
      : p(params), shared(shared_memory), barriers(all), rank(0), share(of_depth), k_blocks(depth.end - depth.first), /*@if kScaled*/first_block(depth.first), /*@endif*/group(which), thread(threadIdx.x % 128),
        lane(threadIdx.x % 32) {
//@else
  __device__ __forceinline__ Multiplier(const Params& params, unsigned shared_memory, Barriers all, unsigned in_cluster, int which)
      : p(params), shared(shared_memory), barriers(all), rank(in_cluster), group(which), thread(threadIdx.x % 128), lane(threadIdx.x % 32) {
//@endif
    slots = shared + kSlotsAt + group * kSlots * kSlotBytes;
    vectors = shared + kVectorsAt + group * kVectorBytes;
  }

  // The group's own part of a block's tile.
  __device__ __forceinline__ Tile own(Tile tile) const {
    if (!kTakesTurns) tile.row += group * kGroupRows;
//@if kSplit > 1
    tile.column += static_cast<int>(share) * kChainN;
//@endif
    return tile;
  }

  // Values of vectors are asked for before the products, and wait in registers.
  __device__ __forceinline__ void load_vectors(const Tile& tile) {
//@if kRowVectors > 0
#pragma unroll
    for (int v = 0; v < kRowVectors; ++v) {
#pragma unroll
      for (int i = 0; i < (kChainN + 127) / 128; ++i) {
        const int column = tile.column + i * 128 + thread;
        row_values[v][i] = column < p.n ? row_vector(p, v, /*@if kWindows*/0/*@endif*//*@if !kWindows*/tile.batch/*@endif*/, column) : 0.0f;
      }
    }
//@endif
//@if kColumnVectors > 0
#pragma unroll
    for (int v = 0; v < kColumnVectors; ++v) {
#pragma unroll
      for (int i = 0; i < 2 * kBlocks; ++i) {
        const int row = tile.row + i / 2 * 64 + thread / 32 * 16 + i % 2 * 8 + lane / 4;
        column_values[v][i / 2][i % 2] = row < p.m ? column_vector(p, v, tile.batch, row) : 0.0f;
      }
    }
//@endif
  }

  __device__ __forceinline__ void share_vectors() {
    if constexpr (kRowVectors > 0) {
#pragma unroll
      for (int v = 0; v < kRowVectors; ++v) {
#pragma unroll
        for (int i = 0; i < (kChainN + 127) / 128; ++i) {
          if (i * 128 + thread < kChainN) {
            store_number(vectors + (v * kChainN + i * 128 + thread) * 4, row_values[v][i]);
          }
        }
      }
      meet(group);
    }
  }

  __device__ __forceinline__ void release(int stage) {
//@if kSplit > 1
    if (lane == 0) arrive_at(barriers.empty(stage), share);
//@else
    if (lane < /*@if kRowBlocks > 0*/kRowBlocks/*@endif*//*@if kRowBlocks == 0*/kCluster/*@endif*/) arrive_at(barriers.empty(stage), static_cast<unsigned>(lane));
//@endif
  }

  struct Matrices {
    unsigned long long left, right;
  };
  // The descriptors of this group's factors in the stage whose turn it is, once it is there.
  __device__ __forceinline__ Matrices arrived_stage() const {
    const unsigned left = shared + ring.at * kStageBytes + (kTakesTurns ? 0 : group * kGroupRows * 128);
    const unsigned right = shared + ring.at * kStageBytes + kLeftBytes;
    const Matrices matrices = {describe_matrix(left, kLeftTransposed ? 8192 : 16, 1024),
                               describe_matrix(right, kRightTransposed ? 8192 : 16, 1024)};
    wait_barrier(barriers.full(ring.at), ring.parity);
    return matrices;
  }

//@if kPromotes
  // A stage's products, of 64 rows and kInstructionN columns at a time, in sums of their own. While one group adds them, the other's are computed. They
  // stay in the same registers throughout: with fresh ones for each part ptxas spilled 64 of them.
  __device__ __forceinline__ void multiply_stage(Sum (&stage)[kInstructionN / 2], bool begins/*@if kScaled && kPrefetchesScales*/, const StageScales& scales/*@endif*//*@if kScaled && !kPrefetchesScales*/, StageScales& scales, int first_column, int depth_block/*@endif*/) {
    const auto [left_matrix, right_matrix] = arrived_stage();
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
#pragma unroll
      for (int column = 0; column < kTileN; column += kInstructionN) {
        begin_products();
#pragma unroll
        for (int byte = 0; byte < 128; byte += 32) {
          multiply(stage, left_matrix + (block * 8192 + byte) / 16, right_matrix + (column * 128 + byte) / 16, byte > 0);
        }
        commit_products();
//@if kScaled && !kPrefetchesScales
        load_column_scales(p, scales, first_column, depth_block, column / 32, (column + kInstructionN) / 32);
//@endif
        wait_products<0>();
        end_sums(stage);
#pragma unroll
//@if kScaled
        for (int i = 0; i < kInstructionN / 2; i += 4) {
          const float of_columns[2] = {column_scale(scales, column + i * 2, 0), column_scale(scales, column + i * 2, 1)};
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            Sum& sum = sums[block][column / 2 + i + e];
            const float scale = scale_of_sum(scales, block * 2 + e / 2, of_columns[e % 2]);
            sum = begins ? stage[i + e] * scale : ::fmaf(stage[i + e], scale, sum);
          }
        }
//@else
        for (int i = 0; i < kInstructionN / 2; ++i) {
          Sum& sum = sums[block][column / 2 + i];
          sum = begins ? stage[i] : sum + stage[i];
        }
//@endif
      }
    }
  }

//@if kScaled
  // Scales of a stage are asked for before the products of the stage before it. Where 256 columns have scales of their own there are no registers for that:
  // those of an instruction's columns are asked for while it runs.
  __device__ __forceinline__ void multiply_tile(const Tile& tile) {
    const int row = tile.row + thread / 32 * 16 + lane / 4;
    const int column = tile.column/*@if kSplit > 1*/ - static_cast<int>(share) * kChainN/*@endif*/;
    const int first = /*@if kSplit > 1*/first_block/*@endif*//*@if kSplit == 1*/0/*@endif*/;
    const int end = /*@if kSplit > 1*/first_block + k_blocks/*@endif*//*@if kSplit == 1*/p.k_blocks/*@endif*/;
    StageScales scales;
//@if kPrefetchesScales
    StageScales next;
    load_scales(p, scales, row, column, first);
    if (first + 1 < end) load_scales(p, next, row, column, first + 1);
//@else
    load_row_scales(p, scales, row, first);
//@endif
    Sum stage[kInstructionN / 2];
    begin_sums(stage);
    multiply_stage(stage, true, scales/*@if !kPrefetchesScales*/, column, first/*@endif*/);
    release(ring.at);
    ring.next();
#pragma unroll 1
    for (int block = first + 1; block < end; ++block) {
//@if kPrefetchesScales
      scales = next;
      if (block + 1 < end) load_scales(p, next, row, column, block + 1);
//@else
      load_row_scales(p, scales, row, block);
//@endif
      multiply_stage(stage, false, scales/*@if !kPrefetchesScales*/, column, block/*@endif*/);
      release(ring.at);
      ring.next();
    }
  }

//@else
  __device__ __forceinline__ void multiply_tile() {
    Sum stage[kInstructionN / 2];
    begin_sums(stage);
    multiply_stage(stage, true);
    release(ring.at);
    ring.next();
#pragma unroll 1
    for (int block = 1; block < /*@if kSplit > 1*/k_blocks/*@endif*//*@if kSplit == 1*/p.k_blocks/*@endif*/; ++block) {
      multiply_stage(stage, false);
      release(ring.at);
      ring.next();
    }
  }

//@endif
//@else
  __device__ __forceinline__ void multiply_stage(bool begins) {
    const auto [left_matrix, right_matrix] = arrived_stage();
    begin_products();
#pragma unroll
    for (int byte = 0; byte < 128; byte += 32) {
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) {
        // 32 bytes further along K, or as many rows of 128 bytes as that is numbers.
        multiply(sums[block], left_matrix + (block * 8192 + byte * (kLeftTransposed ? 64 : 1)) / 16,
                 right_matrix + byte * (kRightTransposed ? 64 : 1) / 16, !begins || byte > 0);
      }
    }
    commit_products();
  }

  // A group that takes turns begins when the other has seen all stages of its own tile arrive. Before that, a stage may be two rounds behind, and
  // a barrier of the round before last looks as if it had passed.
  __device__ __forceinline__ void multiply_tile() {
    if (kTakesTurns) wait_for_turn(group);
    // The first product of a tile writes its sums without reading them.
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) begin_sums(sums[block]);
    multiply_stage(true);
    int before = ring.at;
    ring.next();
#pragma unroll 1
    for (int block = 1; block < /*@if kSplit > 1*/k_blocks/*@endif*//*@if kSplit == 1*/p.k_blocks/*@endif*/; ++block) {
      multiply_stage(false);
      wait_products<1>();
      release(before);
      before = ring.at;
      ring.next();
    }
    if (kTakesTurns) give_turn(1 - group);
    wait_products<0>();
    release(before);
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) end_sums(sums[block]);
  }

//@endif
//@if kTileInputs > 0
  // One thread asks for a sub-tile of the full operands. They were there before the kernel: no wait but for the slot.
  __device__ __forceinline__ void load_inputs(const Tile& tile, int subtile, int into) {
    const unsigned barrier = barriers.slot(group, into);
    expect_bytes(barrier, kInputBytes);
    const int row = tile.row + subtile / (kChainN / kSubtileColumns) * 64;
    const int column = tile.column + subtile % (kChainN / kSubtileColumns) * kSubtileColumns;
//@if kWindows
    const Pixel first = pixel_of(p, tile, row);
//@endif
#pragma unroll
    for (int i = 0; i < kTileInputs; ++i) {
//@if kWindows
      load_pixels(slots + into * kSlotBytes + input_at(i), p.inputs[i], column, first.x, first.y, first.image, barrier);
//@else
      load_box(slots + into * kSlotBytes + input_at(i), p.inputs[i], column, row, tile.batch, barrier);
//@endif
    }
  }

//@endif
//@if kRowPartials > 0
  __device__ __forceinline__ void begin_rows() {
#pragma unroll
    for (int v = 0; v < kRowPartials; ++v) row_partials[v][0] = row_partials[v][1] = neutral(v);
  }

  // 16 columns; those behind the last one are none of the row.
  __device__ __forceinline__ void reduce_rows(const Tile& tile, int first, const float (&reduced)[kPartials][8]) {
#pragma unroll
    for (int v = 0; v < kRowPartials; ++v) {
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const int column = tile.column + first + i / 4 * 8 + lane % 4 * 2 + i % 2;
        float& partial = row_partials[v][i / 2 % 2];
        if (column < p.n) partial = combined(v, partial, reduced[v][i]);
      }
    }
  }

  // Four threads have a row's columns of the tile.
  template <int kBlock>
  __device__ __forceinline__ void write_rows(const Tile& tile) const {
#pragma unroll
    for (int v = 0; v < kRowPartials; ++v) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float partial = row_partials[v][half];
        partial = combined(v, partial, __shfl_xor_sync(0xffffffffu, partial, 1));
        partial = combined(v, partial, __shfl_xor_sync(0xffffffffu, partial, 2));
        const int row = tile.row + kBlock * 64 + thread / 32 * 16 + half * 8 + lane / 4;
        const Partials& all = p.partials[v];
        if (lane % 4 == 0 && row < p.m)
          all.data[tile.column / kChainN * all.extent + static_cast<long long>(tile.batch) * p.m + row] = partial;
      }
    }
  }

//@endif
//@if kColumnPartials > 0
  __device__ __forceinline__ unsigned place_of_reduced(int v, int warp, int column) const {
    return shared + kReducedAt + group * kReducedBytes + (((slot.at * kColumnPartials + v) * 4 + warp) * kSubtileColumns + column) * 4;
  }

  // 16 columns of a sub-tile, over the warp's 16 rows; those behind the last one are none of the column.
  template <int kBlock, int kOfSubtile>
  __device__ __forceinline__ void reduce_columns(const Tile& tile, const float (&reduced)[kPartials][8]) {
    const int row = tile.row + kBlock * 64 + thread / 32 * 16 + lane / 4;
#pragma unroll
    for (int v = kRowPartials; v < kPartials; ++v) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int first = i / 2 * 4 + i % 2;  // of the thread's two numbers of the column
        float partial = row < p.m ? reduced[v][first] : neutral(v);
        if (row + 8 < p.m) partial = combined(v, partial, reduced[v][first + 2]);
#pragma unroll
        for (int lanes = 4; lanes < 32; lanes *= 2) partial = combined(v, partial, __shfl_xor_sync(0xffffffffu, partial, lanes));
        if (lane < 4) store_number(place_of_reduced(v - kRowPartials, thread / 32, kOfSubtile + i / 2 * 8 + lane * 2 + i % 2), partial);
      }
    }
  }

  // The sub-tile's columns, once its four warps have met. Its place is used again when they have met as often as there are slots.
  template <int kBlock>
  __device__ __forceinline__ void write_columns(const Tile& tile, int first) const {
    const int row = tile.row + kBlock * 64;
    const int column = tile.column + first + thread;
    if (thread >= kSubtileColumns || row >= p.m || column >= p.n) return;
    const long long block = static_cast<long long>(tile.batch) * ((p.m + 63) / 64) + row / 64;
#pragma unroll
    for (int v = kRowPartials; v < kPartials; ++v) {
      float partial = load_number(place_of_reduced(v - kRowPartials, 0, thread));
#pragma unroll
      for (int warp = 1; warp < 4; ++warp) partial = combined(v, partial, load_number(place_of_reduced(v - kRowPartials, warp, thread)));
      const Partials& all = p.partials[v];
      all.data[block * all.extent + column] = partial;
    }
  }

//@endif
  // The chain's sub-tiles are a loop, and this one's sums stand in front: registers have no numbers that are known at run time alone. Where the loop is unrolled,
  // moving them costs nothing. Of two products each has its own run of sums.
  template <int kBlock>
  __device__ __forceinline__ void shift_sums() {
    constexpr int kSubtileSums = kSubtileColumns / 2;
#pragma unroll
    for (int product = 0; product < kProducts; ++product) {
#pragma unroll
      for (int i = product * (kChainN / 2); i + kSubtileSums < (product + 1) * (kChainN / 2); ++i) sums[kBlock][i] = sums[kBlock][i + kSubtileSums];
    }
  }

  // 16 columns of a warp's 16 rows of the sub-tile in front, the first of which is column `first` of the tile: the chain's element, and what is reduced.
  template <int kBlock, int kOfSubtile>
  __device__ __forceinline__ void compute(int first, unsigned slot_address, float (&made)[8]/*@if kPartials > 0*/, float (&reduced)[kPartials][8]/*@endif*/) const {
    constexpr int kInputs = kTileInputs > 0 ? kTileInputs : 1;
    float inputs[kInputs][8];
//@if kTileInputs > 0
#pragma unroll
    for (int i = 0; i < kTileInputs; ++i) load_input(i, inputs[i], slot_address, kOfSubtile);
//@endif
    float in_row[kRowVectors > 0 ? kRowVectors : 1][2][2];  // of two pairs of columns
#pragma unroll
    for (int v = 0; v < kRowVectors; ++v) {
//@if kRowBlocks > 0
      if (!reads_row_vector(0, v)) continue;
//@endif
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        load_pair(in_row[v][i][0], in_row[v][i][1], vectors + (v * kChainN + first + i * 8 + lane % 4 * 2) * 4);
      }
    }
    const auto product_of = [&](int i, int pair, int e) { return sums[kBlock][i * (kChainN / 2) + kOfSubtile / 2 + pair * 2 + e]; };
    const auto column_of = [&](int v, int row) { return column_values[v][kBlock][row]; };
    host_pairs(p, product_of, inputs, in_row, column_of, made/*@if kPartials > 0*/, reduced/*@endif*/);
  }

//@if kGroupColumns > 0
  // The chain's values take the place of the product's sums, and the group is reduced.
  template <int kBlock, int kOfSubtile>
  __device__ __forceinline__ void keep_values(int first, unsigned slot_address) {
    float made[8], reduced[kPartials][8];
    compute<kBlock, kOfSubtile>(first, slot_address, made, reduced);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      sums[kBlock][kOfSubtile / 2 + i] = as_sum(made[i]);
#pragma unroll
      for (int v = 0; v < kPartials; ++v) group_values[i / 2 % 2][v] = combined(v, group_values[i / 2 % 2][v], reduced[v][i]);
    }
  }

  // The sub-tile in front goes behind the others of its group.
  template <int kBlock>
  __device__ __forceinline__ void turn_group() {
    constexpr int kSubtileSums = kSubtileColumns / 2;
#pragma unroll
    for (int product = 0; product < kProducts; ++product) {
      Sum* const of_group = sums[kBlock] + product * (kChainN / 2);
      Sum front[kSubtileSums];
#pragma unroll
      for (int i = 0; i < kSubtileSums; ++i) front[i] = of_group[i];
#pragma unroll
      for (int i = 0; i < kGroupColumns / 2; ++i) of_group[i] = i + kSubtileSums < kGroupColumns / 2 ? of_group[i + kSubtileSums] : front[i + kSubtileSums - kGroupColumns / 2];
    }
  }

  // A sub-tile of the group that is reduced: its operands wait in the slot at `place`.
  template <int kBlock>
  __device__ __forceinline__ void keep_subtile(int first, const Ring<kSlots>& place) {
    const unsigned address = slots + place.at * kSlotBytes;
    if constexpr (kTileInputs > 0) wait_barrier(barriers.slot(group, place.at), place.parity);
    keep_values<kBlock, 0>(first, address);
    keep_values<kBlock, 16>(first + 16, address);
  }

  // Sub-tiles one after the other; then four threads have a row's columns. A loop of one turn would make the compiler unroll the one around it.
  template <int kBlock>
  __device__ __forceinline__ void reduce_group(const Tile& tile, int first) {
#pragma unroll
    for (int v = 0; v < kPartials; ++v) group_values[0][v] = group_values[1][v] = neutral(v);
//@if kGroupColumns == kSubtileColumns
    keep_subtile<kBlock>(first, slot);
//@else
    Ring<kSlots> place = slot;
//@if kUnrolls
#pragma unroll
//@else
#pragma unroll 1
//@endif
    for (int column = first; column < first + kGroupColumns; column += kSubtileColumns) {
      keep_subtile<kBlock>(column, place);
      turn_group<kBlock>();
      place.next();
    }
//@endif
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int v = 0; v < kPartials; ++v) {
        float& value = group_values[half][v];
        value = combined(v, value, __shfl_xor_sync(0xffffffffu, value, 1));
        value = combined(v, value, __shfl_xor_sync(0xffffffffu, value, 2));
      }
//@if kScales > 0
      const int row = tile.row + kBlock * 64 + thread / 32 * 16 + half * 8 + lane / 4;
      const int column = tile.column + first;
      if (lane % 4 == 0 && row < p.m && column < p.n) write_group(p, tile.batch, row, column / kGroupColumns, group_values[half]);
//@endif
      share_group(p, group_values[half], shared_values[half]);
    }
  }

  // 16 columns of the tensor, of a group that is reduced.
  template <int kBlock, int kOfSubtile>
  __device__ __forceinline__ void run_chain(unsigned slot_address) {
    float made[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) made[i] = host_element(p, held_value(sums[kBlock][kOfSubtile / 2 + i]), shared_values[i / 2 % 2]);
    store_result(made, slot_address + kResultAt, kOfSubtile);
  }

//@else
  // 16 columns of the tensor.
  template <int kBlock, int kOfSubtile>
  __device__ __forceinline__ void run_chain(/*@if kPartials > 0*/const Tile& tile, /*@endif*/int first, unsigned slot_address) {
    float made[8];
//@if kPartials > 0
    float reduced[kPartials][8];
//@endif
    compute<kBlock, kOfSubtile>(first, slot_address, made/*@if kPartials > 0*/, reduced/*@endif*/);
    store_result(made, slot_address + kResultAt, kOfSubtile);
//@if kRowPartials > 0
    reduce_rows(tile, first, reduced);
//@endif
//@if kColumnPartials > 0
    reduce_columns<kBlock, kOfSubtile>(tile, reduced);
//@endif
  }

//@endif
  // The sub-tile in front, the first of whose columns is column `first` of the tile.
  template <int kBlock>
  __device__ __forceinline__ void finish_subtile(const Tile& tile, int first/*@if kTileInputs > 0*/, const Tile& next, bool has_next/*@endif*/) {
    const unsigned address = slots + slot.at * kSlotBytes;
    if constexpr (kTileInputs > 0) wait_barrier(barriers.slot(group, slot.at), slot.parity);
//@if kGroupColumns > 0
    if (first % kGroupColumns == 0) reduce_group<kBlock>(tile, first);
    run_chain<kBlock, 0>(address);
    run_chain<kBlock, 16>(address);
//@else
    run_chain<kBlock, 0>(/*@if kPartials > 0*/tile, /*@endif*/first, address);
    run_chain<kBlock, 16>(/*@if kPartials > 0*/tile, /*@endif*/first + 16, address);
//@endif
    show_to_copies();
    meet(group);
//@if kColumnPartials > 0
    write_columns<kBlock>(tile, first);
//@endif
    if (thread == 0) {
//@if kWindows
      const Pixel pixel = pixel_of(p, tile, tile.row + kBlock * 64);
      store_pixels(p.result, tile.column + first, pixel.x, pixel.y, pixel.image, address + kResultAt);
//@else
      store_box(p.result, tile.column + first, tile.row + kBlock * 64, tile.batch, address + kResultAt);
//@endif
//@if kTileInputs > 0
      // The slot before this one is free when its store has read it: operands of kSlots - 1 sub-tiles further go there.
      wait_stores_read<1>();
      const int further = kBlock * (kChainN / kSubtileColumns) + first / kSubtileColumns + kSlots - 1;
      const int into = slot.at == 0 ? kSlots - 1 : slot.at - 1;
      if (further < kSubtiles) {
        load_inputs(tile, further, into);
      } else {
        if (has_next) load_inputs(next, further - kSubtiles, into);
      }
//@else
      // The next sub-tile but one finds its slot free: the others learn it at the next meeting.
      wait_stores_read<kSlots - 2>();
//@endif
    }
    slot.next();
  }

  template <int kBlock>
  __device__ __forceinline__ void finish_block(const Tile& tile/*@if kTileInputs > 0*/, const Tile& next, bool has_next/*@endif*/) {
//@if kRowPartials > 0
    begin_rows();
//@endif
//@if kUnrolls
#pragma unroll
//@else
#pragma unroll 1
//@endif
    for (int first = 0; first < kChainN; first += kSubtileColumns) {
      finish_subtile<kBlock>(tile, first/*@if kTileInputs > 0*/, next, has_next/*@endif*/);
      shift_sums<kBlock>();
    }
//@if kRowPartials > 0
    write_rows<kBlock>(tile);
//@endif
  }

//@if kSplit > 1
  // Where the block that runs the chain of these sums has what a block of the cluster sums up: 16 bytes for each thread.
  __device__ __forceinline__ unsigned place_of_sums(unsigned of_depth, int product, int i) const {
    const int run = (static_cast<int>(of_depth) * kGroups + group) * kProducts + product;
    return shared + (run * (kChainN / 8) + i / 4) * 2048 + thread * 16;
  }

  // Each block gives the others their columns' sums, and adds up those of its own in the order of the depth. They lie where the stages were: so all
  // blocks have multiplied theirs before.
  __device__ __forceinline__ void exchange_sums() {
    meet_cluster();
#pragma unroll
    for (int i = 0; i < kTileN / 2; i += 4) {
      const int of_product = i % (kResultN / 2);
      const unsigned owner = of_product / (kChainN / 2);
      give_sums(place_of_sums(share, i / (kResultN / 2), of_product % (kChainN / 2)), owner, &sums[0][i]);
    }
    meet_cluster();
#pragma unroll
    for (int i = 0; i < kTileN / kSplit / 2; i += 4) {
      const int product = i / (kChainN / 2);
      load_sums(place_of_sums(0, product, i % (kChainN / 2)), &sums[0][i]);
#pragma unroll
      for (unsigned other = 1; other < kSplit; ++other) {
        Sum more[4];
        load_sums(place_of_sums(other, product, i % (kChainN / 2)), more);
#pragma unroll
        for (int e = 0; e < 4; ++e) sums[0][i + e] += more[e];
      }
    }
  }

  // One tile, whose depth the cluster's blocks share.
  __device__ __forceinline__ void run() {
    const Tile tile = own(tile_of(p, static_cast<int>(blockIdx.x) / kSplit, rank));
//@if kTileInputs > 0
    if (thread == 0) {
#pragma unroll
      for (int i = 0; i < kSlots - 1; ++i) load_inputs(tile, i, i);
    }
//@endif
    load_vectors(tile);
    multiply_tile(/*@if kScaled*/tile/*@endif*/);
    share_vectors();
    exchange_sums();
    finish_block<0>(tile/*@if kTileInputs > 0*/, tile, false/*@endif*/);
    if (thread == 0) wait_stores_read<0>();
  }
//@else
  __device__ __forceinline__ void run() {
    const int step = static_cast<int>(gridDim.x) / kCluster * (kTakesTurns ? kGroups : 1);
    int index = static_cast<int>(blockIdx.x) / kCluster + (kTakesTurns ? group * static_cast<int>(gridDim.x) / kCluster : 0);
    if (kTakesTurns && group == 1) give_turn(0);
    if (index >= p.tiles) return;
    if (kTakesTurns) ring.advance(group * p.k_blocks);
    Tile tile = own(tile_of(p, index, rank));
//@if kTileInputs > 0
    if (thread == 0) {
#pragma unroll
      for (int i = 0; i < kSlots - 1; ++i) load_inputs(tile, i, i);
    }
//@endif
    while (true) {
      index += step;
      const bool has_next = index < p.tiles;
      Tile next = tile;
      if (has_next) next = own(tile_of(p, index, rank));
      load_vectors(tile);
      multiply_tile(/*@if kScaled*/tile/*@endif*/);
      if (kTakesTurns) ring.advance(p.k_blocks);
      share_vectors();
      finish_block<0>(tile/*@if kTileInputs > 0*/, next, has_next/*@endif*/);
      if constexpr (kBlocks == 2) finish_block<1>(tile/*@if kTileInputs > 0*/, next, has_next/*@endif*/);
      if (!has_next) break;
      tile = next;
    }
    if (thread == 0) wait_stores_read<0>();
  }
//@endif
};
//@end

//@section gemm : multiplier
__device__ __forceinline__ void run_gemm(const Params& p) {
  const unsigned shared = shared_memory<kSharedBytes>();
  const Barriers barriers{shared + kBarriersAt};
//@if kRowBlocks > 1
  const unsigned rank = cluster_rank();
//@else
  const unsigned rank = kCluster == 1 ? 0 : cluster_rank();
//@endif
  const int group = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 128, 0);
  if (threadIdx.x == 0) {
    prefetch_map(p.left);
#pragma unroll
    for (int i = 0; i < kProducts; ++i) prefetch_map(p.right[i]);
    prefetch_map(p.result);
#pragma unroll
    for (int stage = 0; stage < kStages; ++stage) {
      init_barrier(barriers.full(stage), 1);
      init_barrier(barriers.empty(stage), /*@if kRowBlocks > 0*/kRowBlocks/*@endif*//*@if kRowBlocks == 0*/kCluster/*@endif*/ * 4 * (kTakesTurns ? 1 : kGroups));  // warps that read the stage, of all blocks
    }
#pragma unroll
    for (int i = 0; i < kGroups * kSlots; ++i) init_barrier(barriers.slot(0, i), 1);
//@if kRowBlocks > 1
#pragma unroll
    for (int i = 0; i < kGroups * 2; ++i) init_barrier(barriers.exchange(0, i), 1);
//@endif
    publish_barriers();
  }
  if constexpr (/*@if kRowBlocks > 0*/kRowBlocks/*@endif*//*@if kRowBlocks == 0*/kCluster/*@endif*/ == 1) {
    __syncthreads();
  } else {
    meet_cluster();
  }
//@if kSplit > 1
  const unsigned share = cluster_rank();
  const Depth depth(p, share);
  if (group == 0) {
    give_registers<24>();
    if (threadIdx.x == 0) copy_operands(p, shared, barriers, rank, depth);
    __syncwarp();
    // When sums are exchanged, all threads meet.
    meet_cluster();
    meet_cluster();
  } else {
    take_registers<240>();
    Multiplier(p, shared, barriers, share, depth, group - 1).run();
  }
//@else
  if (group == 0) {
    give_registers<24>();
    if (threadIdx.x == 0) copy_operands(p, shared, barriers, rank);
    __syncwarp();
  } else {
    take_registers<240>();
//@if kRowBlocks > 0
    Multiplier multiplier(p, shared, barriers, rank, group - 1);
    run_whole_rows(multiplier);
//@else
    Multiplier(p, shared, barriers, rank, group - 1).run();
//@endif
  }
//@endif
//@if kCluster > 1 || kRowBlocks > 1
  // A block stays until its neighbour has copied the last tile into it and has released what it copied.
  meet_cluster();
//@endif
}
//@end
