// Operands that are read where indices say, as rows of an embedding's table, and results that are written so. The
// generated `row` has the coordinates of an element, and gives where its row begins, or null where an index is out of
// range. Nothing outside the tensor is touched.

//@section gathered
// Where the row that an index names begins, to be read or, of a result, to be written. `gather`: elements from one row
// to the next, how many rows there are, and what is added to an index that is negative.
template <class T, class I>
__device__ __forceinline__ T* row_at(T* base, I index, const Index (&gather)[3]) {
  const auto at = index + (index < 0 ? gather[2] : 0);
  if (base == nullptr || at < 0 || at >= gather[1]) return nullptr;
  return base + static_cast<Index>(at) * gather[0];
}

template <class T>
__device__ __forceinline__ T read_at(const T* row, Index offset, T out_of_range = T{}) {
  return row == nullptr ? out_of_range : row[offset];
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
