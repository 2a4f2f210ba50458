// Tensors of test cases as specifications (type, shape, strides, alignment), and as bytes: the exact span of memory
// that a view covers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <epifuse/tensor.hpp>

#include "support/random.hpp"

namespace epifuse::test {

struct Operand {
  DType dtype = DType::f32;
  Dims shape;
  Dims strides;
  int lead = 0;  ///< elements between a 256-byte boundary and the view's lowest address

  static Operand dense(DType dtype, const Dims& shape) { return {dtype, shape, row_major(shape), 0}; }
  std::int64_t elements() const noexcept;
  std::string str() const;
};

/// What stands in the memory of an operand: `lead` elements, then exactly the span of the view, gaps included.
struct Image {
  std::vector<unsigned char> bytes;
  std::size_t first = 0;  ///< where element 0 is
  std::size_t lead = 0;   ///< bytes before the span

  explicit Image(const Operand& operand);
};

/// What the elements of an input hold.
enum class Fill {
  plain,     ///< distinct numbers of usual size: a misplaced element is a wrong number
  specials,  ///< zeros, denormals, infinities, NaN, extremes, and what lies beside the bounds of activations
  bits,      ///< any bit pattern
  listed,    ///< special_values() in their order
  codes,  ///< all bit patterns of 8 and 16 bits in their order; of wider types, all upper 16 bits with telling lower ones
  rows,           ///< plain, and then fill_rows()
  codes_of_first  ///< codes in the first operand, plain numbers in the others
};

/// Fills gaps and lead, too, so that whatever a kernel reads by mistake is a number like others.
void fill(Image& image, const Operand& operand, Fill fill, Random& random);

/// Makes many of the rows ones that reductions find hard: all -inf, with a NaN, huge, 10 000 ± 1, constant. A row is
/// what has equal coordinates in the dimensions of `row_dims` (bit 0 the last one).
void fill_rows(Image& image, const Operand& operand, unsigned row_dims, Random& random);

/// The numbers of Fill::specials.
std::vector<double> special_values();

/// Visits the elements of a broadcast shape in row-major order and says where operands keep each one.
class Walker {
 public:
  explicit Walker(const Dims& shape) : shape_(shape) {
    for (int i = 0; i < shape.size(); ++i) at_.push_back(0);
  }
  /// False after the last element.
  bool next() noexcept;
  const Dims& at() const noexcept { return at_; }
  /// In bytes, from the image's start. The operand's dimensions stand at the end; those of extent 1 repeat.
  std::size_t offset(const Operand& operand, const Image& image) const noexcept;

 private:
  Dims shape_;
  Dims at_;
};

}  // namespace epifuse::test
