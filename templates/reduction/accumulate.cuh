// What a thread accumulates over a row: accumulators. Each starts as the identity, takes vectors of values, merges with another thread's, and, with merge_lanes, with those of other lanes. What lanes exchange is combined
// symmetrically to the bit, so that all threads of a thread group end with the same number.
//
// kMasked: some values of a vector need not exist; then `mask` says which do (bit i: values[i]).

//@section exp_below : bits
namespace detail {

// exp(a - top) for the terms of a sum whose largest is exp(0): 2^t with t = (a - top) * log2(e), and to first order what rounding t left
// out. Below 2^-126 nothing is added to a sum that is at least 1. Error 3 ulp.
__device__ __forceinline__ float exp_below(float a, float top) {
  float d = a - top;
#if defined(__CUDACC__)
  float t = d * 0x1.715476p+0f;  // log2(e)
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(t));
  float rest = ::fmaf(d, 0x1.715476p+0f, -t);
  rest = ::fmaf(d, 0x1.4ae0cp-26f, rest);
  float corrected = ::fmaf(r, rest * 0x1.62e430p-1f, r);  // ln 2
  return d < -126.0f ? r : corrected;                     // Inf - Inf above
#else
  return ::expf(d);
#endif
}
__device__ __forceinline__ double exp_below(double a, double top) { return ::exp(a - top); }

}  // namespace detail
//@end

//@section fast_exp_below : fast_exp
namespace detail {

__device__ __forceinline__ float exp_below(float a, float top) { return fast::exp(a - top); }

}  // namespace detail
//@end

//@section divide_by_row : reciprocal_guess
namespace detail {

// a / b where many a's share one b, without a branch: the compiler takes the divisor and its reciprocal out of the loop. Small divisors are scaled
// with their dividends, so that the remainder does not vanish; large ones only for the reciprocal, which would be flushed to 0: a small dividend
// scaled down would lose bits. The remainder, which fma gives exactly, corrects the quotient; it is NaN where the quotient is Inf, NaN, or the
// divisor 0 or Inf. The sign of the divisor goes to the dividend: 0 divided by a negative number would lose it in the correction. Of dividends below
// 2^-100 the last bit may differ from a / b (1.4 ulp).
__device__ __forceinline__ float divide_by_row(float a, float b) {
  float size = ::fabsf(b);
  float scale = ::copysignf(size < 0x1p-64f ? 0x1p+64f : size < 0x1p-32f ? 0x1p+32f : 1.0f, b);
  float d = b * scale;
  float down = size > 0x1p+64f ? 0x1p-64f : 1.0f;
  float guess = detail::reciprocal_guess(d * down);
  float close = ::fmaf(::fmaf(-d * down, guess, 1.0f), guess, guess);  // NaN where d is 0 or Inf
  float r = (close == close ? close : guess) * down;
  float n = a * scale;
  float q = n * r;
  float corrected = ::fmaf(-::fmaf(q, d, -n), r, q);
  return corrected == corrected ? corrected : q;
}
__device__ __forceinline__ double divide_by_row(double a, double b) { return a / b; }

}  // namespace detail
//@end

//@section masks
template <int n>
constexpr unsigned kAllOf = n == 32 ? 0xffffffffu : (1u << n) - 1;

__device__ __forceinline__ bool has(unsigned mask, int i) { return (mask >> i & 1u) != 0; }
//@end

// Where lanes reduce segments, a draft with a second loop compiles to other instructions than its lean source (lean_code_test).
//@section lanes
// The same operation over the lanes that differ in the bits from kFrom up to kTo of their number.
template <int kFrom, int kTo, class Operation>
__device__ __forceinline__ Real over_lanes(Real own, const Operation& operation) {
#pragma unroll
  for (int offset = kFrom; offset < kTo; offset *= 2) own = operation(own, __shfl_xor_sync(0xffffffffu, own, offset));
  return own;
}
template <int kFrom, int kTo>
__device__ __forceinline__ Real sum_of_lanes(Real own) {
//@if kLaneSegments
  return over_lanes<kFrom, kTo>(own, [](Real a, Real b) { return a + b; });
//@else
#pragma unroll
  for (int offset = kFrom; offset < kTo; offset *= 2) own += __shfl_xor_sync(0xffffffffu, own, offset);
  return own;
//@endif
}
//@end

//@section tree
// Pairs, pairs of pairs, …: short dependences, and an error that grows with the logarithm.
template <int n>
__device__ __forceinline__ Real tree_sum(const Real (&values)[n]) {
  Real sums[n];
#pragma unroll
  for (int i = 0; i < n; ++i) sums[i] = values[i];
#pragma unroll
  for (int width = 1; width < n; width *= 2) {
#pragma unroll
    for (int i = 0; i + width < n; i += 2 * width) sums[i] += sums[i + width];
  }
  return sums[0];
}
//@end

//@section sum : masks, lanes, tree
struct Sum {
  Real total = 0;

  template <int n>
  __device__ __forceinline__ void add(const Real (&values)[n]/*@if kMasked*/, unsigned mask/*@endif*/) {
//@if kMasked
    if (mask == kAllOf<n>) {
      total += tree_sum(values);
      return;
    }
    Real existing[n];
#pragma unroll
    for (int i = 0; i < n; ++i) existing[i] = has(mask, i) ? values[i] : Real(0);
    total += tree_sum(existing);
//@else
    total += tree_sum(values);
//@endif
  }
  __device__ __forceinline__ void merge(const Sum& other) { total = combined(total, other.total); }
  template <int kFrom, int kTo>
  __device__ __forceinline__ void merge_lanes() {
    total = over_lanes<kFrom, kTo>(total, combined);
  }
  __device__ __forceinline__ static Real combined(Real a, Real b) { return a + b; }
};
//@end

//@section product : masks, lanes
struct Product {
  Real total = 1;

  template <int n>
  __device__ __forceinline__ void add(const Real (&values)[n]/*@if kMasked*/, unsigned mask/*@endif*/) {
#pragma unroll
    for (int i = 0; i < n; ++i) total *= /*@if kMasked*/!has(mask, i) ? Real(1) : /*@endif*/values[i];
  }
  __device__ __forceinline__ void merge(const Product& other) { total = combined(total, other.total); }
  template <int kFrom, int kTo>
  __device__ __forceinline__ void merge_lanes() {
    total = over_lanes<kFrom, kTo>(total, combined);
  }
  __device__ __forceinline__ static Real combined(Real a, Real b) { return a * b; }
};
//@end

//@section infinity : bits
__device__ __forceinline__ Real infinity() { return Real(detail::from_bits(0x7f800000u)); }
//@end

//@section maximum_of : masks, lanes, maximum, infinity
struct Maximum {
  Real largest = -infinity();

  template <int n>
  __device__ __forceinline__ void add(const Real (&values)[n]/*@if kMasked*/, unsigned mask/*@endif*/) {
//@if kMasked
    if (mask == kAllOf<n>) {
#pragma unroll
      for (int i = 0; i < n; ++i) largest = ops::maximum(largest, values[i]);
      return;
    }
#pragma unroll
    for (int i = 0; i < n; ++i) largest = ops::maximum(largest, has(mask, i) ? values[i] : largest);
//@else
#pragma unroll
    for (int i = 0; i < n; ++i) largest = ops::maximum(largest, values[i]);
//@endif
  }
  __device__ __forceinline__ void merge(const Maximum& other) { largest = combined(largest, other.largest); }
  template <int kFrom, int kTo>
  __device__ __forceinline__ void merge_lanes() {
    largest = over_lanes<kFrom, kTo>(largest, combined);
  }
  __device__ __forceinline__ static Real combined(Real a, Real b) { return ops::maximum(a, b); }
};
//@end

//@section minimum_of : masks, lanes, minimum, infinity
struct Minimum {
  Real smallest = infinity();

  template <int n>
  __device__ __forceinline__ void add(const Real (&values)[n]/*@if kMasked*/, unsigned mask/*@endif*/) {
//@if kMasked
    if (mask == kAllOf<n>) {
#pragma unroll
      for (int i = 0; i < n; ++i) smallest = ops::minimum(smallest, values[i]);
      return;
    }
#pragma unroll
    for (int i = 0; i < n; ++i) smallest = ops::minimum(smallest, has(mask, i) ? values[i] : smallest);
//@else
#pragma unroll
    for (int i = 0; i < n; ++i) smallest = ops::minimum(smallest, values[i]);
//@endif
  }
  __device__ __forceinline__ void merge(const Minimum& other) { smallest = combined(smallest, other.smallest); }
  template <int kFrom, int kTo>
  __device__ __forceinline__ void merge_lanes() {
    smallest = over_lanes<kFrom, kTo>(smallest, combined);
  }
  __device__ __forceinline__ static Real combined(Real a, Real b) { return ops::minimum(a, b); }
};
//@end

//@section any_of : masks, lanes
// Truth values travel as 0 and 1.
struct Any {
  Real truth = 0;

  template <int n>
  __device__ __forceinline__ void add(const Real (&values)[n]/*@if kMasked*/, unsigned mask/*@endif*/) {
#pragma unroll
    for (int i = 0; i < n; ++i) truth = /*@if kMasked*/has(mask, i) && /*@endif*/values[i] != Real(0) ? Real(1) : truth;
  }
  __device__ __forceinline__ void merge(const Any& other) { truth = combined(truth, other.truth); }
  template <int kFrom, int kTo>
  __device__ __forceinline__ void merge_lanes() {
    truth = over_lanes<kFrom, kTo>(truth, combined);
  }
  __device__ __forceinline__ static Real combined(Real a, Real b) { return b != Real(0) ? Real(1) : a; }
};
//@end

//@section all_of : masks, lanes
struct All {
  Real truth = 1;

  template <int n>
  __device__ __forceinline__ void add(const Real (&values)[n]/*@if kMasked*/, unsigned mask/*@endif*/) {
#pragma unroll
    for (int i = 0; i < n; ++i) truth = /*@if kMasked*/has(mask, i) && /*@endif*/values[i] == Real(0) ? Real(0) : truth;
  }
  __device__ __forceinline__ void merge(const All& other) { truth = combined(truth, other.truth); }
  template <int kFrom, int kTo>
  __device__ __forceinline__ void merge_lanes() {
    truth = over_lanes<kFrom, kTo>(truth, combined);
  }
  __device__ __forceinline__ static Real combined(Real a, Real b) { return b == Real(0) ? Real(0) : a; }
};
//@end

//@section over_count
namespace detail {

__device__ __forceinline__ Real over_count(Real sum, Real count) { return sum / count; }

}  // namespace detail
//@end

//@section fast_over_count : reciprocal_guess
namespace detail {

// Where results round to few bits: 2 instructions, not 9, once per row, which may be one thread's few elements.
__device__ __forceinline__ Real over_count(Real sum, Real count) { return sum * reciprocal_guess(count); }

}  // namespace detail
//@end

//@section moments : masks, lanes, tree, reciprocal_guess, bits
// Count, mean, and sum of squared deviations from the mean. Along a pass `mean` is the mean of the thread's first vector only, and `rest` the sum
// of what all values lie beyond it: of n values, m of them in that vector, rounding is amplified n / m times at most. The merge is Chan, Golub
// and LeVeque's (1979, "Updating formulae and a pairwise algorithm for computing sample variances"): no cancellation however large the mean is.
struct Moments {
  Real count = 0, mean = 0, deviations = 0, rest = 0;

  template <int n>
  __device__ __forceinline__ void add(const Real (&values)[n]/*@if kMasked*/, unsigned mask/*@endif*/) {
//@if kMasked
    if (mask == 0) return;
    Real beyond[n];
    if (mask == kAllOf<n>) {
      if (count == Real(0)) begin(tree_sum(values) * (Real(1) / Real(n)));
#pragma unroll
      for (int i = 0; i < n; ++i) beyond[i] = values[i] - mean;
      count += Real(n);
    } else {
#pragma unroll
      for (int i = 0; i < n; ++i) beyond[i] = has(mask, i) ? values[i] : Real(0);
      if (count == Real(0)) begin(tree_sum(beyond) * detail::reciprocal_guess(Real(__popc(mask))));
#pragma unroll
      for (int i = 0; i < n; ++i) beyond[i] = has(mask, i) ? values[i] - mean : Real(0);
      count += Real(__popc(mask));
    }
//@else
    if (count == Real(0)) begin(tree_sum(values) * (Real(1) / Real(n)));
    Real beyond[n];
#pragma unroll
    for (int i = 0; i < n; ++i) beyond[i] = values[i] - mean;
    count += Real(n);
//@endif
    rest += tree_sum(beyond);
    Real squares = square(beyond[0]);
#pragma unroll
    for (int i = 1; i < n; ++i) squares = fma(beyond[i], beyond[i], squares);
    deviations += squares;
  }
  // What is not finite would make NaN of all that follows.
  __device__ __forceinline__ void begin(Real first) { mean = first - first == Real(0) ? first : Real(0); }
  // `mean` becomes that of all values so far: now and then along a long pass, and before they are merged with others. Squares that overflow stay Inf:
  // Inf less Inf would be NaN. That they become where a value is not finite, and neither is `rest`.
  __device__ __forceinline__ void settle() {
    const Real beyond = count > Real(0) ? rest * detail::reciprocal_guess(count) : Real(0);
    mean += beyond;
    deviations = deviations - deviations == Real(0) ? fma(-rest, beyond, deviations) : deviations + (rest - rest);
    rest = Real(0);
  }
  __device__ __forceinline__ void recenter() {
    if (rest - rest == Real(0)) settle();
  }
  // The weights of the means need not be exact, but add up to 1 (mean + difference * share would make NaN of a mean of Inf).
  __device__ __forceinline__ void merge(const Moments& other) {
    if (other.count == Real(0)) return;
    const Real total = count + other.count;
    const Real share = other.count * detail::reciprocal_guess(total);
    const Real between = square(other.mean - mean) * (count * share);
    mean = (count > Real(0) ? mean * (Real(1) - share) : Real(0)) + other.mean * share;
    deviations = deviations + other.deviations + (count > Real(0) ? between : Real(0));
    count = total;
  }
  // All lanes at once: the mean of the means, then every lane's deviations from that.
  template <int kFrom, int kTo>
  __device__ __forceinline__ void merge_lanes() {
    settle();
    const Real own = count;
    count = sum_of_lanes<kFrom, kTo>(own);
    const Real average = sum_of_lanes<kFrom, kTo>(own > Real(0) ? mean * (own * detail::reciprocal_guess(count)) : Real(0));
    const Real between = own > Real(0) ? square(mean - average) * own : Real(0);
    deviations = sum_of_lanes<kFrom, kTo>(deviations + between);
    mean = average;
  }
  __device__ __forceinline__ static Real square(Real difference) { return difference * difference; }
  __device__ __forceinline__ static Real fma(Real a, Real b, Real c) { return ::/*@if kDouble*/fma/*@endif*//*@if !kDouble*/fmaf/*@endif*/(a, b, c); }
  __device__ __forceinline__ Real average() const { return count > Real(0) ? mean : Real(detail::from_bits(0x7fc00000u)); }
  __device__ __forceinline__ Real variance(Real correction) const {
    const Real freedom = count - correction;
    return detail::over_count(deviations, freedom > Real(0) ? freedom : Real(0));
  }
};
//@end

//@section held_moments : lanes, tree
// Mean, and sum of squared deviations from it, of a row that the lanes of a warp hold. They find the mean first: then each value is subtracted once,
// here and where the row's results are computed. Values have 16 bits, so that sums of equal ones are exact.
struct HeldMoments {
  static constexpr int kCount = kSteps * kElements * kGroupThreads;
  static constexpr Real kScale = 0x1p-10f;  // sums overflow no sooner than those of one vector
  Real mean = 0, deviations = 0;

  // `sums`: of the thread's values, step by step. What is left of the sum corrects the mean: that of equal values is their value, to the bit. Beside a
  // sum of Inf that is NaN, and left out.
  __device__ __forceinline__ void find_mean(const Real (&sums)[kSteps]) {
    Real own = sums[0] * kScale;
#pragma unroll
    for (int i = 1; i < kSteps; ++i) own = ::fmaf(sums[i], kScale, own);
    const Real sum = sum_of_lanes<1, kGroupThreads>(own);
    constexpr Real kShare = Real(1) / (Real(kCount) * kScale);
    mean = sum * kShare;
    if constexpr ((kCount & (kCount - 1)) != 0) {
      const Real left = ::fmaf(-mean, Real(kCount) * kScale, sum);
      mean = ::fmaf(::fmaxf(left, -0x1p+127f), kShare, mean);
    }
  }
  template <int n>
  __device__ __forceinline__ void add(const Real (&values)[n]) {
    Real beyond = values[0] - mean;
    Real squares = beyond * beyond;
#pragma unroll
    for (int i = 1; i < n; ++i) {
      beyond = values[i] - mean;
      squares = ::fmaf(beyond, beyond, squares);
    }
    deviations += squares;
  }
  template <int kFrom, int kTo>
  __device__ __forceinline__ void merge_lanes() {
    deviations = sum_of_lanes<kFrom, kTo>(deviations);
  }
  __device__ __forceinline__ Real average() const { return mean; }
  __device__ __forceinline__ Real variance(Real correction) const {
    const Real freedom = Real(kCount) - correction;
    return detail::over_count(deviations, freedom > Real(0) ? freedom : Real(0));
  }
};
//@end

//@section max_sumexp : masks, lanes, tree, maximum, infinity
// The largest value, and the sum of exp(value - largest), in one pass: what was summed up is scaled when a larger value comes (Milakov and
// Gimelshein 2018, "Online normalizer calculation for softmax").
struct MaxSumExp {
  Real largest = -infinity(), sum = 0;

  template <int n>
  __device__ __forceinline__ void add(const Real (&values)[n]/*@if kMasked*/, unsigned mask/*@endif*/) {
//@if kMasked
    if (mask == kAllOf<n>) {
      add_all(values);
      return;
    }
    Real existing[n];
#pragma unroll
    for (int i = 0; i < n; ++i) existing[i] = has(mask, i) ? values[i] : -infinity();
    add_all(existing);
  }
  template <int n>
  __device__ __forceinline__ void add_all(const Real (&values)[n]) {
//@endif
    Real top = largest;
#pragma unroll
    for (int i = 0; i < n; ++i) top = ops::maximum(top, values[i]);
    const Real base = shift(top);
    Real terms[n];
#pragma unroll
    for (int i = 0; i < n; ++i) terms[i] = detail::exp_below(values[i], base);
    sum = sum * detail::exp_below(largest, base) + tree_sum(terms);
    largest = top;
  }
  __device__ __forceinline__ void merge(const MaxSumExp& other) {
    const Real top = ops::maximum(largest, other.largest);
    const Real base = shift(top);
    sum = sum * detail::exp_below(largest, base) + other.sum * detail::exp_below(other.largest, base);
    largest = top;
  }
  template <int kFrom, int kTo>
  __device__ __forceinline__ void merge_lanes() {
    const Real own = largest;
    largest = over_lanes<kFrom, kTo>(own, [](Real a, Real b) { return ops::maximum(a, b); });
    sum = sum_of_lanes<kFrom, kTo>(sum * detail::exp_below(own, shift(largest)));
  }
  // sum(exp(v - largest)), and sum(exp(v - (0 if largest is infinite, else largest))).
  __device__ __forceinline__ Real sumexp() const { return largest - largest == Real(0) ? sum : largest - largest; }
  __device__ __forceinline__ Real guarded_sumexp() const {
    return largest == infinity() ? infinity() : largest == -infinity() ? Real(0) : sum;
  }
  // Nothing but -Inf so far: Inf - Inf would be NaN.
  __device__ __forceinline__ static Real shift(Real top) { return top == -infinity() ? Real(0) : top; }
};
//@end

//@section held_sumexp : max_sumexp
// The same, of a thread that keeps its exponentials for later passes: add() only finds the largest/*@if kMasked*/, and leaves -Inf where nothing exists/*@endif*/; then
// exponentiate() takes each value's exponential below that, and scale_to() is what makes those that lie below the row's largest of them.
struct HeldSumExp : MaxSumExp {
  template <int n>
  __device__ __forceinline__ void add(Real (&values)[n]/*@if kMasked*/, unsigned mask/*@endif*/) {
#pragma unroll
    for (int i = 0; i < n; ++i) {
//@if kMasked
      if (mask != kAllOf<n> && !has(mask, i)) values[i] = -infinity();
//@endif
      largest = ops::maximum(largest, values[i]);
    }
  }
  template <int n>
  __device__ __forceinline__ void exponentiate(Real (&values)[n]) {
    const Real base = shift(largest);
#pragma unroll
    for (int i = 0; i < n; ++i) values[i] = detail::exp_below(values[i], base);
    sum += tree_sum(values);
  }
  // Inf - Inf would be NaN also of those that are 0 beside a value of Inf; where nothing but -Inf is, exponentials are NaN.
  __device__ __forceinline__ Real scale_to(const MaxSumExp& row) const {
    return largest == infinity() && row.largest == infinity() ? Real(1) : detail::exp_below(largest, row.largest);
  }
};
//@end
