#include "capture/calls/control_flow.h"

#include <algorithm>
#include <string_view>

#include "capture/calls/calls.h"
#include "capture/trace_context.h"
#include "cpython/text.h"

namespace braze::capture {

namespace {

// What the objects that the trace made refer to, one by one: the same afterwards if none changed.
class Snapshot {
 public:
  // The collector is off, so its youngest generation is what the trace made.
  explicit Snapshot(const World& world) : world_(world), shadows_(world.shadows().size()) {
    const Ref module = Ref::steal(PyImport_ImportModule("gc"));
    const Ref young = Ref::steal(PyObject_CallMethod(module.get(), "get_objects", "i", 0));
    BRAZE_CHECK(young, "gc.get_objects() failed");
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(young.get()); ++i)
      add(PyList_GET_ITEM(young.get(), i));
    for (const World::Shadow& shadow : world.shadows()) add(shadow.copy.get());
  }

  bool unchanged() const {
    // Containers from outside that were iterated, or written.
    for (size_t i = shadows_; i < world_.shadows().size(); ++i) {
      const World::Shadow& shadow = world_.shadows()[i];
      if (fingerprint(shadow.before.get()) != fingerprint(shadow.copy.get())) return false;
    }
    for (const auto& [object, before] : objects_)
      if (hides_state(object.get()) || fingerprint(object.get()) != before) return false;
    return true;
  }

 private:
  void add(PyObject* object) {
    if (PyFrame_Check(object) || is_fake(object) || seen_.contains(object)) return;
    seen_[object] = true;
    std::vector<PyObject*> untracked;
    objects_.emplace_back(Ref::borrow(object), fingerprint(object, &untracked));
    for (PyObject* inner : untracked) add(inner);
  }

  // Native iterators that only their next item tells apart.
  static bool hides_state(PyObject* object) {
    constexpr std::string_view kTypes[] = {"itertools.cycle", "itertools.product",
                                           "itertools.permutations", "itertools.combinations",
                                           "itertools.combinations_with_replacement"};
    return std::find(std::begin(kTypes), std::end(kTypes), Py_TYPE(object)->tp_name) !=
           std::end(kTypes);
  }

  // `untracked`: what the collector does not know (numbers, a dict of them, a bytearray). It has to
  // live on: another object in its place would pass for it.
  static uint64_t fingerprint(PyObject* object, std::vector<PyObject*>* untracked = nullptr) {
    struct Visit {
      uint64_t hash;
      std::vector<PyObject*>* untracked;
      void mix(uint64_t value) { hash = (hash ^ value) * 1099511628211u; }
    } visit{1469598103934665603u, untracked};
    auto visitor = [](PyObject* referent, void* data) {
      auto* state = static_cast<Visit*>(data);
      state->mix(reinterpret_cast<uint64_t>(referent));
      if (state->untracked && !(PyObject_IS_GC(referent) && PyObject_GC_IsTracked(referent)))
        state->untracked->push_back(referent);
      return 0;
    };
    if (PyObject_IS_GC(object)) Py_TYPE(object)->tp_traverse(object, visitor, &visit);
    Py_buffer bytes;
    if (!PyBytes_CheckExact(object) && PyObject_CheckBuffer(object)) {
      if (PyObject_GetBuffer(object, &bytes, PyBUF_SIMPLE) == 0) {
        const std::string_view text(static_cast<const char*>(bytes.buf),
                                    static_cast<size_t>(bytes.len));
        visit.mix(std::hash<std::string_view>()(text));
        PyBuffer_Release(&bytes);
      }
      PyErr_Clear();
    }
    if (PyIter_Check(object) && !PyGen_Check(object)) {
      const Py_ssize_t left = PyObject_LengthHint(object, -1);
      visit.mix(static_cast<uint64_t>(left));
      // count(3)
      if (left < 0 && std::string_view(Py_TYPE(object)->tp_name) == "itertools.count")
        if (const Ref text = Ref::steal(PyObject_Repr(object)))
          visit.mix(static_cast<uint64_t>(PyObject_Hash(text.get())));
      PyErr_Clear();
    }
    return visit.hash;
  }

  const World& world_;
  const size_t shadows_;
  IdentityMap<bool> seen_;
  std::vector<std::pair<Ref, uint64_t>> objects_;
};

}  // namespace

static bool tensors_in(const Tracked& list, std::vector<PyObject*>& tensors);

static Tracked decline_control_flow(TraceContext& trace, std::string why) {
  return trace.refuse(BreakKind::kControlFlow,
                      "a control flow operator that cannot be captured: " + std::move(why));
}

// (number, what the function gave), which has to be a pair of a list of tensors and anything.
static Tracked trace_branch(TraceContext& trace, const Tracked& function,
                            const Tracked& arguments) {
  if (trace.torch_calls)
    return decline_control_flow(trace, "a backend of the user's takes no branches");
  // A branch may read what has grown; that makes a shadow, as writing does.
  while (trace.world.grown.any())
    if (!trace.world.shadow(trace.world.grown.all().front().list.get())) return {};
  const Snapshot before(trace.world);
  const size_t writes = trace.world.log().count(), deferred = trace.deferred.size(),
               context_writes = trace.context_variables.writes.size();
  int number = 0;
  if (std::string why = trace.recording.begin_region(&number); !why.empty())
    return decline_control_flow(trace, why);
  Tracked given = call_ex(trace, function, arguments.get(), nullptr);
  if (!given) {
    if (trace.breaks.under_way() || !PyErr_ExceptionMatches(PyExc_Exception)) return {};
    const Ref exception = take_exception();
    return decline_control_flow(trace, "a branch raises " + describe_exception(exception.get()));
  }
  if (trace.world.log().count() != writes || trace.world.grown.any() ||
      trace.deferred.size() != deferred ||
      trace.context_variables.writes.size() != context_writes || !before.unchanged())
    return decline_control_flow(trace, "a branch changes an object that was there before it");
  if (!PyTuple_CheckExact(given.get()) || PyTuple_GET_SIZE(given.get()) != 2)
    return decline_control_flow(trace, "a branch gives no tensors");
  std::vector<PyObject*> outputs;
  if (!tensors_in(Tracked::borrow(PyTuple_GET_ITEM(given.get(), 0)), outputs))
    return decline_control_flow(trace, "a branch gives something else than tensors");
  if (std::string why = trace.recording.end_region(number, outputs); !why.empty())
    return decline_control_flow(trace, why);
  return Tracked(Ref::steal(Py_BuildValue("(iO)", number, given.get())));
}

static bool tensors_in(const Tracked& list, std::vector<PyObject*>& tensors) {
  if (!PyList_CheckExact(list.get()) && !PyTuple_CheckExact(list.get())) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(list.get()); ++i) {
    tensors.push_back(PySequence_Fast_GET_ITEM(list.get(), i));
    if (!is_tensor(tensors.back())) return false;
  }
  return true;
}

static Tracked list_of(TraceContext& trace, std::vector<Ref> tensors, const std::string& why) {
  if (!why.empty()) return decline_control_flow(trace, why);
  Ref list = Ref::steal(PyList_New(static_cast<Py_ssize_t>(tensors.size())));
  for (size_t i = 0; i < tensors.size(); ++i)
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), tensors[i].release());
  return Tracked(std::move(list));
}

Tracked call_control_flow(TraceContext& trace, ControlFlowCall call, Tracked* args, size_t count) {
  std::string why;
  auto number = [&](size_t i) { return static_cast<int>(PyLong_AsLong(args[i].get())); };
  std::vector<PyObject*> tensors;
  switch (call) {
    case ControlFlowCall::kBranch:
      BRAZE_CHECK(count == 2 && PyTuple_CheckExact(args[1].get()), "branch(function, arguments)");
      return trace_branch(trace, args[0], args[1]);
    case ControlFlowCall::kParameters: {
      BRAZE_CHECK(count == 1 && tensors_in(args[0], tensors), "parameters(tensors)");
      std::vector<Ref> made;
      for (PyObject* tensor : tensors)
        made.push_back(trace.recording.loop_parameter(tensor, static_cast<int>(made.size())));
      return list_of(trace, std::move(made), "");
    }
    case ControlFlowCall::kChoose:
      BRAZE_CHECK(count == 3 && is_tensor(args[0].get()), "choose(predicate, yes, no)");
      return list_of(trace, trace.recording.cond(args[0].get(), number(1), number(2), &why), why);
    case ControlFlowCall::kRepeat:
      BRAZE_CHECK(count == 3 && tensors_in(args[2], tensors), "repeat(condition, body, carried)");
      return list_of(trace, trace.recording.loop(number(0), number(1), tensors, &why), why);
    case ControlFlowCall::kDecline:
      BRAZE_CHECK(count == 1 && PyUnicode_Check(args[0].get()), "decline(why)");
      return decline_control_flow(trace, cpython::utf8_of(args[0].get()));
  }
  BRAZE_UNREACHABLE("control flow call");
}

}  // namespace braze::capture
