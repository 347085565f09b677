// States of frames that tests make by hand.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cpython/frame.h"
#include "python.h"

namespace braze::cpython::testing {

// The frame of `function` before the instruction at `offset`.
inline FrameState state_at(PyObject* function, int offset,
                           const std::map<std::string, PyObject*>& locals,
                           const std::vector<PyObject*>& stack) {
  PyCodeObject* code = code_of(function);
  FrameState state;
  state.offset = offset;
  state.locals.resize(code->co_nlocalsplus);
  for (int i = 0; i < code->co_nlocalsplus; ++i) {
    auto found = locals.find(PyUnicode_AsUTF8(PyTuple_GET_ITEM(code->co_localsplusnames, i)));
    if (found != locals.end()) state.locals[i] = Ref::borrow(found->second);
  }
  for (PyObject* object : stack) state.stack.push_back(Ref::borrow(object));
  return state;
}

// Calls a Python function.
inline Ref call(PyObject* function, std::vector<PyObject*> args) {
  return Ref::steal(PyObject_Vectorcall(function, args.data(), args.size(), nullptr));
}

}  // namespace braze::cpython::testing
