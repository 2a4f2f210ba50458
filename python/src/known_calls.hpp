// Calls that a launcher has made before. For tensors of PyTorch with the same types, shapes, strides and device
// everything but the addresses is known: such a call reads these, makes the results and launches. For launcher.cpp
// only; all of it needs the GIL.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "arrays.hpp"

namespace epifuse::python {

/// What a launch needs.
struct Launch {
  Engine* engine = nullptr;
  Stream stream = nullptr;
  std::vector<TensorView> inputs;
  std::vector<OutputView> outputs;
  std::vector<double> scalars;
};

class KnownCall {
 public:
  /// Of a call that went well. `given`: the arrays of out=, if there were any; `results` are these, or the new ones.
  KnownCall(Engine& engine, std::span<const Operand> inputs, std::span<const Operand> given,
            std::span<const OutputView> results);
  /// Whether such a call can be remembered: all its arrays are tensors of PyTorch, read through DLPack's C functions.
  static bool can_be(std::span<const Operand> inputs, std::span<const Operand> given);

  /// Fills `launch` and gives true if the tensors are as they were. False says nothing: they must be looked at
  /// properly.
  bool matches(std::span<const nb::handle> inputs, std::span<const nb::handle> given, Launch& launch) const;
  /// New results, whose addresses go into `launch`; false where PyTorch's current device is another than the tensors'.
  bool allocate(Launch& launch, std::vector<nb::object>& made) const;

 private:
  struct Layout {
    dlpack::DataType dtype;
    TensorView view;
  };
  struct Recipe {
    nb::object shape, strides, dtype;
  };
  Layout layout_of(const Operand& operand) const;
  bool read(nb::handle object, const Layout& layout, bool gradients, TensorView& view) const;

  Engine* engine_;
  const dlpack::ExchangeApi* exchange_;
  dlpack::Device device_;
  std::vector<Layout> inputs_, given_;
  std::vector<TensorView> input_views_;
  std::vector<OutputView> results_;
  std::vector<Recipe> recipes_;  ///< of new results
};

/// The last few of a launcher. Changed under the GIL; who reads one holds it, since PyTorch's methods give the GIL to
/// other threads.
class KnownCalls {
 public:
  static constexpr std::size_t kMost = 4;

  void remember(std::shared_ptr<const KnownCall> call) {
    calls_[next_] = std::move(call);
    next_ = (next_ + 1) % kMost;
  }
  /// Null where none was remembered yet.
  std::shared_ptr<const KnownCall> at(std::size_t i) const noexcept { return calls_[i]; }

 private:
  std::array<std::shared_ptr<const KnownCall>, kMost> calls_;
  std::size_t next_ = 0;
};

}  // namespace epifuse::python
