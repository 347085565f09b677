// Writes the expressions of a kernel as C++ statements, each in the outermost scope where it can
// stand, once.
//
// Scopes are the nested blocks of the generated function: the function itself, the loop over work
// items, the loops over inner axes. What depends on no axis of an inner loop is written before that
// loop begins. An expression that depends on the vector axis is a vector, anything else a scalar.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "codegen/cpp/nest.h"
#include "codegen/cpp/prelude.h"

namespace braze::codegen::cpp {

struct Operand {
  std::string text;
  bool vector = false;
  bool atom = true;    // needs no parentheses
  std::string stored;  // of a half: its bits as they are in memory, if they are at hand
};

inline std::string paren(const Operand& value) {
  return value.atom ? value.text : "(" + value.text + ")";
}
inline Operand call(std::string text, bool vector) { return {std::move(text), vector, true}; }

// In the shortest form that reads back as the same number.
std::string literal(graph::DType dtype, double value);
std::string constant(loop::ExprRef expr);

class ExpressionWriter;

// How a kRandom is written; `depth` is that of the scope that it stands in.
struct RandomNumbers {
  static Operand build(ExpressionWriter& writer, loop::ExprRef expr, int depth);

 private:
  static std::string run_of(ExpressionWriter& writer, loop::ExprRef key, loop::ExprRef offset);
};

class ExpressionWriter {
 public:
  // sizes: what the kernel takes as `sizes`; grows.
  ExpressionWriter(const Nest& nest, Prelude& prelude, std::vector<sym::Int>& sizes);

  // Scopes. `close` gives the finished lines, to be wrapped and added to the scope around them.
  void open();
  std::vector<std::string> close();
  void line(std::string text) { scopes_.back().lines.push_back(std::move(text)); }
  // Adds `body`, one level deeper, between "{" after `header` and "}".
  void block(const std::string& header, const std::vector<std::string>& body);

  // The axis is `text` from here to the end of the current scope.
  void bind_axis(int axis, std::string text);
  struct Binding {
    std::string text;
    int depth = 0;
  };
  Binding binding(int axis) const { return {axis_text_[axis], axis_depth_[axis]}; }
  void rebind(int axis, Binding to);
  // The result of a reduction, or the running value of a scan, for the current scope.
  void bind_reduced(int number, int component, Operand value);
  void set_sweep(int sweep) { sweep_ = sweep; }
  // Inside the loop over the rows of a tile: `row` is the loop's variable, `first` the text of the
  // tile axis at its start. Empty: not in a tile.
  void set_tile(std::string row, std::string first);
  // Several vectors of outer points can share the inner loops: which of them is being written.
  void set_column(int column);
  // Lanes that hold elements of the kernel: all (empty), or the first `count` at the end of the
  // axis.
  void set_active(std::string count) { active_ = std::move(count); }
  const std::string& active() const { return active_; }
  // Those lanes as a mask of that type.
  std::string active_mask(const std::string& type);
  // Whether only some lanes are active and their number is known while compiling.
  bool is_active_known() const {
    return !active_.empty() && active_[0] >= '0' && active_[0] <= '9';
  }
  bool is_lane_count_known() const { return active_.empty() || is_active_known(); }
  // Rows of a tile: fewer than lanes where the tile axis is that short.
  void set_tile_rows(std::string rows) { tile_rows_ = std::move(rows); }

  // A number, or the name of one that comes with the call.
  std::string size(sym::Int value);
  // Lines for the end of the function.
  const std::vector<std::string>& clean_up() const { return clean_up_; }

  Operand emit(loop::ExprRef expr);
  void store(const loop::Statement& statement);

  // `value` as a vector (a mask for bool); `value` converted between dtypes.
  std::string as_vector(const Operand& value, graph::DType dtype);
  Operand cast(const Operand& value, graph::DType from, graph::DType to);
  std::string type_of(graph::DType dtype, bool vector);
  std::string mask_type();
  std::string fresh(const std::string& stem);
  bool varies(loop::ExprRef expr);
  // The dtype that `expr` is computed in: i32 for lanes of small index arithmetic.
  graph::DType dtype_of(loop::ExprRef expr);
  const std::string& axis_position(int axis) const { return axis_text_[axis]; }
  Prelude& prelude() { return prelude_; }

 private:
  friend struct RandomNumbers;

  struct Scope {
    std::vector<std::string> lines;
    std::unordered_map<loop::ExprRef, Operand> values;
    std::unordered_map<std::string, std::string> pointers;  // by the text of the address
  };
  struct Facts {
    uint64_t axes = 0;
    uint64_t reduced = 0;  // reductions and scans
    bool reads = false;    // loads, or checks an index: must not run where a guard forbids it
    bool rereads = false;  // loads from a parameter that the kernel also stores to
  };
  struct Reduced {
    Operand value;
    int depth = 0;
  };

  const Facts& facts(loop::ExprRef expr);
  int depth_of(loop::ExprRef expr);
  Operand emit(loop::ExprRef expr, int user_depth);
  // The array of a value that several walks over the row share; null where there is none.
  const std::string* kept_row(loop::ExprRef expr);
  Operand emit_as(loop::ExprRef expr, graph::DType dtype, int user_depth);
  Operand build(loop::ExprRef expr, int depth);
  Operand build_unary(loop::ExprRef expr, const Operand& a, graph::DType dtype);
  Operand build_binary(loop::ExprRef expr, const Operand& a, const Operand& b, graph::DType dtype);
  Operand build_load(loop::ExprRef expr, int depth);
  Operand build_masked(loop::ExprRef expr, int depth);
  Operand build_check(loop::ExprRef expr, int depth);
  Operand build_integer_division(loop::ExprRef expr, const Operand& a, const Operand& b,
                                 graph::DType dtype);
  Operand build_comparison(loop::ExprRef expr, const Operand& a, const Operand& b,
                           graph::DType dtype);
  Operand round_half(Operand value, graph::DType dtype);
  Operand from_storage(const std::string& text, graph::DType dtype, bool vector);
  std::string to_storage(const Operand& value, graph::DType dtype);
  // What an accumulating store leaves of `old` and the value.
  std::string combined(loop::StoreOp op, const std::string& old, const std::string& value,
                       graph::DType dtype, bool vector);
  void store_lanes(const loop::Statement& statement, const Affine& index,
                   const std::string& stored);
  std::string mask_as(const std::string& mask, int bytes);
  std::string to_mask(const std::string& comparison, graph::DType dtype);
  std::string mixed(const Operand& value, graph::DType dtype, bool vector);
  std::string linear(const Affine& index, bool with_vector_axis, int& depth);
  std::string address(int buffer, const Affine& index);
  std::string tile_load(int buffer, const Affine& index, const std::string& storage);
  bool opaque_in_lanes(const Affine& index);
  void forget_rereads();

  // Runs `body` with the scopes deeper than `depth` set aside, so that what it writes lands there.
  void at_depth(int depth, const std::function<void()>& body);
  // Opens a loop over the lanes, with the vector axis a scalar; returns its lines, unwrapped.
  // `lane` is what is added to the position of the first one.
  std::vector<std::string> lane_loop(const std::function<void()>& body,
                                     const std::string& lane = " + l");
  std::string lane_header();

  const Nest& nest_;
  Prelude& prelude_;
  std::vector<Scope> scopes_;
  std::vector<std::string> axis_text_;
  std::vector<int> axis_depth_;
  std::vector<std::map<std::pair<int64_t, int>, Reduced>> reduced_{1};  // by column
  size_t column_ = 0;
  std::string tile_row_, tile_first_;
  int tile_depth_ = 0;  // of the scope around the loop over rows
  int sweep_ = 0;
  std::unordered_map<loop::ExprRef, std::string> rows_;  // arrays of the nest's kept rows
  std::unordered_map<loop::ExprRef, Facts> facts_;
  std::unordered_map<loop::ExprRef, int> uses_;
  std::vector<bool> reread_;  // by parameter
  std::map<std::string, int> names_;
  bool lane_mode_ = false;
  int guard_depth_ = 0;
  std::string guard_mask_;  // vector condition under which loads may run; empty: all lanes
  std::string active_;      // empty: all
  std::string tile_rows_;   // empty: as many as lanes
  std::vector<sym::Int>& sizes_;
  std::set<size_t> declared_sizes_;  // indices of sizes_ that have a name in this function
  std::vector<std::string> clean_up_;
};

}  // namespace braze::codegen::cpp
