#include "trace/testing.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include <chrono>
#include <unordered_map>

#include "pytorch/aten.h"
#include "pytorch/errors.h"
#include "pytorch/objects.h"
#include "trace/tracer.h"

namespace braze::trace {
namespace {

using graph::Argument;
using Values = std::unordered_map<const graph::Value*, at::Tensor>;

c10::OperatorHandle find_operator(const std::string& name) {
  const size_t first = name.find('.');
  const size_t second = name.find('.', first + 1);
  return c10::Dispatcher::singleton().findSchemaOrThrow(
      (name.substr(0, first) + "::" + name.substr(first + 1, second - first - 1)).c_str(),
      second == std::string::npos ? "" : name.substr(second + 1).c_str());
}

int64_t memory_format(graph::MemoryFormat format) {
  switch (format) {
    case graph::MemoryFormat::kContiguous:
      return static_cast<int64_t>(at::MemoryFormat::Contiguous);
    case graph::MemoryFormat::kPreserve:
      return static_cast<int64_t>(at::MemoryFormat::Preserve);
    case graph::MemoryFormat::kChannelsLast:
      return static_cast<int64_t>(at::MemoryFormat::ChannelsLast);
    case graph::MemoryFormat::kChannelsLast3d:
      return static_cast<int64_t>(at::MemoryFormat::ChannelsLast3d);
  }
  BRAZE_UNREACHABLE("memory format");
}

// A boxed argument; `formal` tells where numbers stand for tensors and lists are optional.
struct Boxer {
  const Values& values;
  const c10::Argument& formal;

  bool wants_tensor() const {
    c10::TypePtr type = formal.type();
    if (auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
    return type->kind() == c10::TypeKind::TensorType;
  }
  c10::TypeKind element() const {
    c10::TypePtr type = formal.type();
    if (auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
    return type->expectRef<c10::ListType>().getElementType()->kind();
  }

  c10::IValue operator()(graph::None) const { return {}; }
  c10::IValue operator()(graph::Value* value) const { return values.at(value); }
  c10::IValue operator()(const std::vector<graph::Value*>& list) const {
    c10::List<at::Tensor> result;
    for (const graph::Value* value : list) result.push_back(values.at(value));
    return result;
  }
  c10::IValue operator()(const graph::OptionalRefs<graph::Value*>& list) const {
    c10::List<std::optional<at::Tensor>> result;
    for (const auto& ref : list.refs)
      result.push_back(ref ? std::optional<at::Tensor>(values.at(*ref)) : std::nullopt);
    return result;
  }
  c10::IValue operator()(const sym::Int& value) const {
    if (wants_tensor()) return pytorch::tensor_of_number(value.hint());
    return value.hint();
  }
  c10::IValue operator()(double value) const {
    if (wants_tensor()) return pytorch::tensor_of_number(value);
    return value;
  }
  c10::IValue operator()(bool value) const {
    if (wants_tensor()) return pytorch::tensor_of_number(value);
    return value;
  }
  c10::IValue operator()(std::complex<double> value) const {
    const c10::complex<double> number(value.real(), value.imag());
    if (wants_tensor()) return pytorch::tensor_of_number(number);
    return number;
  }
  c10::IValue operator()(const std::string& value) const { return value; }
  c10::IValue operator()(const sym::Dims& list) const {
    if (element() == c10::TypeKind::NumberType) {
      c10::List<c10::IValue> numbers(c10::NumberType::get());
      for (const sym::Int& value : list) numbers.push_back(value.hint());
      return numbers;
    }
    if (element() == c10::TypeKind::FloatType) {
      c10::List<double> result;
      for (const sym::Int& value : list) result.push_back(static_cast<double>(value.hint()));
      return result;
    }
    c10::List<int64_t> result;
    for (const sym::Int& value : list) result.push_back(value.hint());
    return result;
  }
  c10::IValue operator()(const std::vector<double>& list) const {
    if (element() == c10::TypeKind::NumberType) {
      c10::List<c10::IValue> numbers(c10::NumberType::get());
      for (double value : list) numbers.push_back(value);
      return numbers;
    }
    return c10::List<double>(list);
  }
  c10::IValue operator()(const std::vector<bool>& list) const {
    c10::List<bool> result;
    for (bool value : list) result.push_back(value);
    return result;
  }
  c10::IValue operator()(graph::DType dtype) const {
    return static_cast<int64_t>(scalar_type_of(dtype));
  }
  c10::IValue operator()(graph::Device device) const { return device_of(device); }
  c10::IValue operator()(graph::MemoryFormat format) const { return memory_format(format); }
  c10::IValue operator()(graph::Layout) const { return static_cast<int64_t>(at::kStrided); }
};

void run_node(const graph::Node& node, Values& values) {
  const c10::OperatorHandle handle = find_operator(node.op().name);
  torch::jit::Stack stack;
  for (size_t i = 0; i < node.args().size(); ++i)
    stack.push_back(std::visit(Boxer{values, handle.schema().arguments()[i]}, node.args()[i]));
  handle.callBoxed(stack);
  size_t next = 0;
  auto take = [&](const at::Tensor& tensor) {
    const graph::Value* value = node.results().at(next++);
    if (value == nullptr) return;
    values[value] = tensor;
    graph::TensorType expected = value->type(), got = type_of(tensor);
    for (sym::Dims* dims : {&expected.sizes, &expected.strides})
      for (sym::Int& dim : *dims) dim = dim.hint();
    expected.offset = expected.offset.hint();
    TORCH_CHECK(expected == got, node.op().name, ": traced as ", graph::to_string(expected),
                ", is ", graph::to_string(got));
  };
  for (const c10::IValue& result : stack) {
    if (result.isTensor()) take(result.toTensor());
    if (result.isTensorList())
      for (const at::Tensor& tensor : result.toTensorVector()) take(tensor);
  }
}

// Owning reference; the folder does not depend on cpython/.
struct Object {
  explicit Object(PyObject* object) : object(object) {
    if (!object) pytorch::throw_pending();
  }
  ~Object() { Py_DECREF(object); }
  Object(const Object&) = delete;
  operator PyObject*() const { return object; }
  PyObject* object;
};

void set(PyObject* dict, const char* key, PyObject* stolen) {
  Object value(stolen);
  if (PyDict_SetItemString(dict, key, value) < 0) pytorch::throw_pending();
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
      TORCH_CHECK(tracer.declare(pytorch::tensor_of(PyTuple_GET_ITEM(pair, 1)), kind,
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
  if (pytorch::is_tensor(result)) return {pytorch::tensor_of(result)};
  Object list(PySequence_List(result));
  std::vector<at::Tensor> tensors;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.object); ++i) {
    PyObject* item = PyList_GET_ITEM(list.object, i);
    TORCH_CHECK(pytorch::is_tensor(item), "a result that is not a tensor");
    tensors.push_back(pytorch::tensor_of(item));
  }
  return tensors;
}

PyObject* list_of(const std::vector<at::Tensor>& tensors) {
  Object list(PyList_New(0));
  for (const at::Tensor& tensor : tensors) {
    Object object(pytorch::wrap(tensor));
    if (PyList_Append(list, object) < 0) pytorch::throw_pending();
  }
  return Py_NewRef(list.object);
}

PyObject* replay_trace(PyObject* capsule, PyObject*) {
  PyObject* outputs = nullptr;
  pytorch::translate_exceptions([&] {
    auto* trace = static_cast<Trace*>(PyCapsule_GetPointer(capsule, nullptr));
    std::vector<at::Tensor> inputs;
    for (const GraphInput& input : trace->inputs) inputs.push_back(input.tensor);
    outputs = list_of(replay(trace->graph, inputs));
  });
  return outputs;
}

PyObject* describe_inputs(const Trace& trace) {
  static constexpr const char* kKinds[] = {"user", "parameter", "constant"};
  Object list(PyList_New(0));
  for (size_t i = 0; i < trace.inputs.size(); ++i) {
    Object tensor(pytorch::wrap(trace.inputs[i].tensor));
    Object entry(Py_BuildValue("(Oss)", tensor.object,
                               kKinds[static_cast<int>(trace.inputs[i].kind)],
                               trace.graph.inputs()[i].name.c_str()));
    if (PyList_Append(list, entry) < 0) pytorch::throw_pending();
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
    if (pytorch::is_tensor(arg) && is_symbolic(options, name)) {
      const at::Tensor& tensor = pytorch::tensor_of(arg);
      std::vector<DynamicDim> dims;
      // Each dimension with a history of its own: not duck-shaped.
      for (int64_t d = 0; d < tensor.dim(); ++d)
        dims.push_back({.dim = static_cast<int>(d), .previous = 100 * i + d});
      Object fake(
          pytorch::wrap(tracer->symbolic_input(tensor, graph::InputKind::kUser, name, dims)));
      PyList_Append(actual, fake);
      continue;
    }
    if (pytorch::is_tensor(arg))
      TORCH_CHECK(tracer->declare(pytorch::tensor_of(arg), graph::InputKind::kUser, name, &why),
                  why);
    PyList_Append(actual, arg);
  }
  Object actual_args(PyList_AsTuple(actual));

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
  set(dict, "seconds", PyFloat_FromDouble(seconds.count()));
  set(dict, "tracer", PyCapsule_New(tracer.release(), nullptr, [](PyObject* object) {
        delete static_cast<Tracer*>(PyCapsule_GetPointer(object, nullptr));
      }));
  return dict;
}

}  // namespace

std::vector<at::Tensor> replay(const graph::Graph& graph, const std::vector<at::Tensor>& inputs) {
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  Values values;
  for (size_t i = 0; i < inputs.size(); ++i) values[graph.inputs()[i].value] = inputs[i];
  for (const auto& node : graph.nodes()) run_node(*node, values);
  std::vector<at::Tensor> outputs;
  for (const graph::Value* output : graph.outputs()) outputs.push_back(values.at(output));
  return outputs;
}

bool add_test_functions(PyObject* module) {
  static PyMethodDef methods[] = {
      {"trace_for_test",
       [](PyObject*, PyObject* arguments) -> PyObject* {
         PyObject *fn, *args, *options = nullptr;
         if (!PyArg_ParseTuple(arguments, "OO!|O!", &fn, &PyTuple_Type, &args, &PyDict_Type,
                               &options))
           return nullptr;
         return trace_function_for_test(fn, args, options);
       },
       METH_VARARGS, "For tests: traces fn(*args) and describes the graph."},
      {nullptr, nullptr, 0, nullptr}};
  return PyModule_AddFunctions(module, methods) == 0;
}

PyObject* trace_function_for_test(PyObject* fn, PyObject* args, PyObject* options) {
  PyObject* description = nullptr;
  pytorch::translate_exceptions([&] { description = trace_function(fn, args, options); });
  return description;
}

}  // namespace braze::trace
