// Traces a Python function natively and runs the graph with real ops.
#include <ATen/core/LegacyTypeDispatch.h>

#include <chrono>

#include "graph/infer/infer.h"
#include "hooks.h"
#include "torch_python/errors.h"
#include "torch_python/objects.h"
#include "trace/probe.h"
#include "trace/replay.h"
#include "trace/tracer.h"

namespace braze::trace {
namespace {

// Owning reference; throws where there is none.
struct Object {
  explicit Object(PyObject* object) : object(object) {
    if (!object) torch_python::throw_pending();
  }
  ~Object() { Py_DECREF(object); }
  Object(const Object&) = delete;
  operator PyObject*() const { return object; }
  PyObject* object;
};

void set(PyObject* dict, const char* key, PyObject* stolen) {
  Object value(stolen);
  if (PyDict_SetItemString(dict, key, value) < 0) torch_python::throw_pending();
}

void declare_module(Tracer& tracer, PyObject* module) {
  for (auto [method, kind] : {std::pair("named_parameters", graph::InputKind::kParameter),
                              std::pair("named_buffers", graph::InputKind::kParameter)}) {
    if (!PyObject_HasAttrString(module, method)) continue;
    Object iterator(PyObject_CallMethod(module, method, nullptr));
    Object list(PySequence_List(iterator));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.object); ++i) {
      PyObject* pair = PyList_GET_ITEM(list.object, i);
      std::string why;
      TORCH_CHECK(tracer.declare(torch_python::tensor_of(PyTuple_GET_ITEM(pair, 1)), kind,
                                 PyUnicode_AsUTF8(PyTuple_GET_ITEM(pair, 0)), &why),
                  why);
    }
  }
}

bool is_symbolic(PyObject* options, const std::string& name) {
  PyObject* names = options ? PyDict_GetItemString(options, "symbolic") : nullptr;
  if (!names) return false;
  Object text(PyUnicode_FromString(name.c_str()));
  return PySequence_Contains(names, text) == 1;
}

std::vector<at::Tensor> tensors_of(PyObject* result) {
  if (torch_python::is_tensor(result)) return {torch_python::tensor_of(result)};
  Object list(PySequence_List(result));
  std::vector<at::Tensor> tensors;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.object); ++i) {
    PyObject* item = PyList_GET_ITEM(list.object, i);
    TORCH_CHECK(torch_python::is_tensor(item), "a result that is not a tensor");
    tensors.push_back(torch_python::tensor_of(item));
  }
  return tensors;
}

PyObject* list_of(const std::vector<at::Tensor>& tensors) {
  Object list(PyList_New(0));
  for (const at::Tensor& tensor : tensors) {
    Object object(torch_python::wrap(tensor));
    if (PyList_Append(list, object) < 0) torch_python::throw_pending();
  }
  return Py_NewRef(list.object);
}

}  // namespace

std::vector<at::Tensor> replay_as_traced(const graph::Graph& graph,
                                         const std::vector<at::Tensor>& inputs) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  std::vector<int64_t> hints;
  for (size_t i = 0; i < graph.symbols().size(); ++i)
    hints.push_back(graph.arena()->symbol_expr(static_cast<int>(i))->hint);
  return replay(graph, inputs, hints, /*check=*/true);
}

namespace {

PyObject* replay_trace(PyObject* capsule, PyObject*) {
  PyObject* outputs = nullptr;
  torch_python::translate_exceptions([&] {
    auto* trace = static_cast<Trace*>(PyCapsule_GetPointer(capsule, nullptr));
    std::vector<at::Tensor> inputs;
    for (const GraphInput& input : trace->inputs) inputs.push_back(input.tensor);
    outputs = list_of(replay_as_traced(trace->graph, inputs));
  });
  return outputs;
}

PyObject* describe_inputs(const Trace& trace) {
  static constexpr const char* kKinds[] = {"user", "parameter", "constant"};
  Object list(PyList_New(0));
  for (size_t i = 0; i < trace.inputs.size(); ++i) {
    Object tensor(torch_python::wrap(trace.inputs[i].tensor));
    Object entry(Py_BuildValue("(Oss)", tensor.object,
                               kKinds[static_cast<int>(trace.inputs[i].kind)],
                               trace.graph.inputs()[i].name.c_str()));
    if (PyList_Append(list, entry) < 0) torch_python::throw_pending();
  }
  return Py_NewRef(list.object);
}

// The nodes to whose results the rules of graph/infer/ give other types than the trace did: what a
// pass would make of the same operator differs from what eager does.
PyObject* describe_rules(const graph::Graph& graph) {
  Object list(PyList_New(0));
  for (const auto& node : graph.nodes()) {
    if (!node->mutated_arguments().empty() || node->op().effects.inplace_view) continue;
    const auto types = graph::infer_types(node->op(), node->args());
    if (!types) continue;
    for (size_t i = 0; i < node->results().size(); ++i) {
      const graph::Value* result = node->results()[i];
      if (!result || (i < types->size() && types->at(i) == result->type())) continue;
      const std::string rule = i < types->size() ? graph::to_string(types->at(i)) : "nothing";
      Object text(PyUnicode_FromString(
          (node->op().name + ": traced " + graph::to_string(result->type()) + ", by rule " + rule)
              .c_str()));
      if (PyList_Append(list, text) < 0) torch_python::throw_pending();
    }
  }
  return Py_NewRef(list.object);
}

PyObject* describe(std::unique_ptr<Trace> trace, Tracer& tracer,
                   const std::vector<at::Tensor>& outputs) {
  static PyMethodDef replay_method = {"replay", replay_trace, METH_NOARGS, nullptr};
  Object dict(PyDict_New());
  set(dict, "graph", PyUnicode_FromString(graph::to_string(trace->graph, false).c_str()));
  set(dict, "nodes", PyLong_FromSize_t(trace->graph.nodes().size()));
  set(dict, "needs_autograd", PyBool_FromLong(tracer.needs_autograd()));
  set(dict, "outputs", list_of(outputs));
  set(dict, "inputs", describe_inputs(*trace));
  Object guards(PyList_New(0)), types(PyList_New(0));
  for (const auto& guard : tracer.shapes().guards()) {
    Object text(PyUnicode_FromString(guard.text.c_str()));
    PyList_Append(guards, text);
  }
  for (const graph::Value* value : trace->graph.outputs()) {
    Object text(PyUnicode_FromString(graph::to_string(value->type()).c_str()));
    PyList_Append(types, text);
  }
  set(dict, "rules", describe_rules(trace->graph));
  set(dict, "guards", Py_NewRef(guards.object));
  set(dict, "types", Py_NewRef(types.object));
  Object capsule(PyCapsule_New(trace.release(), nullptr, [](PyObject* object) {
    delete static_cast<Trace*>(PyCapsule_GetPointer(object, nullptr));
  }));
  set(dict, "replay", PyCFunction_New(&replay_method, capsule));
  return Py_NewRef(dict.object);
}

PyObject* trace_function(PyObject* fn, PyObject* args, PyObject* options) {
  auto tracer = std::make_unique<Tracer>();
  declare_module(*tracer, fn);
  Object actual(PyList_New(0));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) {
    PyObject* arg = PyTuple_GET_ITEM(args, i);
    const std::string name = "arg" + std::to_string(i);
    std::string why;
    if (torch_python::is_tensor(arg) && is_symbolic(options, name)) {
      const at::Tensor& tensor = torch_python::tensor_of(arg);
      std::vector<DynamicDim> dims;
      // Each dimension with a history of its own: not duck-shaped.
      for (int64_t d = 0; d < tensor.dim(); ++d)
        dims.push_back({.dim = static_cast<int>(d), .previous = 100 * i + d});
      Object fake(torch_python::wrap(
          tracer->symbolic_input(tensor, graph::InputKind::kUser, name, dims, {})));
      PyList_Append(actual, fake);
      continue;
    }
    if (torch_python::is_tensor(arg))
      TORCH_CHECK(
          tracer->declare(torch_python::tensor_of(arg), graph::InputKind::kUser, name, &why), why);
    PyList_Append(actual, arg);
  }
  Object actual_args(PyList_AsTuple(actual));

  const int64_t probes = probe_count();
  const auto start = std::chrono::steady_clock::now();
  PyObject* result = nullptr;
  {
    Tracer::Scope scope(*tracer);
    result = PyObject_CallObject(fn, actual_args);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  Object owned(result);
  const std::vector<at::Tensor> outputs = tensors_of(owned);
  auto trace = std::make_unique<Trace>(tracer->finish(outputs));
  graph::verify(trace->graph);
  PyObject* dict = describe(std::move(trace), *tracer, outputs);
  set(dict, "probes", PyLong_FromLongLong(probe_count() - probes));
  set(dict, "seconds", PyFloat_FromDouble(seconds.count()));
  set(dict, "tracer", PyCapsule_New(tracer.release(), nullptr, [](PyObject* object) {
        delete static_cast<Tracer*>(PyCapsule_GetPointer(object, nullptr));
      }));
  return dict;
}

}  // namespace

bool add_hooks(PyObject* module) {
  static PyMethodDef methods[] = {{"trace",
                                   [](PyObject*, PyObject* arguments) -> PyObject* {
                                     PyObject *fn, *args, *options = nullptr;
                                     if (!PyArg_ParseTuple(arguments, "OO!|O!", &fn, &PyTuple_Type,
                                                           &args, &PyDict_Type, &options))
                                       return nullptr;
                                     PyObject* description = nullptr;
                                     torch_python::translate_exceptions(
                                         [&] { description = trace_function(fn, args, options); });
                                     return description;
                                   },
                                   METH_VARARGS, "Traces fn(*args) and describes the graph."},
                                  {nullptr, nullptr, 0, nullptr}};
  return PyModule_AddFunctions(module, methods) == 0;
}

}  // namespace braze::trace
