// A chain with what its results shall be: Python's arrays in, a launch on the framework's stream, the framework's
// arrays out. Bound as epifuse._core.Launcher; epifuse.Tail and the torch.compile backend stand on it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "arrays.hpp"
#include "known_calls.hpp"

namespace epifuse::python {

/// What is fixed of one result ahead of the calls.
struct ResultSpec {
  std::optional<DType> dtype;
  bool computed = false;      ///< of the type that the chain computes in ("compute"), truth values as bool
  std::optional<Dims> order;  ///< dimensions as they shall lie in memory, outermost first
};

/// The operands that a convolution reads, by position; nothing where it reads a view of one.
struct ConvolutionOperands {
  std::optional<std::size_t> images, filters;
};

class Launcher {
 public:
  Launcher(const std::string& text, const std::vector<std::string>& scalars,
           const std::vector<std::optional<std::string>>& dtypes,
           const std::vector<std::optional<std::vector<std::int64_t>>>& orders);

  const Epilogue& tail() const noexcept { return tail_; }
  /// The chain in the text language, as logs tell it and operators of PyTorch have it.
  const std::string& text() const noexcept { return text_; }
  /// The same, which states the order of the operands where the given text does.
  const std::string& stated_text() const noexcept { return stated_text_; }
  /// Tensor operands, then run-time scalars: the order of positional arguments.
  const std::vector<std::string>& parameters() const noexcept { return parameters_; }

  /// The types of the results by our names, where they are fixed; "compute" for the type that the chain computes in.
  std::vector<std::optional<std::string>> dtypes() const;

  /// The part of the chain that computes the values at `writes` from operands and those at `known`: its text, and what
  /// it reads.
  std::pair<std::string, std::vector<int>> subchain(const std::vector<int>& writes, const std::vector<int>& known,
                                                    bool in_f64) const;
  /// What a launch computes in, for operands (type, shape) and results of these types.
  std::string compute_type(const std::vector<std::pair<std::string, std::vector<std::int64_t>>>& operands,
                           const std::vector<std::string>& results) const;

  /// The types of new results by our names, for operands of these types and numbers of dimensions.
  std::vector<std::string> result_types(const std::vector<std::string>& dtypes, const std::vector<int>& ranks) const;

  /// Why operands may not be given by position: nobody stated their order. Nothing where somebody did.
  std::optional<std::string> unordered() const;

  /// The launch as users call it, arguments by position or name. If nobody stated an order, at most one operand stands
  /// by position: the one that has no name. `out`: none, an array, or a sequence with one per result. `dtypes`: none or
  /// a list of names.
  nb::object call(const nb::args& arguments, const nb::dict& named, const nb::object& out,
                  const nb::object& dtypes) const;
  /// The same for callers who know parameters(): all arguments in that order.
  nb::object launch(const nb::args& arguments, const nb::object& out, const nb::object& dtypes) const;
  nb::object run(const nb::args& arguments) const;
  /// Compiles the kernel of such a launch, and launches nothing.
  void prepare(const nb::args& arguments, const nb::dict& named, const nb::object& out, const nb::object& dtypes) const;
  /// The plan of such a launch. An argument is an array or a tuple (type, shape, strides or None).
  Inspection inspect(const nb::list& arguments, const nb::object& dtypes, const PlanTarget& target) const;

 private:
  enum class Purpose { launch, prepare };
  using Slots = std::vector<nb::handle>;
  Launcher(const Epilogue& written, const std::vector<std::optional<std::string>>& dtypes,
           const std::vector<std::optional<std::vector<std::int64_t>>>& orders);
  Slots bind(const nb::args& arguments, const nb::dict& named) const;
  Slots in_order(const nb::args& arguments) const;
  void check_whole(const Slots& slots) const;
  [[noreturn]] void refuse_count(std::size_t given) const;
  nb::object launched(const Slots& slots, const nb::object& out, const nb::object& dtypes) const;
  nb::object execute(const Slots& slots, const nb::object& out, const nb::object& dtypes, Purpose purpose) const;
  /// The call, if tensors of the same layouts have been here before; else nothing.
  nb::object repeat(const Slots& slots, const nb::object& out) const;
  /// The dimensions of a new result of this shape as they lie in memory, outermost first.
  Dims order_of_result(const std::vector<TensorView>& inputs, const Dims& shape) const;
  std::vector<Dims> result_shapes(const std::vector<TensorView>& inputs) const;
  std::vector<DType> types_of(const std::vector<TensorView>& inputs, const std::vector<ResultSpec>& specs) const;
  std::vector<ResultSpec> specs_with(const nb::object& dtypes) const;

  Epilogue tail_;  ///< takes operands by position, in the order of its inputs()
  std::string stated_text_;
  std::string text_;
  bool is_ordered_;
  std::vector<std::string> parameters_;
  std::vector<std::string> who_;  ///< "operand 'x'", for errors
  std::vector<std::string> result_names_;
  std::vector<ResultSpec> specs_;
  bool elementwise_;
  std::vector<ConvolutionOperands> convolutions_;
  mutable KnownCalls known_;  ///< changed under the GIL
};

}  // namespace epifuse::python
