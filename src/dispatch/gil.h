// Letting other Python threads run while this one is in C++.
#pragma once

#include "cpython/ref.h"

namespace braze::dispatch {

class GilRelease {
 public:
  explicit GilRelease(bool release) : state_(release ? PyEval_SaveThread() : nullptr) {}
  ~GilRelease() {
    if (state_) PyEval_RestoreThread(state_);
  }
  GilRelease(const GilRelease&) = delete;

 private:
  PyThreadState* state_;
};

}  // namespace braze::dispatch
