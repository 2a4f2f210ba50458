// The table: what an architecture fixes, from the CUDA C++ Programming Guide's technical specifications per compute
// capability, and one device of it, by its data sheet.
#include "plan/device/machine.hpp"

#include <algorithm>
#include <array>

namespace epifuse::plan {
namespace {

constexpr std::int64_t kMiB = 1'048'576;
constexpr std::int64_t kL2OfPolicy = 50 * kMiB;

struct Row {
  int architecture;  // from this one on
  int threads, blocks;
  std::int64_t shared_bytes;
  int cluster_blocks;
  bool async_copies;
  TensorCores tensor_cores;
  int lanes;  // for f32
  // of one device
  int multiprocessors;
  std::int64_t l2_bytes;
  double bandwidth;
  double tensor_flops;  // of the device
  double clock;
};

constexpr TensorCores kWarpGroups = TensorCores::warp_groups;
constexpr TensorCores kWarps = TensorCores::warps;
constexpr TensorCores kOther = TensorCores::other;
constexpr std::array<Row, 9> kRows = {{
    {75, 1024, 16, 65'536, 1, false, kOther, 64, 40, 4 * kMiB, 320e9, 65e12, 1.59e9},            // T4
    {80, 2048, 32, 167'936, 1, true, kWarps, 64, 108, 40 * kMiB, 2039e9, 312e12, 1.41e9},        // A100 of 80 GB
    {86, 1536, 16, 102'400, 1, true, kWarps, 128, 82, 6 * kMiB, 936e9, 71e12, 1.70e9},           // GeForce RTX 3090
    {87, 1536, 16, 167'936, 1, true, kWarps, 128, 16, 4 * kMiB, 205e9, 42.5e12, 1.30e9},         // Jetson AGX Orin
    {89, 1536, 24, 102'400, 1, true, kWarps, 128, 142, 96 * kMiB, 864e9, 362e12, 2.52e9},        // L40S
    {90, 2048, 32, 233'472, 8, true, kWarpGroups, 128, 132, 50 * kMiB, 3350e9, 989e12, 1.83e9},  // H100 SXM
    {100, 2048, 32, 233'472, 8, true, kOther, 128, 148, 126 * kMiB, 8000e9, 2250e12, 1.85e9},    // B200
    {110, 1536, 24, 233'472, 8, true, kOther, 128, 20, 32 * kMiB, 273e9, 258e12, 1.57e9},        // Jetson AGX Thor
    {120, 1536, 24, 102'400, 1, true, kWarps, 128, 170, 96 * kMiB, 1792e9, 209.5e12, 2.41e9},    // GeForce RTX 5090
}};

const Row& row_of(int architecture) noexcept {
  const auto above = std::ranges::upper_bound(kRows, architecture, {}, &Row::architecture);
  return above == kRows.begin() ? *above : *(above - 1);
}

}  // namespace

Machine::Machine(int wanted, int found) : architecture(wanted) {
  const Row& row = row_of(wanted);
  multiprocessors = found > 0 ? found : row.multiprocessors;
  threads = row.threads;
  blocks = row.blocks;
  shared_bytes = row.shared_bytes;
  cluster_blocks = row.cluster_blocks;
  async_copies = row.async_copies;
  tensor_cores = row.tensor_cores;
  tensor_flops = row.tensor_flops / row.multiprocessors;
  instructions = row.lanes * row.clock;
  l2_bytes = row.l2_bytes;
  bandwidth = row.bandwidth;
}

std::int64_t Machine::of_l2(std::int64_t bytes_of_50_mib) const noexcept {
  return static_cast<std::int64_t>(static_cast<double>(bytes_of_50_mib) * static_cast<double>(l2_bytes) /
                                   static_cast<double>(kL2OfPolicy));
}

int Machine::threads_with(int thread_registers) const noexcept {
  const int warp_registers = round_up(thread_registers, kRegisterUnit) * kWarp;
  return std::min(threads, registers / schedulers / warp_registers * schedulers * kWarp);
}

Machine::Occupancy Machine::occupancy(int block_threads, int thread_registers,
                                      std::int64_t block_shared_bytes) const noexcept {
  const int rounded = round_up(thread_registers, kRegisterUnit);
  const std::array<Occupancy, 4> limits = {
      {{threads / block_threads, "threads"},
       {registers / (rounded * block_threads), "registers"},
       {static_cast<int>(shared_bytes / (block_shared_bytes + kReservedShared)), "shared memory"},
       {blocks, "the most blocks that it takes"}}};
  return *std::ranges::min_element(limits, {}, &Occupancy::blocks);
}

}  // namespace epifuse::plan
