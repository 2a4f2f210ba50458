// Operators of constant expressions, for who evaluates them while a source is written: select.cpp in templates, lean/
// in sources.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace epifuse::codegen {

/// Of two operands. Those with the lowest level bind least, as in C++.
struct Operator {
  int level;
  std::string_view sign;
  std::int64_t (*apply)(std::int64_t, std::int64_t);
};

/// A division by zero is 0: the branch that holds it is not taken.
inline constexpr auto kOperators = std::to_array<Operator>({
    {0, "||", [](std::int64_t a, std::int64_t b) -> std::int64_t { return a != 0 || b != 0; }},
    {1, "&&", [](std::int64_t a, std::int64_t b) -> std::int64_t { return a != 0 && b != 0; }},
    {5, "==", [](std::int64_t a, std::int64_t b) -> std::int64_t { return a == b; }},
    {5, "!=", [](std::int64_t a, std::int64_t b) -> std::int64_t { return a != b; }},
    {6, "<=", [](std::int64_t a, std::int64_t b) -> std::int64_t { return a <= b; }},
    {6, ">=", [](std::int64_t a, std::int64_t b) -> std::int64_t { return a >= b; }},
    {6, "<", [](std::int64_t a, std::int64_t b) -> std::int64_t { return a < b; }},
    {6, ">", [](std::int64_t a, std::int64_t b) -> std::int64_t { return a > b; }},
    {8, "+", [](std::int64_t a, std::int64_t b) { return a + b; }},
    {8, "-", [](std::int64_t a, std::int64_t b) { return a - b; }},
    {9, "*", [](std::int64_t a, std::int64_t b) { return a * b; }},
    {9, "/", [](std::int64_t a, std::int64_t b) { return b == 0 ? 0 : a / b; }},
    {9, "%", [](std::int64_t a, std::int64_t b) { return b == 0 ? 0 : a % b; }},
});
/// What takes one operand binds closer than all of them.
inline constexpr int kUnary = 10;

}  // namespace epifuse::codegen
