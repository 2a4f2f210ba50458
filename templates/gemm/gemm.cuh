// The skeleton of a matrix product that hosts a chain, for sm_90a. A block stays on its multiprocessor and works on one tile of the result after
// another. One warp group copies: it keeps kStages pairs of operand tiles on their way into shared memory. Two warp groups multiply, and each runs the
// chain over its accumulators: together on the halves of a tile, or (kTakesTurns) on tiles of their own, where one's chain runs beside the other's
// products. Two blocks of a cluster have tiles one below the other and copy the right operand's tile for each other. Two products of one left factor share
// a tile: each has half of its columns, and a thread that has an element of the one has that of the other.
//
// The left factor of a convolution is the images (kWindows). A row of a tile is a pixel of the result, and all of them are a patch of pixels beside and below
// each other. What one pixel of the filters meets is a box of the images then, and zeros where that lies outside. Boxes of the result are halves of patches.
//
// Codegen writes in front of this: the constants, Params, `multiply` (one wgmma), `load_input`, `input_at` and `store_result` (what has the result's size), `row_vector` and
// `column_vector` (what has one value per column or row of the result), and `host_chain`.
//
// A chain meets the result in sub-tiles of 64 rows and 32 columns, which lie in shared memory as TMA swizzles rows of so many bytes. Full operands arrive
// there by TMA ahead of need. The result takes the place of the first, or has a place of its own if its numbers are of another size.
//
// Sums of 8-bit floating-point factors keep about 14 bits while one instruction adds to what the one before left. So they are taken out after each stage, 128 numbers, and
// added in f32 (kPromotes); DeepSeek-V3's report, section 3.3.2, measured what that loses otherwise.

//@section gemm_layout
constexpr int kTileK = 128 / kFactorBytes;  // one row of the swizzle
constexpr int kGroups = 2;  // warp groups that multiply
constexpr int kGroupRows = 64 * kBlocks;
constexpr int kTileM = kTakesTurns ? kGroupRows : kGroups * kGroupRows;
constexpr int kSubtileColumns = 32;
constexpr int kResultN = kTileN / kProducts;  // columns of the result that a tile is of
constexpr int kSubtiles = kBlocks * (kResultN / kSubtileColumns);  // of a group's tile

// Shared memory, in bytes.
constexpr int kLeftBytes = kTileM * 128;
constexpr int kRightBytes = kTileN * 128;
constexpr int kStageBytes = kLeftBytes + kRightBytes;
constexpr int kSlotsAt = kStages * kStageBytes;
constexpr int kVectorsAt = kSlotsAt + kGroups * kSlots * kSlotBytes;
constexpr int kVectorBytes = kRowVectors * kResultN * 4;  // of a group
constexpr int kBarriersAt = kVectorsAt + kGroups * kVectorBytes;
constexpr int kSharedBytes = kBarriersAt + (2 * kStages + kGroups * kSlots) * 8;
static_assert(kSharedBytes <= 232448, "tiles, slots and vectors fit a multiprocessor's shared memory");
//@end

//@section gemm : host_pairs, gemm_layout, shared_barriers, clusters, tensor_maps, matrices, products
struct Barriers {
  unsigned base;
  __device__ __forceinline__ unsigned full(int stage) const { return base + stage * 8; }
  __device__ __forceinline__ unsigned empty(int stage) const { return base + (kStages + stage) * 8; }
  __device__ __forceinline__ unsigned slot(int group, int slot) const {
    return base + (2 * kStages + group * kSlots + slot) * 8;
  }
};

// Where a ring of kCount places stands, and how often it went round.
template <int kCount>
struct Ring {
  int at = 0;
  unsigned parity = 0;
  __device__ __forceinline__ void advance(int by) {
    at += by;
    parity ^= static_cast<unsigned>(at / kCount) & 1u;
    at %= kCount;
  }
  __device__ __forceinline__ void next() {
    at = at + 1 == kCount ? 0 : at + 1;
    parity ^= at == 0 ? 1u : 0u;
  }
};

//@if kWindows
// A tile of the result: the first row within its patch, and where the patch begins.
struct Tile {
  int row, column, x, y, image;
};
//@else
// The first row and column of a tile of the result.
struct Tile {
  int row, column, batch;
};
//@endif

// Tiles in bands of p.band rows of clusters, column by column: what runs at one time shares its operands in the L2 cache.
__device__ __forceinline__ Tile tile_of(const Params& p, int index, unsigned rank) {
//@if kWindows
  const int left = index;
//@else
  const int in_batch = p.cluster_rows * p.tile_columns;
  const int batch = index / in_batch;
  const int left = index - batch * in_batch;
//@endif
  const int of_a_band = p.band * p.tile_columns;
  const int band = left / of_a_band;
  const int first = band * p.band;
  const int rows = p.cluster_rows - first < p.band ? p.cluster_rows - first : p.band;
  const int within = left - band * of_a_band;
  const int column = within / rows;
  const int row = first + (within - column * rows);
//@if kWindows
  const int patch = row * kCluster + static_cast<int>(rank);
  const int patches = patch / p.patches_across;  // above it
  const int images = patches / p.patches_down;
  return Tile{0, column * kResultN, (patch - patches * p.patches_across) << p.width_shift,
              (patches - images * p.patches_down) << p.height_shift, images * (kTileM >> p.width_shift >> p.height_shift)};
//@else
  return Tile{(row * kCluster + static_cast<int>(rank)) * kTileM, column * kResultN, batch};
//@endif
}

//@if kWindows
// Of an image of the result.
struct Pixel {
  int x, y, image;
};

// That of a row of a patch: the next row has the next pixel along the width, and then along the height.
__device__ __forceinline__ Pixel pixel_of(const Params& p, const Tile& tile, int row) {
  const int above = row >> p.width_shift;
  return Pixel{tile.x + (row & ((1 << p.width_shift) - 1)), tile.y + (above & ((1 << p.height_shift) - 1)),
               tile.image + (above >> p.height_shift)};
}

// What the next stage has: channels of a pixel of the filters, and where the patch's windows have that pixel.
struct FilterPixel {
  int channel, number, column, x, y, first_x;
  __device__ __forceinline__ FilterPixel(const Params& p, const Tile& tile)
      : channel(0), number(0), column(0), x(tile.x * p.stride_x - p.padding_x), y(tile.y * p.stride_y - p.padding_y), first_x(x) {}
  __device__ __forceinline__ void next(const Params& p) {
    channel += kTileK;
    if (channel < p.channels) return;
    channel = 0;
    ++number;
    ++column;
    x += p.dilation_x;
    if (column < p.filter_width) return;
    column = 0;
    x = first_x;
    y += p.dilation_y;
  }
};

//@endif
// The copying warp group's one thread.
__device__ __forceinline__ void copy_operands(const Params& p, unsigned shared, Barriers barriers, unsigned rank) {
  Ring<kStages> ring;
  for (int index = static_cast<int>(blockIdx.x) / kCluster; index < p.tiles; index += static_cast<int>(gridDim.x) / kCluster) {
    const Tile tile = tile_of(p, index, rank);
//@if kWindows
    FilterPixel pixel(p, tile);
//@endif
    for (int block = 0; block < p.k_blocks; ++block, ring.next()) {
      wait_barrier(barriers.empty(ring.at), ring.parity ^ 1u);
      const unsigned full = barriers.full(ring.at);
      const unsigned left = shared + ring.at * kStageBytes;
      const unsigned right = left + kLeftBytes;
      expect_bytes(full, kStageBytes);
//@if kWindows
      const int k = pixel.channel;
      load_pixels(left, p.left, k, pixel.x, pixel.y, tile.image, full);
//@else
      const int k = block * kTileK;
      if constexpr (kLeftTransposed) {
#pragma unroll
        for (int row = 0; row < kTileM; row += 64) load_box(left + row * 128, p.left, tile.row + row, k, tile.batch, full);
      } else {
        load_box(left, p.left, k, tile.row, tile.batch, full);
      }
//@endif
      constexpr int kShare = kTileN / kCluster;  // of the right tile, that this block copies: the columns of each product stand together
      constexpr int kBox = kRightTransposed ? 64 : kShare < kResultN ? kShare : kResultN;
#pragma unroll
      for (int column = 0; column < kShare; column += kBox) {
        const int at = static_cast<int>(rank) * kShare + column;
        const TensorMap& factor = p.right[at / kResultN];
        const int n = tile.column + at % kResultN;
        const int x = kRightTransposed ? n : k;
        const int y = /*@if kWindows*/pixel.number/*@endif*//*@if !kWindows*/kRightTransposed ? k : n/*@endif*/;
        if constexpr (kCluster == 2) {
          load_box_to_both(right + at * 128, factor, x, y, /*@if kWindows*/n/*@endif*//*@if !kWindows*/tile.batch/*@endif*/, full);
        } else {
          load_box(right + at * 128, factor, x, y, /*@if kWindows*/n/*@endif*//*@if !kWindows*/tile.batch/*@endif*/, full);
        }
      }
//@if kWindows
      pixel.next(p);
//@endif
    }
  }
}

// A warp group that multiplies. Of sub-tile columns a thread owns the pairs 2 * (lane % 4) of every 8, in rows lane / 4 and lane / 4 + 8 of its warp's 16.
struct Multiplier {
  const Params& p;
  unsigned shared;
  Barriers barriers;
  unsigned rank;
  int group, thread, lane;
  unsigned slots, vectors;
  Ring<kStages> ring;
  Ring<kSlots> slot;
  Sum sums[kBlocks][kTileN / 2];
  float row_values[kRowVectors > 0 ? kRowVectors : 1][(kResultN + 127) / 128];
  float column_values[kColumnVectors > 0 ? kColumnVectors : 1][kBlocks][2];

  __device__ __forceinline__ Multiplier(const Params& params, unsigned shared_memory, Barriers all, unsigned in_cluster, int which)
      : p(params), shared(shared_memory), barriers(all), rank(in_cluster), group(which), thread(threadIdx.x % 128), lane(threadIdx.x % 32) {
    slots = shared + kSlotsAt + group * kSlots * kSlotBytes;
    vectors = shared + kVectorsAt + group * kVectorBytes;
  }

  // The group's own part of a block's tile.
  __device__ __forceinline__ Tile own(Tile tile) const {
    if (!kTakesTurns) tile.row += group * kGroupRows;
    return tile;
  }

  // Values of vectors are asked for before the products, and wait in registers.
  __device__ __forceinline__ void load_vectors(const Tile& tile) {
//@if kRowVectors > 0
#pragma unroll
    for (int v = 0; v < kRowVectors; ++v) {
#pragma unroll
      for (int i = 0; i < (kResultN + 127) / 128; ++i) {
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
        for (int i = 0; i < (kResultN + 127) / 128; ++i) {
          if (i * 128 + thread < kResultN) {
            store_number(vectors + (v * kResultN + i * 128 + thread) * 4, row_values[v][i]);
          }
        }
      }
      meet(group);
    }
  }

  __device__ __forceinline__ void release(int stage) {
    if (lane < kCluster) arrive_at(barriers.empty(stage), static_cast<unsigned>(lane));
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
  __device__ __forceinline__ void multiply_stage(Sum (&stage)[kInstructionN / 2], bool begins) {
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
        wait_products<0>();
        end_sums(stage);
#pragma unroll
        for (int i = 0; i < kInstructionN / 2; ++i) {
          Sum& sum = sums[block][column / 2 + i];
          sum = begins ? stage[i] : sum + stage[i];
        }
      }
    }
  }

  __device__ __forceinline__ void multiply_tile() {
    Sum stage[kInstructionN / 2];
    begin_sums(stage);
    multiply_stage(stage, true);
    release(ring.at);
    ring.next();
#pragma unroll 1
    for (int block = 1; block < p.k_blocks; ++block) {
      multiply_stage(stage, false);
      release(ring.at);
      ring.next();
    }
  }

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
    for (int block = 1; block < p.k_blocks; ++block) {
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
    const int row = tile.row + subtile / (kResultN / kSubtileColumns) * 64;
    const int column = tile.column + subtile % (kResultN / kSubtileColumns) * kSubtileColumns;
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
  // 16 columns of a warp's 16 rows of a sub-tile.
  template <int kBlock, int kColumn>
  __device__ __forceinline__ void run_chain(unsigned slot_address) {
    constexpr int kOfSubtile = kColumn % kSubtileColumns;
    constexpr int kInputs = kTileInputs > 0 ? kTileInputs : 1;
    float inputs[kInputs][8];
//@if kTileInputs > 0
#pragma unroll
    for (int i = 0; i < kTileInputs; ++i) load_input(i, inputs[i], slot_address, kOfSubtile);
//@endif
    float in_row[kRowVectors > 0 ? kRowVectors : 1][2][2];  // of two pairs of columns
#pragma unroll
    for (int v = 0; v < kRowVectors; ++v) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        load_pair(in_row[v][i][0], in_row[v][i][1], vectors + (v * kResultN + kColumn + i * 8 + lane % 4 * 2) * 4);
      }
    }
    const auto product_of = [&](int i, int pair, int e) { return sums[kBlock][i * (kResultN / 2) + kColumn / 2 + pair * 2 + e]; };
    const auto column_of = [&](int v, int row) { return column_values[v][kBlock][row]; };
    float made[8];
    host_pairs(p, product_of, inputs, in_row, column_of, made);
    store_result(made, slot_address + kResultAt, kOfSubtile);
  }

  template <int kSubtile>
  __device__ __forceinline__ void finish_subtile(const Tile& tile, const Tile& next, bool has_next) {
    constexpr int kBlock = kSubtile / (kResultN / kSubtileColumns);
    constexpr int kColumn = kSubtile % (kResultN / kSubtileColumns) * kSubtileColumns;
    const unsigned address = slots + slot.at * kSlotBytes;
    if constexpr (kTileInputs > 0) wait_barrier(barriers.slot(group, slot.at), slot.parity);
    run_chain<kBlock, kColumn>(address);
    run_chain<kBlock, kColumn + 16>(address);
    show_to_copies();
    meet(group);
    if (thread == 0) {
//@if kWindows
      const Pixel first = pixel_of(p, tile, tile.row + kBlock * 64);
      store_pixels(p.result, tile.column + kColumn, first.x, first.y, first.image, address + kResultAt);
//@else
      store_box(p.result, tile.column + kColumn, tile.row + kBlock * 64, tile.batch, address + kResultAt);
//@endif
//@if kTileInputs > 0
      // The slot before this one is free when its store has read it: operands of kSlots - 1 sub-tiles further go there.
      wait_stores_read<1>();
      constexpr int kNext = kSubtile + kSlots - 1;
      const int into = slot.at == 0 ? kSlots - 1 : slot.at - 1;
      if constexpr (kNext < kSubtiles) {
        load_inputs(tile, kNext, into);
      } else {
        if (has_next) load_inputs(next, kNext - kSubtiles, into);
      }
//@else
      // The next sub-tile but one finds its slot free: the others learn it at the next meeting.
      wait_stores_read<kSlots - 2>();
//@endif
    }
    slot.next();
    if constexpr (kSubtile + 1 < kSubtiles) finish_subtile<kSubtile + 1>(tile, next, has_next);
  }

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
      multiply_tile();
      if (kTakesTurns) ring.advance(p.k_blocks);
      share_vectors();
      finish_subtile<0>(tile, next, has_next);
      if (!has_next) break;
      tile = next;
    }
    if (thread == 0) wait_stores_read<0>();
  }
};

__device__ __forceinline__ void run_gemm(const Params& p) {
  const unsigned shared = shared_memory<kSharedBytes>();
  const Barriers barriers{shared + kBarriersAt};
  const unsigned rank = kCluster == 1 ? 0 : cluster_rank();
  const int group = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 128, 0);
  if (threadIdx.x == 0) {
    prefetch_map(p.left);
#pragma unroll
    for (int i = 0; i < kProducts; ++i) prefetch_map(p.right[i]);
    prefetch_map(p.result);
#pragma unroll
    for (int stage = 0; stage < kStages; ++stage) {
      init_barrier(barriers.full(stage), 1);
      init_barrier(barriers.empty(stage), kCluster * 4 * (kTakesTurns ? 1 : kGroups));  // warps that read the stage, of all blocks
    }
#pragma unroll
    for (int i = 0; i < kGroups * kSlots; ++i) init_barrier(barriers.slot(0, i), 1);
    publish_barriers();
  }
  if constexpr (kCluster == 1) {
    __syncthreads();
  } else {
    meet_cluster();
  }
  if (group == 0) {
    give_registers<24>();
    if (threadIdx.x == 0) copy_operands(p, shared, barriers, rank);
    __syncwarp();
  } else {
    take_registers<240>();
    Multiplier(p, shared, barriers, rank, group - 1).run();
  }
  // A block stays until its neighbour has copied the last tile into it and has released what it copied.
  if constexpr (kCluster > 1) meet_cluster();
}
//@end
