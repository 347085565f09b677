// A graph that a pass cannot handle: not a defect, the caller runs the graph in eager instead.
#pragma once

#include <stdexcept>
#include <string>

namespace braze::passes {

class Unsupported : public std::runtime_error {
 public:
  Unsupported(std::string op, std::string why)
      : std::runtime_error("'" + op + "' cannot be compiled: " + why),
        op_(std::move(op)),
        why_(std::move(why)) {}

  const std::string& op() const { return op_; }    // "aten.random_"
  const std::string& why() const { return why_; }  // "it draws random numbers in place"

 private:
  std::string op_, why_;
};

}  // namespace braze::passes
