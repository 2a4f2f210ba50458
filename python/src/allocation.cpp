// New arrays for results, made by the framework that the launch's first array belongs to: PyTorch's through DLPack's C functions, the
// others' in Python (epifuse/_arrays.py).
#include <array>
#include <string>
#include <utility>

#include <nanobind/stl/string.h>

#include "arrays.hpp"

namespace epifuse::python {
namespace {

dlpack::DataType dlpack_type(DType type) {
  const auto bits = static_cast<std::uint8_t>(8 * size_of(type));
  switch (type) {
    case DType::bf16:
      return {dlpack::kBfloat, bits, 1};
    case DType::f8e4m3:
      return {dlpack::kFloat8E4m3fn, bits, 1};
    case DType::f8e5m2:
      return {dlpack::kFloat8E5m2, bits, 1};
    case DType::i8:
    case DType::i32:
    case DType::i64:
      return {dlpack::kInt, bits, 1};
    case DType::u8:
      return {dlpack::kUInt, bits, 1};
    case DType::boolean:
      return {dlpack::kBool, bits, 1};
    default:
      return {dlpack::kFloat, bits, 1};
  }
}

void set_error(void*, const char* kind, const char* message) {
  const nb::gil_scoped_acquire gil;
  PyErr_SetString(std::string_view(kind) == "MemoryError" ? PyExc_MemoryError : PyExc_RuntimeError, message);
}

nb::list list_of(const Dims& dims) {
  nb::list list;
  for (const std::int64_t value : dims) list.append(value);
  return list;
}

}  // namespace

NewArray::NewArray(const Operand& leader, DType dtype, const Dims& shape, const Dims& order)
    : exchange_(leader.exchange) {
  const int rank = shape.size();
  if (exchange_ == nullptr) {
    static constexpr std::array<const char*, 7> kFamilies = {"", "torch", "torch", "numpy", "cupy", "jax", "other"};
    object_ = nb::module_::import_("epifuse._arrays")
                  .attr("allocate")(kFamilies[static_cast<std::size_t>(leader.family)], leader.object, list_of(shape),
                                    list_of(order), std::string(to_string(dtype)));
    view_ = arrays_.read("the new array", object_).view;
    return;
  }
  // Dense in the order of memory, then its dimensions named as the caller wants them: the arrays of extents are the manager's to
  // read once, in import_managed, and ours until then.
  Dims dense;
  for (const std::int64_t dimension : order) dense.push_back(shape[static_cast<int>(dimension)]);
  dlpack::Tensor prototype{
      .data = nullptr,
      .device = {leader.device.kind == Device::Kind::cpu ? dlpack::kCpu : dlpack::kCuda, leader.device.index},
      .ndim = rank,
      .dtype = dlpack_type(dtype),
      .shape = rank == 0 ? nullptr : &dense[0],
      .strides = nullptr,
      .byte_offset = 0};
  if (exchange_->allocate(&prototype, &managed_, nullptr, set_error) != 0) throw nb::python_error();
  const Dims strides = row_major(dense);
  dlpack::Tensor& made = managed_->tensor;
  Dims named;
  for (int i = 0; i < rank; ++i) named.push_back(0);
  for (int i = 0; i < rank; ++i) named[static_cast<int>(order[i])] = strides[i];
  for (int i = 0; i < rank; ++i) {
    made.shape[i] = shape[i];
    made.strides[i] = named[i];
  }
  view_ = OutputView(made.data == nullptr ? nullptr : static_cast<char*>(made.data) + made.byte_offset, dtype, shape,
                     named);
}

NewArray::NewArray(NewArray&& other) noexcept
    : exchange_(other.exchange_),
      managed_(std::exchange(other.managed_, nullptr)),
      object_(std::move(other.object_)),
      arrays_(std::move(other.arrays_)),
      view_(other.view_) {}

NewArray::~NewArray() {
  if (managed_ != nullptr && managed_->deleter != nullptr) managed_->deleter(managed_);
}

nb::object NewArray::release() {
  if (exchange_ == nullptr) return std::move(object_);
  void* object = nullptr;
  if (exchange_->import_managed(std::exchange(managed_, nullptr), &object) != 0) throw nb::python_error();
  return nb::steal(static_cast<PyObject*>(object));
}

}  // namespace epifuse::python
