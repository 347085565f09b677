#include "capture/symbols/text.h"

#include <opcode.h>

#include <algorithm>
#include <string_view>

#include "capture/frames/entry_state.h"
#include "capture/known.h"
#include "capture/symbols/integers.h"
#include "capture/trace_context.h"
#include "cpython/text.h"

namespace braze::capture {

namespace {

bool is_text(PyObject* object) { return Py_TYPE(object) == known().text; }

// A shape, say, some of whose sizes are symbols.
bool is_tuple_of_sizes(PyObject* object) {
  if (!PyTuple_CheckExact(object) && Py_TYPE(object) != known().size) return false;
  bool any = false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i) {
    PyObject* item = PyTuple_GET_ITEM(object, i);
    const bool symbol = Py_TYPE(item) == known().sym_int;
    if (!symbol && !PyLong_CheckExact(item)) return false;
    any |= symbol;
  }
  return any;
}

// Of these types alone, formatting has no effects and depends on nothing but value and format.
bool is_plain_value(PyObject* object) {
  return PyFloat_CheckExact(object) || PyLong_CheckExact(object) || PyUnicode_CheckExact(object) ||
         PyBool_Check(object);
}

// Whether a format either fails for all values of the type of `value` or for none.
bool suits_any(PyObject* value, char presentation) {
  if (PyLong_Check(value))
    return std::string_view("ceEfFgG%n").find(presentation) == std::string_view::npos;
  return true;
}

// `{}` and `{:.3f}` for each of the values.
bool template_suits(std::string_view text, PyObject* value) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '}') {
      if (++i == text.size() || text[i] != '}') return false;
      continue;
    }
    if (text[i] != '{') continue;
    if (++i == text.size()) return false;
    if (text[i] == '{') continue;
    const size_t end = text.find_first_of("{}[].!:", i);
    if (end == text.npos || (text[end] != '}' && text[end] != ':')) return false;
    for (size_t digit = i; digit < end; ++digit)
      if (text[digit] < '0' || text[digit] > '9') return false;
    i = text.find_first_of("{}", end);
    if (i == text.npos || text[i] == '{' || !suits_any(value, text[i - 1])) return false;
  }
  return true;
}

// `%.3f` and the like.
bool old_template_suits(std::string_view text, PyObject* value) {
  const std::string_view suited = PyFloat_Check(value)     ? "eEfFgGsr"
                                  : PyLong_Check(value)    ? "diuxXosr"
                                  : PyUnicode_Check(value) ? "sr"
                                                           : "";
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') continue;
    i = text.find_first_not_of("#0- +.123456789", i + 1);
    if (i == text.npos) return false;
    if (text[i] != '%' && suited.find(text[i]) == suited.npos) return false;
  }
  return true;
}

PyObject* str_method(const char* name) {
  const Ref text = Ref::steal(PyUnicode_InternFromString(name));
  return _PyType_Lookup(&PyUnicode_Type, text.get());
}

PyObject* builtin(const char* name) { return PyDict_GetItemString(PyEval_GetBuiltins(), name); }

// The str that the values give where they are numbers.
PyObject* join(PyObject*, PyObject* parts) {
  Ref empty = Ref::steal(PyUnicode_New(0, 0));
  return empty ? PyUnicode_Join(empty.get(), parts) : nullptr;
}

PyMethodDef g_join = {"join", join, METH_VARARGS, nullptr};

}  // namespace

static Ref value_in_text(TraceContext& trace, const Tracked& tracked);

PyObject* text_function(TextFunction function) {
  static PyObject* const joins = PyCFunction_NewEx(&g_join, nullptr, nullptr);
  static PyObject* const formats = builtin("format");
  static PyObject* const represents = builtin("repr");
  static PyObject* const ascii = builtin("ascii");
  switch (function) {
    case TextFunction::kStr:
      return reinterpret_cast<PyObject*>(&PyUnicode_Type);
    case TextFunction::kRepr:
      return represents;
    case TextFunction::kAscii:
      return ascii;
    case TextFunction::kFormat:
      return formats;
    case TextFunction::kJoin:
      return joins;
    case TextFunction::kTemplate:
      return str_method("format");
    case TextFunction::kOldTemplate:
      return str_method("__mod__");
  }
  return nullptr;
}

bool may_be_in_text(const Tracked& tracked) {
  PyObject* object = tracked.get();
  if (!object) return false;
  if (tracked.unread) return is_plain_value(object);
  return is_text(object) || Py_TYPE(object) == known().sym_int ||
         Py_TYPE(object) == known().sym_float || is_tuple_of_sizes(object);
}

Tracked varying_text(TraceContext& trace, TextFunction function, std::vector<Tracked> args) {
  bool varies = false;
  for (const Tracked& arg : args) {
    if (!arg) return {};
    const bool varying = may_be_in_text(arg);
    if (!varying && (arg.unread || !is_plain_value(arg.get()))) return {};
    varies |= varying;
  }
  if (!varies) return {};
  std::vector<Ref> values;
  for (const Tracked& arg : args) values.push_back(value_in_text(trace, arg));
  if (std::any_of(values.begin(), values.end(), [](const Ref& value) { return !value; })) return {};
  const bool has_template =
      function == TextFunction::kTemplate || function == TextFunction::kOldTemplate;
  if (has_template || function == TextFunction::kFormat) {
    PyObject* text = values[has_template ? 0 : 1].get();
    if (args[has_template ? 0 : 1].unread || !PyUnicode_CheckExact(text)) return {};
    const std::string_view format = cpython::utf8_of(text);
    for (size_t i = has_template ? 1 : 0; i < (has_template ? values.size() : 1); ++i) {
      PyObject* value = values[i].get();
      const bool suits = function == TextFunction::kTemplate ? template_suits(format, value)
                         : function == TextFunction::kOldTemplate
                             ? old_template_suits(format, value)
                             : format.empty() || suits_any(value, format.back());
      if (!suits) return {};
    }
  }
  std::vector<PyObject*> raw;
  for (const Ref& value : values) raw.push_back(value.get());
  Ref now =
      Ref::steal(PyObject_Vectorcall(text_function(function), raw.data(), raw.size(), nullptr));
  if (!now || !PyUnicode_CheckExact(now.get())) {
    PyErr_Clear();  // raised again where it is computed
    return {};
  }
  for (const Tracked& arg : args)
    if (arg.unread)
      trace.guards.add(GuardKind::kType, arg.source,
                       reinterpret_cast<PyObject*>(Py_TYPE(arg.get())));
  Ref object = Ref::steal(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(known().text)));
  if (!object) return {};
  trace.texts.push_back({object, std::move(now), function, std::move(args)});
  trace.recording.note_text();
  return Tracked(std::move(object));
}

const VaryingText& text_behind(TraceContext& trace, PyObject* object) {
  return *std::find_if(trace.texts.begin(), trace.texts.end(),
                       [&](const VaryingText& text) { return text.object.get() == object; });
}

// As it is in this call.
static Ref value_in_text(TraceContext& trace, const Tracked& tracked) {
  PyObject* object = tracked.get();
  if (is_text(object)) return text_behind(trace, object).now;
  if (Py_TYPE(object) == known().sym_float) return trace.world.floats().of(object).number;
  if (Py_TYPE(object) == known().sym_int) {
    const sym::Int value = trace.recording.value_of(object);
    if (trace.recording.shapes().mentions_unbacked(value)) return {};
    return Ref::steal(PyLong_FromLongLong(value.hint()));
  }
  if (!is_tuple_of_sizes(object)) return Ref::borrow(object);
  Ref items = Ref::steal(PySequence_List(object));
  for (Py_ssize_t i = 0; items && i < PyList_GET_SIZE(items.get()); ++i) {
    Ref number = value_in_text(trace, Tracked::borrow(PyList_GET_ITEM(items.get(), i)));
    if (!number) return {};
    PyList_SetItem(items.get(), i, number.release());
  }
  Ref arguments = Ref::steal(PyTuple_Pack(1, items.get()));
  return Ref::steal(PyTuple_Type.tp_new(Py_TYPE(object), arguments.get(), nullptr));
}

Ref settle_text(TraceContext& trace, PyObject* object) {
  const VaryingText text = text_behind(trace, object);
  for (const Tracked& given : text.args) {
    Tracked arg = given;
    if (!force(trace, arg)) return {};
    make_concrete(trace, arg);
  }
  return text.now;
}

// What an instruction is about to look at becomes text where that is all that is wanted of it.
static bool is_wanted_as_text(TraceContext& trace, Frame& frame, const cpython::Instruction& in) {
  auto& stack = frame.stack;
  using cpython::Opcode;
  if (in.op == Opcode::kFormatValue) {
    Tracked& value = frame.peek(in.arg & 4 ? 2 : 1);
    return may_be_in_text(value) && (!(in.arg & 4) || force(trace, frame.peek(1)));
  }
  if (in.op == Opcode::kBinaryOp)
    return in.arg == NB_REMAINDER && may_be_in_text(frame.peek(1)) && force(trace, frame.peek(2)) &&
           PyUnicode_CheckExact(frame.peek(2).get());
  const auto count = static_cast<size_t>(in.arg);
  if (in.op != Opcode::kCall || count == 0 || stack.size() < count + 2) return false;
  Tracked* args = stack.data() + (stack.size() - count);
  Tracked &first = args[-2], &second = args[-1];
  if (!first.unread && !second.unread && first && second) {  // "{}".format(...)
    return PyUnicode_CheckExact(second.get()) && first.get() == str_method("format") &&
           !frame.kwnames && std::all_of(args, args + count, [&](const Tracked& arg) {
             return may_be_in_text(arg) || (!arg.unread && is_plain_value(arg.get()));
           });
  }
  if (!force(trace, first) || !force(trace, second)) return false;
  PyObject* callable = first ? first.get() : second.get();
  const CalleeRule* rule = callable ? callee_rule(callable) : nullptr;
  const bool prints = rule && rule->callee == Callee::kPrint;
  if (!prints && callable != reinterpret_cast<PyObject*>(&PyUnicode_Type)) return false;
  if (!prints && (count != 1 || frame.kwnames)) return false;
  const size_t keywords =
      frame.kwnames ? static_cast<size_t>(PyTuple_GET_SIZE(frame.kwnames.get())) : 0;
  for (size_t i = 0; i < count - keywords; ++i) {
    if (!args[i].unread) continue;
    if (Tracked text = varying_text(trace, TextFunction::kStr, {args[i]}))
      args[i] = std::move(text);
  }
  return false;  // the others are looked at
}

// The text of values that vary, where the instruction makes such; else they are looked at.
static Tracked text_for(TraceContext& trace, Frame& frame, const cpython::Instruction& in) {
  using cpython::Opcode;
  if (in.op == Opcode::kFormatValue) {
    Tracked spec = in.arg & 4 ? frame.peek(1) : Tracked::steal(PyUnicode_New(0, 0));
    const Tracked value = frame.peek(in.arg & 4 ? 2 : 1);
    constexpr TextFunction kConversions[] = {TextFunction::kFormat, TextFunction::kStr,
                                             TextFunction::kRepr, TextFunction::kAscii};
    Tracked text = value;
    if (in.arg & 3) text = varying_text(trace, kConversions[in.arg & 3], {value});
    return text ? varying_text(trace, TextFunction::kFormat, {text, spec}) : Tracked();
  }
  if (in.op == Opcode::kBinaryOp)
    return varying_text(trace, TextFunction::kOldTemplate, {frame.peek(2), frame.peek(1)});
  if (in.op == Opcode::kBuildString) {
    std::vector<Tracked> parts(frame.stack.end() - in.arg, frame.stack.end());
    return varying_text(trace, TextFunction::kJoin, std::move(parts));
  }
  std::vector<Tracked> args(frame.stack.end() - in.arg - 1, frame.stack.end());
  return varying_text(trace, TextFunction::kTemplate, std::move(args));
}

bool make_text(TraceContext& trace, Frame& frame, const cpython::Instruction& in, bool& done) {
  using cpython::Opcode;
  const bool joins = in.op == Opcode::kBuildString && !trace.texts.empty();
  done = joins || is_wanted_as_text(trace, frame, in);
  if (!done) return !PyErr_Occurred();
  Tracked text = text_for(trace, frame, in);
  done = bool(text);
  if (!done) return !PyErr_Occurred();
  const int operands = in.op == Opcode::kFormatValue   ? (in.arg & 4 ? 2 : 1)
                       : in.op == Opcode::kBinaryOp    ? 2
                       : in.op == Opcode::kBuildString ? in.arg
                                                       : in.arg + 2;
  frame.drop(operands);
  return frame.push(std::move(text));
}

}  // namespace braze::capture
