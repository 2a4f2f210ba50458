// What sm_80 to sm_89 and sm_120 multiply with, one function per instruction: copies to shared memory that need no register (cp.async), and what a warp
// loads of it. A warp's products themselves are written by codegen, which knows the types. Addresses in shared memory are 32-bit numbers of its own space.
// For templates/gemm/warp_gemm.cuh. Where no CUDA compiler reads this, tests/support/warp_model.hpp has functions of the same names.

//@section copies
#if defined(__CUDACC__)
// Where the block's dynamic shared memory begins.
template <int kBytes>
__device__ __forceinline__ unsigned shared_memory() {
  extern __shared__ __align__(128) unsigned char memory[];
  return static_cast<unsigned>(__cvta_generic_to_shared(memory));
}

// 16 bytes to shared memory: the first `bytes` are those at `source`, the others 0. With none of them nothing is read. They are there when this thread has
// waited for their group (PTX ISA, cp.async).
__device__ __forceinline__ void copy_chunk(unsigned target, const char* source, int bytes) {
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(target), "l"(source), "r"(bytes) : "memory");
}

// This thread's copies since the last group are a group.
__device__ __forceinline__ void end_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits until all but kLeft of this thread's latest groups are there.
template <int kLeft>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}
#endif
//@end

//@section pairs_of_warps
#if defined(__CUDACC__)
// The two warps that stand beside each other meet at a hardware barrier of their own; 0 is __syncthreads'.
__device__ __forceinline__ void meet_beside(int warp_row) { asm volatile("bar.sync %0, 64;" ::"r"(warp_row + 1) : "memory"); }
#endif
//@end

//@section fragments
#if defined(__CUDACC__)
// As load_matrices(), but of each matrix a lane holds the numbers 2 * (l % 4) and the next of column l / 4.
__device__ __forceinline__ void load_matrices_transposed(unsigned (&words)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(address)
               : "memory");
}

__device__ __forceinline__ void store_word(unsigned address, unsigned word) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(word) : "memory");
}

// 16 bytes, at a multiple of 16.
__device__ __forceinline__ void load_chunk(unsigned (&words)[4], unsigned address) {
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
               : "r"(address)
               : "memory");
}

// To memory, likewise.
__device__ __forceinline__ void store_chunk(char* target, const unsigned (&words)[4]) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(target), "r"(words[0]), "r"(words[1]), "r"(words[2]),
               "r"(words[3])
               : "memory");
}
#endif
//@end
