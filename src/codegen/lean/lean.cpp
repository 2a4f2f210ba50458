// The passes in turn, until nothing changes.
#include "codegen/lean/lean.hpp"

#include <utility>
#include <vector>

#include "codegen/lean/fold.hpp"
#include "codegen/lean/reach.hpp"
#include "codegen/lean/units.hpp"
#include "codegen/lean/unused.hpp"

namespace epifuse::codegen {

std::string made_lean(std::string_view text, std::string_view entry, Compilers compilers) {
  const std::string resolved = compilers == Compilers::cuda ? lean::without_host_branches(text) : std::string(text);
  auto [header, units] = lean::parse(resolved);
  units = lean::reached(std::move(units), entry);
  for (bool again = true; again;) {
    again = false;
    const lean::Known known = lean::known_constants(units);
    for (lean::Unit& unit : units) again = lean::fold(unit, known) || again;
    again = lean::drop_idle_statements(units) || again;
    again = lean::drop_unused_parameters(units) || again;
    again = lean::drop_unused_members(units) || again;
    if (again) units = lean::reached(std::move(units), entry);
  }
  return lean::print(header, lean::in_reading_order(units));
}

std::string_view lean_passes() { return EPIFUSE_LEAN_PASSES; }

}  // namespace epifuse::codegen
