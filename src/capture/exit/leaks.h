// What a trace made must be gone when it is over: a tensor without data that the program can still
// reach fails wherever it is used, long after.
#pragma once

#include <cstdint>
#include <string>

namespace braze::capture {

// Around a capture and all that is made of it.
class LeakCheck {
 public:
  LeakCheck();
  // Who holds tensors of traces that have ended since; empty: there are none. With an exception
  // pending or not.
  std::string leaks() const;

 private:
  int64_t before_;
};

}  // namespace braze::capture
