// What a recording holds, for the sources that implement it.
#pragma once

#include <ATen/ThreadLocalState.h>
#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/identity_map.h"
#include "capture/recording/recording.h"
#include "guard/guard.h"
#include "pytorch/aten.h"
#include "torch_python/objects.h"
#include "trace/backward.h"
#include "trace/tracer.h"

namespace braze::capture {

using torch_python::tensor_of;

struct Recording::Impl {
  trace::Tracer tracer;
  std::optional<trace::Tracer::Scope> scope;
  std::optional<at::ThreadLocalState> thread_state;
  pytorch::AutocastState autocast;
  guard::GlobalState state;
  std::vector<guard::GlobalState> region_states;
  trace::BackwardResult backward;  // of the last `backward()`, until it is accumulated
  // What the Python objects of symbolic integers hold.
  std::vector<Ref> nodes;          // by expression
  IdentityMap<sym::Int> integers;  // by node
};

inline std::vector<at::Tensor> unpack(const std::vector<PyObject*>& objects) {
  std::vector<at::Tensor> tensors;
  for (PyObject* object : objects) tensors.push_back(tensor_of(object));
  return tensors;
}

// What PyTorch or the tracer throws becomes a text.
template <class F>
auto explained(std::string* why, F&& f) -> decltype(f()) {
  try {
    return f();
  } catch (const InternalError&) {
    throw;
  } catch (const c10::Error& error) {
    PyErr_Clear();
    *why = error.what_without_backtrace();
    return {};
  } catch (const std::exception& error) {
    PyErr_Clear();
    *why = error.what();
    return {};
  }
}

inline std::vector<Ref> wrap(const std::vector<at::Tensor>& tensors) {
  std::vector<Ref> objects;
  for (const at::Tensor& tensor : tensors)
    objects.push_back(Ref::steal(torch_python::wrap(tensor)));
  return objects;
}

}  // namespace braze::capture
