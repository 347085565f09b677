// The compiled segments of one compiled function: those of its own frames behind the first break,
// and those of the functions that it calls at a break, by code object and offset.
#pragma once

#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "cpython/code.h"
#include "cpython/live_frame.h"
#include "dispatch/entry.h"
#include "dispatch/settings.h"

namespace braze::dispatch {

// What is known of the frames of one code object.
struct CodeState {
  explicit CodeState(PyCodeObject* code);

  // How CPython carries out the instruction at `offset` alone: it leaves the frame before whatever
  // may come next. Null where nothing can (it returns, and has no handler).
  const cpython::StopCode* step_code(int offset);
  // How CPython carries out everything between two calls: it leaves the frame before those, and
  // before resumptions of iterators. Null where it cannot, or there are none.
  const cpython::StopCode* call_code();
  // Where a frame can return `value`: an instruction RETURN_VALUE, or one that returns this
  // constant; `pushed`: the value is to be on the stack. -1: nowhere.
  int return_offset(PyObject* value, bool* pushed) const;

  const cpython::DecodedCode& decoded;
  std::vector<int> depths;  // of the value stack, by instruction
  // By offset, newest last.
  std::unordered_map<int, std::vector<std::shared_ptr<Entry>>> entries;
  std::unordered_map<int, capture::DynamicSizes> dynamic;  // what the frames so far have shown
  int captured = 0, with_graph = 0;                        // segments
  int idle_resumptions = 0;                                // of generators, in turn
  bool left_to_cpython = false;  // its frames break too often to gain, or cannot be read
  // Its value stack is understood. If not, that has been told on stderr: a frame can only go on
  // with CPython from where it is.
  bool readable = true;

 private:
  std::unique_ptr<cpython::StopCode> make_stops(std::vector<int> offsets);

  std::unordered_map<int, std::unique_ptr<cpython::StopCode>> steps_;
  std::unique_ptr<cpython::StopCode> calls_;
};

// Held by the compiled function and by each call that is under way.
struct Segments {
  std::unordered_map<PyCodeObject*, std::shared_ptr<CodeState>> codes;

  std::shared_ptr<CodeState> of(PyCodeObject* code);
  // All entries, by function in the order of their first capture, then by offset.
  void each(const std::function<void(const Entry&)>& visit) const;

 private:
  std::vector<PyCodeObject*> order_;
};

}  // namespace braze::dispatch
