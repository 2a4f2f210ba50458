// Constant expressions of templates and sources: what stands behind `constexpr int kName =` and between `//@if` and its end. For this component.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace epifuse::codegen {

/// Values by name; a truth value is 0 or 1.
using Constants = std::map<std::string, std::int64_t, std::less<>>;

/// The value of an expression of numbers, truth values and constants, or nothing where it has anything else in it. A division by zero is 0: the
/// branch that holds it is not taken.
std::optional<std::int64_t> value_of(std::string_view expression, const Constants& constants);

}  // namespace epifuse::codegen
