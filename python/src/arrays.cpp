// Reads arrays: PyTorch's through DLPack's C functions (some tens of nanoseconds each), NumPy's and CuPy's through
// their interface dictionaries, which know ml_dtypes, everybody else's through DLPack capsules.
#include "arrays.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <utility>

#include <nanobind/stl/string.h>

namespace epifuse::python {
namespace {

constexpr std::array<std::pair<std::string_view, DType>, 16> kDTypeNames = {{{"float64", DType::f64},
                                                                             {"float32", DType::f32},
                                                                             {"float16", DType::f16},
                                                                             {"bfloat16", DType::bf16},
                                                                             {"float8_e4m3fn", DType::f8e4m3},
                                                                             {"float8_e5m2", DType::f8e5m2},
                                                                             {"float8_e8m0fnu", DType::f8e8m0},
                                                                             {"int8", DType::i8},
                                                                             {"uint8", DType::u8},
                                                                             {"int16", DType::i16},
                                                                             {"uint16", DType::u16},
                                                                             {"uint32", DType::u32},
                                                                             {"int32", DType::i32},
                                                                             {"int64", DType::i64},
                                                                             {"bool", DType::boolean},
                                                                             {"float4_e2m1fn_x2", DType::f4e2m1}}};

[[noreturn]] void refuse_dtype(const std::string& who, const std::string& found) {
  throw nb::value_error(
      (who + " has the type " + found +
       "; EpiFuse takes float64, float32, float16, bfloat16, float8_e4m3fn, float8_e5m2, "
       "float8_e8m0fnu, int8, uint8, int16, uint16, int32, uint32, int64 and bool, PyTorch's float4_e2m1fn_x2, and "
       "epifuse.Packed of bytes")
          .c_str());
}

std::optional<DType> dtype_of(const dlpack::DataType& type) {
  if (type.code == dlpack::kFloat4E2m1fn && type.bits == 4 && type.lanes == 2) return DType::f4e2m1;
  if (type.lanes != 1) return std::nullopt;
  switch (type.code << 8 | type.bits) {
    case dlpack::kFloat << 8 | 64:
      return DType::f64;
    case dlpack::kFloat << 8 | 32:
      return DType::f32;
    case dlpack::kFloat << 8 | 16:
      return DType::f16;
    case dlpack::kBfloat << 8 | 16:
      return DType::bf16;
    case dlpack::kFloat8E4m3fn << 8 | 8:
      return DType::f8e4m3;
    case dlpack::kFloat8E5m2 << 8 | 8:
      return DType::f8e5m2;
    case dlpack::kFloat8E8m0fnu << 8 | 8:
      return DType::f8e8m0;
    case dlpack::kInt << 8 | 16:
      return DType::i16;
    case dlpack::kUInt << 8 | 16:
      return DType::u16;
    case dlpack::kUInt << 8 | 32:
      return DType::u32;
    case dlpack::kInt << 8 | 8:
      return DType::i8;
    case dlpack::kUInt << 8 | 8:
      return DType::u8;
    case dlpack::kInt << 8 | 32:
      return DType::i32;
    case dlpack::kInt << 8 | 64:
      return DType::i64;
    case dlpack::kBool << 8 | 8:
      return DType::boolean;
    default:
      return std::nullopt;
  }
}

Device device_of(const std::string& who, const dlpack::Device& device) {
  switch (device.type) {
    case dlpack::kCpu:
    case dlpack::kCudaHost:
      return Device::cpu();
    case dlpack::kCuda:
    case dlpack::kCudaManaged:
      return Device::cuda(device.index);
    default:
      throw nb::value_error((who + " lies on a device of DLPack's type " + std::to_string(device.type) +
                             "; EpiFuse runs on CUDA GPUs and the CPU")
                                .c_str());
  }
}

Dims dims_of(const std::string& who, const std::int64_t* values, std::int64_t count) {
  if (count > kMaxRank)
    throw nb::value_error((who + " has " + std::to_string(count) + " dimensions; EpiFuse takes at most 8").c_str());
  return Dims(std::span(values, static_cast<std::size_t>(count)));
}

void fill(const std::string& who, Operand& operand, const dlpack::Tensor& tensor) {
  const auto dtype = dtype_of(tensor.dtype);
  if (!dtype) {
    refuse_dtype(who, "of DLPack's code " + std::to_string(tensor.dtype.code) + " and " +
                          std::to_string(tensor.dtype.bits) + " bits");
  }
  const Dims shape = dims_of(who, tensor.shape, tensor.ndim);
  void* const data = tensor.data == nullptr ? nullptr : static_cast<char*>(tensor.data) + tensor.byte_offset;
  operand.view = tensor.strides == nullptr ? OutputView(data, *dtype, shape)
                                           : OutputView(data, *dtype, shape, dims_of(who, tensor.strides, tensor.ndim));
  operand.view = with_elements(operand.view, *dtype);
  operand.device = device_of(who, tensor.device);
}

// A sequence of integers, such as a shape.
Dims dims_of(const std::string& who, nb::handle sequence) {
  std::array<std::int64_t, 64> values{};  // NumPy's own limit
  std::int64_t count = 0;
  for (const nb::handle item : nb::iter(sequence)) {
    if (count < 64) values[static_cast<std::size_t>(count)] = nb::cast<std::int64_t>(item);
    ++count;
  }
  return dims_of(who, values.data(), count);
}

// NumPy's dtype objects are few and live on; ml_dtypes' too.
DType dtype_of(const std::string& who, nb::handle dtype) {
  static std::vector<std::pair<PyObject*, DType>> known;
  for (const auto& [object, type] : known) {
    if (object == dtype.ptr()) return type;
  }
  const auto name = nb::cast<std::string>(dtype.attr("name"));
  const auto type = dtype_of_name(name);
  if (!type) refuse_dtype(who, name);
  if (!nb::cast<bool>(dtype.attr("isnative"))) refuse_dtype(who, name + " in the other byte order");
  constexpr std::size_t kMost = 32;
  if (known.size() < kMost) known.emplace_back(nb::object(nb::borrow(dtype)).release().ptr(), *type);
  return *type;
}

// Pointer, shape, strides of an interface dictionary (NumPy's and CUDA's have the same form).
void fill_from_interface(const std::string& who, Operand& operand, const nb::dict& interface) {
  const nb::tuple data = nb::cast<nb::tuple>(interface["data"]);
  const DType dtype = dtype_of(who, operand.object.attr("dtype"));
  const Dims shape = dims_of(who, interface["shape"]);
  operand.view = OutputView(reinterpret_cast<void*>(nb::cast<std::uintptr_t>(data[0])), dtype, shape);
  operand.writable = !nb::cast<bool>(data[1]);
  if (!interface.contains("strides") || interface["strides"].is_none()) return;
  const auto width = static_cast<std::int64_t>(size_of(dtype));
  const Dims bytes = dims_of(who, interface["strides"]);
  for (int i = 0; i < bytes.size(); ++i) {
    if (bytes[i] % width != 0) {
      throw nb::value_error((who + " has a stride of " + std::to_string(bytes[i]) +
                             " bytes, which is no multiple of its element's " + std::to_string(width) + ": copy it")
                                .c_str());
    }
    operand.view.strides[i] = bytes[i] / width;
  }
}

bool is_subclass_named(nb::handle type, std::string_view root, std::string_view name) {
  for (const nb::handle base : nb::iter(type.attr("__mro__"))) {
    const auto module = nb::cast<std::string>(nb::str(nb::handle(base.attr("__module__"))));
    if ((module == root || module.starts_with(std::string(root) + ".")) &&
        nb::cast<std::string>(base.attr("__name__")) == name)
      return true;
  }
  return false;
}

const dlpack::ExchangeApi* exchange_of(nb::handle type) {
  const nb::object capsule = nb::getattr(type, "__dlpack_c_exchange_api__", nb::none());
  if (capsule.is_none()) return nullptr;
  auto* api = static_cast<const dlpack::ExchangeApi*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
  if (api == nullptr) PyErr_Clear();
  while (api != nullptr && api->version.major != 1) api = api->previous;
  return api != nullptr && api->export_view != nullptr ? api : nullptr;
}

ArrayType classify(nb::handle type) {
  ArrayType found{.type = type.ptr()};
  if (is_subclass_named(type, "epifuse", "Packed")) {
    found.family = Family::packed;
    return found;
  }
  const auto module = nb::cast<std::string>(nb::str(nb::handle(type.attr("__module__"))));
  const auto name = nb::cast<std::string>(type.attr("__name__"));
  if (is_subclass_named(type, "torch", "Tensor")) {
    const bool plain =
        (module == "torch" && name == "Tensor") || (module == "torch.nn.parameter" && name == "Parameter");
    found.family = plain ? Family::torch : Family::torch_subclass;
    if (plain) found.exchange = exchange_of(type);
  } else if (is_subclass_named(type, "numpy", "ndarray")) {
    found.family = Family::numpy;
  } else if (is_subclass_named(type, "cupy", "ndarray")) {
    found.family = Family::cupy;
  } else if (nb::hasattr(type, "__dlpack__") && (module.starts_with("jax"))) {
    found.family = Family::jax;
  } else if (nb::hasattr(type, "__dlpack__") || nb::hasattr(type, "__cuda_array_interface__")) {
    found.family =
        nb::hasattr(type, "dtype") && module.starts_with("numpy") ? Family::none : Family::other;  // NumPy's scalars
  }
  return found;
}

}  // namespace

// Frameworks count the bytes of packed elements, chains the elements.
OutputView with_elements(OutputView view, DType dtype) {
  view.dtype = dtype;
  if (!is_packed(dtype) || view.shape.size() == 0) return view;
  const int inner = view.shape.size() - 1;
  view.shape[inner] *= 2;
  for (int d = 0; d < inner; ++d) view.strides[d] *= 2;
  return view;
}

std::optional<DType> dtype_of_name(std::string_view name) {
  for (const auto& [known, type] : kDTypeNames) {
    if (known == name) return type;
  }
  return std::nullopt;
}

std::string_view framework_name(DType type) {
  for (const auto& [name, known] : kDTypeNames) {
    if (known == type) return name;
  }
  return "uint8";  // of packed types the bytes
}

std::string name_of_type(nb::handle object) {
  const nb::handle type = object.type();
  const auto module = nb::cast<std::string>(nb::str(nb::handle(type.attr("__module__"))));
  const auto name = nb::cast<std::string>(type.attr("__name__"));
  return module == "builtins" ? name : module + "." + name;
}

const ArrayType& array_type(nb::handle object) {
  static std::deque<ArrayType> types;  // references stay good
  PyObject* const type = object.type().ptr();
  for (const ArrayType& known : types) {
    if (known.type == type) return known;
  }
  Py_INCREF(type);  // so that no other type gets its address
  return types.emplace_back(classify(object.type()));
}

bool gradients_are_on() {
  // Never let go: it may be called until the interpreter ends.
  static PyObject* const is_grad_enabled =
      nb::object(nb::module_::import_("torch").attr("is_grad_enabled")).release().ptr();
  return nb::cast<bool>(nb::handle(is_grad_enabled)());
}

bool requires_gradient(nb::handle tensor) {
  static PyObject* const name = PyUnicode_InternFromString("requires_grad");
  const nb::object found = nb::steal(PyObject_GetAttr(tensor.ptr(), name));
  if (!found.is_valid()) throw nb::python_error();
  return found.ptr() == Py_True;
}

long forward_mode_level() {
  static PyObject* const forward = nb::object(nb::module_::import_("torch.autograd.forward_ad")).release().ptr();
  static PyObject* const name = PyUnicode_InternFromString("_current_level");
  const nb::object level = nb::steal(PyObject_GetAttr(forward, name));
  if (!level.is_valid()) throw nb::python_error();
  return nb::cast<long>(level);
}

bool has_tangent(nb::handle tensor, long level) {
  return !nb::module_::import_("torch._VF").attr("_unpack_dual")(tensor, level).attr("tangent").is_none();
}

void tell_of_write(nb::handle tensor) {
  static PyObject* const increment =
      nb::object(nb::module_::import_("torch.autograd.graph").attr("increment_version")).release().ptr();
  const nb::handle function = increment;
  function(tensor);
}

bool has_negative_bit(nb::handle tensor) {
  static PyObject* const name = PyUnicode_InternFromString("is_neg");
  const nb::object found = nb::steal(PyObject_CallMethodObjArgs(tensor.ptr(), name, nullptr));
  if (!found.is_valid()) throw nb::python_error();
  return found.ptr() == Py_True;
}

Stream current_stream(const Operand& operand) {
  if (operand.device.kind == Device::Kind::cpu) return nullptr;
  if (operand.exchange != nullptr) {
    void* stream = nullptr;
    if (operand.exchange->current_stream(dlpack::kCuda, operand.device.index, &stream) != 0) throw nb::python_error();
    return static_cast<Stream>(stream);
  }
  if (operand.family == Family::torch) {
    const nb::object stream = nb::module_::import_("torch.cuda").attr("current_stream")(operand.device.index);
    return reinterpret_cast<Stream>(nb::cast<std::uintptr_t>(stream.attr("cuda_stream")));
  }
  if (operand.family == Family::cupy) {
    const nb::object stream = nb::module_::import_("cupy.cuda").attr("get_current_stream")();
    return reinterpret_cast<Stream>(nb::cast<std::uintptr_t>(stream.attr("ptr")));
  }
  return nullptr;
}

// epifuse.Packed: bytes, and what they hold.
Operand Arrays::read_packed(const std::string& who, nb::handle object) {
  Operand operand = read(who, kept_.emplace_back(object.attr("bytes")));
  if (operand.view.dtype != DType::u8)
    throw nb::value_error((who + " is an epifuse.Packed of " + std::string(to_string(operand.view.dtype)) +
                           ": it takes an array of uint8, each of which holds two elements")
                              .c_str());
  operand.view = with_elements(operand.view, *parse_dtype(nb::cast<std::string>(object.attr("dtype"))));
  return operand;
}

Operand Arrays::read(const std::string& who, nb::handle object) {
  const ArrayType& type = array_type(object);
  if (type.family == Family::packed) return read_packed(who, object);
  Operand operand;
  operand.family = type.family;
  operand.exchange = type.exchange;
  operand.object = object;
  if (operand.family == Family::torch && has_negative_bit(object)) {
    operand.negated = true;
    operand.object = kept_.emplace_back(object.attr("resolve_neg")());
  }
  if (operand.exchange != nullptr) {
    read_exchange(who, operand);
  } else if (operand.family == Family::torch) {
    read_torch(who, operand);
  } else if (operand.family == Family::numpy) {
    read_numpy(who, operand);
  } else if (operand.family == Family::cupy) {
    read_cuda_interface(who, operand);
  } else if (operand.family == Family::none) {
    throw nb::type_error((who + " takes an array, found " + name_of_type(object) +
                          ": a number must be a run-time scalar of the chain (\"scalar alpha; …\")")
                             .c_str());
  } else if (nb::hasattr(operand.object, "__dlpack__")) {
    read_capsule(who, operand);
  } else {
    read_cuda_interface(who, operand);
  }
  follow(operand);
  return operand;
}

// The launch runs on the leader's stream, after what others have queued on theirs.
void Arrays::follow(const Operand& operand) {
  if (operand.device.kind == Device::Kind::cpu) {
    has_leader_ = true;
    return;
  }
  if (operand.family == Family::jax || operand.family == Family::other) {
    has_leader_ = true;
    return;  // __dlpack__(stream) made the producer wait, or the interface's stream is awaited
  }
  if (has_leader_ && operand.family == leader_) return;  // one framework has one current stream
  const Stream theirs = current_stream(operand);
  if (!has_leader_) {
    has_leader_ = true;
    leader_ = operand.family;
    stream_ = theirs;
  } else if (theirs != stream_ && std::ranges::find(awaited_, theirs) == awaited_.end()) {
    awaited_.push_back(theirs);
  }
}

void Arrays::read_exchange(const std::string& who, Operand& operand) {
  dlpack::Tensor tensor{};
  if (operand.exchange->export_view(operand.object.ptr(), &tensor) == 0) return fill(who, operand, tensor);
  const nb::python_error problem;  // takes it from Python
  const std::string text = nb::cast<std::string>(nb::str(problem.value()));
  throw nb::value_error((who + " has no memory that a kernel could read: " + text.substr(0, text.find('\n'))).c_str());
}

// PyTorch before 2.10, which has no functions in C for this: by a tensor's attributes. Its capsules have no float8.
void Arrays::read_torch(const std::string& who, Operand& operand) {
  const nb::handle tensor = operand.object;
  const nb::object device = tensor.attr("device");
  const auto place = nb::cast<std::string>(device.attr("type"));
  const auto layout = nb::cast<std::string>(nb::str(nb::handle(tensor.attr("layout"))));
  if (layout != "torch.strided" || (place != "cpu" && place != "cuda")) {
    throw nb::value_error(
        (who + " has no memory that a kernel could read: it is " + layout + " on the device " + place).c_str());
  }
  constexpr std::string_view kModule = "torch.";
  const auto name = nb::cast<std::string>(nb::str(nb::handle(tensor.attr("dtype")))).substr(kModule.size());
  const auto dtype = dtype_of_name(name);
  if (!dtype) refuse_dtype(who, name);
  operand.view = OutputView(reinterpret_cast<void*>(nb::cast<std::uintptr_t>(tensor.attr("data_ptr")())), *dtype,
                            dims_of(who, tensor.attr("shape")), dims_of(who, tensor.attr("stride")()));
  operand.view = with_elements(operand.view, *dtype);
  operand.device = place == "cpu" ? Device::cpu() : Device::cuda(nb::cast<int>(device.attr("index")));
}

void Arrays::read_numpy(const std::string& who, Operand& operand) {
  fill_from_interface(who, operand, nb::cast<nb::dict>(operand.object.attr("__array_interface__")));
}

void Arrays::read_cuda_interface(const std::string& who, Operand& operand) {
  const nb::dict interface = nb::cast<nb::dict>(operand.object.attr("__cuda_array_interface__"));
  fill_from_interface(who, operand, interface);
  operand.device = Device::cuda(0);
  if (nb::hasattr(operand.object, "device") && nb::hasattr(operand.object.attr("device"), "id"))
    operand.device.index = nb::cast<int>(operand.object.attr("device").attr("id"));
  if (operand.family != Family::other) return;
  must_wait_ = true;  // nothing says in which order this library reuses memory
  if (!interface.contains("stream") || interface["stream"].is_none()) return;
  const auto stream = nb::cast<std::uintptr_t>(interface["stream"]);
  constexpr std::uintptr_t kLegacyDefault = 1;
  awaited_.push_back(stream == kLegacyDefault ? nullptr : reinterpret_cast<Stream>(stream));
}

// The capsule is kept, not consumed: its destructor gives the memory back.
void Arrays::read_capsule(const std::string& who, Operand& operand) {
  const nb::handle object = operand.object;
  const nb::tuple device = nb::cast<nb::tuple>(object.attr("__dlpack_device__")());
  const bool on_gpu = nb::cast<int>(device[0]) == dlpack::kCuda || nb::cast<int>(device[0]) == dlpack::kCudaManaged;
  std::optional<std::intptr_t> stream;
  if (on_gpu) {
    constexpr std::intptr_t kLegacyDefault = 1;
    stream = stream_ == nullptr ? kLegacyDefault : reinterpret_cast<std::intptr_t>(stream_);
    must_wait_ = true;
  }
  const auto exported = [&](bool versioned) {
    nb::dict options;
    if (stream) options["stream"] = *stream;
    if (versioned) options["max_version"] = nb::make_tuple(1, 2);
    return nb::object(object.attr("__dlpack__")(**options));
  };
  nb::object capsule;
  try {
    capsule = exported(true);
  } catch (nb::python_error& problem) {
    if (!problem.matches(PyExc_TypeError)) throw;
    capsule = exported(false);  // a library from before DLPack had versions
  }
  constexpr const char* kVersioned = "dltensor_versioned";
  if (PyCapsule_IsValid(capsule.ptr(), kVersioned) != 0) {
    const auto* managed = static_cast<dlpack::ManagedTensorVersioned*>(PyCapsule_GetPointer(capsule.ptr(), kVersioned));
    fill(who, operand, managed->tensor);
    operand.writable = (managed->flags & dlpack::kReadOnly) == 0;
  } else {
    const auto* managed = static_cast<dlpack::ManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
    if (managed == nullptr) throw nb::python_error();
    fill(who, operand, managed->tensor);
  }
  kept_.push_back(std::move(capsule));
}

}  // namespace epifuse::python
