// What an action that must be refused says. For tests of errors; all of them compare sentences.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include <epifuse/error.hpp>

namespace epifuse::test {

/// The sentence of the Error that the action throws, which must be the user's; "(accepted)" where it throws none.
template <class Action>
std::string refusal(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_TRUE(error.is_bad_input()) << error.what();
    return error.what();
  }
  return "(accepted)";
}

}  // namespace epifuse::test
