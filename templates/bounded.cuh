// Reads of operands of which some elements do not exist: views that step outside a tensor. The generated `read` has the coordinates of one
// element; it reads where the masks are true, and gives 0 elsewhere. Nothing outside the tensor is touched.

//@section bounded
// Whether a position is one of those that exist: `inside` has the first of them, and how many they are.
__device__ __forceinline__ bool is_inside(int position, const int (&inside)[2]) {
  return static_cast<unsigned>(position - inside[0]) < static_cast<unsigned>(inside[1]);
}
__device__ __forceinline__ bool is_inside(long long position, const long long (&inside)[2]) {
  return static_cast<unsigned long long>(position - inside[0]) < static_cast<unsigned long long>(inside[1]);
}

template <class T>
__device__ __forceinline__ T read_if(bool exists, const T* base, Index offset) {
  return exists ? base[offset] : T{};
}
//@end

//@section load_each
// Of one vector, which may reach into the next row where it is not full.
template <bool kFullVector, class T, class Read>
__device__ __forceinline__ void load_each(T (&values)[kElements], const Position& position, const Space& space, const Read& read) {
  Index at[kCoordinates];
#pragma unroll
  for (int d = 0; d < kCoordinates; ++d) at[d] = position.at[d];
#pragma unroll
  for (int e = 0; e < kElements; ++e) {
    values[e] = read(at);
    if constexpr (kFullVector) {
      ++at[kCoordinates - 1];
    } else {
      advance(at, space);
    }
  }
}
//@end

//@section load_each_by_row
// Of one vector, to the end of the row.
template <bool kFullVector, class T, class Read>
__device__ __forceinline__ void load_each(T (&values)[kElements], const Position& position, const Space&, const Read& read) {
  Index at[kCoordinates];
#pragma unroll
  for (int d = 0; d < kCoordinates; ++d) at[d] = position.at[d];
#pragma unroll
  for (int e = 0; e < kElements; ++e) {
    values[e] = kFullVector || e < position.count ? read(at) : T{};
    ++at[kCoordinates - 1];
  }
}
//@end

//@section read_each : packet, bounded
// Of rows.
template <class T, class At, class Read>
__device__ __forceinline__ void read_each(Packet<T>& packet, const At& position, const Space& space, const Read& read) {
  Index at[kCoordinates];
#pragma unroll
  for (int d = 0; d < kCoordinates; ++d) at[d] = position.at[d];
  if constexpr (!At::kIsFull) {
    if (!position.full_vector) {
      packet.clear();
#pragma unroll
      for (int e = 0; e < kElements; ++e) {
        if (e < position.begin || e >= position.end) continue;
        packet.put(e, read(at));
//@if kBeside > 1
        at[kCoordinates - 1] += kBeside;
//@else
        advance(at, space);
//@endif
      }
      return;
    }
  }
#pragma unroll
  for (int e = 0; e < kElements; ++e) {
    packet.put(e, read(at));
    at[kCoordinates - 1] += kBeside;
  }
}
//@end
