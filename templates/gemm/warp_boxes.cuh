// Sub-tiles of results and of operands where warps multiply: on their way between memory and shared memory, 16 bytes at a time, by the warp that has them.
// For templates/gemm/warp_gemm.cuh; codegen calls these with the types of a kernel.

//@section rows_of_boxes : boxes, copies, fragments
// Pairs of 16-bit numbers, as store_halves() has them, without the instruction of sm_90.
__device__ __forceinline__ void store_pairs_of_halves(const float (&values)[8], unsigned box, int column) {
#pragma unroll
  for (int pair = 0; pair < 4; ++pair) {
    store_word(box + place_of_pair<2>(pair, column), pack(values[2 * pair], values[2 * pair + 1]));
  }
}

// How many of 16 bytes lie in a row of numbers that ends `left` numbers further.
__device__ __forceinline__ int bytes_inside(int left, int bytes) {
  const int inside = left * bytes;
  return inside < 0 ? 0 : inside < 16 ? inside : 16;
}

// Visits the 16 bytes that this lane moves of its warp's 16 rows of a sub-tile: with row, column, and how many of them are of the tensor, of which `rows` and `columns` are left.
template <int kBytes, class Visit>
__device__ __forceinline__ void visit_rows(int rows, int columns, const Visit& visit) {
  constexpr int kChunks = kSubtileColumns * kBytes / 16;  // of a row
#pragma unroll
  for (int first = 0; first < 16 * kChunks; first += 32) {
    const int at = first + static_cast<int>(threadIdx.x % 32);
    const int row = at / kChunks;
    const int column = at % kChunks * (16 / kBytes);
    if (at < 16 * kChunks) visit(row, column, row < rows ? bytes_inside(columns - column, kBytes) : 0);
  }
}

// A warp's 16 rows of an operand, that begin at `source`, into a sub-tile.
template <int kBytes>
__device__ __forceinline__ void copy_rows(unsigned box, const char* source, long long stride, int rows, int columns) {
  visit_rows<kBytes>(rows, columns, [&](int row, int column, int bytes) {
    const int own = threadIdx.x / 32 * 16;
    copy_chunk(box + place_in_box<kBytes>(own + row, column), source + row * stride + column * kBytes, bytes);
  });
}

// And of the result, from its sub-tile to memory.
template <int kBytes>
__device__ __forceinline__ void store_rows(unsigned box, char* target, long long stride, int rows, int columns) {
  visit_rows<kBytes>(rows, columns, [&](int row, int column, int bytes) {
    const int own = threadIdx.x / 32 * 16;
    unsigned words[4];
    load_chunk(words, box + place_in_box<kBytes>(own + row, column));
    char* const to = target + row * stride + column * kBytes;
    if (bytes == 16) {
      store_chunk(to, words);
    } else {
#pragma unroll
      for (int at = 0; at < 16; at += kBytes) {
        if (at >= bytes) continue;
        const unsigned bits = words[at / 4] >> (at % 4 * 8);
        if constexpr (kBytes == 4) {
          *reinterpret_cast<unsigned*>(to + at) = bits;
        } else if constexpr (kBytes == 2) {
          *reinterpret_cast<unsigned short*>(to + at) = static_cast<unsigned short>(bits);
        } else {
          *reinterpret_cast<unsigned char*>(to + at) = static_cast<unsigned char>(bits);
        }
      }
    }
  });
}
//@end
