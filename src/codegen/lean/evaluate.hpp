// Values of expressions over constants that are known when a kernel is emitted.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "codegen/lean/tokens.hpp"

namespace epifuse::codegen::lean {

/// Values by name; members of types and enumerators as "Type::name". What one does not say its outer one may.
class Known {
 public:
  explicit Known(const Known* outer = nullptr) : outer_(outer) {}
  std::optional<std::int64_t> find(std::string_view name) const;
  void set(std::string_view name, std::optional<std::int64_t> value);  // nothing: not known here, whatever is outside
  bool operator==(const Known& other) const { return values_ == other.values_; }

 private:
  const Known* outer_;
  std::map<std::string, std::optional<std::int64_t>, std::less<>> values_;
};

/// The value of tokens [first, last), if it is an integer or a truth value that follows from what is known.
std::optional<std::int64_t> value_of(const Source& source, Source::Range range, const Known& known);

}  // namespace epifuse::codegen::lean
