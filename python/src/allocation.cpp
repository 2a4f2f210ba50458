// New arrays for results, made by the framework that the launch's first array belongs to. PyTorch's are made by PyTorch's own functions and not through
// DLPack's allocator, although that would be faster: what it gives back ignores record_stream().
#include <array>
#include <string>

#include <nanobind/stl/string.h>

#include "arrays.hpp"

namespace epifuse::python {
namespace {

// A member of the module torch, found once and never let go.
PyObject* of_torch(const char* name) { return nb::object(nb::module_::import_("torch").attr(name)).release().ptr(); }

nb::object torch_tensor(const Operand& leader, DType dtype, const Dims& shape, const Dims& strides) {
  if (leader.view.dtype == dtype && leader.view.shape == shape && leader.view.strides == strides) {
    static PyObject* const empty_like = of_torch("empty_like");
    return nb::handle(empty_like)(leader.object);
  }
  static PyObject* const empty_strided = of_torch("empty_strided");
  return nb::handle(empty_strided)(tuple_of(shape), tuple_of(strides), nb::arg("dtype") = torch_dtype(dtype),
                                   nb::arg("device") = leader.object.attr("device"));
}

Dims dense_strides(const Dims& shape, const Dims& order) {
  Dims dense, strides = shape;
  for (const std::int64_t dimension : order) dense.push_back(shape[static_cast<int>(dimension)]);
  const Dims steps = row_major(dense);
  for (int i = 0; i < order.size(); ++i) strides[static_cast<int>(order[i])] = steps[i];
  return strides;
}

}  // namespace

nb::tuple tuple_of(const Dims& dims) {
  nb::list list;
  for (const std::int64_t value : dims) list.append(value);
  return nb::tuple(list);
}

nb::handle torch_dtype(DType type) {
  static std::array<PyObject*, kAllDTypes.size()> known{};
  PyObject*& object = known[static_cast<std::size_t>(type)];
  if (object == nullptr) object = of_torch(std::string(framework_name(type)).c_str());
  return object;
}

NewArray::NewArray(const Operand& leader, DType dtype, const Dims& shape, const Dims& order) {
  if (leader.exchange != nullptr) {
    object = torch_tensor(leader, dtype, shape, dense_strides(shape, order));
    dlpack::Tensor made{};
    if (leader.exchange->export_view(object.ptr(), &made) != 0) throw nb::python_error();
    view = OutputView(made.data, dtype, shape, dense_strides(shape, order));
    return;
  }
  static constexpr std::array<const char*, 7> kFamilies = {"", "torch", "torch", "numpy", "cupy", "jax", "other"};
  object = nb::module_::import_("epifuse._arrays")
               .attr("allocate")(kFamilies[static_cast<std::size_t>(leader.family)], leader.object, tuple_of(shape),
                                 tuple_of(order), std::string(to_string(dtype)));
  view = arrays_.read("the new array", object).view;
}

}  // namespace epifuse::python
