// Operands that are read where indices say, as rows of an embedding's table, and results that are written so. The
// generated `row` has the coordinates of an element, and gives where its row begins, or null where an index is out of
// range. Nothing outside the tensor is touched.

//@section gathered
// Where the row that an index names begins, to be read or, of a result, to be written. `gather`: elements from one row
// to the next, how many rows there are, and what is added to an index that is negative.
template <class T, class I>
__device__ __forceinline__ T* row_at(T* base, I index, const Index (&gather)[3]) {
  const auto at = index + (index < 0 ? gather[2] : 0);
  if (static_cast<unsigned long long>(at) >= static_cast<unsigned long long>(gather[1])) return nullptr;
  return base + static_cast<Index>(at) * gather[0];
}

// The same in a row that another index names.
template <class T, class I>
__device__ __forceinline__ T* row_within(T* base, I index, const Index (&gather)[3]) {
  return base == nullptr ? nullptr : row_at(base, index, gather);
}

template <class T>
__device__ __forceinline__ T read_at(const T* row, Index offset, T out_of_range = T{}) {
  return row == nullptr ? out_of_range : row[offset];
}
//@end

//@section scale_tiles
// Where the scale of row i and block j lies: element [i / 128, j / 4, i % 32, i / 32 % 4, j % 4] of tiles of 128 rows and
// 4 blocks. `along`: elements from one to the next of i % 32, i / 32 % 4, i / 128, j % 4 and j / 4.
template <class T>
__device__ __forceinline__ T* in_tiles(T* tiles, Index i, Index j, const Index (&along)[5][3]) {
  return tiles + (i & 31) * along[0][0] + (i >> 5 & 3) * along[1][0] + (i >> 7) * along[2][0] + (j & 3) * along[3][0] +
         (j >> 2) * along[4][0];
}

// Bytes of 0 pad the last tiles: they stand behind the last block of each row, and behind the last row.
template <class T>
__device__ __forceinline__ void pad_tiles(T* tiles, Index i, Index j, Index rows, Index blocks,
                                          const Index (&along)[5][3]) {
  const Index end_row = i + 1 == rows ? (rows + 127) & ~Index(127) : i + 1;
  const Index end_block = j + 1 == blocks ? (blocks + 3) & ~Index(3) : j + 1;
#pragma unroll 1
  for (Index row = i; row < end_row; ++row)
#pragma unroll 1
    for (Index block = row == i ? j + 1 : j; block < end_block; ++block) *in_tiles(tiles, row, block, along) = T{};
}
//@end

//@section load_gathered : wide, aligned
// Of one vector, which lies in one row where it is full.
template <int kWidth, bool kFullVector, class T, class Row>
__device__ __forceinline__ void load_gathered(T (&values)[kElements], const Index (&strides)[kCoordinates], const Position& position,
                                              const Space& space, T out_of_range, const Row& row) {
//@if kBroken
  if constexpr (!kFullVector) {
    load_each<false>(values, position, space, [&](const Index (&at)[kCoordinates]) {
      return read_at(row(at), offset_of(at, strides), out_of_range);
    });
    return;
  }
//@endif
  const T* base = row(position.at);
  if (base == nullptr) {
#pragma unroll
    for (int e = 0; e < kElements; ++e) values[e] = out_of_range;
    return;
  }
  const T* source = base + offset_of(position.at, strides);
  if (is_aligned<kWidth>(source)) {
    load_wide<kWidth>(values, source);
  } else {
    load_narrow<kWidth>(values, source);
  }
}
//@end

//@section read_of_row : packet
// Of the row that an index names for all of its vectors; `row` is null where the index is out of range.
template <int kWidth, class T>
__device__ __forceinline__ void read_of_row(Packet<T>& packet, const T* row, Index offset, T out_of_range) {
  if (row == nullptr) {
#pragma unroll
    for (int e = 0; e < kElements; ++e) packet.put(e, out_of_range);
    return;
  }
  load_words<kWidth, CacheHint::none>(packet, row + offset);
}
//@end

//@section read_gathered : packet, gathered, read_each
// Of rows of a reduction.
template <int kWidth, class T, class At, class Row>
__device__ __forceinline__ void read_gathered(Packet<T>& packet, const Index (&strides)[kCoordinates], const At& position,
                                              const Space& space, T out_of_range, const Row& row) {
//@if !kKnownFull
  if constexpr (!At::kIsFull) {
    if (!position.full_vector) {
      read_each(packet, position, space, [&](const Index (&at)[kCoordinates]) {
        return read_at(row(at), offset_of(at, strides), out_of_range);
      });
      return;
    }
  }
//@endif
  const T* base = row(position.at);
  if (base == nullptr) {
#pragma unroll
    for (int e = 0; e < kElements; ++e) packet.put(e, out_of_range);
    return;
  }
  load_words<kWidth, CacheHint::none>(packet, base + offset_of(position.at, strides));
}
//@end
