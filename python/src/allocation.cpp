// New arrays for results, made by the framework that the launch's first array belongs to. PyTorch's are made by
// PyTorch's own functions and not through DLPack's allocator, although that would be faster: what it gives back ignores
// record_stream().
#include <array>
#include <string>

#include <nanobind/stl/string.h>

#include "arrays.hpp"

namespace epifuse::python {
namespace {

// A member of the module torch, found once and never let go.
PyObject* of_torch(const char* name) { return nb::object(nb::module_::import_("torch").attr(name)).release().ptr(); }

nb::object torch_tensor(const Operand& leader, DType dtype, const Dims& shape, const Dims& strides) {
  if (!is_packed(dtype) && leader.view.dtype == dtype && leader.view.shape == shape && leader.view.strides == strides) {
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
  static std::array<PyObject*, kDTypes> known{};
  PyObject*& object = known[static_cast<std::size_t>(type)];
  if (object == nullptr) {
    const std::string name(framework_name(type));
    const bool is_missing = is_packed(type) && !nb::hasattr(nb::module_::import_("torch"), name.c_str());
    object = of_torch(is_missing ? "uint8" : name.c_str());  // PyTorch before 2.8
  }
  return object;
}

NewArray::NewArray(const Operand& leader, DType dtype, const Dims& shape, const Dims& order) {
  // Packed elements lie in row-major order, and frameworks count their bytes.
  const bool packed = is_packed(dtype) && !shape.empty();
  Dims extents = shape;
  Dims places = order;
  if (packed) {
    extents[extents.size() - 1] /= 2;
    for (int d = 0; d < places.size(); ++d) places[d] = d;
  }
  const Dims strides = dense_strides(extents, places);
  if (leader.exchange != nullptr) {
    object = torch_tensor(leader, dtype, extents, strides);
    dlpack::Tensor made{};
    if (leader.exchange->export_view(object.ptr(), &made) != 0) throw nb::python_error();
    view = with_elements(OutputView(made.data, dtype, extents, strides), dtype);
    return;
  }
  static constexpr std::array<const char*, 7> kFamilies = {"", "torch", "torch", "numpy", "cupy", "jax", "other"};
  object = nb::module_::import_("epifuse._arrays")
               .attr("allocate")(kFamilies[static_cast<std::size_t>(leader.family)], leader.object, tuple_of(extents),
                                 tuple_of(places), std::string(to_string(packed ? DType::u8 : dtype)));
  view = with_elements(arrays_.read("the new array", object).view, dtype);
}

}  // namespace epifuse::python
