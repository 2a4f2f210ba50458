// Simpler expressions: what is known of the class is no part of them. Called by fold.cpp.
#pragma once

#include <optional>

#include "codegen/lean/constants.hpp"
#include "codegen/lean/tokens.hpp"

namespace epifuse::codegen::lean {

/// Whether a token is a number without a suffix, `true` or `false`.
bool is_known_literal(const Source& source, std::size_t i);

/// Whether tokens [first, last) compute something and do nothing else: no call but a cast, no assignment.
bool is_pure(const Source& source, std::size_t first, std::size_t last);

/// One simplification of an expression in tokens [first, last), or nothing where there is none: `x * 1`, `false && x`, `kSteps > 8 ? a : b`. It
/// leaves alone whatever it does not know for certain.
std::optional<Edit> simplification(const Source& source, std::size_t first, std::size_t last,
                                   const Constants& constants);

}  // namespace epifuse::codegen::lean
