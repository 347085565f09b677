// NVRTC in a process of its own: the threads of one process wait for each other in it, so that
// several processes are what makes many kernels compile at once. Private to this folder and to the
// program that is such a process (nvrtc_process/main.cpp).
//
// The program is given a socket as its standard input, and the library's path. It answers message
// for message: source and flags with the machine code or with NVRTC's words. It has nothing to
// lose, and ends when the other end of the socket does, also while it compiles.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>

#include "toolchain/nvrtc_library.h"
#include "toolchain/process.h"

namespace braze::toolchain {

class NvrtcProcess {
 public:
  // Starts the program without waiting for it. Null, with `why`: it could not be started.
  static std::unique_ptr<NvrtcProcess> start(const std::string& program, const std::string& library,
                                             std::string& why);
  NvrtcProcess(const NvrtcProcess&) = delete;
  // Ends it. A child of fork() that has a copy of this leaves the process alone.
  ~NvrtcProcess();

  enum class Outcome {
    kCompiled,  // text: the machine code
    kRefused,   // text: NVRTC's words
    kLate,      // it took longer than it may
    kLost,      // text: what became of the process; it is of no more use
  };
  struct Answer {
    Outcome outcome;
    std::string text;
  };
  // One at a time. `limit` of 0: there is none.
  Answer compile(const CudaSource& source, std::chrono::milliseconds limit);

  // Has the process end, without waiting until it has.
  void hang_up();
  bool is_of_this_process() const;  // and no copy in a child of fork()

 private:
  NvrtcProcess(int channel, int fork_depth) : channel_(channel), fork_depth_(fork_depth) {}

  File channel_;
  int fork_depth_;
  pid_t process_ = 0;
};

// What the program does; its exit code. `library`: of NVRTC.
int serve_nvrtc(int channel, const std::string& library);

}  // namespace braze::toolchain
