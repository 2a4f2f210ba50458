// Random chains with reductions that are legal as one kernel, over operands of all types, shapes and layouts.
//
// Legal: reductions whose result meets the reduced dimensions again ("inner") all reduce the same dimensions; those
// whose result does not ("trailing") all reduce the same dimensions, which contain the inner ones. Up to three stages
// of inner reductions.
#pragma once

#include <vector>

#include "support/case.hpp"
#include "support/layout.hpp"

namespace epifuse::test {

/// The dimensions of a family's values. Operands have the base dimensions; where a chain splits one of them
/// (group_norm), its reductions see one more. Masks are over the dimensions after the split, bit d for dimension d.
struct Frame {
  int rank = 1;    ///< after the split
  int split = -1;  ///< the first of the two dimensions made of one, or -1
  int groups = 1;  ///< its extent
  unsigned inner = 1;
  unsigned outer = 1;  ///< of trailing reductions; contains `inner`

  unsigned all() const noexcept { return (1u << rank) - 1; }
  int base_rank() const noexcept { return split < 0 ? rank : rank - 1; }
  /// The base dimensions of which every part is in the mask.
  unsigned base_mask(unsigned mask) const noexcept;
  /// Extents of the base dimensions.
  Dims base(const Dims& extents) const;
};

/// An input: which dimensions it has.
struct Source {
  int ordinal = 0;
  bool after_split = false;
  unsigned repeated = 0;  ///< of its own dimensions: extent 1 there
  int dropped = 0;        ///< leading dimensions that it lacks
  int along = -1;         ///< a vector for this base dimension
  bool is_full() const noexcept { return repeated == 0 && dropped == 0 && along < 0; }
};

class ReductionFamily {
 public:
  explicit ReductionFamily(std::uint64_t seed);
  /// At most about `elements` elements (a case whose rows repeat now and then has more).
  Case next(int elements);
  const Chain& chain() const noexcept { return chain_; }

 private:
  struct Storage {
    DType dtype = DType::f32;
    Order order;
    bool aligned = true;
  };

  void draw_operands();
  Dims draw_frame_extents(int elements);
  std::vector<Dims> input_shapes(const Dims& extents) const;
  Operand make(const Storage& storage, const Dims& shape, int dropped);

  Random random_;
  Frame frame_;
  Chain chain_;
  std::vector<Source> sources_;
  std::vector<Storage> inputs_, outputs_;
  std::vector<int> in_place_;
};

/// Random cases from a seed, `per_family` of each chain, of at most about `elements` elements.
std::vector<Case> random_reductions(std::uint64_t seed, std::size_t count, int per_family, int elements);

}  // namespace epifuse::test
