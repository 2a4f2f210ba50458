// Where a chain goes on with what whole rows are reduced to, as norms and softmax do, for sm_90a. The blocks of a cluster have the tiles of one band of rows beside
// each other, and each warp group 64 rows of its block's tile. The chain is passed over the tile two or three times: the first pass makes the value that is held in the
// place of the sums, the last one the tensor's element, and each of them but the last reduces its rows. For that a thread reduces its columns, four threads a row of
// a tile, and the blocks give each other what they have (kRowBlocks > 1).
//
// Each block writes to all blocks of its cluster, itself included, and each one's barrier counts the bytes. There are two places, for one exchange after the other.
// Who writes the exchange after next has seen the next one, for which all have read this one: so nothing else is needed to use a place again. Results are combined in
// the order of the blocks: all blocks have the same, and so has each launch.
//
// Operands of full size are read by the first pass. Their slots are the result's in the last one.
//
// Codegen writes in front of this: `reads_row_vector`, `finished`, `host_element`, and where rows are reduced a second time `host_second`.

//@section whole_rows : multiplier
constexpr int kRowArrays = kRowVectors > 0 ? kRowVectors : 1;

//@if kRowBlocks > 1
// Where a block has what block `of` of the row has reduced: of the exchange at hand, and of this thread's row +0 or +8.
__device__ __forceinline__ unsigned place_of_exchanged(const Multiplier& m, int v, unsigned of, int half) {
  const int row = m.thread / 32 * 16 + half * 8 + m.lane / 4;
  const int exchange = m.group * 2 + m.exchange.at;
  return m.shared + kExchangedAt + exchange * kExchangedBytes + ((v * kRowBlocks + static_cast<int>(of)) * 64 + row) * 4;
}

// Each of the four threads that have a row gives it to some of the blocks.
template <int kFirst, int kEnd>
__device__ __forceinline__ void exchange_rows(Multiplier& m) {
  const unsigned barrier = m.barriers.exchange(m.group, m.exchange.at);
  if (m.thread == 0) expect_bytes(barrier, kRowBlocks * (kEnd - kFirst) * 64 * 4);
  // All lanes have read the exchange before, whose place others use next when they have seen this one.
  __syncwarp();
  for (unsigned block = static_cast<unsigned>(m.lane) % 4; block < kRowBlocks; block += 4) {
#pragma unroll
    for (int v = kFirst; v < kEnd; ++v) {
#pragma unroll
      for (int half = 0; half < 2; ++half) give_number(place_of_exchanged(m, v - kFirst, m.rank, half), barrier, block, m.of_rows[half][v]);
    }
  }
  wait_numbers(barrier, m.exchange.parity);
#pragma unroll
  for (int v = kFirst; v < kEnd; ++v) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float value = load_number(place_of_exchanged(m, v - kFirst, 0, half));
#pragma unroll
      for (unsigned block = 1; block < kRowBlocks; ++block) value = combined(v, value, load_number(place_of_exchanged(m, v - kFirst, block, half)));
      m.of_rows[half][v] = value;
    }
  }
  m.exchange.next();
}

//@endif
// Reductions kFirst to kEnd of a thread's two rows, each of which four threads have in a tile.
template <int kFirst, int kEnd>
__device__ __forceinline__ void finish_rows(Multiplier& m) {
#pragma unroll
  for (int v = kFirst; v < kEnd; ++v) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float& value = m.of_rows[half][v];
      value = combined(v, value, __shfl_xor_sync(0xffffffffu, value, 1));
      value = combined(v, value, __shfl_xor_sync(0xffffffffu, value, 2));
    }
  }
//@if kRowBlocks > 1
  exchange_rows<kFirst, kEnd>(m);
//@endif
#pragma unroll
  for (int v = kFirst; v < kEnd; ++v) {
#pragma unroll
    for (int half = 0; half < 2; ++half) m.of_rows[half][v] = finished(v, m.of_rows[half][v], m.p.n);
  }
}

// 16 columns; those behind the last one are none of the row.
template <int kFirst, int kEnd>
__device__ __forceinline__ void add_to_rows(Multiplier& m, const Tile& tile, int first, const float (&reduced)[kPartials][8]) {
#pragma unroll
  for (int v = kFirst; v < kEnd; ++v) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int column = tile.column + first + i / 4 * 8 + m.lane % 4 * 2 + i % 2;
      float& value = m.of_rows[i / 2 % 2][v];
      if (column < m.p.n) value = combined(v, value, reduced[v][i]);
    }
  }
}

// The sub-tile in front goes behind the others: after a pass all stand where they stood.
__device__ __forceinline__ void turn_sums(Multiplier& m) {
  constexpr int kSubtileSums = kSubtileColumns / 2;
#pragma unroll
  for (int product = 0; product < kProducts; ++product) {
    Sum* const own = m.sums[0] + product * (kChainN / 2);
    Sum front[kSubtileSums];
#pragma unroll
    for (int i = 0; i < kSubtileSums; ++i) front[i] = own[i];
#pragma unroll
    for (int i = 0; i < kChainN / 2; ++i) own[i] = i + kSubtileSums < kChainN / 2 ? own[i + kSubtileSums] : front[i + kSubtileSums - kChainN / 2];
  }
}

// 16 columns of the first pass: the chain's values take the place of the product's sums.
template <int kOfSubtile>
__device__ __forceinline__ void keep_values(Multiplier& m, const Tile& tile, int first, unsigned slot_address) {
  float made[8], reduced[kPartials][8];
  m.compute<0, kOfSubtile>(first, slot_address, made, reduced);
#pragma unroll
  for (int i = 0; i < 8; ++i) m.sums[0][kOfSubtile / 2 + i] = as_sum(made[i]);
  add_to_rows<0, kReducedFirst>(m, tile, first, reduced);
}

__device__ __forceinline__ void pass_first(Multiplier& m, const Tile& tile) {
//@if kUnrolls
#pragma unroll
//@else
#pragma unroll 1
//@endif
  for (int first = 0; first < kChainN; first += kSubtileColumns) {
    const unsigned address = m.slots + m.slot.at * kSlotBytes;
//@if kTileInputs > 0
    wait_barrier(m.barriers.slot(m.group, m.slot.at), m.slot.parity);
//@endif
    keep_values<0>(m, tile, first, address);
    keep_values<16>(m, tile, first + 16, address);
    turn_sums(m);
//@if kTileInputs > 0
    // When all have read the slot, operands of kSlots sub-tiles further go there.
    meet(m.group);
    if (m.thread == 0 && first / kSubtileColumns + kSlots < kSubtiles) m.load_inputs(tile, first / kSubtileColumns + kSlots, m.slot.at);
    m.slot.next();
//@endif
  }
}

// What a later pass reads of vectors along rows, for 16 columns: two pairs.
template <int kPass>
__device__ __forceinline__ void load_row_vectors(const Multiplier& m, int first, float (&in_row)[kRowArrays][2][2]) {
#pragma unroll
  for (int v = 0; v < kRowVectors; ++v) {
    if (!reads_row_vector(kPass, v)) continue;
#pragma unroll
    for (int i = 0; i < 2; ++i) load_pair(in_row[v][i][0], in_row[v][i][1], m.vectors + (v * kChainN + first + i * 8 + m.lane % 4 * 2) * 4);
  }
}

// Of these and of vectors along columns, those of one element.
struct OfElement {
  float row[kRowArrays], column[kColumnVectors > 0 ? kColumnVectors : 1];
  __device__ __forceinline__ OfElement(const Multiplier& m, const float (&in_row)[kRowArrays][2][2], int i) {
#pragma unroll
    for (int v = 0; v < kRowVectors; ++v) row[v] = in_row[v][i / 4][i % 2];
#pragma unroll
    for (int v = 0; v < kColumnVectors; ++v) column[v] = m.column_values[v][0][i / 2 % 2];
  }
};

//@if kReducedFirst < kPartials
// 16 columns of the second pass, behind the first reductions.
template <int kOfSubtile>
__device__ __forceinline__ void keep_second(Multiplier& m, const Tile& tile, int first) {
  float in_row[kRowArrays][2][2], reduced[kPartials][8];
  load_row_vectors<1>(m, first, in_row);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    float of_element[kPartials];
    const OfElement vectors(m, in_row, i);
    Sum& held = m.sums[0][kOfSubtile / 2 + i];
    held = as_sum(host_second(m.p, held_value(held), m.of_rows[i / 2 % 2], vectors.row, vectors.column, of_element));
#pragma unroll
    for (int v = kReducedFirst; v < kPartials; ++v) reduced[v][i] = of_element[v];
  }
  add_to_rows<kReducedFirst, kPartials>(m, tile, first, reduced);
}

__device__ __forceinline__ void pass_second(Multiplier& m, const Tile& tile) {
//@if kUnrolls
#pragma unroll
//@else
#pragma unroll 1
//@endif
  for (int first = 0; first < kChainN; first += kSubtileColumns) {
    keep_second<0>(m, tile, first);
    keep_second<16>(m, tile, first + 16);
    turn_sums(m);
  }
}

//@endif
// 16 columns of the last pass: elements of the tensor.
template <int kOfSubtile>
__device__ __forceinline__ void make_elements(Multiplier& m, int first, unsigned slot_address) {
  float in_row[kRowArrays][2][2], made[8];
  load_row_vectors<2>(m, first, in_row);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const OfElement vectors(m, in_row, i);
    made[i] = host_element(m.p, held_value(m.sums[0][kOfSubtile / 2 + i]), m.of_rows[i / 2 % 2], vectors.row, vectors.column);
  }
  store_result(made, slot_address + kResultAt, kOfSubtile);
}

__device__ __forceinline__ void pass_last(Multiplier& m, const Tile& tile) {
//@if kUnrolls
#pragma unroll
//@else
#pragma unroll 1
//@endif
  for (int first = 0; first < kChainN; first += kSubtileColumns) {
    const unsigned address = m.slots + m.out.at * kSlotBytes;
    make_elements<0>(m, first, address);
    make_elements<16>(m, first + 16, address);
    show_to_copies();
    meet(m.group);
    if (m.thread == 0) {
      store_box(m.p.result, tile.column + first, tile.row, tile.batch, address + kResultAt);
      // The next sub-tile but one finds its slot free: the others learn it at the next meeting.
      wait_stores_read<kSlots - 2>();
    }
    m.out.next();
    m.shift_sums<0>();
  }
}

// One band of rows after another.
__device__ __forceinline__ void run_whole_rows(Multiplier& m) {
  for (int index = static_cast<int>(blockIdx.x) / kRowBlocks; index < m.p.tiles; index += static_cast<int>(gridDim.x) / kRowBlocks) {
    const Tile tile = m.own(tile_of(m.p, index, m.rank));
//@if kTileInputs > 0
    if (m.thread == 0) {
      wait_stores_read<0>();
#pragma unroll
      for (int i = 0; i < (kSlots < kSubtiles ? kSlots : kSubtiles); ++i) m.load_inputs(tile, i, (m.slot.at + i) % kSlots);
    }
//@endif
    m.load_vectors(tile);
    m.multiply_tile(/*@if kScaled*/tile/*@endif*/);
    m.share_vectors();
#pragma unroll
    for (int v = 0; v < kPartials; ++v) m.of_rows[0][v] = m.of_rows[1][v] = neutral(v);
    pass_first(m, tile);
    finish_rows<0, kReducedFirst>(m);
//@if kReducedFirst < kPartials
    pass_second(m, tile);
    finish_rows<kReducedFirst, kPartials>(m);
//@endif
//@if kScales > 0
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = tile.row + m.thread / 32 * 16 + half * 8 + m.lane / 4;
      if (m.rank == 0 && m.lane % 4 == 0 && row < m.p.m) write_group(m.p, tile.batch, row, 0, m.of_rows[half]);
    }
//@endif
    pass_last(m, tile);
  }
  if (m.thread == 0) wait_stores_read<0>();
}
//@end
