#include "toolchain/messages.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

namespace braze::toolchain {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr uint64_t kMessageMark = 0x316772756d7a7262;  // so that what is no message is noticed
constexpr uint64_t kMostBytes = uint64_t{1} << 30;

void append(std::string& bytes, uint64_t number) {
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}

bool take(std::string_view& bytes, uint64_t& number) {
  if (bytes.size() < sizeof number) return false;
  std::memcpy(&number, bytes.data(), sizeof number);
  bytes.remove_prefix(sizeof number);
  return true;
}

// Until when something is waited for; nullopt: for ever.
using End = std::optional<Clock::time_point>;

End end_of(milliseconds limit) {
  return limit > milliseconds(0) ? End(Clock::now() + limit) : std::nullopt;
}

// False where the socket is not ready in time.
bool wait_for(int socket, short events, End end) {
  for (;;) {
    int wait = -1;
    if (end) {
      const auto left = std::chrono::ceil<milliseconds>(*end - Clock::now());
      if (left <= milliseconds(0)) return false;
      wait = static_cast<int>(std::min(left, milliseconds(60'000)).count());
    }
    pollfd event{socket, events, 0};
    if (::poll(&event, 1, wait) > 0) return true;
  }
}

// Moves all of the bytes by calls of `move`, which moves some.
template <class Move>
Exchange move_all(int socket, size_t size, short events, End end, const Move& move) {
  for (size_t moved = 0; moved < size;) {
    if (!wait_for(socket, events, end)) return Exchange::kLate;
    const ssize_t count = move(moved);
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (count <= 0) return Exchange::kEnd;
    moved += static_cast<size_t>(count);
  }
  return Exchange::kDone;
}

Exchange send_all(int socket, std::string_view bytes, End end) {
  return move_all(socket, bytes.size(), POLLOUT, end, [&](size_t moved) {
    return ::send(socket, bytes.data() + moved, bytes.size() - moved, MSG_NOSIGNAL | MSG_DONTWAIT);
  });
}

Exchange receive_all(int socket, char* bytes, size_t size, End end) {
  return move_all(socket, size, POLLIN, end, [&](size_t moved) {
    return ::recv(socket, bytes + moved, size - moved, MSG_DONTWAIT);
  });
}

bool unpack(std::string_view bytes, Message& message) {
  message.clear();
  while (!bytes.empty()) {
    uint64_t size = 0;
    if (!take(bytes, size) || size > bytes.size()) return false;
    message.emplace_back(bytes.substr(0, size));
    bytes.remove_prefix(size);
  }
  return true;
}

}  // namespace

Exchange send_message(int socket, const Message& message, milliseconds limit) {
  std::string body;
  for (const std::string& text : message) {
    append(body, text.size());
    body += text;
  }
  std::string head;
  append(head, kMessageMark);
  append(head, body.size());
  return send_all(socket, head + body, end_of(limit));
}

Exchange receive_message(int socket, Message& message, milliseconds limit) {
  const End end = end_of(limit);
  uint64_t head[2];  // mark, size
  Exchange done = receive_all(socket, reinterpret_cast<char*>(head), sizeof head, end);
  if (done != Exchange::kDone) return done;
  if (head[0] != kMessageMark || head[1] > kMostBytes) return Exchange::kGarbage;
  std::string body(head[1], '\0');
  done = receive_all(socket, body.data(), body.size(), end);
  if (done != Exchange::kDone) return done;
  return unpack(body, message) ? Exchange::kDone : Exchange::kGarbage;
}

}  // namespace braze::toolchain
