// The reverse sweep: from the gradients of a chain's results to those of its operands, as further values of the same
// chain. For gradient.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ir/program.hpp"
#include "ir/symbolic_shapes.hpp"

namespace epifuse::ir {

/// The chain and its gradients, in one Builder: what both compute is one value.
class ReverseSweep {
 public:
  /// `wrt`: ordinals of operands.
  ReverseSweep(const Program& program, const std::vector<int>& wrt);

  Builder builder;
  SymbolicShapes shapes{builder};
  std::vector<Value> forward;    ///< by value of the program
  std::vector<Value> gradients;  ///< of the results, by result: operands; kNone where none is needed
  /// The shape that a result is written in: its value's, or, in a chain of pointwise operations alone, what all
  /// operands broadcast to.
  Atoms written_shape(Value value);
  /// Of each pool of maxima which element of each window is the largest, and of other extremes of windows how many
  /// equal them: what backward had better read.
  std::vector<Value> largest_elements;
  bool has_windows = false;   ///< an element has gradients of several windows
  std::vector<Value> of_wrt;  ///< gradients of `wrt`; kNone: nothing that has a derivative leads from there to a result

 private:
  const Node& node(Value value) const { return program_.node(value); }
  Value now(Value value) const { return forward[static_cast<std::size_t>(value)]; }
  Value op(Op op, Value a, Value b = kNone, Value c = kNone) { return builder.apply(op, {a, b, c}); }
  Value number(double value) { return builder.constant(value, Category::integer); }

  void copy_forward();
  void find_active(const std::vector<int>& wrt);
  bool passes(Value value, std::size_t argument) const;
  void declare_gradients();
  void add(Value value, Value gradient, const Atoms& shape);
  Value total(Value value);
  Value covering(Value gradient, const Atoms& shape);

  void differentiate(Value value, Value g);
  bool differentiate_softmax(Value value, Value g);
  bool differentiate_log_softmax(Value value, Value g);
  bool differentiate_logsumexp(Value value, Value g);
  bool differentiate_norm(Value value, Value g);
  bool differentiate_root(Value value, Value g);
  bool differentiate_clamp(Value value, Value g);
  void differentiate_reduction(Value value, Value g);
  Value amid_zeros(Value x, Value g, const ViewsBeside& beside);
  void differentiate_cat(Value value, Value g);
  void differentiate_movement(Value value, Value g);
  // reverse_windows.cpp
  struct Window;
  struct Pool;
  struct WindowGradient {
    View view;       // an element of each window
    Value gradient;  // of these elements
  };
  Value shape_of(Value value);
  Value position(Value like, int dim, std::int64_t shift);
  Value rest(Value position, std::int64_t stride);
  void add_windows(Value value);
  Value of_whole_windows(Value like, const Window& window, Value g);
  Value of_element(Value value, const WindowGradient& given, std::int64_t element);
  Value taken_every(Value like, Value g, int dim, std::int64_t stride, std::int64_t shift);
  void below_maxima(Value value, std::vector<Value>& leaves) const;
  std::optional<std::int64_t> element_of(const Pool& pool, Value value) const;
  std::optional<Pool> max_pool_of(const std::vector<Value>& leaves) const;
  Value largest_of(Value value, const Pool& pool);
  bool differentiate_max_pool(Value value, Value g);
  Value of_largest(const Pool& pool, std::size_t d, Value largest, Value g, Value which, Value holds);
  Value repeated_to(const Pool& pool, std::size_t d, Value value, std::int64_t shift);
  // reverse_unfolds.cpp
  std::optional<Pool> unfolded_pool_of(const Node& reduction) const;
  bool reduces_windows(const Node& reduction) const;
  bool differentiate_unfolded(Value reduction, Value g);
  bool differentiate_unfold(Value unfold, Value g);
  Value largest_of_unfolded(Value reduction, const Pool& pool);
  Value apart_from_windows(const Pool& pool, Value g);
  Value over_unfolded(const Pool& pool, Value largest, Value g);
  Value repeated_to_all(const Pool& pool, Value value);
  Value counted_largest(const Pool& pool, Value unfolded, Value largest, Value g);
  Value counted_in_windows(const Pool& pool, Value unfolded);
  struct Places {
    std::int64_t start, step;
    bool is_from_back;
  };
  static std::optional<Places> places_of(const Index& item);
  std::optional<Value> put_back(Value value, Value g, const View& view);

  Value unreduced(Value reduction, Value result);
  Value of_first(Value reduction, Value g);
  Value first_place(const Node& reduction, Value is_one, Value place, bool keepdim);
  Value product_of_others(Value reduction);
  Value sum_over(Value value, const Axes& axes) { return builder.reduce(Op::sum, value, axes, true); }

  const Program& program_;
  std::vector<bool>
      active_;  // by value of the program: depends on an operand of `wrt` through operations that have a derivative
  // By value of the program: its gradient so far, in shapes that the value broadcasts to. Each is summed once, when all
  // has been added.
  std::vector<std::vector<std::pair<Atoms, Value>>> parts_;
  std::vector<std::vector<WindowGradient>> windows_;  // likewise, of elements of windows, until the value's own turn
  std::vector<bool> reached_;                         // by value of the program: it has a gradient, which may be 0
};

}  // namespace epifuse::ir
