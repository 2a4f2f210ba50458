// The structures of DLPack 1.x, an ABI that array libraries share (https://dmlc.github.io/dlpack), as far as the
// binding reads or fills them. For arrays.cpp and allocation.cpp only.
#pragma once

#include <cstdint>

namespace epifuse::python::dlpack {

enum DeviceType : std::int32_t { kCpu = 1, kCuda = 2, kCudaHost = 3, kCudaManaged = 13 };
enum TypeCode : std::uint8_t {
  kInt = 0,
  kUInt = 1,
  kFloat = 2,
  kBfloat = 4,
  kBool = 6,
  kFloat8E4m3fn = 10,
  kFloat8E5m2 = 12,
  kFloat8E8m0fnu = 14,
  kFloat4E2m1fn = 17  // PyTorch has two in an element: 4 bits, 2 lanes
};

struct Version {
  std::uint32_t major, minor;
};

struct Device {
  std::int32_t type;
  std::int32_t index;
};

struct DataType {
  std::uint8_t code, bits;
  std::uint16_t lanes;
};

struct Tensor {
  void* data;
  Device device;
  std::int32_t ndim;
  DataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  ///< in elements; null (before 1.2): row-major
  std::uint64_t byte_offset;
};

/// What a capsule "dltensor" holds.
struct ManagedTensor {
  Tensor tensor;
  void* context;
  void (*deleter)(ManagedTensor*);
};

inline constexpr std::uint64_t kReadOnly = 1;

/// What a capsule "dltensor_versioned" holds.
struct ManagedTensorVersioned {
  Version version;
  void* context;
  void (*deleter)(ManagedTensorVersioned*);
  std::uint64_t flags;
  Tensor tensor;
};

/// The C functions that a tensor type offers in its attribute `__dlpack_c_exchange_api__` (DLPack 1.2; PyTorch from
/// 2.10). Those that return an int give 0 for success and set a Python error otherwise.
struct ExchangeApi {
  Version version;
  ExchangeApi* previous;
  int (*allocate)(Tensor* prototype, ManagedTensorVersioned** out, void* error_context,
                  void (*set_error)(void* error_context, const char* kind, const char* message));
  int (*export_managed)(void* object, ManagedTensorVersioned** out);
  int (*import_managed)(ManagedTensorVersioned* tensor, void** object);
  int (*export_view)(void* object, Tensor* out);
  int (*current_stream)(std::int32_t device_type, std::int32_t device_index, void** stream);
};

}  // namespace epifuse::python::dlpack
