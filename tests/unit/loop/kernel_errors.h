// What a kernel's text is refused with.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "loop/program.h"

namespace braze::loop {

inline std::string message_of(const std::string& text) {
  ExprPool pool;
  try {
    verify(parse_kernel(text, pool));
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

inline void expect_message(const std::string& text, const std::string& part) {
  EXPECT_NE(message_of(text).find(part), std::string::npos) << message_of(text);
}

}  // namespace braze::loop
