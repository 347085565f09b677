#include "toolchain/nvrtc_process.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "base/fork_mutex.h"
#include "toolchain/messages.h"

namespace braze::toolchain {
namespace {

using std::chrono::milliseconds;

// First words of an answer.
constexpr const char* kCompiled = "compiled";
constexpr const char* kRefused = "refused";

constexpr milliseconds kToEnd(5000);  // what has not ended then is killed

// Ends this process when the other end of the channel is gone: it closes, or, where a child of its
// process has a copy of it, that process ends.
void end_with_the_other(int channel) {
  const pid_t other = ::getppid();
  std::thread([channel, other] {
    for (;;) {
      pollfd event{channel, POLLRDHUP, 0};
      const int ready = ::poll(&event, 1, 1000);
      if (ready < 0 && errno != EINTR) ::_exit(1);
      if (ready > 0 || ::getppid() != other) ::_exit(0);
    }
  }).detach();
}

}  // namespace

std::unique_ptr<NvrtcProcess> NvrtcProcess::start(const std::string& program,
                                                  const std::string& library, std::string& why) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    why = std::strerror(errno);
    return nullptr;
  }
  std::unique_ptr<NvrtcProcess> started(new NvrtcProcess(ends[0], fork_depth()));
  const File given(ends[1]);
  started->process_ = toolchain::start({program, library}, given.get(), why);
  return started->process_ == 0 ? nullptr : std::move(started);
}

NvrtcProcess::~NvrtcProcess() {
  if (process_ == 0 || !is_of_this_process()) return;
  hang_up();
  end(process_, kToEnd);
}

bool NvrtcProcess::is_of_this_process() const { return fork_depth_ == fork_depth(); }

// Also where a child of fork() has a copy of the descriptor.
void NvrtcProcess::hang_up() { ::shutdown(channel_.get(), SHUT_RDWR); }

NvrtcProcess::Answer NvrtcProcess::compile(const CudaSource& source, milliseconds limit) {
  Message message = {source.text};
  message.insert(message.end(), source.flags.begin(), source.flags.end());
  Exchange done = send_message(channel_.get(), message, limit);
  if (done == Exchange::kDone) done = receive_message(channel_.get(), message, limit);
  switch (done) {
    case Exchange::kLate:
      return {Outcome::kLate, ""};
    case Exchange::kEnd:
      return {Outcome::kLost, "it ended"};
    case Exchange::kGarbage:
      return {Outcome::kLost, "it gave no answer that can be understood"};
    case Exchange::kDone:
      break;
  }
  if (message.size() == 2 && message[0] == kCompiled)
    return {Outcome::kCompiled, std::move(message[1])};
  if (message.size() == 2 && message[0] == kRefused)
    return {Outcome::kRefused, std::move(message[1])};
  return {Outcome::kLost, "it gave no answer that can be understood"};
}

int serve_nvrtc(int channel, const std::string& library) {
  end_with_the_other(channel);
  std::string why;
  const NvrtcLibrary* nvrtc = NvrtcLibrary::open(library, why);
  if (!nvrtc) return 1;  // the other process, which has opened it, compiles by itself
  constexpr milliseconds kForEver(0);
  for (Message message; receive_message(channel, message, kForEver) == Exchange::kDone;) {
    if (message.empty()) return 1;
    NvrtcResult result =
        nvrtc->compile({.text = message[0], .flags = {message.begin() + 1, message.end()}});
    message = {result.compiled ? kCompiled : kRefused, std::move(result.text)};
    if (send_message(channel, message, kForEver) != Exchange::kDone) return 0;
  }
  return 0;
}

}  // namespace braze::toolchain
