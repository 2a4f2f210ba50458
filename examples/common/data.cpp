// Random tensors made on the host's threads, and single elements fetched back for verification.
#include "common/data.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <numbers>
#include <string>
#include <thread>
#include <type_traits>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "common/gpu.hpp"

namespace examples {
namespace {

/// A tensor with more elements repeats its first kPeriod ones: making and uploading a gigabyte of fresh numbers would
/// take longer than everything else here. A prime, so that no row, channel or image lines up with a copy of itself.
constexpr std::int64_t kPeriod = 16'777'259;

/// Up to this many elements a tensor is downloaded whole rather than element by element.
constexpr std::int64_t kDownloadWhole = 1 << 20;

/// A counter-based generator (the finalizer of splitmix64), so that every thread can start anywhere.
std::uint64_t hash(std::uint64_t counter) noexcept {
  std::uint64_t z = (counter + 1) * 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

/// Box and Muller's transform: one hash, two normal numbers.
void normal_pair(std::uint64_t bits, float out[2]) noexcept {
  constexpr float kStep = 1.0F / (1 << 24);
  const float radius = std::sqrt(-2.0F * std::log((static_cast<float>(bits >> 40) + 1.0F) * kStep));
  const float angle = 2.0F * std::numbers::pi_v<float> * static_cast<float>(bits & 0xffffff) * kStep;
  out[0] = radius * std::cos(angle);
  out[1] = radius * std::sin(angle);
}

/// Calls `body(first, last)` for consecutive ranges of [0, count), on all cores.
template <typename Body>
void parallel(std::int64_t count, const Body& body) {
  const std::int64_t threads = std::max(1U, std::thread::hardware_concurrency());
  const std::int64_t chunk = (count + threads - 1) / threads;
  std::vector<std::jthread> workers;
  for (std::int64_t first = 0; first < count; first += chunk) {
    workers.emplace_back([&body, first, last = std::min(count, first + chunk)] { body(first, last); });
  }
}

void convert(float value, float& out) noexcept { out = value; }
void convert(float value, __half& out) noexcept { out = __float2half_rn(value); }
void convert(float value, __nv_bfloat16& out) noexcept { out = __float2bfloat16_rn(value); }
void convert(float value, __nv_fp8_e4m3& out) noexcept { out = __nv_fp8_e4m3(value); }
void convert(float value, std::int8_t& out) noexcept {
  out = static_cast<std::int8_t>(std::clamp(std::nearbyint(value), -128.0F, 127.0F));
}

template <typename T>
void fill(void* device, std::int64_t count, double scale, std::uint64_t seed) {
  const std::int64_t fresh = std::min(count, kPeriod);
  std::vector<T> host(static_cast<std::size_t>(fresh + 1));  // one more: the numbers come in pairs
  parallel((fresh + 1) / 2, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t pair = first; pair < last; ++pair) {
      float values[2];
      normal_pair(hash((seed << 32) + static_cast<std::uint64_t>(pair)), values);
      convert(values[0] * static_cast<float>(scale), host[static_cast<std::size_t>(2 * pair)]);
      convert(values[1] * static_cast<float>(scale), host[static_cast<std::size_t>(2 * pair + 1)]);
    }
  });
  auto* const data = static_cast<T*>(device);
  const auto bytes = [](std::int64_t elements) { return static_cast<std::size_t>(elements) * sizeof(T); };
  copy(data, host.data(), bytes(fresh), "uploading random numbers");
  for (std::int64_t done = fresh; done < count; done *= 2) {
    const std::int64_t next = std::min(done, count - done);
    copy(data + done, data, bytes(next), "repeating random numbers");
  }
  if (has_gpu()) check(cudaDeviceSynchronize(), "filling a tensor");
}

template <typename T>
double read(const std::byte* element) noexcept {
  T value;
  std::memcpy(&value, element, sizeof value);
  // The small floats convert to float alone.
  if constexpr (!std::is_arithmetic_v<T>) {
    return static_cast<double>(static_cast<float>(value));
  } else {
    return static_cast<double>(value);
  }
}

/// What the examples do with an element type: one row per type.
struct TypeRow {
  ef::DType dtype;
  void (*fill)(void* device, std::int64_t count, double scale, std::uint64_t seed);
  double (*read)(const std::byte* element) noexcept;
};
constexpr TypeRow kTypes[] = {{ef::DType::f32, fill<float>, read<float>},
                              {ef::DType::f16, fill<__half>, read<__half>},
                              {ef::DType::bf16, fill<__nv_bfloat16>, read<__nv_bfloat16>},
                              {ef::DType::f8e4m3, fill<__nv_fp8_e4m3>, read<__nv_fp8_e4m3>},
                              {ef::DType::i8, fill<std::int8_t>, read<std::int8_t>},
                              {ef::DType::i32, nullptr, read<std::int32_t>},
                              {ef::DType::boolean, nullptr, read<std::uint8_t>}};

const TypeRow& row_of(ef::DType dtype) {
  const auto* const row = std::ranges::find(kTypes, dtype, &TypeRow::dtype);
  if (row != std::end(kTypes)) return *row;
  throw Failure("the examples cannot read " + std::string(ef::to_string(dtype)));
}

}  // namespace

std::int64_t count_of(const ef::Dims& shape) noexcept {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) count *= extent;
  return count;
}

void fill_normal(const ef::OutputView& tensor, double scale, std::uint64_t seed) {
  const auto fill_type = row_of(tensor.dtype).fill;
  if (!fill_type) throw Failure("the examples make no random " + std::string(ef::to_string(tensor.dtype)));
  fill_type(tensor.writable(), count_of(tensor.shape), scale, seed);
}

ef::Array normal(ef::Engine& engine, ef::DType dtype, const ef::Dims& shape, double scale, std::uint64_t seed) {
  ef::Array tensor = engine.empty(dtype, shape);
  fill_normal(tensor, scale, seed);
  return tensor;
}

std::vector<double> download(const void* data, ef::DType dtype, std::int64_t first, std::int64_t count) {
  const std::size_t size = ef::size_of(dtype);
  const auto n = static_cast<std::size_t>(count);
  std::vector<std::byte> raw(n * size);
  copy(raw.data(), static_cast<const std::byte*>(data) + static_cast<std::size_t>(first) * size, raw.size(),
       "downloading values");
  const auto read_type = row_of(dtype).read;
  std::vector<double> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = read_type(raw.data() + i * size);
  return values;
}

std::int64_t offset_of(const ef::TensorView& view, const ef::Dims& at) noexcept {
  const int missing = at.size() - view.shape.size();
  std::int64_t offset = 0;
  for (int d = 0; d < view.shape.size(); ++d) {
    if (view.shape[d] != 1) offset += at[d + missing] * view.strides[d];
  }
  return offset;
}

std::vector<double> gather(const ef::TensorView& view, const std::vector<ef::Dims>& at) {
  std::vector<double> values;
  values.reserve(at.size());
  const std::int64_t count = count_of(view.shape);
  if (count <= kDownloadWhole) {
    const std::vector<double> all = download(view.data, view.dtype, 0, count);
    for (const ef::Dims& position : at) values.push_back(all[static_cast<std::size_t>(offset_of(view, position))]);
  } else {
    for (const ef::Dims& position : at)
      values.push_back(download(view.data, view.dtype, offset_of(view, position), 1).front());
  }
  return values;
}

bool next_in_box(ef::Dims& at, const ef::Dims& extents) noexcept {
  for (int d = extents.size() - 1; d >= 0; --d) {
    if (++at[d] < extents[d]) return true;
    at[d] = 0;
  }
  return false;
}

std::vector<double> gather_box(const ef::TensorView& view, const ef::Dims& first, const ef::Dims& extents) {
  const int inner = extents.size() - 1;
  ef::Dims last = first;
  for (int d = 0; d <= inner; ++d) last[d] += extents[d] - 1;
  const std::int64_t begin = offset_of(view, first);
  const std::vector<double> span = download(view.data, view.dtype, begin, offset_of(view, last) - begin + 1);

  // A row of the box at a time: offsets are computed once per row.
  const bool varies = !view.shape.empty() && view.shape[view.shape.size() - 1] != 1;
  const std::int64_t step = varies ? view.strides[view.strides.size() - 1] : 0;
  ef::Dims rows = extents;
  rows[inner] = 1;
  ef::Dims row;
  for (int d = 0; d <= inner; ++d) row.push_back(0);
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(count_of(extents)));
  do {
    ef::Dims at = first;
    for (int d = 0; d <= inner; ++d) at[d] += row[d];
    const std::int64_t from = offset_of(view, at) - begin;
    for (std::int64_t i = 0; i < extents[inner]; ++i) values.push_back(span[static_cast<std::size_t>(from + i * step)]);
  } while (next_in_box(row, rows));
  return values;
}

std::int64_t bytes_of(const ef::TensorView& view) noexcept {
  return count_of(view.shape) * static_cast<std::int64_t>(ef::size_of(view.dtype));
}

}  // namespace examples
