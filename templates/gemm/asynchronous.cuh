// What sm_90a does asynchronously, one function per instruction: barriers in shared memory, copies of tiles by tensor maps, products of
// warp groups. Addresses in shared memory are 32-bit numbers of its own space. For templates/gemm/gemm.cuh. Where no CUDA compiler reads this, whoever
// compiles it has functions of the same names (tests/support/gemm_model.hpp).

//@section shared_barriers
#if defined(__CUDACC__)
// Where the block's dynamic shared memory begins: at a multiple of the swizzle's 1024 bytes.
template <int kBytes>
__device__ __forceinline__ unsigned shared_memory() {
  extern __shared__ __align__(1024) unsigned char memory[];
  return static_cast<unsigned>(__cvta_generic_to_shared(memory));
}

__device__ __forceinline__ void init_barrier(unsigned barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// After the first thread made the barriers: copies and the cluster's other blocks see them.
__device__ __forceinline__ void publish_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::: "memory");
}

// One arrival, and the bytes that copies will bring in this phase.
__device__ __forceinline__ void expect_bytes(unsigned barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// One arrival at the barrier that stands at this address in block `rank` of the cluster.
__device__ __forceinline__ void arrive_at(unsigned barrier, unsigned rank) {
  asm volatile(
      "{\n"
      ".reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
      "}" ::"r"(barrier), "r"(rank)
      : "memory");
}

__device__ __forceinline__ bool has_passed(unsigned barrier, unsigned parity) {
  unsigned passed;
  asm volatile(
      "{\n"
      ".reg .pred passed;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 passed, [%1], %2;\n"
      "selp.u32 %0, 1, 0, passed;\n"
      "}"
      : "=r"(passed)
      : "r"(barrier), "r"(parity)
      : "memory");
  return passed != 0;
}

// Waits until the phase of this parity is over. A try suspends the thread for a while by itself.
__device__ __forceinline__ void wait_barrier(unsigned barrier, unsigned parity) {
  while (!has_passed(barrier, parity)) {
  }
}

// Threads of one warp group meet at its own hardware barrier; 0 is __syncthreads'.
__device__ __forceinline__ void meet(int group) { asm volatile("bar.sync %0, 128;" ::"r"(group + 1) : "memory"); }

// Turns: a warp group waits for its own, and gives the other its turn.
__device__ __forceinline__ void wait_for_turn(int group) {
  asm volatile("bar.sync %0, 256;" ::"r"(group + 3) : "memory");
}
__device__ __forceinline__ void give_turn(int group) {
  asm volatile("bar.arrive %0, 256;" ::"r"(group + 3) : "memory");
}
#endif
//@end

//@section clusters
#if defined(__CUDACC__)
__device__ __forceinline__ unsigned cluster_rank() {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

__device__ __forceinline__ void meet_cluster() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
#endif
//@end

//@section distributed_sums : clusters
#if defined(__CUDACC__)
// Four sums to this address of block `rank` of the cluster.
__device__ __forceinline__ void give_sums(unsigned address, unsigned rank, const Sum* sums) {
  asm volatile(
      "{\n"
      ".reg .b32 remote;\n"
      "mapa.shared::cluster.u32 remote, %0, %1;\n"
      "st.shared::cluster.v4.b32 [remote], {%2, %3, %4, %5};\n"
      "}" ::"r"(address),
//@if kIntegers
      "r"(rank), "r"(sums[0]), "r"(sums[1]), "r"(sums[2]), "r"(sums[3])
//@else
      "r"(rank), "f"(sums[0]), "f"(sums[1]), "f"(sums[2]), "f"(sums[3])
//@endif
      : "memory");
}

// Four that were given to this block.
__device__ __forceinline__ void load_sums(unsigned address, Sum* sums) {
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
//@if kIntegers
               : "=r"(sums[0]), "=r"(sums[1]), "=r"(sums[2]), "=r"(sums[3])
//@else
               : "=f"(sums[0]), "=f"(sums[1]), "=f"(sums[2]), "=f"(sums[3])
//@endif
               : "r"(address)
               : "memory");
}
#endif
//@end

//@section tensor_maps
struct alignas(64) TensorMap {
  unsigned long long opaque[16];
};

#if defined(__CUDACC__)
__device__ __forceinline__ void prefetch_map(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

// The box at (x, y, z) into shared memory; its bytes count at the barrier. What lies outside of the tensor becomes zero, and counts.
__device__ __forceinline__ void load_box(unsigned target, const TensorMap& map, int x, int y, int z, unsigned barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(
          target),
      "l"(&map), "r"(x), "r"(y), "r"(z), "r"(barrier)
      : "memory");
}

// The same into both blocks of a cluster: to the same address in each, and counted at the barrier of each.
__device__ __forceinline__ void load_box_to_both(unsigned target, const TensorMap& map, int x, int y, int z,
                                                 unsigned barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(target),
      "l"(&map), "r"(x), "r"(y), "r"(z), "r"(barrier), "h"(static_cast<unsigned short>(3))
      : "memory");
}

// The box in shared memory to (x, y, z); what lies outside of the tensor is dropped. The store is a group of its own.
__device__ __forceinline__ void store_box(const TensorMap& map, int x, int y, int z, unsigned source) {
  asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%1, %2, %3}], [%4];" ::"l"(&map), "r"(x),
               "r"(y), "r"(z), "r"(source)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Waits until all but kLeft of this thread's latest stores have read their box.
template <int kLeft>
__device__ __forceinline__ void wait_stores_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kLeft) : "memory");
}

// What this thread wrote to shared memory is seen by copies that begin later.
__device__ __forceinline__ void show_to_copies() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
#endif
//@end

//@section pixel_maps : tensor_maps
#if defined(__CUDACC__)
// Channels of the pixels of a patch, which begins at (x, y) of an image: as load_box.
__device__ __forceinline__ void load_pixels(unsigned target, const TensorMap& map, int channel, int x, int y, int image,
                                            unsigned barrier) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(
          target),
      "l"(&map), "r"(channel), "r"(x), "r"(y), "r"(image), "r"(barrier)
      : "memory");
}

// And as store_box.
__device__ __forceinline__ void store_pixels(const TensorMap& map, int channel, int x, int y, int image, unsigned source) {
  asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%1, %2, %3, %4}], [%5];" ::"l"(&map),
               "r"(channel), "r"(x), "r"(y), "r"(image), "r"(source)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
#endif
//@end

//@section row_blocks : tensor_maps, clusters
#if defined(__CUDACC__)
// As load_box, into all of a cluster's blocks.
template <int kBlocksOfCluster>
__device__ __forceinline__ void load_box_to_all(unsigned target, const TensorMap& map, int x, int y, int z, unsigned barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(target),
      "l"(&map), "r"(x), "r"(y), "r"(z), "r"(barrier), "h"(static_cast<unsigned short>((1 << kBlocksOfCluster) - 1))
      : "memory");
}

// A number to this address of block `rank` of the cluster. Its bytes count at the barrier that stands at `barrier` there.
__device__ __forceinline__ void give_number(unsigned address, unsigned barrier, unsigned rank, float value) {
  asm volatile(
      "{\n"
      ".reg .b32 remote, counts;\n"
      "mapa.shared::cluster.u32 remote, %0, %2;\n"
      "mapa.shared::cluster.u32 counts, %1, %2;\n"
      "st.async.shared::cluster.mbarrier::complete_tx::bytes.f32 [remote], %3, [counts];\n"
      "}" ::"r"(address),
      "r"(barrier), "r"(rank), "f"(value)
      : "memory");
}

// As wait_barrier, for what other blocks gave: their numbers were released to the cluster.
__device__ __forceinline__ void wait_numbers(unsigned barrier, unsigned parity) {
  unsigned passed = 0;
  while (passed == 0) {
    asm volatile(
        "{\n"
        ".reg .pred passed;\n"
        "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 passed, [%1], %2;\n"
        "selp.u32 %0, 1, 0, passed;\n"
        "}"
        : "=r"(passed)
        : "r"(barrier), "r"(parity)
        : "memory");
  }
}
#endif
//@end

//@section products
#if defined(__CUDACC__)
// The matrix descriptor of an operand in shared memory with the 128-byte swizzle. `leading` and `stride` are in bytes.
__device__ __forceinline__ unsigned long long describe_matrix(unsigned address, int leading, int stride) {
  return static_cast<unsigned long long>((address & 0x3ffffu) >> 4) | static_cast<unsigned long long>(leading >> 4) << 16 |
         static_cast<unsigned long long>(stride >> 4) << 32 | 1ull << 62;
}

__device__ __forceinline__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

template <int kLeft>
__device__ __forceinline__ void wait_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
}

// The compiler is told that all sums may have any value: before the first product, which writes them, and after the last, so that nothing is computed with
// them before.
template <int kCount>
__device__ __forceinline__ void begin_sums(Sum (&sums)[kCount]) {
#pragma unroll
//@if kIntegers
  for (int i = 0; i < kCount; ++i) asm volatile("" : "=r"(sums[i]));
//@else
  for (int i = 0; i < kCount; ++i) asm volatile("" : "=f"(sums[i]));
//@endif
}

template <int kCount>
__device__ __forceinline__ void end_sums(Sum (&sums)[kCount]) {
#pragma unroll
//@if kIntegers
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+r"(sums[i])::"memory");
//@else
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(sums[i])::"memory");
//@endif
}

template <int kCount>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}

template <int kCount>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}
#endif
//@end
