// How the points of a tile are reduced.
#pragma once

#include "codegen/triton/expression.h"

namespace braze::codegen::triton {

class ReductionWriter {
 public:
  ReductionWriter(const cuda::Nest& nest, const Tile& tile, ExpressionWriter& writer,
                  Helpers& helpers)
      : nest_(nest), tile_(tile), writer_(writer), helpers_(helpers) {}

  // All inner points are there.
  void write_whole(const loop::Statement& reduction);

  // Or some at a time: in front of the loop, in it, and behind it.
  void begin(const loop::Statement& reduction);
  void step(const loop::Statement& reduction);
  void end(const loop::Statement& reduction);

 private:
  bool is_joined(const loop::Statement& s) const { return nest_.soft_sums.contains(&s); }
  std::string shape() const;
  std::string element(const loop::Statement& s);  // the value, of all lanes
  std::string masked(const loop::Statement& s, const std::string& neutral);
  std::string reduced(const loop::Statement& s, const std::string& values);
  std::string over(const std::string& function, const std::string& values,
                   const std::string& combine = "") const;
  std::string numbers() const;  // of inner points
  void bind(const loop::Statement& s, const std::string& value);
  void bind_welford(const loop::Statement& s, const std::string& mean, const std::string& m2,
                    const std::string& count);
  void write_moments(const loop::Statement& s);
  void end_exponentials(const loop::Statement& sum, const loop::Statement& top);

  const cuda::Nest& nest_;
  const Tile& tile_;
  ExpressionWriter& writer_;
  Helpers& helpers_;
};

}  // namespace braze::codegen::triton
