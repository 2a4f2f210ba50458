// A source taken apart into units: what stands at the top level, each with its comment, the namespace and the `#if`
// around it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/lean/tokens.hpp"

namespace epifuse::codegen::lean {

enum class UnitKind : unsigned char { constant, type, function, other };

/// A function's head within a unit: a free one's, or a member's.
struct Head {
  std::size_t name;  // tokens
  std::size_t open;  // of the parameters
  std::size_t body;  // '{', or the source's size() for a declaration
};

class Unit {
 public:
  UnitKind kind = UnitKind::other;
  std::string comment;  // lines above it
  std::string guard;    // "#if …", or nothing
  std::string scope;    // namespace
  std::string name;
  std::string specialized;    // "<f16>": the arguments of a specialisation
  bool is_operation = false;  // of a chain, whose name a reader knows
  bool is_below = false;      // no empty line stood before it
  // Digests of the constants that were written out, of a text that did not change since: of those it names, and of all.
  std::size_t folded_with = 0, seen_with = 0;

  std::string_view text() const { return *text_; }
  const Source& source() const { return *source_; }
  void set_text(std::string text);
  /// All functions that the unit defines or declares: its own, or a type's members.
  const std::vector<Head>& heads() const;

 private:
  // Behind pointers: tokens refer to the text when a unit moves.
  std::unique_ptr<std::string> text_;
  std::unique_ptr<Source> source_;
  mutable std::optional<std::vector<Head>> heads_;
};

/// `#if` lines for who compiles the text: CUDA's branch alone is left of those that ask for a CUDA compiler, and of
/// others what they ask of the architecture.
std::string without_host_branches(std::string_view text);

/// The comment at the top of a source, and its units.
struct Units {
  std::string header;
  std::vector<Unit> units;
};
Units parse(std::string_view text);
/// One empty line between units; namespaces and conditions are opened once for units side by side.
std::string print(const std::string& header, const std::vector<const Unit*>& units);

}  // namespace epifuse::codegen::lean
