// Where one thread's elements stand along a dimension: the index that coordinates and strides give. Nothing is read. Elements that do not
// exist get numbers, too.

//@section load_position : each_wrapping
template <bool kFullVector>
__device__ __forceinline__ void load_position(i32 (&values)[kElements], const Index (&strides)[kCoordinates],
                                              const Position& position, const Space& space) {
  if constexpr (kFullVector) {
    const Index first = offset_of(position.at, strides);
#pragma unroll
    for (int e = 0; e < kElements; ++e) values[e] = static_cast<i32>(first + e * strides[kCoordinates - 1]);
  } else {
    each_element(position, strides, space, [&](int e, Index offset) { values[e] = static_cast<i32>(offset); });
  }
}
//@end

//@section read_position_of_line : packet
// Of rows, where all of a vector stand at one position.
template <class At>
__device__ __forceinline__ void read_position_of_line(Packet<i32>& packet, const Index (&strides)[kCoordinates],
                                                      const At& position, const Space&) {
  const i32 all = static_cast<i32>(offset_of(position.at, strides));
#pragma unroll
  for (int e = 0; e < kElements; ++e) packet.put(e, all);
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
