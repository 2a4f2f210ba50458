// Types of arguments, as far as their declarations tell. Used by parameters.cpp.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/lean/units.hpp"

namespace epifuse::codegen::lean {

/// The type parameter `name` in a function's parameter: "X& a", "const X (&a)[2]", "Slots<X>& a", "const X* a".
struct Pattern {
  std::string_view around;  // "Slots", or nothing
  int depth = 0;            // of a pointer or an array 1
  bool takes_const = false;
};
std::optional<Pattern> pattern_of(const Source& source, Source::Range parameter, std::string_view name);

/// What `pattern` makes of an argument: a variable, one of its elements or members, a pointer and a distance, a cast of
/// a pointer, or what a function of one meaning returns.
std::optional<std::string> deduced(const std::vector<Unit>& units, std::size_t unit, Source::Range argument,
                                   const Pattern& pattern);

}  // namespace epifuse::codegen::lean
