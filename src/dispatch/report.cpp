#include "dispatch/report.h"

#include <algorithm>
#include <set>

#include "cpython/code.h"
#include "plan/memory_use.h"

namespace braze::dispatch {
namespace {

using cpython::Ref;

bool put(PyObject* dict, const char* key, PyObject* value) {  // takes `value` over
  Ref owned = Ref::steal(value);
  return owned && PyDict_SetItemString(dict, key, owned.get()) == 0;
}
PyObject* text(const std::string& value) {
  return PyUnicode_DecodeUTF8(value.data(), static_cast<Py_ssize_t>(value.size()), "replace");
}
const char* name_of(EntryKind kind) {
  switch (kind) {
    case EntryKind::kEager:
      return "eager";
    case EntryKind::kPlan:
      return "plan";
    case EntryKind::kPython:
      return "backend";
  }
  return "";
}

const char* name_of(capture::ExitKind exit) {
  switch (exit) {
    case capture::ExitKind::kReturn:
      return "return";
    case capture::ExitKind::kBreak:
      return "break";
    case capture::ExitKind::kRaise:
      return "raise";
    case capture::ExitKind::kGiveUp:
      return "give up";
  }
  return "";
}

int line_of(const Entry& entry, int offset) {
  if (offset == 0) return entry.code->co_firstlineno;
  const cpython::DecodedCode& decoded = cpython::decode(entry.code);
  // Instructions that open a handler have no line.
  int at = decoded.index_of_offset(offset), line = -1;
  while (line < 0 && at < static_cast<int>(decoded.instructions.size())) line = decoded.line(at++);
  return line;
}

PyObject* list_of(const std::vector<KeptTensor>& kept) {
  Ref list = Ref::steal(PyList_New(0));
  for (const KeptTensor& one : kept) {
    Ref item = Ref::steal(PyDict_New());
    const bool ok = list && item && put(item.get(), "bytes", PyLong_FromLongLong(one.bytes)) &&
                    put(item.get(), "what", text(one.what)) &&
                    put(item.get(), "place", text(one.place));
    if (!ok || PyList_Append(list.get(), item.get())) return nullptr;
  }
  return list.release();
}

PyObject* dict_of(const std::map<std::string, int64_t>& counts) {
  Ref dict = Ref::steal(PyDict_New());
  for (const auto& [name, count] : counts)
    if (!dict || !put(dict.get(), name.c_str(), PyLong_FromLongLong(count))) return nullptr;
  return dict.release();
}

KeptTensor describe(const graph::Graph& graph, const graph::Value& value) {
  KeptTensor kept;
  const std::string type = graph::to_string(value.type());
  const graph::Node* producer = value.producer();
  if (!producer) {
    for (const graph::Input& input : graph.inputs())
      if (input.value == &value) kept.what = input.name + " " + type;
    return kept;
  }
  const graph::Origin* origin = graph.origin(producer->origin());
  const bool called = origin && !origin->call.str().empty();
  kept.what = (called ? origin->call.str() : producer->op().name) + " " + type;
  if (origin) {
    kept.place = origin->file.str() + ":" + std::to_string(origin->line);
    if (!origin->module_path.str().empty()) kept.place += ", " + origin->module_path.str();
  }
  return kept;
}

// Whether an action changes what was there before the call.
bool changes_outside(const recipe::Recipe& recipe, const recipe::Recipe::Action& action) {
  using Kind = recipe::Recipe::Kind;
  switch (action.kind) {
    case Kind::kListFill:
    case Kind::kDictFill:
    case Kind::kSetFill:
    case Kind::kDequeFill:
    case Kind::kSetAttr:
    case Kind::kDelAttr:
    case Kind::kSetCell:
    case Kind::kSetState:
    case Kind::kAdvance:
      return recipe.actions[action.target].kind == Kind::kOutside;
    case Kind::kSetGlobal:
    case Kind::kCall:
    case Kind::kGeneric:
      return true;
    case Kind::kOutput:
    case Kind::kConstant:
    case Kind::kNumber:
    case Kind::kFloat:
    case Kind::kOutside:
    case Kind::kTuple:
    case Kind::kNewTuple:
    case Kind::kNew:
    case Kind::kNewCell:
    case Kind::kFunction:
    case Kind::kMethod:
    case Kind::kSlice:
    case Kind::kIterator:
      return false;
  }
  return true;
}

// Whether the function can run again without a trace, but for random numbers that it draws.
bool is_repeatable(const Entry& entry) {
  const auto& actions = entry.recipe.actions;
  return entry.kind == EntryKind::kPlan && entry.exit == capture::ExitKind::kReturn &&
         entry.rollback.inputs.empty() && entry.dropped_gradients.empty() &&
         !entry.report.is_opaque && std::ranges::none_of(actions, [&](const auto& action) {
           return changes_outside(entry.recipe, action);
         });
}

}  // namespace

std::vector<int64_t> kept_bytes(const graph::Graph& forward) {
  std::set<int> alive;  // storages: of inputs and of results
  for (const graph::Input& input : forward.inputs()) alive.insert(input.value->storage());
  for (size_t i = 0; i < forward.outputs().size(); ++i)
    if (forward.output_roles()[i].kind != graph::OutputKind::kSaved)
      alive.insert(forward.outputs()[i]->storage());
  std::vector<int64_t> bytes(forward.outputs().size());
  for (size_t i = 0; i < forward.outputs().size(); ++i) {
    const graph::Value& value = *forward.outputs()[i];
    const bool is_kept = forward.output_roles()[i].kind == graph::OutputKind::kSaved;
    if (is_kept && value.producer() && alive.insert(value.storage()).second)
      bytes[i] = value.type().numel().hint() * graph::size_of(value.type().dtype);
  }
  return bytes;
}

std::vector<KeptTensor> kept_by(const graph::Graph& forward) {
  const std::vector<int64_t> bytes = kept_bytes(forward);
  std::vector<KeptTensor> kept;
  for (size_t i = 0; i < forward.outputs().size(); ++i) {
    if (forward.output_roles()[i].kind != graph::OutputKind::kSaved) continue;
    kept.push_back(describe(forward, *forward.outputs()[i]));
    kept.back().bytes = bytes[i];
  }
  std::ranges::stable_sort(kept, std::greater(), &KeptTensor::bytes);
  return kept;
}

void note_steps(const plan::Module& module, Report& report) {
  for (const plan::Function& function : module.functions) {
    report.arena_bytes = std::max(report.arena_bytes, function.arena_bytes);
    for (const plan::Step& step : function.steps) {
      report.launches += std::holds_alternative<plan::KernelStep>(step);
      if (const auto* call = std::get_if<plan::ExternStep>(&step)) ++report.operators[call->op];
    }
  }
  report.peak_bytes = plan::memory_use(module).peak;
}

PyObject* report_of(const Entry& entry) {
  Ref dict = Ref::steal(PyDict_New());
  if (!dict) return nullptr;
  PyObject* d = dict.get();
  const Report& r = entry.report;
  Ref guards = Ref::steal(PyList_New(0));
  for (const std::string& guard : entry.guards->describe(entry.names.get())) {
    Ref line = Ref::steal(text(guard));
    if (!line || PyList_Append(guards.get(), line.get())) return nullptr;
  }
  bool ok =
      put(d, "kind", text(name_of(entry.kind))) && put(d, "exit", text(name_of(entry.exit))) &&
      put(d, "function", Py_NewRef(entry.code->co_qualname)) &&
      put(d, "file", Py_NewRef(entry.code->co_filename)) &&
      put(d, "first_line", PyLong_FromLong(entry.code->co_firstlineno)) &&
      put(d, "offset", PyLong_FromLong(entry.offset)) &&
      put(d, "line", PyLong_FromLong(line_of(entry, entry.offset))) &&
      put(d, "break_offset", PyLong_FromLong(entry.recipe.offset)) &&
      put(d, "break_line",
          PyLong_FromLong(goes_on_in_frame(entry.exit) ? line_of(entry, entry.recipe.offset)
                                                       : 0)) &&
      put(d, "guards", guards.release()) && put(d, "calls", PyLong_FromLongLong(entry.calls)) &&
      put(d, "graph", text(r.graph)) && put(d, "schedule", text(r.schedule)) &&
      put(d, "plan", text(r.plan)) && put(d, "code", text(r.code)) &&
      put(d, "nodes", PyLong_FromLongLong(r.nodes)) &&
      put(d, "bytecodes", PyLong_FromLongLong(r.bytecodes)) && put(d, "kept", list_of(r.kept)) &&
      put(d, "backward_nodes", PyLong_FromLongLong(r.backward_nodes)) &&
      put(d, "kernels", PyLong_FromLongLong(r.launches)) &&
      put(d, "operators", dict_of(r.operators)) &&
      put(d, "arena_bytes", PyLong_FromLongLong(r.arena_bytes)) &&
      put(d, "peak_bytes", PyLong_FromLongLong(r.peak_bytes)) &&
      put(d, "backward_peak_bytes", PyLong_FromLongLong(r.backward_peak_bytes)) &&
      put(d, "cuda_graphs",
          text(entry.specializations ? entry.specializations->cuda_graphs() : "")) &&
      put(d, "backward_cuda_graphs",
          text(entry.training ? entry.training->backward_cuda_graphs() : "")) &&
      put(d, "repeatable", PyBool_FromLong(is_repeatable(entry))) &&
      put(d, "from_cache", PyBool_FromLong(r.from_cache));
  if (ok && entry.reason) {
    ok = put(d, "reason", text(capture::to_string(*entry.reason))) &&
         put(d, "reason_number", text(capture::number_of(entry.reason->kind))) &&
         put(d, "reason_what", text(entry.reason->what));
    if (ok && !entry.reason->stack.empty())
      ok = put(d, "reason_file", text(entry.reason->stack[0].file)) &&
           put(d, "reason_line", PyLong_FromLong(entry.reason->stack[0].line));
  } else if (ok) {
    ok = put(d, "reason", Py_NewRef(Py_None));
  }
  Ref seconds = Ref::steal(PyDict_New());
  for (auto [key, value] : {std::pair{"capture", r.capture},
                            {"trace", r.trace},
                            {"passes", r.passes},
                            {"lower", r.lower},
                            {"schedule", r.schedule_time},
                            {"codegen", r.codegen},
                            {"build", r.build},
                            {"total", r.total}})
    ok = ok && put(seconds.get(), key, PyFloat_FromDouble(value));
  ok = ok && put(d, "seconds", seconds.release());
  return ok ? dict.release() : nullptr;
}

}  // namespace braze::dispatch
