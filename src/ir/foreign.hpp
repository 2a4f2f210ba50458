// Functions that people know from PyTorch and NumPy and that chains do not have. For the parser, which says what to
// write instead.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace epifuse::ir {

/// How an unknown function was called.
struct ForeignCall {
  std::size_t arguments = 0;  ///< by position
  bool has_axis = false;      ///< a keyword that only a reduction has: axis, dim or keepdim
};

/// What to write instead, to follow "unknown function 'max'"; nothing for a name that is just unknown. Needed for every
/// name that is spelt nearly as one of ours and means something else: a suggestion by spelling would compute another
/// thing.
std::optional<std::string_view> advice_for(std::string_view name, const ForeignCall& call);

}  // namespace epifuse::ir
