// What draws of functions share: a table of the functions, one of which each case is drawn of, and the operands of the
// case. For view_functions.cpp, index_functions.cpp, row_view_functions.cpp, large_windows.cpp and
// window_functions.cpp.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "support/random.hpp"
#include "support/views.hpp"

namespace epifuse::test {

/// `Self` has a static function functions(), which lists its rows.
template <class Self>
class ViewDraw {
 public:
  struct Function {
    const char* name;
    void (Self::*draw)();
  };

  explicit ViewDraw(std::uint64_t seed) : random_(seed) {}

  /// Those of the functions.
  static const std::vector<std::string>& names() {
    static const std::vector<std::string> all = [] {
      std::vector<std::string> names;
      for (const Function& function : Self::functions()) names.emplace_back(function.name);
      return names;
    }();
    return all;
  }

  ViewCase run() {
    const Function& function = random_.pick(Self::functions());
    test_.used = {function.name};
    (static_cast<Self*>(this)->*function.draw)();
    return test_;
  }

 protected:
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return random_.between(static_cast<int>(low), static_cast<int>(high));
  }
  /// An operand of that type, which lies in memory in some way.
  IntegerArray add(IntegerArray array, DType type) {
    test_.inputs.push_back(std::move(array));
    test_.layouts.push_back(random_.percent(60) ? 0 : random_.below(4));
    test_.types.push_back(type);
    return test_.inputs.back();
  }

  Random random_;
  ViewCase test_;
};

}  // namespace epifuse::test
