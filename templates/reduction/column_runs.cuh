// Column sums of segments of rows that more than one block holds: sums over rows of the gradients of a norm's weights,
// where a row of the norm is long. Each warp holds a run of a row (segments.cuh) and leaves what it has of every
// segment that touches the run in the workspace; the last blocks of the launch sum up (end_columns of column_sums.cuh).
// No thread waits for another one before that, however many blocks share a row.

//@section column_exchange_runs
struct ColumnShared {
  unsigned arrival, complete;
};
//@end

//@section leave_segments : segments, columns_of_runs, end_columns
// Runs and segments of a row that touch: none have the same sum of their numbers as others, since on from one such pair
// to the next along the row one of the two numbers grows. That sum says where in the row's slots they are left.
template <class Storage>
__device__ __forceinline__ void leave_segments(const Params& p, const Uniforms& uniforms, const Place& place, /*@if kChunked*/Index chunk, /*@endif*/Storage& held,
                                               const Row (&rows)[kRows]) {
  const Run run = find_run(p, place/*@if kChunked*/, chunk/*@endif*/);
  SegmentStage* slots = reinterpret_cast<SegmentStage*>(p.column_partials) + place.row * p.slots_per_row + run.number;
#pragma unroll 1
  for (Index number = run.first_segment; number < run.end_segment; ++number) {
    const Segment segment = find_segment(p, place, number);
    SegmentStage stage;
    accumulate_segment(p, uniforms, place, run, segment, load_segment(p, segment), held, rows, stage);
    stage.template merge_lanes<1, kLanes>();
    if (place.exists && place.thread % kLanes == 0) slots[number] = stage;
  }
}
//@end

//@section columns_of_runs : segments, signals
constexpr int kColumnsAtOnce = kThreads / 32;  // a warp each

// Columns first … first + kColumnsAtOnce - 1: the lanes of a warp take what was left of one, of all rows of its result. Whoever came when, the order is the
// same.
__device__ __forceinline__ void sum_columns(const Params& p, const Uniforms& uniforms, Index first, ColumnShared&) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const Index number = first + static_cast<int>(threadIdx.x) / 32;
  if (number >= p.columns) return;
  const Index result = number / p.segments_per_row;
  const Index column = number - result * p.segments_per_row;
  const Index rows = p.rows > 0 ? p.rows_per_result : 0;
  SegmentStage stage;
#pragma unroll 4
  for (Index i = lane; i < rows * p.runs_per_segment; i += 32) {
    const Index of_result = i / p.runs_per_segment;
    const Index row = result * p.result_step + of_result * p.row_step;
    const Index begin = column * p.segment_length/*@if kTensorAligned*/ + (row * p.row_length & (kElements - 1))/*@endif*/;
    const Index run = begin / kRunElements + (i - of_result * p.runs_per_segment);
    if (run * kRunElements >= begin + p.segment_length) continue;
    stage.merge(read_fresh(reinterpret_cast<const SegmentStage*>(p.column_partials) + row * p.slots_per_row + run + column));
  }
  stage.template merge_lanes<1, 32>();
  if (lane == 0) write_column(p, uniforms, result, column, stage);
}
//@end
