// What the kernel of templates/gemm/gemm.cuh has in shared memory, its barriers and tiles, and the warp group that copies: TMA brings both operands' tiles of each stage, in
// order. Where it writes, the warps that multiply have left the stage (`empty`); when all bytes are there, they may read it (`full`).

//@section gemm_layout
constexpr int kTileK = 128 / kFactorBytes;  // one row of the swizzle
constexpr int kGroups = 2;  // warp groups that multiply
constexpr int kGroupRows = 64 * kBlocks;
constexpr int kTileM = kTakesTurns ? kGroupRows : kGroups * kGroupRows;
constexpr int kSubtileColumns = 32;
constexpr int kResultN = kTileN / kProducts;  // columns of the result that a tile is of
constexpr int kChainN = kResultN / kSplit;  // of these, whose chain this block runs
constexpr int kSubtiles = kBlocks * (kChainN / kSubtileColumns);  // of a group's tile

// Shared memory, in bytes.
constexpr int kLeftBytes = kTileM * 128;
constexpr int kRightBytes = kTileN * 128;
constexpr int kStageBytes = kLeftBytes + kRightBytes;
constexpr int kSlotsAt = kStages * kStageBytes;
constexpr int kVectorsAt = kSlotsAt + kGroups * kSlots * kSlotBytes;
constexpr int kVectorBytes = kRowVectors * kChainN * 4;  // of a group
//@if kColumnPartials > 0
constexpr int kReducedAt = kVectorsAt + kGroups * kVectorBytes;  // columns of sub-tiles, by what each warp reduced them to
constexpr int kReducedBytes = kSlots * kColumnPartials * 4 * kSubtileColumns * 4;  // of a group
constexpr int kBarriersAt = kReducedAt + kGroups * kReducedBytes;
//@else
//@if kRowBlocks > 1
constexpr int kExchangedAt = kVectorsAt + kGroups * kVectorBytes;  // what the blocks of a row give each other, for one exchange after the other
constexpr int kExchangedBytes = kRowBlocks * kMostExchanged * 64 * 4;  // of a group, in an exchange
constexpr int kBarriersAt = kExchangedAt + kGroups * 2 * kExchangedBytes;
//@else
constexpr int kBarriersAt = kVectorsAt + kGroups * kVectorBytes;
//@endif
//@endif
//@if kRowBlocks > 1
constexpr int kSharedBytes = kBarriersAt + (2 * kStages + kGroups * kSlots + kGroups * 2) * 8;
//@else
constexpr int kSharedBytes = kBarriersAt + (2 * kStages + kGroups * kSlots) * 8;
//@endif
static_assert(kSharedBytes <= 232448, "tiles, slots and vectors fit a multiprocessor's shared memory");
//@if kSplit > 1
static_assert(kCluster == 1 && kBlocks == 1 && kTileM * kTileN * 4 <= kSlotsAt, "all sums of a tile fit the place of the stages");
//@endif
//@end

//@section producer : gemm_layout, shared_barriers, clusters, tensor_maps
struct Barriers {
  unsigned base;
  __device__ __forceinline__ unsigned full(int stage) const { return base + stage * 8; }
  __device__ __forceinline__ unsigned empty(int stage) const { return base + (kStages + stage) * 8; }
  __device__ __forceinline__ unsigned slot(int group, int slot) const {
    return base + (2 * kStages + group * kSlots + slot) * 8;
  }
//@if kRowBlocks > 1
  __device__ __forceinline__ unsigned exchange(int group, int number) const {
    return base + (2 * kStages + kGroups * kSlots + group * 2 + number) * 8;
  }
//@endif
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
//@if kRowBlocks > 0
  return Tile{row * kTileM, static_cast<int>(rank) * kResultN, batch};
//@else
  return Tile{(row * kCluster + static_cast<int>(rank)) * kTileM, column * kResultN, batch};
//@endif
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
//@if kSplit > 1
// The tiles along the depth that one block of a cluster has.
struct Depth {
  int first, end;
  __device__ __forceinline__ Depth(const Params& p, unsigned share)
      : first(p.k_blocks * static_cast<int>(share) / kSplit), end(p.k_blocks * (static_cast<int>(share) + 1) / kSplit) {}
};

//@endif
// The copying warp group's one thread.
__device__ __forceinline__ void copy_operands(const Params& p, unsigned shared, Barriers barriers, unsigned rank/*@if kSplit > 1*/, Depth depth/*@endif*/) {
  Ring<kStages> ring;
//@if kSplit > 1
  {
    const Tile tile = tile_of(p, static_cast<int>(blockIdx.x) / kSplit, rank);
//@else
//@if kRowBlocks > 0
  for (int index = static_cast<int>(blockIdx.x) / kRowBlocks; index < p.tiles; index += static_cast<int>(gridDim.x) / kRowBlocks) {
//@else
  for (int index = static_cast<int>(blockIdx.x) / kCluster; index < p.tiles; index += static_cast<int>(gridDim.x) / kCluster) {
//@endif
    const Tile tile = tile_of(p, index, rank);
//@endif
//@if kWindows
    FilterPixel pixel(p, tile);
//@if kSplit > 1
    for (int block = 0; block < depth.first; ++block) pixel.next(p);
//@endif
//@endif
//@if kSplit > 1
    for (int block = depth.first; block < depth.end; ++block, ring.next()) {
//@else
    for (int block = 0; block < p.k_blocks; ++block, ring.next()) {
//@endif
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
//@if kRowBlocks > 1
#pragma unroll
      for (int box = 0; box < kTileM / kLeftBoxRows; ++box) {
        if (box % kRowBlocks != static_cast<int>(rank)) continue;
        const int row = tile.row + box * kLeftBoxRows;
        load_box_to_all<kRowBlocks>(left + box * kLeftBoxRows * 128, p.left, kLeftTransposed ? row : k, kLeftTransposed ? k : row, tile.batch, full);
      }
//@else
      if constexpr (kLeftTransposed) {
#pragma unroll
        for (int row = 0; row < kTileM; row += 64) load_box(left + row * 128, p.left, tile.row + row, k, tile.batch, full);
      } else {
        load_box(left, p.left, k, tile.row, tile.batch, full);
      }
//@endif
//@endif
      constexpr int kShare = kTileN / kCluster;  // of the right tile, that this block copies: the columns of each product stand together
      constexpr int kBox = kRightTransposed ? 64 : kShare < kResultN ? kShare : kResultN;
#pragma unroll
      for (int column = 0; column < kShare; column += kBox) {
        const int at = /*@if kRowBlocks == 0*/static_cast<int>(rank) * kShare + /*@endif*/column;
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
//@end
