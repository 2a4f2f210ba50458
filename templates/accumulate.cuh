// What a thread carries along a row: accumulators. Each starts as the identity, takes groups of values of which `mask` says which exist
// (bit i: values[i]), merges with another thread's, and exchanges its words with other lanes. Merging is symmetric to the bit, so that all
// threads of a team end with the same number.

//@section masks
template <int n>
constexpr unsigned kAllOf = n == 32 ? 0xffffffffu : (1u << n) - 1;

__device__ __forceinline__ bool has(unsigned mask, int i) { return (mask >> i & 1u) != 0; }
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

//@section sum : masks, tree
struct Sum {
  Real total = 0;

  template <int n>
  __device__ __forceinline__ void add(const Real (&values)[n], unsigned mask) {
    if (mask == kAllOf<n>) {
      total += tree_sum(values);
      return;
    }
    Real existing[n];
#pragma unroll
    for (int i = 0; i < n; ++i) existing[i] = has(mask, i) ? values[i] : Real(0);
    total += tree_sum(existing);
  }
  __device__ __forceinline__ void merge(const Sum& other) { total += other.total; }
  template <class Exchange>
  __device__ __forceinline__ Sum exchanged(const Exchange& exchange) const {
    Sum other;
    other.total = exchange(total);
    return other;
  }
};
//@end

//@section product : masks
struct Product {
  Real total = 1;

  template <int n>
  __device__ __forceinline__ void add(const Real (&values)[n], unsigned mask) {
#pragma unroll
    for (int i = 0; i < n; ++i) total *= has(mask, i) ? values[i] : Real(1);
  }
  __device__ __forceinline__ void merge(const Product& other) { total *= other.total; }
  template <class Exchange>
  __device__ __forceinline__ Product exchanged(const Exchange& exchange) const {
    Product other;
    other.total = exchange(total);
    return other;
  }
};
//@end

//@section infinity : bits
__device__ __forceinline__ Real infinity() { return Real(detail::from_bits(0x7f800000u)); }
//@end

//@section maximum_of : masks, maximum, infinity
struct Maximum {
  Real largest = -infinity();

  template <int n>
  __device__ __forceinline__ void add(const Real (&values)[n], unsigned mask) {
    if (mask == kAllOf<n>) {
#pragma unroll
      for (int i = 0; i < n; ++i) largest = ops::maximum(largest, values[i]);
      return;
    }
#pragma unroll
    for (int i = 0; i < n; ++i) largest = ops::maximum(largest, has(mask, i) ? values[i] : largest);
  }
  __device__ __forceinline__ void merge(const Maximum& other) { largest = ops::maximum(largest, other.largest); }
  template <class Exchange>
  __device__ __forceinline__ Maximum exchanged(const Exchange& exchange) const {
    Maximum other;
    other.largest = exchange(largest);
    return other;
  }
};
//@end

//@section minimum_of : masks, minimum, infinity
struct Minimum {
  Real smallest = infinity();

  template <int n>
  __device__ __forceinline__ void add(const Real (&values)[n], unsigned mask) {
    if (mask == kAllOf<n>) {
#pragma unroll
      for (int i = 0; i < n; ++i) smallest = ops::minimum(smallest, values[i]);
      return;
    }
#pragma unroll
    for (int i = 0; i < n; ++i) smallest = ops::minimum(smallest, has(mask, i) ? values[i] : smallest);
  }
  __device__ __forceinline__ void merge(const Minimum& other) { smallest = ops::minimum(smallest, other.smallest); }
  template <class Exchange>
  __device__ __forceinline__ Minimum exchanged(const Exchange& exchange) const {
    Minimum other;
    other.smallest = exchange(smallest);
    return other;
  }
};
//@end

//@section any_of : masks
// Truth values travel as 0 and 1.
struct Any {
  Real truth = 0;

  template <int n>
  __device__ __forceinline__ void add(const Real (&values)[n], unsigned mask) {
#pragma unroll
    for (int i = 0; i < n; ++i) truth = has(mask, i) && values[i] != Real(0) ? Real(1) : truth;
  }
  __device__ __forceinline__ void merge(const Any& other) { truth = other.truth != Real(0) ? Real(1) : truth; }
  template <class Exchange>
  __device__ __forceinline__ Any exchanged(const Exchange& exchange) const {
    Any other;
    other.truth = exchange(truth);
    return other;
  }
};
//@end

//@section all_of : masks
struct All {
  Real truth = 1;

  template <int n>
  __device__ __forceinline__ void add(const Real (&values)[n], unsigned mask) {
#pragma unroll
    for (int i = 0; i < n; ++i) truth = has(mask, i) && values[i] == Real(0) ? Real(0) : truth;
  }
  __device__ __forceinline__ void merge(const All& other) { truth = other.truth == Real(0) ? Real(0) : truth; }
  template <class Exchange>
  __device__ __forceinline__ All exchanged(const Exchange& exchange) const {
    All other;
    other.truth = exchange(truth);
    return other;
  }
};
//@end

//@section moments : masks, tree
// Count, mean, and sum of squared deviations from the mean. Two walks over the values of a group, then the merge of Chan, Golub and
// LeVeque 1979 ("Updating formulae and a pairwise algorithm for computing sample variances"): no cancellation however large the mean is.
struct Moments {
  Real count = 0, mean = 0, deviations = 0;

  template <int n>
  __device__ __forceinline__ void add(const Real (&values)[n], unsigned mask) {
    Real terms[n];
    Moments group;
    if (mask == kAllOf<n>) {
      group.count = Real(n);
      group.mean = tree_sum(values) * (Real(1) / Real(n));
#pragma unroll
      for (int i = 0; i < n; ++i) terms[i] = (values[i] - group.mean) * (values[i] - group.mean);
    } else {
      group.count = Real(__popc(mask));
#pragma unroll
      for (int i = 0; i < n; ++i) terms[i] = has(mask, i) ? values[i] : Real(0);
      group.mean = mask == 0 ? Real(0) : tree_sum(terms) / group.count;
#pragma unroll
      for (int i = 0; i < n; ++i) terms[i] = has(mask, i) ? (values[i] - group.mean) * (values[i] - group.mean) : Real(0);
    }
    group.deviations = tree_sum(terms);
    merge(group);
  }
  __device__ __forceinline__ void merge(const Moments& other) {
    const Real total = count + other.count;
    const Real inverse = total > Real(0) ? Real(1) / total : Real(0);
    const Real weight = count * inverse;
    const Real other_weight = other.count * inverse;
    const Real difference = other.mean - mean;
    // A side without elements has no say: its weight is 0, but 0 times Inf would not be.
    const Real between = weight > Real(0) && other_weight > Real(0) ? difference * difference * (count * other_weight) : Real(0);
    mean = (weight > Real(0) ? mean * weight : Real(0)) + (other_weight > Real(0) ? other.mean * other_weight : Real(0));
    deviations = deviations + other.deviations + between;
    count = total;
  }
  __device__ __forceinline__ Real average() const { return count > Real(0) ? mean : mean / count; }
  __device__ __forceinline__ Real variance(Real correction) const {
    const Real freedom = count - correction;
    return deviations / (freedom > Real(0) ? freedom : Real(0));
  }
  template <class Exchange>
  __device__ __forceinline__ Moments exchanged(const Exchange& exchange) const {
    Moments other;
    other.count = exchange(count);
    other.mean = exchange(mean);
    other.deviations = exchange(deviations);
    return other;
  }
};
//@end

//@section max_sumexp : masks, tree, maximum, infinity
// The largest value, and the sum of exp(value - largest), in one walk: what was summed up is scaled when a larger value comes (Milakov and
// Gimelshein 2018, "Online normalizer calculation for softmax").
struct MaxSumExp {
  Real largest = -infinity(), sum = 0;

  template <int n>
  __device__ __forceinline__ void add(const Real (&values)[n], unsigned mask) {
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
  // sum(exp(v - largest)), and sum(exp(v - (0 if largest is infinite, else largest))).
  __device__ __forceinline__ Real sumexp() const { return largest - largest == Real(0) ? sum : largest - largest; }
  __device__ __forceinline__ Real guarded_sumexp() const {
    return largest == infinity() ? infinity() : largest == -infinity() ? Real(0) : sum;
  }
  // Nothing but -Inf so far: Inf - Inf would be NaN.
  __device__ __forceinline__ static Real shift(Real top) { return top == -infinity() ? Real(0) : top; }
  template <class Exchange>
  __device__ __forceinline__ MaxSumExp exchanged(const Exchange& exchange) const {
    MaxSumExp other;
    other.largest = exchange(largest);
    other.sum = exchange(sum);
    return other;
  }
};
//@end
