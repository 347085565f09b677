// Break reasons, recipes and drafts as text.
#include <algorithm>
#include <sstream>

#include "capture/capture.h"
#include "capture/catalogue.h"
#include "capture/world.h"
#include "cpython/exception.h"
#include "cpython/text.h"

namespace braze::capture {

using cpython::Ref;

namespace {

constexpr size_t kFramesWithSource = 4, kFramesShown = 8;

constexpr const char* kSteps[] = {
#define X(id) #id,
    BRAZE_RECIPE_STEPS(X)
#undef X
};

// As Python's tracebacks find it: also for a notebook's cells. Without the line's end.
std::string source_line(const std::string& file, int line) {
  const cpython::SavedException pending;
  Ref module = Ref::steal(PyImport_ImportModule("linecache"));
  Ref text =
      module ? Ref::steal(PyObject_CallMethod(module.get(), "getline", "si", file.c_str(), line))
             : Ref();
  const char* utf8 = text ? cpython::utf8_of(text.get()) : nullptr;
  std::string result = utf8 ? utf8 : "";
  result.erase(result.find_last_not_of(" \t\r\n\f") + 1);
  return result;
}

size_t characters(std::string_view utf8) {
  return static_cast<size_t>(
      std::count_if(utf8.begin(), utf8.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

// The line and, under its expression, carets; each line indented by six spaces.
std::string shown_source(const StackEntry& entry) {
  const std::string line = source_line(entry.file, entry.line);
  const size_t start = line.find_first_not_of(" \t\f");
  if (start == std::string::npos) return "";
  const std::string text = line.substr(start);
  std::string result = "      " + text + "\n";
  if (entry.column < static_cast<int>(start)) return result;
  const size_t from = static_cast<size_t>(entry.column) - start;
  size_t to = text.size();
  if (entry.end_line == entry.line && entry.end_column > entry.column)
    to = std::min(to, static_cast<size_t>(entry.end_column) - start);
  if (from >= to) return result;
  return result + "      " + std::string(characters(text.substr(0, from)), ' ') +
         std::string(characters(text.substr(from, to - from)), '^') + "\n";
}

std::string text_of(PyObject* object) {
  if (PyType_Check(object)) return reinterpret_cast<PyTypeObject*>(object)->tp_name;
  if (!is_atom(object)) return std::string("a ") + Py_TYPE(object)->tp_name + " object";
  Ref text = Ref::steal(PyObject_Repr(object));
  const char* utf8 = text ? cpython::utf8_of(text.get()) : nullptr;
  if (!utf8) {
    PyErr_Clear();
    return "?";
  }
  std::string result = utf8;
  return result.size() > 60 ? result.substr(0, 57) + "..." : result;
}

std::string numbers(const std::vector<int>& items) {
  std::string text;
  for (int item : items) text += (text.empty() ? "%" : ", %") + std::to_string(item);
  return text;
}

}  // namespace

std::string to_string(const BreakReason& reason) {
  const BreakWords& words = words_of(reason.kind);
  std::ostringstream out;
  out << words.number << ": " << reason.what << "\n";
  size_t shown = 0;
  for (const StackEntry& entry : reason.stack) {
    out << (shown ? "  called from " : "  at ") << entry.file << ":" << entry.line << " in "
        << entry.function << "\n";
    if (shown < kFramesWithSource) out << shown_source(entry);
    if (++shown == kFramesShown && reason.stack.size() > kFramesShown) {
      out << "  ... and " << reason.stack.size() - kFramesShown << " more callers\n";
      break;
    }
  }
  if (!reason.object.empty()) out << "  object: " << reason.object << "\n";
  out << "  why: " << words.why << "\n  way out: " << words.way_out;
  return out.str();
}

std::string to_string(const Recipe& recipe) {
  std::ostringstream out;
  for (size_t i = 0; i < recipe.steps.size(); ++i) {
    const Recipe::Step& step = recipe.steps[i];
    out << "%" << i << " = " << kSteps[static_cast<int>(step.kind)];
    if (step.index >= 0) out << " #" << step.index;
    if (step.target >= 0) out << " %" << step.target << " <-";
    if (step.object) out << " " << text_of(step.object.get());
    if (step.source) out << " " << guard::to_string(step.source);
    if (!step.items.empty()) out << " (" << numbers(step.items) << ")";
    out << "\n";
  }
  if (recipe.result >= 0) out << "return %" << recipe.result << "\n";
  return out.str();
}

std::string to_string(const Draft& draft) {
  std::ostringstream out;
  if (draft.exit == ExitKind::kReturn) {
    out << "exit: return\n";
  } else {
    if (draft.exit == ExitKind::kBreak)
      out << "exit: break at " << draft.recipe.offset << (draft.traced ? "" : ", by CPython");
    else if (draft.exit == ExitKind::kRaise)
      out << "exit: raise at " << draft.recipe.offset;
    else
      out << "exit: give up";
    out << "\n";
    if (draft.reason) out << to_string(*draft.reason) << "\n";
  }
  out << graph::to_string(draft.graph) << "\n";
  for (size_t i = 0; i < draft.inputs.size(); ++i)
    out << "input " << i << ": "
        << (draft.inputs[i].source ? guard::to_string(draft.inputs[i].source) : "constant") << "\n";
  out << to_string(draft.recipe);
  return out.str();
}

}  // namespace braze::capture
