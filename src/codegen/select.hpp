// What of a source stands or falls with its constants, as the templates mark it. Called by emit.cpp.
#pragma once

#include <string>
#include <string_view>

namespace epifuse::codegen {

/// The text with each `//@if CONDITION … //@else … //@endif` resolved: the part that holds is left, and the marks go.
/// Each mark is a line of its own; marks nest. Within a line `/*@if CONDITION*/…/*@endif*/` does the same. A condition
/// is an expression of C++ over numbers and those constants that a line `constexpr int kName = …;` (or bool) above it
/// gives a value. So does a line `//@let kName = …`, which goes like a mark. Throws std::logic_error that quotes a mark
/// which is wrong or cannot be evaluated: an error in a template.
std::string selected(std::string_view text);

}  // namespace epifuse::codegen
