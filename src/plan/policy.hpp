// Tuning as data: what the planner may choose, apart from how kernels are written. Numbers here are measurements' business
// (docs/measurements/notes/); mechanism is in the planners and in templates/.
#pragma once

#include <cstdint>

namespace epifuse::plan {

/// How large tiles are in which results are transposed.
struct TransposeTile {
  int read_bytes = 0;   ///< by a thread before it waits
  int tile_bytes = 0;   ///< of all results of a block: as many such blocks as threads allow fit
  int least_bytes = 0;  ///< of a line of results in a block
};

/// Of rows in registers whose results are transposed.
struct TransposedStoreTile {
  int lanes = 0;       ///< of a warp that share a row, at least, where a block's rows are neighbours in the results
  int line_bytes = 0;  ///< of a line that such a block writes at least, or it has more threads
  int tile_bytes = 0;  ///< of results in shared memory at a time
};

/// Of blocks that hold chunks of rows in shared memory, as many on a multiprocessor as it has space for.
struct ResidentBlock {
  int threads = 0;
  int bytes = 0;           ///< of a chunk of a row
  int rows = 0;            ///< that are on the device at a time, at least, since blocks of a row wait for each other
  int prefetch_bytes = 0;  ///< prefetched before the blocks that read them begin
  bool l2_evict_first = false;  ///< what is read and written leaves the L2 cache first
};

struct Policy {
  int register_bytes = 384;  ///< of all operands of one step: beyond it a step handles fewer elements
  int waiting_register_bytes =
      192;                   ///< of all that the steps of a tile have loaded before the first is used: bounds the steps
  int thread_elements = 8;   ///< that a thread computes at least
  int bytes_in_flight = 64;  ///< read by one thread before it waits, at most, for the sake of that
  int most_steps = 4;
  int resident_threads = 2048;       ///< of a multiprocessor: 32 registers are left for each
  int most_operations_of_full = 32;  ///< of a chain that is squeezed into these
  // Chains from one operand of f32, and two broadcast operands at most, to f32, that leave schedulers idle: one step.
  // From 64 MB on that is 1 to 3 % faster than several; where arithmetic takes most of a copy's time, several are.
  int memory_bound_instructions = 58;
  int memory_bound_bytes = 48;  ///< that a thread reads in them, at most
  // Ones with fewer instructions of 8-bit tensors whose vectors are half an access, since a broadcast operand of f32
  // limits them: two steps. Held to 32 registers, the loads stand later.
  int half_access_instructions = 12;
  int half_access_bytes = 96;  ///< that a thread reads in them, at most
  int half_access_threads = 1536;
  // Vectors that begin anywhere in the rows of a broadcast operand gather its elements one by one. Memory-bound f32
  // chains do better with one element at a time, tensors of 8 bits beside broadcast operands of f32, whose loads fill
  // the L1 cache's pipe, with four where rows are long (docs/measurements/notes/pointwise.md).
  int gathered_instructions = 18;
  int gathered_elements = 4;
  int long_row = 1024;  ///< elements
  int unrolled_instructions =
      3072;  ///< of a thread's code: long chains take fewer steps, so that compile time stays linear
  int most_instructions = 16384;  ///< of a vector: beyond it, only bound by arithmetic, a vector has fewer elements
  int threads = 256;              ///< per block
  int fewest_threads = 64;
  int least_tiled_extent = 4;            ///< least extent of both dimensions of a two-dimensional tile
  int tiled_2d_bytes = 32;               ///< that a thread of such a tile reads before it waits
  int tiled_2d_elements = 64;            ///< elements of such a tile in the innermost dimension, about
  std::int64_t tiled_2d_waste = 65'536;  ///< elements beyond the tensor that tiles may have, however small it is
  int tiled_2d_threads = 1536;           ///< of a multiprocessor: 40 registers are left for addresses
  int most_transpose_steps = 16;         ///< vectors of such a thread that transposes results: neighbours in them
  int transpose_run_bytes = 64;          ///< of an operand's line in a tile, at least, where results want longer lines
  // Of tiles of transposes. The longer their runs of lines that begin inside sectors, the less is computed twice, so
  // that sectors are written as a whole (docs/measurements/notes/pointwise.md).
  TransposeTile transpose_at_sectors{64, 17'000, 0};
  TransposeTile transpose_inside_sectors{64, 17'000, 512};
  int least_of_tile_overlap = 4;  ///< a tile's elements along the results, in times of those that it computes twice
  int most_tile_bytes = 47'000;   ///< of them in the worst case, without dynamic shared memory
  // Bytes read and written from which on blocks take the last tile first: about what the L2 cache holds of a producer's
  // result. Of less, all is there.
  std::int64_t reverse_order_bytes = 64'000'000;
  int small_grid = 512;  ///< fewer blocks than this (about four per multiprocessor): smaller blocks spread better

  // Chains with reductions.
  int most_elements_of_several = 8;  ///< as most_elements, of rows of several operands that take more than two accesses
  int held_bytes = 128;              ///< of a row's operands and saved values that one thread keeps in registers
  int held_elements = 32;            ///< the same in elements, if threads suffice: each is a register where it is used
  int held_bytes_of_runs = 64;       ///< the same of rows in runs shorter than run_bytes
  int round_bytes = 64;              ///< of the operands that one thread reads in a round
  int most_round_steps = 4;
  int most_row_steps = 16;  ///< vectors of one thread
  int row_threads = 256;    ///< of a block that reads rows in rounds, holds columns, or transposes results
  int lane_threads =
      128;  ///< of a block whose rows a warp or less holds: its place is taken again when the last of them ends
  int column_threads = 512;  ///< of a block that reads a chunk of rows of outer reductions in one pass
  int group_threads = 128;   ///< that share a row, if they can hold it: the fewer, the less they wait for each other
  int group_threads_below_f32 = 256;  ///< the same of operands narrower than f32, in two steps or more
  int most_group_threads =
      512;  ///< threads of a block that share a row: two such blocks fit a multiprocessor at 64 registers
  int most_rows_per_group =
      2;  ///< of a block that has all rows of a grid reduction, of f32: what lanes exchange costs 16 bits more
  int lane_steps = 8;  ///< a row of at most 32 times as many vectors is one warp's or less
  int few_idle = 8;    ///< of that many lanes one may idle, where more lanes would leave two steps
  int most_cluster =
      8;  ///< blocks of a cluster: 16 leave multiprocessors idle (KernelBench L2 #19 in f16: 2.54 of the copy, split 1.63)
  int most_cluster_again =
      4;  ///< where an expensive value is computed twice (KernelBench L2 #21 in f16: 8 blocks 1.60 of the copy, split 1.41)
  int saved_instructions = 8;        ///< a value that costs more is saved from pass to pass rather than computed again
  int held_exponential_bytes = 160;  ///< of a thread, where they take more space than the operands that they replace
  // Elements of a row that a thread has at least where it keeps their exponentials, and the same where they take more space: it computes one more per
  // row (of f16 in outer reductions two took 32.3 instructions per element, not 31.0, and spilled 80 bytes, not 32).
  int least_held_exponentials = 2;
  int least_wider_exponentials = 4;
  int update_elements = 8;  ///< elements that one update of an accumulator takes: its fixed cost is shared by them
  int most_resident_threads = 1024;  ///< of a multiprocessor, so that 64 registers are left for each
  // Of thread groups that hold rows in registers: where each thread requests few bytes, more of them, or the memory
  // waits; where elements move one by one or only statistics are written, fewer, whose loads and addresses find
  // registers (docs/measurements/notes/reductions.md).
  int least_in_flight_bytes = 16;
  int least_in_flight_threads = 2048;
  int few_in_flight_bytes = 32;
  int few_in_flight_threads = 1536;
  int some_in_flight_bytes =
      64;  // of rows of inner reductions in vectors of some_in_flight_elements: five blocks of 256, whose grids end more evenly
  int some_in_flight_elements = 8;
  int some_in_flight_threads = 1280;
  int crowded_threads = 768;  // also of rows in shared memory that are read together with their neighbours
  int crowded_block = 256;    ///< threads of such a block, at most: three fit
  int chunk_bytes = 524'288;  ///< of a row that many blocks share: one block's chunk, whose merging costs some 2 us
  int reread_chunk_bytes = 32'768;  ///< the same where rows are read again: what is under way must stay in the L2 cache
  int long_chunk_bytes = 65'536;    ///< the same of rows that it cannot hold
  int cached_bytes = 24'000'000;    ///< of rows under way between two passes, likewise
  int split_row_bytes = 65'536;     ///< shorter rows are not shared
  int sum_elements = 256;           ///< of a sum whose terms may have cheaper formulas
  // Of what rounds to few bits many small blocks; of rows that they would cut into too many chunks, two on a multiprocessor, with which two rows of
  // 15 MB just fit an H100 (docs/measurements/notes/reductions.md).
  ResidentBlock resident_of_few_bits[2] = {{128, 30'720, 6, 5'000'000}, {512, 114'688, 2, 3'000'000}};
  ResidentBlock resident[2] = {{256, 53'248, 3, 5'000'000}, {256, 114'688, 2, 9'000'000, true}};
  // Bytes that are prefetched before the blocks that read them begin, of rows that thread groups hold: what memory
  // reads while those before compute and write. More would be written over before it is read.
  int prefetch_bytes = 3'000'000;
  int least_prefetching_bytes = 4'096;      ///< of a block: prefetching costs a warp some 30 instructions
  int least_prefetched_bytes = 12'000'000;  ///< of all blocks: of fewer, most begin at once (softmax 8192x257)
  int resident_shared_besides = 1'536;      ///< of a block's shared memory: the system's, and accumulators
  int resident_idle = 25;                   ///< one of so many vectors may idle
  int resident_fewer_steps = 2;             ///< or chunks take fewer steps, but not more than that
  int unrolled_elements = 16;               ///< of a thread that holds chunks of rows: what its passes take at once
  int unrolled_steps = 4;       ///< the same of rows in the shared memory of a cluster, where results round to few bits
  int unrolled_wide_steps = 2;  ///< where they do not
  int again_instructions = 32;  ///< of a value that is computed again rather than saved there
  int fewest_blocks_of_loop = 2;  ///< per multiprocessor
  int segment_round_vectors = 4;  ///< of a lane, whose time a segment takes besides those that it reads
  int segment_idle = 2;           ///< of so many lanes one may idle while a warp reduces each segment of a row
  int segment_threads = 128;      ///< of a thread group that reduces a row segment by segment
  int idle_for_results =
      4;  ///< one of so many multiprocessors may idle where a block has all such thread groups of a result
  int least_segment_slots = 16;  ///< segments of a row whose means its thread group holds: few kernels for all shapes
  int most_segment_slots = 512;  ///< of a block: 8 kB of f32
  int lane_held_bytes = 128;     ///< as held_bytes, of rows that one warp or less holds
  int staged_bytes = 68'000;     ///< of a row in one block's shared memory: three blocks fit a multiprocessor
  int least_staged_bytes = 16'384;  ///< few rows: blocks of a cluster take no less
  int most_staged_bytes = 113'000;  ///< of one block, where a cluster cannot have more blocks: two fit a multiprocessor
  int staged_resident_threads =
      1536;                    ///< of a multiprocessor whose rows lie in shared memory: few registers are needed
  int exchange_bytes = 8'192;  ///< of a block's shared memory that accumulators may need beside staged rows
  int staged_steps = 8;        ///< of one thread, before a block gets more threads
  int staged_steps_alone =
      16;  ///< the same where later passes read nothing else that is as long as the row, or rows are read together
  int staged_blocks_bytes = 200'000;  ///< of shared memory, for all blocks of a multiprocessor
  int uneven_elements = 4;    ///< of a thread, side by side, where rows of outer reductions begin at odd addresses
  int shared_bytes = 40'000;  ///< of one block's exchange
  int least_line = 32;  ///< extent of the dimension along which results are contiguous, where inputs are along another
  int row_unit = 4;     ///< neighbouring rows that move together, where results are transposed in shared memory
  int transposed_store_held_bytes = 64;  ///< as held_bytes, of rows whose results are transposed
  // Lines that begin inside sectors: the longer a block's run of them, the fewer sectors are written in parts
  // (KernelBench L2 #91 from NHWC in f32: 1.49 of the copy with the first three, 1.09 with the others).
  TransposedStoreTile transposed_store_at_sectors{8, 64, 16'384};
  TransposedStoreTile transposed_store_anywhere{4, 512, 33'000};
  // Blocks that share such rows: a thread's elements of several rows, of each of which it merges what it has seen, and steps of a round.
  int most_transposed_store_rows = 4;
  int most_transposed_store_steps = 16;  ///< neighbours in the results: enough for a round of short vectors
  int transposed_store_chunk_bytes =
      65'536;  ///< as reread_chunk_bytes, of them; of rows of outer reductions in f32 that is too much
  int transposed_store_cached_bytes = 40'000'000;  ///< as cached_bytes
  int transposed_store_resident_threads =
      768;  ///< of a multiprocessor, where blocks share such rows of one channel: 80 registers are left for each
  int static_shared_bytes = 47'000;  ///< of a block, without what is staged
};

inline constexpr Policy kPolicy;

}  // namespace epifuse::plan
