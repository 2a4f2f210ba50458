// Epilogues of tests, whose launches give operands by position as the text mentions them. For every test.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include <epifuse/epilogue.hpp>

namespace epifuse::test {

/// The epilogue with the order of its operands' first use as a stated one.
inline Epilogue as_written(const Epilogue& tail) { return tail.inputs(tail.inputs()); }
inline Epilogue as_written(std::string_view text, std::span<const std::string> scalars = {}) {
  return as_written(Epilogue::parse(text, scalars));
}

}  // namespace epifuse::test
