// One thread's vector of kElements elements of one operand, packed into 32-bit words: a row's operands stay in registers from pass to pass,
// and 16-bit elements must not take 32 bits each. A vector is `in_bounds` if all its elements exist, `full_vector` if they also lie in one
// line; otherwise only elements position.begin … position.end - 1 are touched, one by one, and the others are zero.

// Where there is code for vectors that are not full, the loops of load_words() and store_words() stay also for one access: without it two f32 kernels took 8 registers more, or 14
// instructions (InstanceNorm with 512 threads to a block).
//@section packet : real_of
template <class T>
struct alignas(16) Packet {
  static constexpr int kWords = (kElements * static_cast<int>(sizeof(T)) + 3) / 4;
  unsigned words[kWords];

  __device__ __forceinline__ T get(int e) const { return reinterpret_cast<const T*>(words)[e]; }
  template <class Real>
  __device__ __forceinline__ Real real(int e) const {
    return real_of<Real, T>(words, e);
  }
  __device__ __forceinline__ void put(int e, const T& value) { reinterpret_cast<T*>(words)[e] = value; }
  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < kWords; ++i) words[i] = 0;
  }
  // The compiler must not hold what it computed from these words in an earlier pass: that would cost more registers than computing it again.
  __device__ __forceinline__ void forget_uses() {
#ifdef __CUDACC__
#pragma unroll
    for (int i = 0; i < kWords; ++i) asm volatile("" : "+r"(words[i]));
#endif
  }
};

// What one memory instruction moves.
template <int kBytes>
struct alignas(kBytes) Words {
  unsigned word[kBytes / 4];
};

// Whether what is read will be read again, from the L2 cache; or is written by nobody while the kernel runs, so that it may be read before
// stores: without that the loads of a step wait for the stores of the one before. l1_evict_first: it leaves the caches
// first, where what the producer wrote stays until it is read; kPrefetch256B: memory fetches what lies beside it, too.
// Where something as long is written, both cost more than they gain.
enum class CacheHint { none, evict_last, evict_first, read_only, l1_evict_first };
constexpr CacheHint kHeldHint = kL1EvictFirst ? CacheHint::l1_evict_first : CacheHint::none;  // of what is held

//@if kReadOnly || kL1EvictFirst || kL2EvictFirst
template <CacheHint kHint, int kBytes>
__device__ __forceinline__ Words<kBytes> load_instruction(const Words<kBytes>* source) {
//@if kReadOnly
#ifdef __CUDACC__
  if constexpr (kHint == CacheHint::read_only && kBytes == 16) {
    Words<kBytes> words;
    asm("ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%4];"
        : "=r"(words.word[0]), "=r"(words.word[1]), "=r"(words.word[2]), "=r"(words.word[3])
        : "l"(source));
    return words;
  }
#endif
//@endif
//@if kL1EvictFirst || kL2EvictFirst
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800  // PTX ISA, ld (eviction priority, prefetch size) and createpolicy
//@if kL1EvictFirst
  if constexpr (kHint == CacheHint::l1_evict_first && kBytes == 16) {
    Words<kBytes> words;
//@if kPrefetch256B
    asm("ld.global.L1::evict_first.L2::256B.v4.b32 {%0, %1, %2, %3}, [%4];"
//@else
    asm("ld.global.L1::evict_first.v4.b32 {%0, %1, %2, %3}, [%4];"
//@endif
        : "=r"(words.word[0]), "=r"(words.word[1]), "=r"(words.word[2]), "=r"(words.word[3])
        : "l"(source));
    return words;
  }
//@endif
//@if kL2EvictFirst
  if constexpr ((kHint == CacheHint::evict_last || kHint == CacheHint::evict_first) && kBytes == 16) {
    unsigned long long policy;
    if constexpr (kHint == CacheHint::evict_last) {
      asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    } else {
      asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    }
    Words<kBytes> words;
    asm volatile("ld.global.L2::cache_hint.v4.b32 {%0, %1, %2, %3}, [%4], %5;"
                 : "=r"(words.word[0]), "=r"(words.word[1]), "=r"(words.word[2]), "=r"(words.word[3])
                 : "l"(source), "l"(policy));
    return words;
  }
//@endif
#endif
//@endif
  return *source;
}
//@endif

template <int kWidth, CacheHint kHint, class T>
__device__ __forceinline__ void load_words(Packet<T>& packet, const T* source) {
  if constexpr (kWidth * static_cast<int>(sizeof(T)) >= 4) {
    typedef Words<kWidth * static_cast<int>(sizeof(T))> Access;
#pragma unroll
    for (int i = 0; /*@if kAllFull*/i < kElements / kWidth/*@endif*//*@if !kAllFull*/i * kWidth < kElements/*@endif*/; ++i)
      reinterpret_cast<Access*>(packet.words)[i] = /*@if kReadOnly || kL1EvictFirst || kL2EvictFirst*/load_instruction<kHint>/*@endif*//*@if !kReadOnly && !kL1EvictFirst && !kL2EvictFirst*/*/*@endif*/(reinterpret_cast<const Access*>(source + i * kWidth * kBeside));
  } else {
#pragma unroll
    for (int e = 0; e < kElements; ++e) packet.put(e, source[e * kBeside]);
  }
}

//@if kL2EvictFirst
// What is written, and what is copied to shared memory, leaves the L2 cache first, which keeps rows that are read again or prefetched.
template <int kBytes>
__device__ __forceinline__ void store_instruction(Words<kBytes>* target, const Words<kBytes>& words) {
#ifdef __CUDACC__
  if constexpr (kBytes == 16) {
    asm volatile("st.global.cs.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(target), "r"(words.word[0]), "r"(words.word[1]), "r"(words.word[2]),
                 "r"(words.word[3])
                 : "memory");
    return;
  }
#endif
  *target = words;
}
//@endif

template <int kWidth, class T>
__device__ __forceinline__ void store_words(const Packet<T>& packet, T* target) {
  if constexpr (kWidth * static_cast<int>(sizeof(T)) >= 4) {
    typedef Words<kWidth * static_cast<int>(sizeof(T))> Access;
#pragma unroll
    for (int i = 0; /*@if kAllFull*/i < kElements / kWidth/*@endif*//*@if !kAllFull*/i * kWidth < kElements/*@endif*/; ++i)
//@if kL2EvictFirst
      store_instruction(reinterpret_cast<Access*>(target + i * kWidth * kBeside), reinterpret_cast<const Access*>(packet.words)[i]);
//@else
      *reinterpret_cast<Access*>(target + i * kWidth * kBeside) = reinterpret_cast<const Access*>(packet.words)[i];
//@endif
  } else {
#pragma unroll
    for (int e = 0; e < kElements; ++e) target[e * kBeside] = packet.get(e);
  }
}
//@end

//@section read_existing : packet
// Of a vector that is not in bounds, as it lies in memory.
template <class T, class At>
__device__ __forceinline__ void read_existing(Packet<T>& packet, const T* source, const At& position) {
  packet.clear();
//@if !kWholeVectors
#pragma unroll
  for (int e = 0; e < kElements; ++e) {
    if (e >= position.begin && e < position.end) packet.put(e, source[e * kBeside]);
  }
//@endif
}
//@end

//@section chunks16 : packet
// What a thread keeps in shared memory is cut into chunks of 16 bytes, and those of all threads lie side by side, so that neighbours never
// meet in a bank (CUDA C++ Programming Guide, shared memory), however much a thread keeps of a step.
typedef Words<16> Chunk16;

// Saved values of one vector.
template <class T>
struct alignas(16) Saved {
  T values[kElements];
};

template <class HeldVector>
__device__ __forceinline__ HeldVector load_held(const Chunk16* chunks16) {
  HeldVector held;
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(HeldVector) / sizeof(Chunk16)); ++i) reinterpret_cast<Chunk16*>(&held)[i] = chunks16[i * kThreads];
  return held;
}
template <class HeldVector>
__device__ __forceinline__ void store_held(Chunk16* chunks16, const HeldVector& held) {
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(HeldVector) / sizeof(Chunk16)); ++i) chunks16[i * kThreads] = reinterpret_cast<const Chunk16*>(&held)[i];
}
//@end

//@section copy_async
// Copies to shared memory that need no register and arrive later: none of a batch may be used before its thread has waited for it (PTX ISA, cp.async).
#ifdef __CUDACC__
template <int kBytes>
__device__ __forceinline__ void copy_async(void* shared_address, const void* source) {
  const unsigned target = static_cast<unsigned>(__cvta_generic_to_shared(shared_address));
  if constexpr (kBytes == 16) {
//@if kL2EvictFirst
    unsigned long long policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(target), "l"(source), "l"(policy) : "memory");
//@else
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(target), "l"(source) : "memory");
//@endif
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(target), "l"(source), "n"(kBytes) : "memory");
  }
}
__device__ __forceinline__ void end_of_batch() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kLeft>
__device__ __forceinline__ void wait_for_all_but() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}
#endif
//@end

//@section copy_linear : read_existing, chunks16, copy_async
// From memory to a packet in shared memory, without a register between where the copy instruction has that size.
template <int kWidth, class T>
__device__ __forceinline__ void copy_words(Chunk16* chunks16, const T* source) {
  if constexpr (kWidth * static_cast<int>(sizeof(T)) >= 4) {
#pragma unroll
    for (int i = 0; i < kElements / kWidth; ++i) {
      const int begin = i * kWidth * static_cast<int>(sizeof(T));
      copy_async<kWidth * static_cast<int>(sizeof(T))>(reinterpret_cast<unsigned char*>(chunks16 + begin / 16 * kThreads) + begin % 16, source + i * kWidth);
    }
  } else {
    Packet<T> packet;
    load_words<kWidth, CacheHint::none>(packet, source);
    store_held(chunks16, packet);
  }
}

template <int kWidth, class T, class At>
__device__ __forceinline__ void copy_linear(Chunk16* chunks16, const T* base, const At& position) {
  const T* source = base + position.linear;
//@if !kMovesFull
  if constexpr (!At::kInBounds) {
    if (!position.in_bounds) {
      Packet<T> packet;
      read_existing(packet, source, position);
      store_held(chunks16, packet);
      return;
    }
  }
//@endif
  copy_words<kWidth>(chunks16, source);
}
//@end

//@section copy_contiguous : copy_linear, gather_packet
template <int kWidth, class T, class At>
__device__ __forceinline__ void copy_contiguous(Chunk16* chunks16, const T* base, const Index (&strides)[kCoordinates],
                                                const At& position, const Space& space) {
//@if !kMovesFull
  if constexpr (!At::kIsFull) {
    if (!position.full_vector) {
      Packet<T> packet;
      gather(packet, base, strides, position, space);
      store_held(chunks16, packet);
      return;
    }
  }
//@endif
  copy_words<kWidth>(chunks16, base + offset_of(position.at, strides));
}
//@end

//@section read_linear : read_existing
template <int kWidth, CacheHint kHint = CacheHint::none, class T, class At>
__device__ __forceinline__ void read_linear(Packet<T>& packet, const T* base, const At& position) {
  const T* source = base + position.linear;
//@if !kMovesFull
  if constexpr (!At::kInBounds) {
    if (!position.in_bounds) return read_existing(packet, source, position);
  }
//@endif
  load_words<kWidth, kHint>(packet, source);
}
//@end

//@section each_element
// Calls visit(e, offset) for the elements that exist, beyond the ends of lines.
template <class Visit, class At>
__device__ __forceinline__ void each_element(const At& position, const Index (&strides)[kCoordinates], const Space& space,
                                             const Visit& visit) {
  Index at[kCoordinates];
#pragma unroll
  for (int d = 0; d < kCoordinates; ++d) at[d] = position.at[d];
#pragma unroll
  for (int e = 0; e < kElements; ++e) {
    if (e < position.begin || e >= position.end) continue;
    visit(e, offset_of(at, strides));
//@if kBeside > 1
    at[kCoordinates - 1] += kBeside;
//@else
    advance(at, space);
//@endif
  }
}
//@end

//@section gather_packet : packet, each_element
template <class T, class At>
__device__ __forceinline__ void gather(Packet<T>& packet, const T* base, const Index (&strides)[kCoordinates], const At& position,
                                       const Space& space) {
  packet.clear();
//@if !kWholeLines
  each_element(position, strides, space, [&](int e, Index offset) { packet.put(e, base[offset]); });
//@endif
}
//@end

//@section read_contiguous : gather_packet
template <int kWidth, CacheHint kHint = CacheHint::none, class T, class At>
__device__ __forceinline__ void read_contiguous(Packet<T>& packet, const T* base, const Index (&strides)[kCoordinates],
                                                const At& position, const Space& space) {
//@if !kMovesFull
  if constexpr (!At::kIsFull) {
    if (!position.full_vector) return gather(packet, base, strides, position, space);
  }
//@endif
  load_words<kWidth, kHint>(packet, base + offset_of(position.at, strides));
}
//@end

//@section read_strided : gather_packet
template <class T, class At>
__device__ __forceinline__ void read_strided(Packet<T>& packet, const T* base, const Index (&strides)[kCoordinates],
                                             const At& position, const Space& space) {
//@if !kMovesFull
  if constexpr (!At::kIsFull) {
    if (!position.full_vector) return gather(packet, base, strides, position, space);
  }
//@endif
  const T* source = base + offset_of(position.at, strides);
#pragma unroll
  for (int e = 0; e < kElements; ++e) packet.put(e, source[e * kBeside * strides[kCoordinates - 1]]);
}
//@end

//@section read_row : packet
//@if kReadOnly
// What nobody writes while the kernel runs a loop reads once, if all of its steps want the same.
template <CacheHint kHint, class T>
__device__ __forceinline__ T load_element(const T* source) {
#ifdef __CUDACC__
  if constexpr (kHint == CacheHint::read_only && sizeof(T) == 2) {
    unsigned short bits;
    asm("ld.global.nc.u16 %0, [%1];" : "=h"(bits) : "l"(source));
    T value;
    memcpy(&value, &bits, sizeof(T));
    return value;
  }
  if constexpr (kHint == CacheHint::read_only && sizeof(T) == 4) {
    unsigned bits;
    asm("ld.global.nc.u32 %0, [%1];" : "=r"(bits) : "l"(source));
    T value;
    memcpy(&value, &bits, sizeof(T));
    return value;
  }
#endif
  return *source;
}
//@endif

// Where the line of an element has its one.
__device__ __forceinline__ Index line_offset(const Index (&at)[kCoordinates], const Index (&strides)[kCoordinates]) {
  Index offset = 0;
#pragma unroll
  for (int d = 0; d + 1 < kCoordinates; ++d) offset += at[d] * strides[d];
  return offset;
}

// Line by line, of which a vector seldom has elements of more than two.
template <class T, class At>
__device__ __forceinline__ void read_lines(Packet<T>& packet, const T* base, const Index (&strides)[kCoordinates], const At& position,
                                           const Space& space) {
  packet.clear();
  Index at[kCoordinates];
#pragma unroll
  for (int d = 0; d < kCoordinates; ++d) at[d] = position.at[d];
#pragma unroll 1
  for (Index first = position.begin; first < position.end;) {
    const T value = base[line_offset(at, strides)];
#pragma unroll
    for (int e = 0; e < kElements; ++e) {
      if (e >= first) packet.put(e, value);
    }
    first += kBeside > 1 ? kElements : space.extents[kCoordinates - 1] - at[kCoordinates - 1];
    at[kCoordinates - 1] = space.extents[kCoordinates - 1] - 1;
    advance(at, space);
  }
}

// Constant along a line: one load for each line that a vector has elements of, and wherever in its line a full vector is, from the same address.
template <CacheHint kHint = CacheHint::none, class T, class At>
__device__ __forceinline__ void read_row(Packet<T>& packet, const T* base, const Index (&strides)[kCoordinates], const At& position,
                                         const Space& space) {
//@if !kMovesFull
  if constexpr (!At::kIsFull) {
    if (!position.full_vector) return read_lines(packet, base, strides, position, space);
  }
//@endif
  const T value = /*@if kReadOnly*/load_element<kHint>(base + line_offset(position.at, strides))/*@endif*//*@if !kReadOnly*/base[line_offset(position.at, strides)]/*@endif*/;
#pragma unroll
  for (int e = 0; e < kElements; ++e) packet.put(e, value);
}
//@end

//@section write_linear : packet
template <int kWidth, class T, class At>
__device__ __forceinline__ void write_linear(const Packet<T>& packet, T* base, const At& position) {
  T* target = base + position.linear;
//@if !kMovesFull
  if constexpr (!At::kInBounds) {
    if (!position.in_bounds) {
//@if !kWholeVectors
#pragma unroll
      for (int e = 0; e < kElements; ++e) {
        if (e >= position.begin && e < position.end) target[e * kBeside] = packet.get(e);
      }
//@endif
      return;
    }
  }
//@endif
  store_words<kWidth>(packet, target);
}
//@end

//@section write_contiguous : packet, each_element
template <int kWidth, class T, class At>
__device__ __forceinline__ void write_contiguous(const Packet<T>& packet, T* base, const Index (&strides)[kCoordinates],
                                                 const At& position, const Space& space) {
//@if !kMovesFull
  if constexpr (!At::kIsFull) {
    if (!position.full_vector) {
//@if !kWholeLines
      each_element(position, strides, space, [&](int e, Index offset) { base[offset] = packet.get(e); });
//@endif
      return;
    }
  }
//@endif
  store_words<kWidth>(packet, base + offset_of(position.at, strides));
}
//@end

//@section write_strided : packet, each_element
template <class T, class At>
__device__ __forceinline__ void write_strided(const Packet<T>& packet, T* base, const Index (&strides)[kCoordinates],
                                              const At& position, const Space& space) {
  each_element(position, strides, space, [&](int e, Index offset) { base[offset] = packet.get(e); });
}
//@end

//@section packet_run : packet
// Elements of kCount operands that take turns in memory, as they lie there.
template <class T, int kCount>
struct alignas(16) PacketRun {
  T elements[kCount * kElements];

  // The operand that has every kCount-th element, from the kFirst-th on.
  template <int kFirst>
  __device__ __forceinline__ void take(Packet<T>& packet) const {
#pragma unroll
    for (int e = 0; e < kElements; ++e) packet.put(e, elements[kCount * e + kFirst]);
  }
  template <int kFirst>
  __device__ __forceinline__ void put(const Packet<T>& packet) {
#pragma unroll
    for (int e = 0; e < kElements; ++e) elements[kCount * e + kFirst] = packet.get(e);
  }
};
//@end

//@section read_run : packet_run
template <int kWidth, class T, int kCount, class At>
__device__ __forceinline__ void read_run(PacketRun<T, kCount>& run, const T* base, const Index (&strides)[kCoordinates], const At& position) {
//@if !kMovesFull
  if constexpr (!At::kIsFull) {
    if (!position.full_vector) {  // none of it exists
      run = {};
      return;
    }
  }
//@endif
  typedef Words<kWidth * static_cast<int>(sizeof(T))> Access;
  const T* source = base + offset_of(position.at, strides);
#pragma unroll
  for (int i = 0; i < kCount * kElements; i += kWidth) *reinterpret_cast<Access*>(run.elements + i) = *reinterpret_cast<const Access*>(source + i);
}
//@end

//@section write_run : packet_run
template <int kWidth, class T, int kCount, class At>
__device__ __forceinline__ void write_run(const PacketRun<T, kCount>& run, T* base, const Index (&strides)[kCoordinates], const At& position) {
//@if !kMovesFull
  if constexpr (!At::kIsFull) {
    if (!position.full_vector) return;
  }
//@endif
  typedef Words<kWidth * static_cast<int>(sizeof(T))> Access;
  T* target = base + offset_of(position.at, strides);
#pragma unroll
  for (int i = 0; i < kCount * kElements; i += kWidth) *reinterpret_cast<Access*>(target + i) = *reinterpret_cast<const Access*>(run.elements + i);
}
//@end
