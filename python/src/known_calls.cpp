// Compares the tensors of a call with those of earlier ones, and makes results as PyTorch's compiled graphs do: through
// the function that takes no more than a shape, strides and a type (half the time of torch.empty_strided; memory of the
// same allocator).
#include "known_calls.hpp"

#include <algorithm>
#include <cstring>

namespace epifuse::python {
namespace {

bool same(const dlpack::DataType& a, const dlpack::DataType& b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

bool same(const Dims& dims, const std::int64_t* values, std::int32_t count) {
  return dims.size() == count && std::equal(dims.begin(), dims.end(), values);
}

void* address_of(const dlpack::Tensor& tensor) {
  return tensor.data == nullptr ? nullptr : static_cast<char*>(tensor.data) + tensor.byte_offset;
}

// torch._C._dynamo.guards._empty_strided_cuda and _cpu; null where this PyTorch has none.
PyObject* find_allocator(bool on_gpu) {
  try {
    const nb::object guards = nb::module_::import_("torch._C").attr("_dynamo").attr("guards");
    return nb::object(guards.attr(on_gpu ? "_empty_strided_cuda" : "_empty_strided_cpu")).release().ptr();
  } catch (nb::python_error&) {
    return nullptr;
  }
}

PyObject* allocator(bool on_gpu) {
  static PyObject* const gpu = find_allocator(true);
  static PyObject* const cpu = find_allocator(false);
  return on_gpu ? gpu : cpu;
}

}  // namespace

bool KnownCall::can_be(std::span<const Operand> inputs, std::span<const Operand> given) {
  // Of packed elements frameworks count the bytes.
  const auto fits = [](const Operand& operand) {
    return operand.exchange != nullptr && operand.writable && !is_packed(operand.view.dtype);
  };
  if (inputs.empty() || !std::ranges::all_of(inputs, fits) || !std::ranges::all_of(given, fits)) return false;
  return !given.empty() || allocator(inputs.front().device.kind == Device::Kind::cuda) != nullptr;
}

KnownCall::Layout KnownCall::layout_of(const Operand& operand) const {
  dlpack::Tensor tensor{};
  if (exchange_->export_view(operand.object.ptr(), &tensor) != 0) throw nb::python_error();
  TensorView view = operand.view;
  view.data = nullptr;
  return {tensor.dtype, view};
}

KnownCall::KnownCall(Engine& engine, std::span<const Operand> inputs, std::span<const Operand> given,
                     std::span<const OutputView> results)
    : engine_(&engine), exchange_(inputs.front().exchange), device_{}, results_(results.begin(), results.end()) {
  dlpack::Tensor first{};
  if (exchange_->export_view(inputs.front().object.ptr(), &first) != 0) throw nb::python_error();
  device_ = first.device;
  for (const Operand& operand : inputs) {
    inputs_.push_back(layout_of(operand));
    input_views_.push_back(inputs_.back().view);
  }
  for (const Operand& operand : given) given_.push_back(layout_of(operand));
  if (!given.empty()) return;
  for (const OutputView& result : results)
    recipes_.push_back({tuple_of(result.shape), tuple_of(result.strides), nb::borrow(torch_dtype(result.dtype))});
}

bool KnownCall::read(nb::handle object, const Layout& layout, bool gradients, TensorView& view) const {
  if (array_type(object).exchange != exchange_ || has_negative_bit(object) || (gradients && requires_gradient(object)))
    return false;
  dlpack::Tensor tensor{};
  if (exchange_->export_view(object.ptr(), &tensor) != 0) {
    PyErr_Clear();
    return false;
  }
  if (!same(tensor.dtype, layout.dtype) || tensor.device.type != device_.type || tensor.device.index != device_.index ||
      !same(layout.view.shape, tensor.shape, tensor.ndim) || !same(layout.view.strides, tensor.strides, tensor.ndim))
    return false;
  view.data = address_of(tensor);
  return true;
}

bool KnownCall::matches(std::span<const nb::handle> inputs, std::span<const nb::handle> given, Launch& launch) const {
  if (inputs.size() != inputs_.size() || given.size() != given_.size()) return false;
  if (forward_mode_level() >= 0) return false;  // tangents are looked for where an error can say so
  const bool gradients = gradients_are_on();
  launch.engine = engine_;
  launch.inputs = input_views_;
  launch.outputs = results_;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!read(inputs[i], inputs_[i], gradients, launch.inputs[i])) return false;
  }
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (!read(given[i], given_[i], gradients, launch.outputs[i])) return false;
  }
  if (device_.type == dlpack::kCuda) {
    void* stream = nullptr;
    if (exchange_->current_stream(device_.type, device_.index, &stream) != 0) throw nb::python_error();
    launch.stream = static_cast<Stream>(stream);
  }
  return true;
}

bool KnownCall::allocate(Launch& launch, std::vector<nb::object>& made) const {
  PyObject* const make = allocator(device_.type == dlpack::kCuda);
  for (std::size_t i = 0; i < recipes_.size(); ++i) {
    std::array<PyObject*, 3> arguments = {recipes_[i].shape.ptr(), recipes_[i].strides.ptr(), recipes_[i].dtype.ptr()};
    nb::object tensor = nb::steal(PyObject_Vectorcall(make, arguments.data(), arguments.size(), nullptr));
    dlpack::Tensor view{};
    if (!tensor.is_valid() || exchange_->export_view(tensor.ptr(), &view) != 0) throw nb::python_error();
    if (view.device.type != device_.type || view.device.index != device_.index) return false;
    launch.outputs[i].data = address_of(view);
    made.push_back(std::move(tensor));
  }
  return true;
}

}  // namespace epifuse::python
