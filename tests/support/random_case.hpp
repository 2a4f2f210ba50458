// Random test cases: chains over all operations, operands of all types, shapes and layouts.
#pragma once

#include <vector>

#include "support/case.hpp"
#include "support/layout.hpp"

namespace epifuse::test {

/// A chain and how its operands are typed and laid out; shapes are drawn for each case. Cases of one family mostly
/// share a kernel.
class Family {
 public:
  explicit Family(std::uint64_t seed);
  /// At most about `elements` elements (a case whose tiles repeat now and then has more).
  Case next(int elements);
  const Chain& chain() const noexcept { return chain_; }

 private:
  struct Layout {
    unsigned repeated = 0;  // bit per dimension: the operand has extent 1 there
    int dropped = 0;        // leading dimensions that it does not have
    Order order;
    bool aligned = true;
  };

  Layout draw_layout(bool output);
  Dims draw_shape(int elements);
  Operand make(const Layout& layout, DType dtype, const Dims& shape);

  Random random_;
  Chain chain_;
  int rank_ = 0;
  std::vector<DType> input_types_, output_types_;
  std::vector<Layout> input_layouts_, output_layouts_;
  std::vector<int> in_place_;
};

/// Cases from a seed, `per_family` of each Family (or ReductionFamily), of at most about `elements` elements.
template <class AnyFamily>
std::vector<Case> draw_cases(std::uint64_t seed, std::size_t count, int per_family, int elements) {
  std::vector<Case> cases;
  Random seeds(seed);
  while (cases.size() < count) {
    AnyFamily family(seeds.bits());
    for (int i = 0; i < per_family && cases.size() < count; ++i) cases.push_back(family.next(elements));
  }
  return cases;
}

/// A chain of about `operations` operations. `exact` leaves out every function that has an error bound.
Chain random_chain(Random& random, int operations, const std::vector<DType>& inputs, int scalars, int results,
                   bool exact);

/// A type of storage, the usual ones more often.
DType draw_type(Random& random);
double draw_constant(Random& random);
/// Plain data mostly; else rows that differ, special values, or any bits.
Fill draw_row_fill(Random& random);
/// Extents of dimensions whose product stays at about `elements`; `order` says which are drawn first.
Dims draw_extents(Random& random, std::span<const int> order, std::int64_t elements);

}  // namespace epifuse::test
