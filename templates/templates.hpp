// The device text, embedded: templates/*.cuh as string literals, so that the library reads no file at run time.
#pragma once

#include <string_view>

namespace epifuse::templates {

/// The text of templates/<file>, for example text("types.cuh"). A name that templates/CMakeLists.txt does not list is a bug
/// of the caller: std::logic_error.
std::string_view text(std::string_view file);

}  // namespace epifuse::templates
