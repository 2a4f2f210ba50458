// One list of fields for each type that makes up a kernel's class. Comparison, key and printed form are made from that
// list, so that none of them can forget a field. For kernel_class.hpp and structure.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <variant>

#include "base/inline_vector.hpp"

namespace epifuse::plan {

/// A member and the name that it is printed with.
template <class Owner, class Member>
struct Field {
  std::string_view name;
  Member Owner::*member;
};
template <class Owner, class Member>
Field(std::string_view, Member Owner::*) -> Field<Owner, Member>;

/// A type that lists its fields: static constexpr auto fields() returns a tuple of Field.
template <class T>
concept HasFields = requires {
  T::fields();
};

template <HasFields T>
bool operator==(const T& a, const T& b) {
  return std::apply([&](const auto&... field) { return ((a.*field.member == b.*field.member) && ...); }, T::fields());
}

/// A class as bytes: equal for equal classes of one program, and for no others. What the engine finds kernels by.
using ClassCode = base::InlineVector<std::uint8_t, 224>;

namespace detail {

/// Seven bits a byte, the lowest first: most fields take one byte.
inline void add_number(ClassCode& code, std::uint64_t number) {
  while (number >= 0x80) {
    code.push_back(static_cast<std::uint8_t>(number | 0x80));
    number >>= 7;
  }
  code.push_back(static_cast<std::uint8_t>(number));
}

template <class T>
void add_code(ClassCode& code, const T& value);

template <class T, std::size_t N>
void add_code(ClassCode& code, const base::InlineVector<T, N>& values) {
  add_number(code, values.size());
  for (const T& value : values) add_code(code, value);
}
template <class... Types>
void add_code(ClassCode& code, const std::variant<Types...>& value) {
  add_number(code, value.index());
  std::visit([&](const auto& alternative) { add_code(code, alternative); }, value);
}
template <class T>
void add_code(ClassCode& code, const std::optional<T>& value) {
  add_number(code, value ? 1 : 0);
  if (value) add_code(code, *value);
}
template <class T>
void add_code(ClassCode& code, const T& value) {
  if constexpr (HasFields<T>) {
    std::apply([&](const auto&... field) { (add_code(code, value.*field.member), ...); }, T::fields());
  } else if constexpr (std::is_same_v<T, bool> || std::is_enum_v<T> || std::is_unsigned_v<T>) {
    add_number(code, static_cast<std::uint64_t>(value));
  } else {
    add_number(code, static_cast<std::uint64_t>(value) + 1);  // -1 stands for none in places
  }
}

template <class T>
std::string text_of(const T& value);

template <class T, std::size_t N>
std::string text_of(const base::InlineVector<T, N>& values) {
  std::string text = "[";
  for (const T& value : values) text += (text.size() > 1 ? ", " : "") + text_of(value);
  return text + "]";
}
template <class... Types>
std::string text_of(const std::variant<Types...>& value) {
  return std::visit([](const auto& alternative) { return text_of(alternative); }, value);
}
template <class T>
std::string text_of(const std::optional<T>& value) {
  return text_of(*value);
}

/// " name value", for a truth value " name" or " not name". A field with its default value is left out, if it has a
/// name.
template <class T, class F>
void add_field(std::string& text, const T& owner, const F& field) {
  const auto& value = owner.*field.member;
  if (!field.name.empty() && value == T{}.*field.member) return;
  if (!text.empty()) text += ' ';
  if constexpr (std::is_same_v<std::decay_t<decltype(value)>, bool>) {
    text += value ? "" : "not ";
    text += field.name;
  } else {
    text += field.name;
    if (!field.name.empty()) text += ' ';
    text += text_of(value);
  }
}

template <class T>
std::string text_of(const T& value) {
  if constexpr (requires { value.text(); }) {
    return value.text();
  } else if constexpr (HasFields<T>) {
    std::string text;
    if constexpr (requires { T::kName; }) text = std::string(T::kName);
    std::string list;
    std::apply([&](const auto&... field) { (add_field(list, value, field), ...); }, T::fields());
    return text.empty() ? list : list.empty() ? text : text + "(" + list + ")";
  } else if constexpr (std::is_enum_v<T>) {
    return std::string(to_string(value));
  } else {
    return std::to_string(value);
  }
}

}  // namespace detail

template <HasFields T>
ClassCode code_of(const T& value) {
  ClassCode code;
  detail::add_code(code, value);
  return code;
}

/// Compact text that is equal where code_of() is. Fields that have their default value are left out.
template <HasFields T>
std::string to_text(const T& value) {
  return detail::text_of(value);
}

}  // namespace epifuse::plan
