// What two processes say to each other over a socket, private to this folder.
//
// A message is a list of texts: a mark, the number of bytes that follow, and each text behind its
// length. Numbers are 64 bits in the machine's order, as both ends are of one machine.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace braze::toolchain {

using Message = std::vector<std::string>;

enum class Exchange {
  kDone,
  kEnd,      // the other end is gone
  kLate,     // it took longer than it may
  kGarbage,  // what came is no message, and whatever follows cannot be understood
};

// Both wait for as long as `limit` (0: for ever), and raise no SIGPIPE.
Exchange send_message(int socket, const Message& message, std::chrono::milliseconds limit);
Exchange receive_message(int socket, Message& message, std::chrono::milliseconds limit);

}  // namespace braze::toolchain
