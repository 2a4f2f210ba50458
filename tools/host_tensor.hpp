// Tensors in host memory: allocation with any strides, byte-exact copies between layouts.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <epifuse/tensor.hpp>

namespace epifuse::tool {

/// A tensor without its data. `offset` counts the elements between a 256-byte boundary and element 0.
struct TensorInfo {
  std::string name;
  DType dtype = DType::f32;
  Dims shape;
  Dims strides;
  std::int64_t offset = 0;
};

/// Never overflows: a shape that has not been checked yet may count as the largest number.
std::int64_t element_count(const Dims& shape) noexcept;
/// f32 [8, 16]
std::string describe(const TensorInfo& info);

/// The memory that a tensor needs, aligned to 256 bytes at its start, and where element 0 lies in it.
struct Storage {
  std::size_t bytes = 0;
  std::size_t origin = 0;
};
/// Error(invalid_argument) if the extents and strides reach beyond 64-bit addresses.
Storage storage_of(const TensorInfo& info);

class HostTensor {
 public:
  HostTensor() = default;
  /// Every byte 0xff (NaN in each float type), so that reading what belongs to no element shows. Error(out_of_memory).
  static HostTensor filled(const TensorInfo& info);
  /// Uninitialised.
  static HostTensor uninitialised(const TensorInfo& info);

  const TensorInfo& info() const noexcept { return info_; }
  const Storage& storage() const noexcept { return storage_; }
  std::byte* memory() const noexcept { return memory_.get(); }
  OutputView view() const noexcept { return view_at(memory_.get()); }
  /// The same tensor in a copy of this memory that starts at `memory`.
  OutputView view_at(void* memory) const noexcept;

 private:
  struct Free {
    void operator()(void* pointer) const noexcept { std::free(pointer); }
  };
  TensorInfo info_;
  Storage storage_;
  std::unique_ptr<std::byte, Free> memory_;
};

bool is_row_major(const TensorView& view) noexcept;
bool is_column_major(const TensorView& view) noexcept;

/// Copies element by element, bit by bit; shapes and types must be equal.
void copy_elements(const OutputView& to, const TensorView& from);
/// Dense and row-major, same type, same bits.
HostTensor densified(const TensorView& view);

}  // namespace epifuse::tool
