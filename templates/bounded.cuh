// Reads of operands of which some elements do not exist: views that step outside a tensor. The generated `read` has the coordinates of one
// element; it reads where the masks are true, and gives 0 elsewhere. The generated `covered` says of a vector how much of it exists: then most
// vectors are read at once. Nothing outside the tensor is touched.

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

//@section covered
// How much of a run exists along the dimension of a mask, from position `first` on to so many behind it.
enum class Covered { none, some, all };
__device__ __forceinline__ Covered covered_by(Index first, Index more, const Index (&inside)[2]) {
  const Index from = first - inside[0];
  const Index last = from + more;
  if (last < 0 || from >= inside[1]) return Covered::none;
  return from >= 0 && last < inside[1] ? Covered::all : Covered::some;
}
__device__ __forceinline__ Covered both(Covered a, Covered b) {
  return a == Covered::none || b == Covered::none ? Covered::none : a == Covered::all ? b : a;
}
//@end

//@section load_bounded : wide, aligned, covered
// Of one vector. What exists of it in the middle of a row is contiguous, at any address.
template <int kWidth, bool kFullVector, class T, class CoveredAt, class Read>
__device__ __forceinline__ void load_bounded(T (&values)[kElements], const T* base, const Index (&strides)[kCoordinates], Index origin,
                                             const Position& position, const Space& space, const CoveredAt& covered,
                                             const Read& read) {
  if constexpr (kFullVector) {
    const Covered found = covered(position.at);
    if (found == Covered::none) {
#pragma unroll
      for (int e = 0; e < kElements; ++e) values[e] = T{};
      return;
    }
    if (found == Covered::all) {
      const T* source = base + (offset_of(position.at, strides) - origin);
      if (is_aligned<kWidth>(source)) {
        load_wide<kWidth>(values, source);
      } else {
        load_narrow<kWidth>(values, source);
      }
      return;
    }
  }
  load_each<kFullVector>(values, position, space, read);
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

//@section read_bounded : read_each, covered
// Of rows: the same.
template <int kWidth, class T, class At, class CoveredAt, class Read>
__device__ __forceinline__ void read_bounded(Packet<T>& packet, const T* base, const Index (&strides)[kCoordinates], Index origin,
                                             const At& position, const Space& space, const CoveredAt& covered, const Read& read) {
  bool is_full = true;
  if constexpr (!At::kIsFull) is_full = position.full_vector;
  if (is_full) {
    const Covered found = covered(position.at);
    if (found == Covered::none) return packet.clear();
    if (found == Covered::all) {
      const T* source = base + (offset_of(position.at, strides) - origin);
      if ((reinterpret_cast<unsigned long long>(source) & (sizeof(T) * kWidth - 1)) == 0)
        return load_words<kWidth, CacheHint::none>(packet, source);
#pragma unroll
      for (int e = 0; e < kElements; ++e) packet.put(e, source[e]);
      return;
    }
  }
  read_each(packet, position, space, read);
}
//@end
