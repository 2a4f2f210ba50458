// By form: in our style "Stage* partials" is a declaration, "a * b" a product.
#include "codegen/lean/declared.hpp"

#include <algorithm>
#include <array>

namespace epifuse::codegen::lean {

bool may_be_declared(const Source& source, std::size_t i) {
  if (i == 0 || !source.is_word(i)) return false;
  const bool is_sign = source.is(i - 1, "&") || source.is(i - 1, "*");
  if (is_sign) return i > 1 && (source[i - 2].end == source[i - 1].begin);
  const bool is_template = source.is(i - 1, ">") && source[i - 1].match < i - 1;
  constexpr auto kNoTypes = std::to_array<std::string_view>({"return", "const", "constexpr", "static", "else"});
  const bool is_type = source.is_word(i - 1) && std::ranges::find(kNoTypes, source[i - 1].text) == kNoTypes.end();
  return is_type || is_template || source.is(i - 1, ",");
}

std::set<std::string_view> declared_in_block(const Source& source, Source::Range block) {
  std::set<std::string_view> declared;
  for (std::size_t i = block.first; i < block.last; ++i) {
    if (i > block.first && may_be_declared(source, i)) declared.insert(source[i].text);
    if (source[i].match > i) i = source[i].match;
  }
  return declared;
}

}  // namespace epifuse::codegen::lean
