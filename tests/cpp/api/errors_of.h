// kind_of: what a call throws, and that it says so in a sentence.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "millrace/error.h"

namespace millrace {

inline ErrorKind kind_of(const std::function<void()>& call, const std::string& says = "") {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_GT(std::string(error.what()).size(), 20u) << error.what();
    EXPECT_NE(std::string(error.what()).find(says), std::string::npos) << error.what();
    return error.kind();
  }
  ADD_FAILURE() << "nothing was thrown; expected: " << says;
  return ErrorKind::system;
}

}  // namespace millrace
