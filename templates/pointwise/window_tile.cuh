// The skeleton of windows that overlap, where what they take of each element is expensive. A block has a tile of results of one plane. It computes
// that value once for each element that the tile's windows span, into shared memory; then each thread computes its results of what lies there.

//@section run_window_tile : split
// Where a block's tile begins.
struct Corner {
  Index at[kCoordinates];  // of its first result
};
__device__ __forceinline__ Corner locate(Index tile, const Params& p) {
  const Index column = divide(tile, p.row_tiles_divisor);
  const Index plane = divide(column, p.column_tiles_divisor);
  Corner corner;
  split<kCoordinates - 3>(plane, p.space, corner.at);
  corner.at[kCoordinates - 2] = (tile - column * p.row_tiles) * kTileRows;
  corner.at[kCoordinates - 1] = (column - plane * p.column_tiles) * kTileColumns;
  return corner;
}

__device__ __forceinline__ void fill(const Params& p, const Uniforms& uniforms, const Corner& corner, Shared& shared) {
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < kHeight * kWidth; i += kThreads) {
    const int row = i / kWidth;
    const int column = i - row * kWidth;
    Index at[kCoordinates];
#pragma unroll
    for (int d = 0; d < kCoordinates; ++d) at[d] = corner.at[d];
    at[kCoordinates - 2] = at[kCoordinates - 2] * kRowStep + row;
    at[kCoordinates - 1] = at[kCoordinates - 1] * kColumnStep + column;
    const bool exists = at[kCoordinates - 2] >= p.first_row && at[kCoordinates - 2] < p.end_row && at[kCoordinates - 1] >= p.first_column &&
                        at[kCoordinates - 1] < p.end_column;
    shared.values[row][column] = value_at(p, uniforms, at, exists);
  }
}

__device__ __forceinline__ void run_tile(const Params& p, const Uniforms& uniforms, Index number, Shared& shared) {
  const Corner corner = locate(number, p);
  fill(p, uniforms, corner, shared);
  __syncthreads();
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < kTileRows * kTileColumns; i += kThreads) {
    const int row = i / kTileColumns;
    const int column = i % kTileColumns;
    Index at[kCoordinates];
#pragma unroll
    for (int d = 0; d < kCoordinates; ++d) at[d] = corner.at[d];
    at[kCoordinates - 2] += row;
    at[kCoordinates - 1] += column;
    if (at[kCoordinates - 2] >= p.space.extents[kCoordinates - 2] || at[kCoordinates - 1] >= p.space.extents[kCoordinates - 1]) continue;
    write_result(p, uniforms, at, shared, row * kRowStep, column * kColumnStep);
  }
}
//@end
