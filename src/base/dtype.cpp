// Names of element types, one table for both directions, and what others call them.
#include <algorithm>

#include <epifuse/dtype.hpp>
#include <epifuse/math.hpp>

namespace epifuse {
namespace {
struct Name {
  DType type;
  std::string_view text;
};
constexpr std::array<Name, kDTypes> kNames = {{{DType::f64, "f64"},
                                               {DType::f32, "f32"},
                                               {DType::f16, "f16"},
                                               {DType::bf16, "bf16"},
                                               {DType::f8e4m3, "f8e4m3"},
                                               {DType::f8e5m2, "f8e5m2"},
                                               {DType::i8, "i8"},
                                               {DType::u8, "u8"},
                                               {DType::i32, "i32"},
                                               {DType::i64, "i64"},
                                               {DType::boolean, "bool"},
                                               {DType::f8e8m0, "f8e8m0"},
                                               {DType::i16, "i16"},
                                               {DType::u16, "u16"},
                                               {DType::u32, "u32"},
                                               {DType::f4e2m1, "f4e2m1"},
                                               {DType::i4, "i4"},
                                               {DType::u4, "u4"}}};

// What NumPy, PyTorch, ml_dtypes and C call them.
constexpr Name kAliases[] = {{DType::f64, "float64"},   {DType::f64, "double"},
                             {DType::f32, "float32"},   {DType::f32, "float"},
                             {DType::f32, "fp32"},      {DType::f16, "float16"},
                             {DType::f16, "half"},      {DType::f16, "fp16"},
                             {DType::bf16, "bfloat16"}, {DType::f8e4m3, "float8_e4m3fn"},
                             {DType::f8e4m3, "e4m3"},   {DType::f8e5m2, "float8_e5m2"},
                             {DType::f8e5m2, "e5m2"},   {DType::f8e8m0, "float8_e8m0fnu"},
                             {DType::f8e8m0, "e8m0"},   {DType::i8, "int8"},
                             {DType::u8, "uint8"},      {DType::i16, "int16"},
                             {DType::i16, "short"},     {DType::u16, "uint16"},
                             {DType::i32, "int32"},     {DType::i32, "int"},
                             {DType::u32, "uint32"},    {DType::i64, "int64"},
                             {DType::i64, "long"},      {DType::boolean, "boolean"},
                             {DType::boolean, "bool_"}, {DType::f4e2m1, "float4_e2m1fn"},
                             {DType::f4e2m1, "e2m1"},   {DType::i4, "int4"},
                             {DType::u4, "uint4"}};
}  // namespace

std::string_view to_string(Math math) noexcept {
  constexpr std::array<std::string_view, 3> kMath = {"precise", "standard", "fast"};
  return kMath[static_cast<std::size_t>(math)];
}

std::string_view to_string(DType type) noexcept { return kNames[static_cast<std::size_t>(type)].text; }

std::string dtype_names(std::string_view separator) {
  std::string names;
  for (const Name& name : kNames) {
    if (!names.empty()) names += separator;
    names += name.text;
  }
  return names;
}

std::optional<DType> parse_dtype(std::string_view name) noexcept {
  const auto* const found = std::ranges::find(kNames, name, &Name::text);
  if (found != kNames.end()) return found->type;
  const auto* const alias = std::ranges::find(kAliases, name, &Name::text);
  return alias == std::end(kAliases) ? std::nullopt : std::optional(alias->type);
}

}  // namespace epifuse
