// Which names statements declare. Used by the passes that move statements.
#pragma once

#include <set>
#include <string_view>

#include "codegen/lean/tokens.hpp"

namespace epifuse::codegen::lean {

/// Whether token i may be a name that is declared there: behind a type, its sign, or the comma of a list.
bool may_be_declared(const Source& source, std::size_t i);

/// Names that the statements [first, last) declare for what stands behind them, perhaps more: what a loop or an inner
/// block declares ends with it.
std::set<std::string_view> declared_in_block(const Source& source, Source::Range block);

}  // namespace epifuse::codegen::lean
