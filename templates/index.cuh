// Index arithmetic: from a thread's vector to its coordinates in the iteration space. Codegen defines before it:
// Index (int or long long), kCoordinates, kElements. Coordinates are outermost first; the last is the innermost dimension.

//@section divisor32
// Division by a number that is known at launch, for 0 <= n < 2^31, as a multiplication (Granlund and Montgomery 1994, "Division by
// invariant integers using multiplication"): with l = ceil(log2 d) and m = ceil(2^(31+l) / d), n / d = (n * m) >> (31 + l).
// The high half of 2n * m gives the first 31 of the shift.
struct Divisor {
  unsigned multiplier;
  unsigned shift;
};
__device__ __forceinline__ int divide(int n, const Divisor& d) {
  return static_cast<int>(__umulhi(2u * static_cast<unsigned>(n), d.multiplier) >> d.shift);
}
//@end

//@section divisor64
// As the 32-bit one, for 0 <= n < 2^63: m = ceil(2^(63+l) / d).
struct Divisor {
  unsigned long long multiplier;
  unsigned long long shift;
};
__device__ __forceinline__ long long divide(long long n, const Divisor& d) {
  return static_cast<long long>(__umul64hi(2ull * static_cast<unsigned long long>(n), d.multiplier) >> d.shift);
}
//@end

//@section space
// Extents of the iteration space, and what divides by them. The outermost one is never divided by.
struct Space {
  Index extents[kCoordinates];
  Divisor divisors[kCoordinates];
};

// The next element, with carries from row to row.
__device__ __forceinline__ void advance(Index (&at)[kCoordinates], const Space& space) {
  ++at[kCoordinates - 1];
#pragma unroll
  for (int d = kCoordinates - 1; d > 0; --d) {
    const bool carry = at[d] == space.extents[d];
    at[d] = carry ? 0 : at[d];
    at[d - 1] += carry ? 1 : 0;
  }
}

// Where an operand keeps the element at these coordinates.
__device__ __forceinline__ Index offset_of(const Index (&at)[kCoordinates], const Index (&strides)[kCoordinates]) {
  Index offset = 0;
#pragma unroll
  for (int d = 0; d < kCoordinates; ++d) offset += at[d] * strides[d];
  return offset;
}
//@end

//@section position_flat
// A vector of kElements consecutive elements of one thread.
struct Position {
  Index linear;            // of the first element
//@if kByQuotients
  Index at[kCoordinates];  // its number, and the quotients of that, outermost first
//@endif
//@if kByQuotients && kHasColumn
  Index column;            // where in its row it begins
//@endif
//@if kHasCoordinates && !kByQuotients
  Index at[kCoordinates];  // coordinates of the first element
//@endif
};
//@end

//@section coordinates_by_row : space, split
// A vector of kElements consecutive elements of one thread, cut short at the end of the row.
struct Position {
  Index at[kCoordinates];  // coordinates of the first element
  int count;               // elements of the vector that exist; 0 or less: none
  bool exists;             // some element does
  bool full_vector;           // all do, and wide accesses are aligned
};
//@end

//@section quotients : space
// The number `n` of an element, divided by the extents: kLast has n, and each dimension before it the quotient of the one behind. No remainder is
// needed where a stride counts what a step of its dimension adds, less what the dimension behind has run through meanwhile.
template <int kLast>
__device__ __forceinline__ void split(Index n, const Space& space, Index (&at)[kCoordinates]) {
#pragma unroll
  for (int d = kLast; d > 0; --d) {
    at[d] = n;
    n = divide(n, space.divisors[d]);
  }
  at[0] = n;
}
//@end

//@section split : space
// Coordinates 0 … kLast of the number `n`, of which the last runs the fastest.
template <int kLast>
__device__ __forceinline__ void split(Index n, const Space& space, Index (&at)[kCoordinates]) {
#pragma unroll
  for (int d = kLast; d > 0; --d) {
    const Index quotient = divide(n, space.divisors[d]);
    at[d] = n - quotient * space.extents[d];
    n = quotient;
  }
  at[0] = n;
}
//@end
