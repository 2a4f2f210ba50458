// Where a tile of a product lies, and what a stage of it has of both factors, where warps multiply: copied by all threads of a block, 16 bytes at a time. Of a
// convolution (kWindows) a thread knows where the windows of its rows begin, and steps through the filters' pixels. For templates/gemm/warp_gemm.cuh.

//@section warp_copies : warp_layout, copies
struct Tile {
  int row, column, batch;
};

// Tiles in bands of p.band rows of tiles, column by column: what runs at one time shares its factors in the L2 cache.
__device__ __forceinline__ Tile tile_of(const Params& p, int index) {
//@if kWindows
  const int batch = 0;
  const int left = index;
//@else
  const int in_batch = p.tile_rows * p.tile_columns;
  const int batch = index / in_batch;
  const int left = index - batch * in_batch;
//@endif
  const int of_a_band = p.band * p.tile_columns;
  const int band = left / of_a_band;
  const int first = band * p.band;
  const int rows = p.tile_rows - first < p.band ? p.tile_rows - first : p.band;
  const int within = left - band * of_a_band;
  const int column = within / rows;
  return Tile{(first + within - column * rows) * kTileM, column * kResultN, batch};
}

// Where a factor's tile has a byte of a row: chunks of 16 bytes are exchanged by the bits above them, so that eight rows of a matrix stand in different banks.
__device__ __forceinline__ int place_in_rows(int row, int byte) {
  const int at = row * kDepthBytes + byte;
  return at ^ ((at >> 7 & 3) << 4);
}
// The same of a factor that is transposed, whose rows go along the depth: 64 of their numbers stand together.
__device__ __forceinline__ int place_in_columns(int column, int k) {
  const int at = column / 64 * (kTileK * 128) + k * 128 + column % 64 * 2;
  return at ^ ((at >> 7 & 7) << 4);
}

// kExtent rows of a factor's tile, or columns of one that is transposed, which stand from `place` on. `first` and `k` say where they begin, and `extent` and `depth` where
// the factor ends. A thread's chunks stand below each other, by whole rounds of the exchange.
template <bool kTransposed, int kExtent>
__device__ __forceinline__ void copy_factor(unsigned target, int place, const Matrix& factor, int batch, int first, int k, int extent, int depth) {
  constexpr int kNumbers = 16 / kFactorBytes;                           // of a chunk
  constexpr int kChunks = (kTransposed ? kExtent : kTileK) / kNumbers;  // of a row
  constexpr int kRows = kThreads / kChunks;                             // that all threads copy at a time
  constexpr int kPitch = kTransposed ? 128 : kDepthBytes;
  const int outer = static_cast<int>(threadIdx.x) / kChunks;
  const int inner = static_cast<int>(threadIdx.x) % kChunks * kNumbers;
  const int row = (kTransposed ? k : first) + outer;
  const int rows = (kTransposed ? depth : extent) - row;
  const int number = (kTransposed ? first : k) + inner;
  const int bytes = bytes_inside((kTransposed ? extent : depth) - number, kFactorBytes);
  const char* const source = static_cast<const char*>(factor.data) + batch * factor.batch_stride + row * factor.stride + number * kFactorBytes;
  target += kTransposed ? place_in_columns(place + inner, outer) : place_in_rows(place + outer, inner * kFactorBytes);
#pragma unroll
  for (int at = 0; at < kExtent * kDepthBytes / 16 / kChunks; at += kRows) {
    copy_chunk(target + at * kPitch, source + at * factor.stride, at < rows ? bytes : 0);
  }
}

//@if kWindows
// What the next stage has: channels of a pixel of the filters, and how far behind a window's first pixel that pixel is.
struct FilterPixel {
  int channel = 0, number = 0, x = 0, y = 0;
  __device__ __forceinline__ void next(const Params& p) {
    channel += kTileK;
    if (channel < p.channels) return;
    channel = 0;
    ++number;
    x += p.dilation_x;
    if (x < p.filter_reach) return;
    x = 0;
    y += p.dilation_y;
  }
};

// The rows of a tile that a thread copies: where in its image each one's window begins. Windows may begin outside, and those behind the last row lie there as a whole.
struct Windows {
  static constexpr int kChunks = kDepthBytes / 16;  // of a row
  static constexpr int kStep = kThreads / kChunks;  // rows that all threads copy at a time
  static constexpr int kOwn = kTileM / kStep;
  int x[kOwn], y[kOwn];
  int first[kOwn];  // of the window: where this thread's 16 bytes lie, in units of as many

  __device__ __forceinline__ Windows(const Params& p, int first_row) {
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      const int row = first_row + static_cast<int>(threadIdx.x) / kChunks + i * kStep;
      const int above = divide(row, p.by_width);  // rows of pixels
      const int image = divide(above, p.by_height);
      x[i] = (row - above * p.width) * p.stride_x - p.padding_x;
      const int down = (above - image * p.height) * p.stride_y - p.padding_y;
      y[i] = row < p.m ? down : -0x7fffffff;
      const long long bytes = image * p.left.image_stride + down * p.left.row_stride + x[i] * p.left.pixel_stride;
      first[i] = static_cast<int>(bytes / 16) + static_cast<int>(threadIdx.x) % kChunks;
    }
  }

  // What all windows have of one pixel of the filters, into the left factor's tile: zeros outside of the image, and behind the last channel.
  __device__ __forceinline__ void copy(const Params& p, const FilterPixel& pixel, unsigned target) {
    const int chunk = static_cast<int>(threadIdx.x) % kChunks;
    const int bytes = bytes_inside(p.channels - pixel.channel - chunk * (16 / kFactorBytes), kFactorBytes);
    const char* const source = static_cast<const char*>(p.left.data) + pixel.y * p.left.row_stride + pixel.x * p.left.pixel_stride + pixel.channel * kFactorBytes;
    target += place_in_rows(static_cast<int>(threadIdx.x) / kChunks, chunk * 16);
#pragma unroll
    for (int i = 0; i < kOwn; ++i) {
      // The compiler is told that this may change, or it would keep the address of each, which has twice as many bits.
      asm volatile("" : "+r"(first[i]));
      const bool is_inside = static_cast<unsigned>(y[i] + pixel.y) < static_cast<unsigned>(p.input_height) &&
                             static_cast<unsigned>(x[i] + pixel.x) < static_cast<unsigned>(p.input_width);
      copy_chunk(target + i * kStep * kDepthBytes, source + first[i] * 16ll, is_inside ? bytes : 0);
    }
  }
};

//@endif
//@end
