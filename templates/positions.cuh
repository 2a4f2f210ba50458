// Where one thread's elements stand along a dimension: the index that coordinates and strides give. Nothing is read. Elements that do not
// exist get numbers, too.

//@section load_position
template <bool kFullVector>
__device__ __forceinline__ void load_position(i32 (&values)[kElements], const Index (&strides)[kCoordinates], const Position& position,
                                              const Space& space) {
  if constexpr (kFullVector) {
    const Index first = offset_of(position.at, strides);
#pragma unroll
    for (int e = 0; e < kElements; ++e) values[e] = static_cast<i32>(first + e * strides[kCoordinates - 1]);
  } else {
    Index at[kCoordinates];
#pragma unroll
    for (int d = 0; d < kCoordinates; ++d) at[d] = position.at[d];
#pragma unroll
    for (int e = 0; e < kElements; ++e) {
      values[e] = static_cast<i32>(offset_of(at, strides));
      advance(at, space);
    }
  }
}
//@end

//@section read_position : packet, each_element
// Of rows.
template <class At>
__device__ __forceinline__ void read_position(Packet<i32>& packet, const Index (&strides)[kCoordinates], const At& position,
                                              const Space& space) {
  if constexpr (!At::kIsFull) {
    if (!position.full_vector) {
      packet.clear();
      each_element(position, strides, space, [&](int e, Index offset) { packet.put(e, static_cast<i32>(offset)); });
      return;
    }
  }
  const Index first = offset_of(position.at, strides);
#pragma unroll
  for (int e = 0; e < kElements; ++e) packet.put(e, static_cast<i32>(first + e * (strides[kCoordinates - 1] * kBeside)));
}
//@end
