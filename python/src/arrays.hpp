// Arrays of Python as views of memory: whose they are, where they lie, and how. For the binding's files only; all of it
// needs the GIL.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nanobind/nanobind.h>

#include <epifuse/epifuse.hpp>

#include "dlpack.hpp"

namespace epifuse::python {

namespace nb = nanobind;

/// Whose array it is: decides how it is read, which stream is current, and who allocates results.
enum class Family : std::uint8_t {
  none,            ///< not an array
  torch,           ///< torch.Tensor or Parameter
  torch_subclass,  ///< another class of torch's tensors: a tracer's, most likely
  numpy,
  cupy,
  jax,
  other,  ///< has __dlpack__ or __cuda_array_interface__
  packed  ///< epifuse.Packed: bytes of another family's array. What is read of it has that one's family.
};

/// What is known of a Python type, found once per type.
struct ArrayType {
  PyObject* type = nullptr;
  Family family = Family::none;
  const dlpack::ExchangeApi* exchange = nullptr;  ///< torch only
};
const ArrayType& array_type(nb::handle object);

/// An array as memory. `object` and what it was read through live in the Arrays that read it.
struct Operand {
  OutputView view;
  Device device = Device::cpu();
  Family family = Family::none;
  const dlpack::ExchangeApi* exchange = nullptr;
  nb::handle object;
  bool writable = true;
  bool negated = false;  ///< `object` had PyTorch's negative bit, which memory does not show: this is a copy
};

/// The arrays of one call. Keeps what they were exported through until the launch is queued.
class Arrays {
 public:
  /// `who` is "operand 'x'" in errors. The first array read is the leader: its framework's current stream is the
  /// launch's stream. Throws TypeError where `object` is no array, ValueError where its type or layout is none that
  /// EpiFuse has.
  Operand read(const std::string& who, nb::handle object);

  Stream stream() const noexcept { return stream_; }
  /// Streams, other than stream(), whose work the launch must wait for.
  const std::vector<Stream>& awaited() const noexcept { return awaited_; }
  /// True where an array's memory may be reused once it is let go, whatever our stream still does: the call then waits
  /// for the launch.
  bool must_wait() const noexcept { return must_wait_; }

 private:
  Operand read_packed(const std::string& who, nb::handle object);
  void read_exchange(const std::string& who, Operand& operand);
  void read_torch(const std::string& who, Operand& operand);
  void read_numpy(const std::string& who, Operand& operand);
  void read_cuda_interface(const std::string& who, Operand& operand);
  void read_capsule(const std::string& who, Operand& operand);
  void follow(const Operand& operand);

  bool has_leader_ = false;
  Family leader_ = Family::none;  ///< whose current stream stream_ is; none where it is the default stream
  bool must_wait_ = false;
  Stream stream_ = nullptr;
  std::vector<Stream> awaited_;
  std::vector<nb::object> kept_;
};

/// The current stream of the framework on that device; nullptr (the legacy default stream) where it has none.
Stream current_stream(const Operand& operand);

/// "float32", "bfloat16", … as NumPy (ml_dtypes), CuPy and JAX call their types.
std::optional<DType> dtype_of_name(std::string_view name);
std::string_view framework_name(DType type);
/// A view of bytes as one of the packed elements that they hold; any other view with that type.
OutputView with_elements(OutputView view, DType dtype);

/// "torch.Tensor", "float": the type of an object, for errors.
std::string name_of_type(nb::handle object);

nb::tuple tuple_of(const Dims& dims);
/// torch.float32 and the like.
nb::handle torch_dtype(DType type);

/// Whether PyTorch records gradients now, and whether a tensor of PyTorch asks for one.
bool gradients_are_on();
bool requires_gradient(nb::handle tensor);
/// The same of forward mode: the level at which PyTorch takes tangents, -1 where it takes none; whether a tensor has
/// one.
long forward_mode_level();
bool has_tangent(nb::handle tensor, long level);
/// Tells PyTorch that a tensor was written: whoever saved it for a backward pass must not use it any more.
void tell_of_write(nb::handle tensor);
/// Whether a tensor of PyTorch stands for the negative of its memory, as z.conj().imag does.
bool has_negative_bit(nb::handle tensor);

/// A new array of the leader's framework, on its device and current stream.
struct NewArray {
  /// `order` holds the dimensions as they lie in memory, outermost first.
  NewArray(const Operand& leader, DType dtype, const Dims& shape, const Dims& order);

  nb::object object;
  OutputView view;

 private:
  Arrays arrays_;  ///< what it was read through
};

}  // namespace epifuse::python
