// Writes the expressions of a kernel as lines of Triton, each once: in front of the loop over inner
// points where it does not depend on these.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "codegen/cuda/nest.h"
#include "codegen/triton/operators.h"
#include "codegen/triton/tile.h"

namespace braze::codegen::triton {

// Along which of a tile's two directions a value has elements of its own.
enum Lanes : uint8_t { kNoLanes = 0, kOuterLanes = 1, kInnerLanes = 2 };

// What says which points there are, of the lanes that it has.
struct Mask {
  std::string text;
  uint8_t lanes = kNoLanes;
};

class ExpressionWriter {
 public:
  // sizes, helpers: what the kernel takes behind its parameters, and what it calls; they grow.
  ExpressionWriter(const cuda::Nest& nest, const Tile& tile, std::vector<sym::Int>& sizes,
                   Helpers& helpers);

  void line(const std::string& text) { blocks_.back().lines.push_back(text); }
  std::string fresh(const std::string& stem) { return stem + std::to_string(names_[stem]++); }
  // What is written until it closes is the body of a loop, or a branch.
  void open_loop() { blocks_.emplace_back(); }
  std::vector<std::string> close();

  // Names the number of a point among those along the axes [begin, end), in row-major order.
  void bind_points(int begin, int end, const std::string& name, bool wide);
  void bind_axis(int axis, const std::string& name) { blocks_.back().axes[axis] = name; }
  // Only these lanes have a point, until the loop closes.
  void mask(Mask mask) { blocks_.back().masks.push_back(std::move(mask)); }
  // Binds a component of what a reduction has given.
  void bind_result(int reduction, int component, const std::string& text) {
    results_[{reduction, component}] = text;
  }
  // Loads from there become the stored value.
  void note_stored(const loop::Statement& store) {
    stored_[{store.buffer, store.index}] = store.value;
  }

  std::string emit(loop::ExprRef expr);  // a name, a literal or a call
  void store(const loop::Statement& statement);
  // The masks of these lanes; empty: there is none.
  std::string mask_of(uint8_t lanes) const;
  uint8_t lanes_of(loop::ExprRef expr);

  // A number, or what comes with the call, in 32 or 64 bits.
  std::string size(sym::Int value, bool wide);
  // Numbers that take 64 bits when traced; for others it is noted that 32 are enough.
  bool is_wide(sym::Int count) const;
  bool asserts() const { return asserts_; }

 private:
  struct Points {
    int begin, end;
    std::string name;
    bool wide;
  };
  struct Block {
    std::vector<std::string> lines;
    std::unordered_map<loop::ExprRef, std::string> values;
    std::map<int, std::string> axes;
    std::vector<Points> points;
    std::vector<Mask> masks;
  };
  struct Guard {
    Mask mask;
    std::unordered_map<loop::ExprRef, std::string> values;  // with what is loaded under it
  };

  const std::string* find(loop::ExprRef expr) const;
  // Runs `body` with the loop set aside, if there is one.
  void in_front(const std::function<void()>& body);
  bool is_inner(loop::ExprRef expr) { return lanes_of(expr) & kInnerLanes; }
  // Within a loop, or a branch, of points of a line.
  bool stays(loop::ExprRef expr) { return is_inner(expr) || tile_.form == Form::kLine; }
  bool touches_memory(loop::ExprRef expr);
  bool is_narrow(loop::ExprRef expr);
  std::string axis(int axis);
  const Points* points_of(int axis) const;
  std::string index(loop::ExprRef expr);
  std::string widened(const std::string& text, uint8_t from, uint8_t to) const;
  std::string declare(const std::string& text);
  std::string build(loop::ExprRef expr);
  std::string build_load(loop::ExprRef expr);
  std::string build_choice(const std::string& condition, loop::ExprRef yes,
                           const std::string& yes_text, loop::ExprRef no);
  std::string build_check(loop::ExprRef expr);
  std::string build_arithmetic(loop::ExprRef expr);
  std::string build_half_quotient(loop::ExprRef cast);  // empty: as any other
  bool is_number(loop::ExprRef expr) const;
  std::string choice_operand(loop::ExprRef expr, bool alone);

  const cuda::Nest& nest_;
  const Tile& tile_;
  std::vector<sym::Int>& sizes_;
  Helpers& helpers_;
  std::vector<Block> blocks_;  // the function's and, within a loop, the loop's
  std::vector<Guard> guards_;
  std::map<std::pair<int64_t, int>, std::string> results_;
  std::map<std::pair<int64_t, loop::ExprRef>, loop::ExprRef> stored_;  // by buffer and index
  std::unordered_map<loop::ExprRef, uint8_t> lanes_;
  std::unordered_map<loop::ExprRef, bool> narrow_, touches_;
  std::unordered_map<loop::ExprRef, std::pair<std::string, std::string>> divisors_;
  std::map<size_t, std::string> narrow_sizes_;
  std::map<std::string, int> names_;
  bool asserts_ = false;
};

}  // namespace braze::codegen::triton
