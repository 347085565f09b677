// Writes the expressions of a kernel as CUDA C++ statements, each in the outermost scope where it
// can stand, once.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "codegen/cuda/nest.h"

namespace braze::codegen::cuda {

// Scopes of a kernel, from the outside: the function; the walk over a thread's inner points, a pack
// at a time; the points of a pack.
enum class Level : uint8_t { kFunction, kWalk, kLanes };

class ExpressionWriter {
 public:
  // sizes: what the kernel takes behind its parameters; grows.
  ExpressionWriter(const Nest& nest, std::vector<sym::Int>& sizes);

  void open(Level level);
  std::vector<std::string> close();
  void line(std::string text) { scopes_.back().lines.push_back(std::move(text)); }
  // Adds `body`, one level deeper, between "{" after `header` and "}".
  void block(const std::string& header, const std::vector<std::string>& body);

  // Declares a variable with the value `text` for an axis, in the scope that is open.
  void bind_axis(int axis, const std::string& text);
  // The vector axis at the first point of a pack.
  void bind_base(const std::string& text);
  const std::string& base() const { return base_text_; }
  const std::string& axis(int axis) const { return axis_text_[axis]; }
  // Binds the result of a reduction: its accumulator, merged over the threads.
  void bind_result(const loop::Statement& reduction, std::string accumulator);
  // Binds what a scan has at the point that is written next.
  void bind_scan(const loop::Statement& scan, std::string running) {
    scanned_[scan.reduced] = std::move(running);
  }
  // Notes a store that is not inner: loads from there become the stored value.
  void note_stored(const loop::Statement& store);

  // A name or a literal.
  std::string emit(loop::ExprRef expr);
  // The same, or an exponential of a distance from a maximum that is rounded to a half in the end.
  std::string emit_near(loop::ExprRef expr);
  // The same of an index at the first point of a pack.
  std::string emit_at_base(loop::ExprRef index);
  bool is_packed(loop::ExprRef index) const;

  // A number, or what comes with the call, as an i32 or i64.
  std::string size(sym::Int value, bool wide);
  std::string fresh(const std::string& stem);
  // Copies a pack that is loaded later to the shared memory of the block, behind `begin` bytes.
  void copy_ahead(loop::ExprRef load, int64_t begin);
  // Parameters that are loaded or stored in packs.
  void use_pack(int buffer) { packed_.insert(buffer); }
  const std::set<int>& packed() const { return packed_; }

 private:
  struct Scope {
    Level level;
    bool guarded = false;    // what is in it runs only where a mask holds
    std::string pack_guard;  // the mask, if it holds for all lanes of a pack or for none
    Level guard_level = Level::kFunction;  // where that stands
    std::vector<std::string> lines = {};
    std::unordered_map<loop::ExprRef, std::string> values = {}, at_base = {};
    // By load and the masks that it is made under.
    std::map<std::pair<loop::ExprRef, std::string>, std::string> packs = {};
  };

  bool depends_on_vector(loop::ExprRef expr);
  Level level_of(loop::ExprRef expr);
  Level pack_level(loop::ExprRef expr) {
    return axes_of_(expr) >> nest_.outer_count ? Level::kWalk : Level::kFunction;
  }
  const std::string* find(loop::ExprRef expr);
  // Runs `body` with the scopes deeper than `level` set aside, so that what it writes lands there:
  // up to one that a mask guards, or, `unmasked`, without regard to masks.
  void at_level(Level level, const std::function<void()>& body, bool unmasked = false);
  std::string build(loop::ExprRef expr);
  std::string build_half(loop::ExprRef cast);  // empty: as any other
  std::string divisor(loop::ExprRef expr);
  std::string build_arithmetic(loop::ExprRef expr);
  std::string build_index(loop::ExprRef expr, const std::vector<std::string>& args);
  std::string build_load(loop::ExprRef expr);
  std::string build_masked(loop::ExprRef expr);
  std::string build_random(loop::ExprRef expr);
  bool shares_counters(loop::ExprRef random);
  std::string pack_of(loop::ExprRef load);
  std::string staged_pack(loop::ExprRef load);  // empty: it is in memory
  bool is_same_in_pack(loop::ExprRef condition);
  std::string declare(loop::ExprRef expr, const std::string& text);
  // "i32" for index arithmetic that fits.
  std::string type_of(loop::ExprRef expr);
  bool is_narrow(loop::ExprRef expr);

  const Nest& nest_;
  std::vector<sym::Int>& sizes_;
  std::vector<Scope> scopes_;
  std::vector<std::string> axis_text_;
  std::string base_text_;
  bool at_base_ = false;
  struct Result {
    const loop::Statement* reduction;
    std::string accumulator;
  };
  std::map<int64_t, Result> results_;
  std::map<int64_t, std::string> scanned_;
  std::map<std::pair<int64_t, loop::ExprRef>, loop::ExprRef> stored_;  // by buffer and index
  std::unordered_map<loop::ExprRef, bool> narrow_;
  std::unordered_map<loop::ExprRef, std::string> divisors_;
  AxesOf axes_of_;
  std::set<int> packed_;
  std::map<std::string, int> names_;
};

}  // namespace braze::codegen::cuda
