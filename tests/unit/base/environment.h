// Sets variables for the length of a test and reads the options again, before and after.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "base/options.h"

namespace braze::test {

class ScopedEnvironment {
 public:
  ScopedEnvironment(
      std::initializer_list<std::pair<std::string, std::optional<std::string>>> wanted) {
    for (const auto& [name, value] : wanted) {
      const char* old = std::getenv(name.c_str());
      saved_.emplace_back(name, old ? std::optional<std::string>(old) : std::nullopt);
      apply(name, value);
    }
    reload_options();
  }
  ~ScopedEnvironment() {
    for (const auto& [name, value] : saved_) apply(name, value);
    reload_options();
  }
  ScopedEnvironment(const ScopedEnvironment&) = delete;

 private:
  static void apply(const std::string& name, const std::optional<std::string>& value) {
    if (value) {
      ::setenv(name.c_str(), value->c_str(), 1);
    } else {
      ::unsetenv(name.c_str());
    }
  }
  std::vector<std::pair<std::string, std::optional<std::string>>> saved_;
};

}  // namespace braze::test
