// Errors of the compiler, apart by type.
//
// Four classes of failure never mix:
//   * a break (`capture::BreakReason`) is a value: this code stays with CPython, and why;
//   * `UserError`: the user asked for something impossible; names the way out;
//   * `InternalError`: a defect of Braze; carries file, line and what was being compiled;
//   * a pending Python exception: passed through untouched (`cpython::PythonError` in C++ frames).
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace braze {

class UserError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class InternalError : public std::logic_error {
 public:
  InternalError(const char* file, int line, const std::string& message)
      : std::logic_error(std::string(file) + ":" + std::to_string(line) + ": " + message) {}
};

namespace detail {
template <class... Parts>
std::string concat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}
}  // namespace detail

}  // namespace braze

// Always on, evaluated once; the message is built only on failure.
#define BRAZE_CHECK(condition, ...)                                                  \
  do {                                                                               \
    if (!(condition)) [[unlikely]]                                                   \
      throw ::braze::InternalError(                                                  \
          __FILE__, __LINE__,                                                        \
          ::braze::detail::concat("check failed: " #condition ". ", ##__VA_ARGS__)); \
  } while (false)

#define BRAZE_UNREACHABLE(...)                     \
  throw ::braze::InternalError(__FILE__, __LINE__, \
                               ::braze::detail::concat("unreachable. ", ##__VA_ARGS__))
