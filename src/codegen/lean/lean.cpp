// The passes in turn, until nothing changes.
#include "codegen/lean/lean.hpp"

#include <utility>
#include <vector>

#include "codegen/lean/concrete.hpp"
#include "codegen/lean/idle.hpp"
#include "codegen/lean/inline.hpp"
#include "codegen/lean/known.hpp"
#include "codegen/lean/parameters.hpp"
#include "codegen/lean/reach.hpp"
#include "codegen/lean/stateless.hpp"
#include "codegen/lean/units.hpp"
#include "codegen/lean/unread.hpp"

namespace epifuse::codegen {

namespace {

// Nobody reads a longer source, which hundreds of reductions one after the other make: it grows with the square of
// their number, and so would the time of the passes. Bytes.
constexpr std::size_t kMostRead = std::size_t{1} << 20;

}  // namespace

std::string made_lean(std::string_view text, std::string_view entry, Compilers compilers, Leanness leanness) {
  const std::string resolved = compilers == Compilers::cuda ? lean::without_host_branches(text) : std::string(text);
  if (resolved.size() > kMostRead) return resolved;
  auto [header, units] = lean::parse(resolved);
  const bool is_all = leanness == Leanness::all;
  for (bool again = true; again;) {
    units = lean::reached(std::move(units), entry);
    again = leanness != Leanness::used && lean::write_out_known(units, is_all);
    again = lean::drop_idle_calls(units) || again;
    again = lean::drop_unused_members(units) || again;
    again = lean::drop_stateless_types(units) || again;
    if (leanness == Leanness::used) continue;
    again = lean::drop_parameters(units) || again;
    again = lean::make_concrete(units) || again;
    again = lean::drop_namespaces(units) || again;
    again = (is_all && lean::drop_unread_variables(units)) || again;
    if (!again) again = lean::write_in_place(units, entry, is_all);
  }
  return lean::print(header, lean::in_reading_order(units));
}

std::string_view lean_passes() { return EPIFUSE_LEAN_PASSES; }

}  // namespace epifuse::codegen
