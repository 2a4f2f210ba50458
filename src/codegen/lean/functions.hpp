// Functions of a source and their calls, by name. Used by the passes that change both.
#pragma once

#include <cstddef>
#include <map>
#include <string_view>
#include <vector>

#include "codegen/lean/units.hpp"

namespace epifuse::codegen::lean {

struct Call {
  std::size_t unit, name;  // a token
};

struct Function {
  std::string_view name;
  std::size_t unit = 0;
  Head head = {};
  std::vector<Call> calls = {};
  bool is_one = true;  // the only one of its name, which stands for nothing but calls of it
};

/// In the order in which they stand.
std::vector<Function> functions_of(const std::vector<Unit>& units);

/// Changes of several units, in any order.
using Edits = std::map<std::size_t, std::vector<Edit>>;
void apply(Edits edits, std::vector<Unit>& units);

/// Of parameters and arguments: item k goes, with the comma behind it, or before the last.
void drop_item(const Source& source, std::size_t open, std::size_t k, std::vector<Edit>& edits);
/// The name that a parameter declares, if it has one: "const Row (&rows)[1]", "Index chunk", "class Stage = Other".
std::string_view name_of_parameter(const Source& source, Source::Range item);

}  // namespace epifuse::codegen::lean
