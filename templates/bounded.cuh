// Reads of operands of which some elements do not exist, or that are rolled: views that step outside a tensor, or begin again behind its end. The
// generated `read` has the coordinates of one element; it reads where the masks are true, and gives 0 elsewhere. The generated `covered` says of
// a vector of a row how much of it exists, and `run_at` of one in a pointwise kernel which elements: then most vectors are read at once. Nothing outside
// the tensor is touched.

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
  if constexpr (sizeof(T) == 2) {
    // In 32 bits: of 16 the compiler makes a branch.
    unsigned bits = 0;
    if (exists) bits = reinterpret_cast<const unsigned short*>(base)[offset];
    T value;
    memcpy(&value, &bits, sizeof(T));
    return value;
  } else {
    return exists ? base[offset] : T{};
  }
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
// Of a rolled dimension both sides of its end exist, each in one place.
__device__ __forceinline__ Covered uncut(Covered behind) { return behind == Covered::some ? Covered::some : Covered::all; }
//@end

//@section run
// A vector's elements that lie side by side in memory, by the masks of an operand whose innermost dimension steps by 1. A mask steps by 1 along that
// dimension or is the same for all of a vector.
struct Run {
  Index offset;  // where the vector's first element would lie
  Index first;   // elements from here on exist
  Index end;     // up to here
//@if kRolls
  Index wrap;    // elements from here on lie `moved` further
  Index moved;
//@endif
};
__device__ __forceinline__ Run run_from(Index offset) {
  Run run;
  run.offset = offset;
  run.first = 0;
  run.end = kElements;
//@if kRolls
  run.wrap = kElements;
  run.moved = 0;
//@endif
  return run;
}
// Where the mask is true: from `inside[0]` on, at so many positions. The vector begins at `position`.
__device__ __forceinline__ Run within(Run run, Index position, Index step, const Index (&inside)[2]) {
  const Index from = inside[0] - position;
  const Index to = from + inside[1];
  if (step == 0) {
    run.end = from <= 0 && to > 0 ? run.end : 0;
  } else {
    run.first = from > run.first ? from : run.first;
    run.end = to < run.end ? to : run.end;
  }
  return run;
}
//@if kRolls
// A rolled dimension begins again where the mask is true.
__device__ __forceinline__ Run rolled(Run run, Index position, Index step, const Index (&inside)[2], Index moved) {
  const Index from = inside[0] - position;
  if (step == 0) {
    run.offset += from <= 0 ? moved : 0;
  } else {
    run.wrap = from;
    run.moved = moved;
  }
  return run;
}
//@endif
// Where element e of the vector lies.
__device__ __forceinline__ Index offset_in(const Run& run, int e) {
//@if kRolls
  return run.offset + e + (e >= run.wrap ? run.moved : 0);
//@else
  return run.offset + e;
//@endif
}
// A bit for each element of a vector from `first` up to `end`.
__device__ __forceinline__ unsigned elements_of(Index first, Index end) {
  const int from = static_cast<int>(first > 0 ? first : 0);
  const int to = static_cast<int>(end < kElements ? end : kElements);
  return from < to ? (1u << to) - (1u << from) : 0;
}
//@end

//@section two_runs : run
// A vector by what exists of it. In the flat schedule it may reach into the next row, and no further: the planner takes no longer vectors than rows.
struct TwoRuns {
  Run run;
//@if kBroken && !kByRow
  Run next;    // of the next row, counted from the vector's first element
  Index left;  // elements in the row of the first
//@endif
  unsigned exist;  // a bit for each element
};
template <bool kFullVector, class RunAt>
__device__ __forceinline__ TwoRuns two_runs(const Position& position, const Space& space, const RunAt& run_at) {
  TwoRuns cut;
  cut.run = run_at(position.at);
//@if kBroken && kByRow
  cut.exist = elements_of(cut.run.first, kFullVector || cut.run.end < position.count ? cut.run.end : position.count);
//@else
  cut.exist = elements_of(cut.run.first, cut.run.end);
//@endif
//@if kBroken && !kByRow
  cut.next = cut.run;
  cut.left = kElements;
  if constexpr (!kFullVector) {
    const Index left = space.extents[kCoordinates - 1] - position.at[kCoordinates - 1];
    if (left < kElements) {
      Index at[kCoordinates];
#pragma unroll
      for (int d = 0; d < kCoordinates; ++d) at[d] = position.at[d];
      at[kCoordinates - 1] += left - 1;
      advance(at, space);
      cut.next = run_at(at);
      cut.exist = (cut.exist & ((1u << left) - 1)) | elements_of(cut.next.first, cut.next.end) << left;
      cut.next.offset -= left;
//@if kRolls
      cut.next.wrap += left;
//@endif
      cut.left = left;
    }
  }
//@endif
  return cut;
}
//@end

//@section load_bounded : wide, aligned, two_runs
// Of one vector. All of its elements are asked for before the first arrives, wherever they lie: neighbouring threads, whose vectors are cut by the end
// of a row or of what exists, or are not, run the same code.
template <int kWidth, bool kFullVector, class T, class RunAt>
__device__ __forceinline__ void load_bounded(T (&values)[kElements], const T* base, const Position& position, const Space& space,
                                             const RunAt& run_at) {
  const TwoRuns cut = two_runs<kFullVector>(position, space, run_at);
  bool is_whole = (cut.exist + 1 & (1u << kElements) - 1) == 0;
//@if kRolls
  is_whole = is_whole && (cut.run.wrap <= 0 || cut.run.wrap >= kElements);
//@endif
//@if kBroken && !kByRow
  is_whole = is_whole && cut.left >= kElements;
//@endif
  const T* source = base + offset_in(cut.run, 0);
  if (is_whole && is_aligned<kWidth>(source)) {
    load_wide<kWidth>(values, source);
    return;
  }
#pragma unroll
  for (int e = 0; e < kElements; ++e) {
//@if kBroken && !kByRow
    const Index here = offset_in(cut.run, e);
    const Index offset = e < cut.left ? here : offset_in(cut.next, e);
//@else
    const Index offset = offset_in(cut.run, e);
//@endif
    values[e] = (cut.exist >> e & 1) != 0 ? base[offset] : T{};
  }
}
//@end

//@section load_inside : two_runs
// Of one vector: which elements exist.
template <bool kFullVector, class T, class RunAt>
__device__ __forceinline__ void load_inside(T (&values)[kElements], const Position& position, const Space& space, const RunAt& run_at) {
  const TwoRuns cut = two_runs<kFullVector>(position, space, run_at);
#pragma unroll
  for (int e = 0; e < kElements; ++e) values[e] = from_real<T>((cut.exist >> e & 1) != 0);
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
