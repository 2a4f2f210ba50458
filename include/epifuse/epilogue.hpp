// A finished epilogue: what one kernel computes, without shapes or types. Immutable, cheap to copy, thread-safe.
#pragma once

#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <epifuse/expr.hpp>
#include <epifuse/math.hpp>
#include <epifuse/tensor.hpp>

namespace epifuse {

namespace ir {
class Program;
}

struct Gradient;
struct GradientOptions;
struct Subchain;
struct SubchainOptions;

/// An operand or a run-time scalar by its name: `{"x", view}`, `{"alpha", 0.5}`.
struct Argument {
  std::string name;
  std::variant<TensorView, double> value;

  Argument(std::string called, const TensorView& view) : name(std::move(called)), value(view) {}
  template <class Number>
  requires std::is_arithmetic_v<Number> Argument(std::string called, Number scalar)
      : name(std::move(called)), value(static_cast<double>(scalar)) {}
};
/// All of them, in any order: `{{"x", c}, {"bias", b}, {"alpha", 0.5}}`. A missing, an unknown and a repeated name is
/// an Error(invalid_argument), which suggests the nearest one. Run-time scalars may be left out but of a launch.
using Arguments = std::vector<Argument>;

class Epilogue {
 public:
  /// One result.
  explicit Epilogue(const Expr& result);
  /// Several results of one kernel, in this order.
  explicit Epilogue(std::initializer_list<Expr> results) : Epilogue(std::span(results.begin(), results.size())) {}
  explicit Epilogue(std::span<const Expr> results);

  /// From the text language (docs/guide/language.md), for example "t = x + bias; return t * sigmoid(t), t > 0".
  /// Names in `scalars` are run-time scalars, as if the text declared them. Errors point at the column with a caret.
  static Epilogue parse(std::string_view text, std::span<const std::string> scalars = {});

  /// Tensor operands in the order that the text (`input x, bias;`) or the other inputs() states, else in that of their
  /// first use, which `x + bias` and `bias + x` have not in common.
  const std::vector<std::string>& inputs() const noexcept;
  /// Whether operands may be given by position, in the order of inputs(): that order is stated, or there are fewer than
  /// two. Else every function that takes views by position throws Error(invalid_argument), and takes them by name. An
  /// order is stated by the other inputs(), and by `input x, bias;` in a text, which names all operands, or all but the
  /// last one. Those of generated epilogues are: backward passes (gradient()) and parts (subchain_of()).
  bool takes_inputs_by_position() const noexcept { return inputs_are_stated_ || inputs().size() < 2; }
  /// The same epilogue, which takes the operands by position in this order:
  /// `ef::Epilogue{bias + x}.inputs({"x", "bias"})`. Throws Error(invalid_argument) unless each operand is named once.
  Epilogue inputs(std::initializer_list<std::string_view> order) const;
  Epilogue inputs(std::span<const std::string> order) const;
  /// Run-time scalars in the order in which launches take them by position: that of their declarations in a text, with
  /// those that parse() was given first; of C++ expressions that of their first use.
  const std::vector<std::string>& scalars() const noexcept;
  /// Whether scalars may be given by position. Not where a C++ expression has two or more: nothing states their order.
  bool takes_scalars_by_position() const noexcept { return scalars_are_stated_ || scalars().size() < 2; }
  /// Results in order, by the names that the text gives them, otherwise "out" or "out0", "out1", ….
  std::vector<std::string> results() const;

  /// By result the operand whose memory it is, since 'index_copy' writes into that; empty for results that have memory
  /// of their own. A launch takes the operand's own view as that output.
  std::vector<std::string> destinations() const;

  /// Whether each element of a result depends on the same element of the operands alone: no reductions, no shape
  /// operations.
  bool is_elementwise() const noexcept;

  /// The shapes that the results have for operands of these shapes; memory and types play no part. Without reductions
  /// every result has the shape that the operands broadcast to. Throws Error(invalid_argument) for shapes that do not
  /// fit, as a launch would.
  std::vector<Dims> result_shapes(std::span<const TensorView> inputs) const;
  std::vector<Dims> result_shapes(const Arguments& inputs) const;

  /// The types that the results have by default for operands of these types and numbers of dimensions: what PyTorch's
  /// promotion gives (docs/guide/language.md). A launch takes any types for its outputs; callers that have none in mind
  /// allocate these.
  std::vector<DType> result_types(std::span<const TensorView> inputs) const;
  std::vector<DType> result_types(const Arguments& inputs) const;

  /// What a launch computes in: f32, or f64 where an operand is f64, where the epilogue casts to it, and where integer
  /// results need it. `results`: the types of the outputs. Statistics that one launch leaves for another are stored in
  /// this type.
  DType compute_type(std::span<const TensorView> inputs, std::span<const DType> results) const;
  DType compute_type(const Arguments& inputs, std::span<const DType> results) const;

  /// The epilogue as a chain, that is in the text language; parse(str()) is the same epilogue, with standard math. The
  /// text states the order of two or more operands (`input x, bias;`) where this epilogue does, so that it may be
  /// launched by position, too, and where another order than that of the text's first uses is theirs.
  std::string str() const;

  /// How exact it is computed on a GPU.
  Math math() const noexcept;
  /// The same epilogue, computed so.
  Epilogue with(Math math) const;

  /// For the library's own components.
  const ir::Program& program() const noexcept { return *program_; }

 private:
  friend Gradient gradient(const Epilogue& tail, std::span<const std::string> wrt, const GradientOptions& options);
  friend Subchain subchain_of(const Epilogue& tail, std::span<const int> writes, std::span<const int> known,
                              const SubchainOptions& options);
  Epilogue(std::shared_ptr<const ir::Program> program, bool inputs_are_stated, bool scalars_are_stated) noexcept
      : program_(std::move(program)), inputs_are_stated_(inputs_are_stated), scalars_are_stated_(scalars_are_stated) {}
  std::shared_ptr<const ir::Program> program_;
  // Of the handle, not of the program: it changes nothing that is computed, compiled or cached.
  bool inputs_are_stated_ = false;
  bool scalars_are_stated_ = false;
};

}  // namespace epifuse
