// A finished epilogue: what one kernel computes, without shapes or types. Immutable, cheap to copy, thread-safe.
#pragma once

#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
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

  /// Tensor operands in the order in which launches take them by position: the order of their first use, unless the
  /// text declares another (`input x, bias;`) or the other inputs() states it. In C++ the first use is the left
  /// operand's: `x + bias` has another order than `bias + x`, so state it, or launch by name.
  const std::vector<std::string>& inputs() const noexcept;
  /// The same epilogue, whose launches take the operands in this order: `ef::Epilogue{bias + x}.inputs({"x", "bias"})`.
  /// Throws Error(invalid_argument) unless each operand is named once.
  Epilogue inputs(std::initializer_list<std::string_view> order) const;
  Epilogue inputs(std::span<const std::string> order) const;
  /// Run-time scalars in the order in which launches take them.
  const std::vector<std::string>& scalars() const noexcept;
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

  /// The types that the results have by default for operands of these types and numbers of dimensions: what PyTorch's
  /// promotion gives (docs/guide/language.md). A launch takes any types for its outputs; callers that have none in mind
  /// allocate these.
  std::vector<DType> result_types(std::span<const TensorView> inputs) const;

  /// What a launch computes in: f32, or f64 where an operand is f64, where the epilogue casts to it, and where integer
  /// results need it. `results`: the types of the outputs. Statistics that one launch leaves for another are stored in
  /// this type.
  DType compute_type(std::span<const TensorView> inputs, std::span<const DType> results) const;

  /// The epilogue as a chain, that is in the text language; parse(str()) is the same epilogue, with standard math.
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
  explicit Epilogue(std::shared_ptr<const ir::Program> program) noexcept : program_(std::move(program)) {}
  std::shared_ptr<const ir::Program> program_;
};

}  // namespace epifuse
