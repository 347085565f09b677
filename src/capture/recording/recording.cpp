#include "capture/recording/recording.h"

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DefaultDtype.h>

#include <unordered_map>

#include "capture/known.h"
#include "capture/recording/impl.h"
#include "guard/guard.h"
#include "pytorch/aten.h"
#include "pytorch/memory.h"
#include "torch_python/objects.h"
#include "trace/sym_node.h"
#include "trace/tracer.h"

namespace braze::capture {

bool is_tensor_type(PyTypeObject* type) {
  if (type == known().tensor || type == known().parameter) return true;
  if (!PyType_HasFeature(type, Py_TPFLAGS_HEAPTYPE)) return false;
  return PyType_IsSubtype(type, known().tensor);
}

bool is_fake(PyObject* object) {
  return is_tensor(object) && trace::Tracer::is_fake(tensor_of(object));
}

// A fake whose methods nobody overrides: no subclass, no mode.
static bool is_plain_fake(PyObject* tensor) {
  return Py_TYPE(tensor) == known().tensor && !at::impl::torch_function_mode_enabled() &&
         is_fake(tensor);
}

bool is_condition(PyObject* object) {
  return is_plain_fake(object) && tensor_of(object).scalar_type() == at::kBool &&
         tensor_of(object).dim() == 0 && tensor_of(object).is_cpu();
}

bool is_leaf(PyObject* tensor) { return tensor_of(tensor).is_leaf(); }
bool is_view(PyObject* tensor) { return tensor_of(tensor).is_view(); }

bool may_require_grad(PyObject* object) {
  const at::Tensor& tensor = tensor_of(object);
  return tensor.is_leaf() && !tensor.is_inference() && !tensor.is_view() &&
         (tensor.is_floating_point() || tensor.is_complex());
}

bool may_be_gradient(PyObject* tensor, PyObject* gradient) {
  const at::Tensor &of = tensor_of(tensor), &given = tensor_of(gradient);
  return of.sym_sizes() == given.sym_sizes() && of.scalar_type() == given.scalar_type() &&
         of.device() == given.device();
}

bool requires_grad(PyObject* tensor) { return tensor_of(tensor).requires_grad(); }

bool holds_integers(PyObject* tensor) {
  return c10::isIntegralType(tensor_of(tensor).scalar_type(), /*includeBool=*/false);
}

Ref memory_between(PyObject* a, PyObject* b) {
  const c10::TensorImpl& x = *tensor_of(a).unsafeGetTensorImpl();
  const c10::TensorImpl& y = *tensor_of(b).unsafeGetTensorImpl();
  const auto bytes = static_cast<int64_t>(pytorch::address_of(y) - pytorch::address_of(x));
  return Ref::steal(Py_BuildValue("(LO)", static_cast<long long>(bytes),
                                  x.storage().is_alias_of(y.storage()) ? Py_True : Py_False));
}

std::vector<int64_t> sizes_of(PyObject* tensor) { return tensor_of(tensor).sizes().vec(); }

bool may_be_symbolic(PyObject* object) {
  if (Py_TYPE(object) != known().tensor) return false;
  const at::Tensor& tensor = tensor_of(object);
  return tensor.layout() == at::kStrided &&
         (tensor.device().is_cpu() || tensor.device().is_cuda()) && !trace::Tracer::is_fake(tensor);
}

bool is_symbolic(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  return type == known().sym_int || type == known().sym_bool || type == known().sym_float ||
         type == known().text;
}

Ref plain_like(PyObject* symbol) {
  if (Py_TYPE(symbol) == known().sym_bool) return Ref::borrow(Py_False);
  if (Py_TYPE(symbol) == known().text) return Ref::steal(PyUnicode_New(0, 0));
  if (Py_TYPE(symbol) == known().sym_float) return Ref::steal(PyFloat_FromDouble(0));
  return Ref::steal(PyLong_FromLong(0));
}

Recording::Recording() : impl_(std::make_unique<Impl>()) {}
Recording::~Recording() {
  if (impl_->scope) stop();
}

void Recording::start() {
  impl_->state = guard::GlobalState::current();
  impl_->thread_state.emplace();
  impl_->autocast = pytorch::autocast_state();
  impl_->scope.emplace(impl_->tracer);
}

bool Recording::stop(std::vector<Ref> guards) {
  impl_->scope.reset();
  guard::GlobalState now = guard::GlobalState::current();
  // An autocast context that switches off what is off already is open nevertheless.
  const bool same_contexts = pytorch::autocast_state().nesting == impl_->autocast.nesting;
  const bool unchanged = same_contexts && now == impl_->state;
  const bool closed = !guards.empty();
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  while (!guards.empty()) {
    Ref::steal(
        PyObject_CallMethod(guards.back().get(), "__exit__", "OOO", Py_None, Py_None, Py_None));
    PyErr_Clear();
    guards.pop_back();
  }
  PyErr_Restore(type, value, traceback);
  if (!unchanged || closed) {
    at::ThreadLocalState::setThreadLocalState(*impl_->thread_state);
    pytorch::set_autocast_state(impl_->autocast);
  }
  impl_->thread_state.reset();
  if (unchanged) return true;
  const bool grad_mode = now.grad_mode != 0;
  now.grad_mode = impl_->state.grad_mode;
  if (same_contexts && now == impl_->state) left_grad_mode_ = grad_mode;
  return left_grad_mode_.has_value();
}

PyObject* Recording::autocast_dtype_before(bool cuda) const {
  return torch_python::dtype_object(cuda ? impl_->autocast.cuda : impl_->autocast.cpu);
}
bool Recording::autocast_cache_before() const { return impl_->autocast.cache; }
bool Recording::is_within_autocast() const {
  return pytorch::autocast_state().nesting != impl_->autocast.nesting;
}

struct Recording::Pause::Impl {
  trace::Tracer::Pause pause;
};
Recording::Pause::Pause() : impl_(std::make_unique<Impl>()) {}
Recording::Pause::~Pause() = default;

Recording::PlainTorch::PlainTorch() {
  using at::impl::PythonTorchFunctionTLS;
  enabled_ =
      PythonTorchFunctionTLS::get_disabled_state() == at::impl::TorchFunctionDisabledState::ENABLED;
  if (enabled_)
    PythonTorchFunctionTLS::set_disabled_state(
        at::impl::TorchFunctionDisabledState::SUBCLASSES_DISABLED);
}
Recording::PlainTorch::~PlainTorch() {
  if (enabled_)
    at::impl::PythonTorchFunctionTLS::set_disabled_state(
        at::impl::TorchFunctionDisabledState::ENABLED);
}

struct Zeros::Impl {
  std::unordered_map<c10::StorageImpl*, at::Tensor> storages;
};
Zeros::Zeros() : impl_(std::make_unique<Impl>()) {}
Zeros::~Zeros() = default;

Ref Zeros::like(PyObject* object) {
  if (Py_TYPE(object) != known().tensor && Py_TYPE(object) != known().parameter) return {};
  const at::Tensor& tensor = tensor_of(object);
  if (tensor.layout() != at::kStrided || !tensor.device().is_cpu() || tensor.is_quantized())
    return {};
  try {
    const c10::Storage& storage = tensor.unsafeGetTensorImpl()->unsafe_storage();
    trace::Tracer::Pause pause;
    at::Tensor& bytes = impl_->storages[storage.unsafeGetStorageImpl()];
    if (!bytes.defined())
      bytes = at::zeros({static_cast<int64_t>(storage.nbytes())}, at::TensorOptions(at::kByte));
    at::Tensor made = at::empty({0}, at::TensorOptions(tensor.scalar_type()));
    made.set_(bytes.storage(), tensor.storage_offset(), tensor.sizes(), tensor.strides());
    return Ref::steal(torch_python::wrap(made));
  } catch (const c10::Error&) {
    return {};  // there is no like of it (meta tensors, bounds that do not fit): see the caller
  }
}

void Recording::set_origin_provider(graph::OriginId (*provider)(void*, graph::Graph&),
                                    void* context) {
  impl_->tracer.set_origin_provider([=](graph::Graph& graph) { return provider(context, graph); });
}

bool Recording::declare(PyObject* tensor, graph::InputKind kind, std::string name,
                        std::string* why) {
  return impl_->tracer.declare(tensor_of(tensor), kind, std::move(name), why);
}

Recording::StandIn Recording::symbolic_input(PyObject* tensor, graph::InputKind kind,
                                             std::string name,
                                             const std::vector<DynamicDimension>& dims,
                                             const std::set<int>& strides) {
  std::vector<trace::DynamicDim> symbols;
  for (const DynamicDimension& dim : dims)
    symbols.push_back({.dim = dim.mark.dim,
                       .range = dim.mark.range,
                       .previous = dim.previous,
                       .unbacked = dim.mark.unbacked});
  const at::Tensor fake =
      impl_->tracer.symbolic_input(tensor_of(tensor), kind, std::move(name), symbols, strides);
  StandIn result;
  auto bits = [](c10::SymIntArrayRef values) {
    uint64_t symbolic = 0;
    for (size_t i = 0; i < values.size(); ++i)
      if (values[i].is_heap_allocated()) symbolic |= uint64_t{1} << i;
    return symbolic;
  };
  result.free_sizes = bits(fake.sym_sizes());
  result.free_strides = bits(fake.sym_strides());
  result.tensor = Ref::steal(torch_python::wrap(fake));
  has_symbols_ |= result.free_sizes != 0;
  return result;
}

Ref Recording::symbolic_integer(int64_t value) {
  has_symbols_ = true;
  return Ref::steal(torch_python::wrap(impl_->tracer.symbolic_integer(value)));
}

Recording::SymbolicFloat Recording::symbolic_float(double value, std::string name) {
  at::Tensor real;
  {
    trace::Tracer::Pause pause;
    real = at::scalar_tensor(value, at::TensorOptions(at::kDouble));
  }
  has_symbols_ = has_floats_ = true;
  SymbolicFloat made;
  made.fake = Ref::steal(torch_python::wrap(impl_->tracer.stand_in(real, std::move(name))));
  made.real = Ref::steal(torch_python::wrap(real));
  return made;
}

std::optional<Recording::Counter> Recording::counter(PyObject* tensor) {
  const at::Tensor& real = tensor_of(tensor);
  if (trace::Tracer::is_fake(real) || real.dim() != 0 || !real.device().is_cpu())
    return std::nullopt;
  const bool single = real.scalar_type() == at::kFloat;
  if (!single && real.scalar_type() != at::kDouble) return std::nullopt;
  auto added = impl_->tracer.added_to(real);
  if (!added || added->empty()) return std::nullopt;
  trace::Tracer::Pause pause;
  return Counter{real.item<double>(), std::move(*added), single};
}

Ref Recording::float_operand(PyObject* fake, PyObject* tensor, FloatUse use) {
  const at::Tensor& beside = tensor_of(tensor);
  at::ScalarType dtype = beside.scalar_type();
  if (dtype == at::kHalf || dtype == at::kBFloat16) {
    // Two operands without dimensions would be promoted together.
    if (use == FloatUse::kOther || beside.dim() == 0) return {};
    const bool rounds = use == FloatUse::kTerm && beside.device().is_cpu();
    return Ref::steal(torch_python::wrap(tensor_of(fake).to(rounds ? dtype : at::kFloat)));
  }
  if (c10::isIntegralType(dtype, /*includeBool=*/true))
    dtype = c10::typeMetaToScalarType(c10::get_default_dtype());
  if (dtype == at::kDouble) return Ref::borrow(fake);
  if (dtype != at::kFloat) return {};
  return Ref::steal(torch_python::wrap(tensor_of(fake).to(at::kFloat)));
}

sym::ShapeEnv& Recording::shapes() { return impl_->tracer.shapes(); }

sym::Int Recording::value_of(PyObject* object) {
  if (Py_TYPE(object) == known().sym_int) {
    const Ref node = Ref::steal(PyObject_GetAttr(object, names().node));
    if (const sym::Int* value = node ? impl_->integers.find(node.get()) : nullptr) return *value;
  }
  return trace::from_symint(torch_python::symint_of(object));
}

sym::Int Recording::size_of(PyObject* fake, int dim) {
  return trace::from_symint(tensor_of(fake).sym_size(dim));
}

namespace {

// A question to the node of a SymBool.
bool ask(PyObject* sym_bool, const char* method) {
  const Ref node = Ref::steal(PyObject_GetAttrString(sym_bool, "node"));
  const Ref answer =
      node ? Ref::steal(PyObject_CallMethod(node.get(), method, "si", "", 0)) : Ref();
  if (answer) return answer.get() == Py_True;
  // PyTorch's bindings have made a RuntimeError of it.
  PyErr_Clear();
  const Ref text = node ? Ref::steal(PyObject_Str(sym_bool)) : Ref();
  const char* question = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  PyErr_Clear();
  throw sym::Undecidable(question ? question : "a condition");
}

}  // namespace

bool Recording::guard_bool(PyObject* object) { return ask(object, "guard_bool"); }

void Recording::capture_data(bool scalars, bool sizes) {
  impl_->tracer.set_data_capture({scalars, sizes});
  has_symbols_ |= scalars || sizes;
}

// By way of the nodes' Python objects: only PyTorch itself can make those of conditions.
Ref Recording::comparison(sym::Relation relation, sym::Int a, sym::Int b) {
  const Ref x = object_of(a), y = object_of(b);
  auto node_of = [](PyObject* symbol) {
    return Ref::steal(PyObject_GetAttrString(symbol, "node"));
  };
  auto node_like = [](PyObject* node, PyObject* number) {
    return Ref::steal(PyObject_CallMethod(node, "wrap_int", "O", number));
  };
  const bool number_first = PyLong_Check(x.get()), number_second = PyLong_Check(y.get());
  BRAZE_CHECK(!number_first || !number_second, "a comparison of numbers is decided");
  const Ref second = number_second ? Ref() : node_of(y.get());
  const Ref first = number_first ? node_like(second.get(), x.get()) : node_of(x.get());
  const Ref other = number_second ? node_like(first.get(), y.get()) : second;
  const char* method = nullptr;
  switch (relation) {
    case sym::Relation::kEqual:
      method = "eq";
      break;
    case sym::Relation::kNotEqual:
      method = "ne";
      break;
    case sym::Relation::kLess:
      method = "lt";
      break;
    case sym::Relation::kNotLess:
      method = "ge";
      break;
  }
  if (!first || !other) return {};
  const Ref condition = Ref::steal(PyObject_CallMethod(first.get(), method, "O", other.get()));
  if (!condition) return {};
  return Ref::steal(
      PyObject_CallOneArg(reinterpret_cast<PyObject*>(known().sym_bool), condition.get()));
}

bool Recording::expect(PyObject* object) { return ask(object, "expect_true"); }

Ref Recording::object_of(sym::Int value) {
  value = shapes().normal(value);
  if (value.is_constant()) return Ref::steal(PyLong_FromLongLong(value.constant()));
  const size_t id = value.expr()->id;
  std::vector<Ref>& nodes = impl_->nodes;
  if (nodes.size() <= id) nodes.resize(std::max(id + 1, 2 * nodes.size()));
  Ref object;
  if (nodes[id]) {  // as SymInt's __init__ does it
    PyTypeObject* type = known().sym_int;
    object = Ref::steal(type->tp_alloc(type, 0));
    BRAZE_CHECK(object && PyObject_SetAttr(object.get(), names().node, nodes[id].get()) == 0,
                "a torch.SymInt cannot be made");
  } else {
    object = Ref::steal(torch_python::wrap(trace::to_symint(value, shapes())));
    nodes[id] = Ref::steal(PyObject_GetAttr(object.get(), names().node));
    BRAZE_CHECK(nodes[id], "a torch.SymInt without a node");
    impl_->integers[nodes[id].get()] = value;
  }
  return object;
}

Ref Recording::shape_of(PyObject* tensor) {
  if (!is_plain_fake(tensor)) return {};
  const c10::SymIntArrayRef sizes = tensor_of(tensor).sym_sizes();
  PyTypeObject* type = known().size;
  Ref shape = Ref::steal(type->tp_alloc(type, static_cast<Py_ssize_t>(sizes.size())));
  if (!shape) throw std::bad_alloc();
  for (size_t i = 0; i < sizes.size(); ++i)
    PyTuple_SET_ITEM(shape.get(), static_cast<Py_ssize_t>(i),
                     object_of(trace::from_symint(sizes[i])).release());
  return shape;
}

Ref Recording::size_of(PyObject* tensor, PyObject* dim) {
  if (!PyLong_CheckExact(dim) || !is_plain_fake(tensor)) return {};
  const c10::SymIntArrayRef sizes = tensor_of(tensor).sym_sizes();
  int overflow = 0;
  int64_t number = PyLong_AsLongLongAndOverflow(dim, &overflow);
  const auto rank = static_cast<int64_t>(sizes.size());
  if (overflow || number < -rank || number >= rank) return {};
  return object_of(trace::from_symint(sizes[number < 0 ? number + rank : number]));
}

namespace {

BreakKind kind_of(trace::NeedsData needs_data) {
  switch (needs_data) {
    case trace::NeedsData::kNo:
      return BreakKind::kUntraceableOp;
    case trace::NeedsData::kForAValue:
      return BreakKind::kDataDependent;
    case trace::NeedsData::kForASize:
      return BreakKind::kDataDependentSize;
  }
  return BreakKind::kUntraceableOp;
}

}  // namespace

bool Recording::take_break(OpBreak& out) {
  if (!PyErr_ExceptionMatches(trace::trace_break_type())) return false;
  PyErr_Clear();
  const auto& last = impl_->tracer.last_break();
  if (last) {
    out.what = last->op + ": " + last->what;
    out.kind = kind_of(last->needs_data);
  } else {
    out.what = "an operator that cannot be traced";
  }
  return true;
}

Recording::Result Recording::finish(const std::vector<PyObject*>& outputs) {
  std::vector<at::Tensor> tensors;
  for (PyObject* output : outputs) tensors.push_back(tensor_of(output));
  trace::Trace trace = impl_->tracer.finish(tensors);
  Result result{.graph = std::move(trace.graph), .joint = std::move(trace.joint)};
  for (auto& input : trace.inputs)
    result.inputs.push_back(Ref::steal(torch_python::wrap(input.tensor)));
  result.arena = std::move(trace.arena);
  for (trace::SymbolicInput& input : trace.symbolic_inputs)
    result.shapes.push_back({std::move(input.sizes), std::move(input.strides)});
  result.integers = std::move(trace.integers);
  result.conditions = std::move(trace.conditions);
  result.data_symbols = std::move(trace.data_symbols);
  result.assertions = std::move(trace.assertions);
  result.values = std::move(trace.values);
  return result;
}

}  // namespace braze::capture
