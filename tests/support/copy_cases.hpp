// Random results that are written at indices into larger tensors, as tokens are into a paged cache, or in the tiles of
// scales that matrix products take. The expected values come from PyTorch's definition of index_copy and from
// cuBLASLt's formula for the tiles, written down here. For tests on the CPU device and of emitted text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <epifuse/epilogue.hpp>
#include <epifuse/tensor.hpp>

#include "support/places.hpp"
#include "support/random.hpp"

namespace epifuse::test {

/// A chain over x whose results lie in caches at indices, some of which are out of range, or in tiles. Every tensor has
/// memory of exactly its size.
class CopyCase {
 public:
  explicit CopyCase(std::uint64_t seed);

  const std::string& text() const noexcept { return text_; }
  /// What the source is: a name of kinds().
  const std::string& kind() const noexcept { return kind_; }
  static const std::vector<std::string>& kinds();
  const Epilogue& tail() const noexcept { return *tail_; }
  std::vector<TensorView> inputs() const;
  std::vector<OutputView> outputs() const;
  /// Empty if each byte of each result's memory is what it has to be; else which is not.
  std::string judge() const;

 private:
  struct Tensor {
    std::string name;
    DType type = DType::f32;
    Dims shape, strides;
    std::size_t bytes = 0;
    std::unique_ptr<unsigned char[]> memory;
    std::vector<unsigned char> expected;  // of results
    OutputView view() const { return {memory.get(), type, shape, strides}; }
  };
  // A source, and where it goes.
  struct Source {
    std::string text;
    Place shape;
    At value;
  };

  std::int64_t between(std::int64_t low, std::int64_t high);
  Tensor& add(std::string name, DType type, const Place& shape, int layout = 0);
  void fill(Tensor& tensor, const At& value);
  std::int64_t offset(const Tensor& tensor, const Place& at) const;
  std::vector<Source> draw_sources();
  std::string copy(const Source& source);
  std::string tiled(const Source& source);
  std::string placed(const Source& source);
  std::string plain(const Source& source);

  Random random_;
  std::string kind_, text_;
  std::optional<Epilogue> tail_;
  std::vector<std::unique_ptr<Tensor>> tensors_;  // operands by name, caches among them
  std::vector<const Tensor*> results_;
};

}  // namespace epifuse::test
