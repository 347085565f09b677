// Ways to spread a kernel over a GPU, of which the fastest can be found by running them.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace braze::compile {

struct Candidate {
  std::string name;  // its symbol in `text`
  std::string text;
  std::vector<std::string> flags;
  std::array<int64_t, 3> blocks, threads;
  int64_t shared_bytes;
};

// What a kernel is given.
struct CandidateParameter {
  int64_t bytes;
  bool by_value;
};

struct Candidates {
  std::vector<Candidate> ways;  // the first is the one that the model of the device gives
  std::vector<CandidateParameter> parameters;
};

// By kernel: which of its ways is to be taken.
using Tuner = std::function<std::vector<size_t>(std::span<const Candidates>)>;

}  // namespace braze::compile
