// What says where an operand of a chain without views is read.
#include "ir/program.hpp"

namespace epifuse::ir {

std::int64_t Bounds::Repeat::at(std::int64_t position) const noexcept {
  const std::int64_t numerator = factor * position + shift;
  const std::int64_t quotient = numerator / times - (numerator % times < 0 ? 1 : 0);
  return modulus == 0 ? quotient : quotient % modulus;
}

std::vector<int> Bounds::masks() const {
  std::vector<int> all = by;
  for (const Wrap& wrap : wraps) all.push_back(wrap.behind);
  return all;
}

}  // namespace epifuse::ir
