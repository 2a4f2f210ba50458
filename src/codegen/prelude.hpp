// The device prelude, taken apart: templates/*.cuh are made of named sections, and a kernel gets the ones it needs,
// each once, after what they need. Called by the emitters.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace epifuse::codegen {

struct Section {
  std::string_view name;
  std::vector<std::string_view> needs;
  std::string_view text;
};

/// Collects sections in an order in which they compile.
class Prelude {
 public:
  /// A name that no template has is a bug of ours: std::logic_error.
  void require(std::string_view name);
  /// The text of all sections that were required since the last call, and of what they need.
  std::string take();

 private:
  std::set<std::string_view> seen_;
  std::string text_;
};

}  // namespace epifuse::codegen
