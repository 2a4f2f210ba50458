// Names of element types, one table for both directions.
#include <algorithm>

#include <epifuse/dtype.hpp>
#include <epifuse/math.hpp>

namespace epifuse {
namespace {
struct Name {
  DType type;
  std::string_view text;
};
constexpr std::array<Name, kAllDTypes.size()> kNames = {{{DType::f64, "f64"},
                                                         {DType::f32, "f32"},
                                                         {DType::f16, "f16"},
                                                         {DType::bf16, "bf16"},
                                                         {DType::f8e4m3, "f8e4m3"},
                                                         {DType::f8e5m2, "f8e5m2"},
                                                         {DType::i8, "i8"},
                                                         {DType::u8, "u8"},
                                                         {DType::i32, "i32"},
                                                         {DType::i64, "i64"},
                                                         {DType::boolean, "bool"}}};
}  // namespace

std::string_view to_string(Math math) noexcept {
  constexpr std::array<std::string_view, 3> kMath = {"precise", "standard", "fast"};
  return kMath[static_cast<std::size_t>(math)];
}

std::string_view to_string(DType type) noexcept { return kNames[static_cast<std::size_t>(type)].text; }

std::optional<DType> parse_dtype(std::string_view name) noexcept {
  const auto it = std::ranges::find(kNames, name, &Name::text);
  return it == kNames.end() ? std::nullopt : std::optional(it->type);
}

}  // namespace epifuse
