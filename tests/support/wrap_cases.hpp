// Random views that wrap around, pad, cut and reorder one operand, of several types, whose results follow from the
// definitions of the views alone. For tests on the CPU device and of emitted text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <epifuse/epilogue.hpp>
#include <epifuse/tensor.hpp>

namespace epifuse::test {

/// A chain of views of x, x in memory of exactly its size, and what the result has to be, byte by byte.
class WrapCase {
 public:
  explicit WrapCase(std::uint64_t seed);

  const std::string& text() const noexcept { return text_; }
  const Epilogue& tail() const noexcept { return *tail_; }
  std::vector<TensorView> inputs() const;
  std::vector<OutputView> outputs();
  /// Empty if the result is right; else which element is not.
  std::string judge() const;
  /// Of the result.
  std::size_t elements() const noexcept { return sources_.size(); }

 private:
  std::string text_;
  std::optional<Epilogue> tail_;
  DType type_;
  std::size_t bytes_;  // of an element
  Dims shape_, strides_;
  std::int64_t begins_ = 0;  // bytes before x in its memory
  std::size_t reserved_ = 0;
  std::unique_ptr<unsigned char[]> memory_;
  Dims result_;
  std::vector<std::int64_t> sources_;  // by element of the result: the element of x; or none
  std::vector<unsigned char> written_;
};

}  // namespace epifuse::test
