#include "capture/trace_context.h"

namespace braze::capture {

TraceContext::TraceContext(PyFunctionObject* root, PyObject* parameter_names, const Options& given)
    : breaks([](void* self,
                BreakReason& reason) { locate(*static_cast<TraceContext*>(self), reason); },
             this),
      guards(root, parameter_names),
      world(breaks, recording, guards, given.dynamic),
      options(given),
      root(root),
      started(std::chrono::steady_clock::now()),
      origins(*this) {
  recording.set_origin_provider(
      [](void* self, graph::Graph& graph) {
        return static_cast<TraceContext*>(self)->origins.origin(graph);
      },
      this);
  recording.shapes().set_observer([this] { return user_place(*this); });
  recording.capture_data(options.capture_scalars, options.capture_sizes);
  if (options.record_torch_calls) torch_calls = Ref::steal(PyList_New(0));
}

TraceContext::~TraceContext() {
  progress.stopped_frame.reset();
  frames.drop_spare();
}

void TraceContext::end() {
  progress.stopped = true;
  progress.stopped_frame.reset();
  frames.drop_spare();
}

}  // namespace braze::capture
