// What warps multiply with, as the PTX manual has it, for emitted products on the CPU: cp.async with its groups, and
// matrices that a warp loads and multiplies together. These are the functions that templates/gemm/synchronous.cuh has
// for CUDA compilers alone. For cuda_shim.hpp, which includes it at its end.
//
// Copies arrive when their thread waits for their group, and until then their target is NaN; or at once, so that one
// which overwrites what others still read shows; or some so and some so.
#pragma once

#include "support/gemm_model.hpp"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("O2")
#endif

namespace epifuse::shim {

/// What each lane of a warp gives to a product. Two sets: who is late reads the old one while others fill the new one.
struct WarpFragments {
  unsigned turn = 0;
  unsigned words[2][kWarp][6];
};
inline thread_local WarpFragments warp_fragments[kWarp];  // by warp

/// What all lanes give, when all have given it.
inline const unsigned (&exchange_fragments(const unsigned (&left)[4], unsigned right, unsigned right_below))[kWarp][6] {
  WarpFragments& all = warp_fragments[cluster.thread() / kWarp];
  Warp& warp = cluster.warp();
  unsigned(&mine)[6] = all.words[all.turn % 2][cluster.lane()];
  const unsigned(&given)[kWarp][6] = all.words[all.turn % 2];
  std::memcpy(mine, left, sizeof left);
  mine[4] = right;
  mine[5] = right_below;
  if (warp.barrier.arrived + 1 == warp.barrier.expected) ++all.turn;
  cluster.wait(warp.barrier, "mma.sync");
  return given;
}

/// The numbers of a row of the left factor, or of a column of the right one: four lanes have 16 bytes of it in one word
/// each, and the next 16 in another.
template <int kBytes>
void numbers_of(float (&numbers)[32 / kBytes], const unsigned (&given)[kWarp][6], unsigned line, int word, int next,
                float (*real)(unsigned)) {
  constexpr int kOfWord = 4 / kBytes;
  for (int half = 0; half < 2; ++half) {
    for (unsigned lane = 0; lane < 4; ++lane) {
      const unsigned bits = given[line * 4 + lane][half == 0 ? word : next];
      for (int i = 0; i < kOfWord; ++i)
        numbers[(half * 4 + static_cast<int>(lane)) * kOfWord + i] =
            real(bits >> (8 * kBytes * i) & (kBytes == 4 ? 0xffffffffu : kBytes == 2 ? 0xffffu : 0xffu));
    }
  }
}

}  // namespace epifuse::shim

inline void copy_chunk(unsigned target, const char* source, int bytes) {
  using namespace epifuse::shim;
  static constexpr unsigned char kZeros[16] = {};
  if (target % 16 != 0) cluster.fail("cp.async to address %u, which is no multiple of 16", target);
  if (bytes < 0 || bytes > 16) cluster.fail("cp.async of %d bytes", bytes);
  if (bytes > 0 && reinterpret_cast<unsigned long long>(source) % 16 != 0)
    cluster.fail("cp.async from an address that is no multiple of 16");
  unsigned char* const to = asynchronous.at(target);
  const auto inside = static_cast<std::size_t>(bytes);
  if (is_done_now()) {
    std::memcpy(to, source, inside);
    std::memset(to + inside, 0, 16 - inside);
    return;
  }
  std::memset(to, kPoison, 16);
  if (inside > 0) copies->add(to, source, inside);
  if (inside < 16) copies->add(to + inside, kZeros, 16 - inside);
}
inline void end_copies() { epifuse::shim::copies->end_batch(); }
template <int kLeft>
void wait_copies() {
  epifuse::shim::copies->wait(kLeft);
}

inline void load_matrices_transposed(unsigned (&words)[4], unsigned address) {
  using namespace epifuse::shim;
  const unsigned lane = cluster.lane();
  tell_rows(address);
  for (unsigned i = 0; i < 4; ++i) {
    unsigned short numbers[2];
    for (unsigned e = 0; e < 2; ++e) {
      const unsigned row = exchange("ldmatrix.trans", 0xffffffffu, address, 8 * i + lane % 4 * 2 + e);
      if (i == 0 && e == 0) check_banks();
      std::memcpy(&numbers[e], asynchronous.at(row + lane / 4 * 2), 2);
    }
    words[i] = numbers[0] | static_cast<unsigned>(numbers[1]) << 16;
  }
}
inline void meet_beside(int warp_row) { epifuse::shim::asynchronous.meet(warp_row, 64); }
inline void store_word(unsigned address, unsigned word) {
  std::memcpy(epifuse::shim::asynchronous.at(address), &word, 4);
}
inline void load_chunk(unsigned (&words)[4], unsigned address) {
  std::memcpy(words, epifuse::shim::asynchronous.at(address), 16);
}
inline void store_chunk(char* target, const unsigned (&words)[4]) {
  if (reinterpret_cast<unsigned long long>(target) % 16 != 0)
    epifuse::shim::cluster.fail("a store of 16 bytes to an address that is no multiple of 16");
  std::memcpy(target, words, 16);
}

// A thread's sums: of rows lane / 4 and eight below, the columns 2 * (lane % 4) and the next.
template <int kBytes, bool kAdds, class Sum>
void multiply_by_warp(Sum (&sums)[4], const unsigned (&left)[4], unsigned right, unsigned right_below,
                      float (*real)(unsigned)) {
  using namespace epifuse::shim;
  constexpr int kDepth = 32 / kBytes;
  const unsigned(&given)[kWarp][6] = exchange_fragments(left, right, right_below);
  const unsigned lane = cluster.lane();
  float rows[2][kDepth], columns[2][kDepth];
  for (unsigned i = 0; i < 2; ++i) {
    numbers_of<kBytes>(rows[i], given, lane / 4, static_cast<int>(i), static_cast<int>(i) + 2, real);
    numbers_of<kBytes>(columns[i], given, lane % 4 * 2 + i, 4, 5, real);
  }
  for (int row = 0; row < 2; ++row) {
    for (int column = 0; column < 2; ++column) {
      Sum sum = kAdds ? sums[row * 2 + column] : 0;
      for (int k = 0; k < kDepth; ++k) sum += static_cast<Sum>(rows[row][k]) * static_cast<Sum>(columns[column][k]);
      sums[row * 2 + column] = sum;
    }
  }
}

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC pop_options
#endif
