// Break reasons, recipes and drafts as text.
#include <fstream>
#include <sstream>

#include "capture/capture.h"

namespace braze::capture {

using cpython::Ref;

namespace {

struct KindText {
  const char *name, *why, *way_out;
};
constexpr KindText kKinds[] = {
#define X(id, text, fix) {#id, text, fix},
    BRAZE_BREAK_KINDS(X)
#undef X
};

constexpr const char* kSteps[] = {
#define X(id) #id,
    BRAZE_RECIPE_STEPS(X)
#undef X
};

std::string source_line(const std::string& file, int line) {
  std::ifstream in(file);
  std::string text;
  for (int i = 0; i < line && std::getline(in, text); ++i)
    if (i + 1 == line) {
      size_t start = text.find_first_not_of(" \t");
      return start == std::string::npos ? "" : text.substr(start);
    }
  return "";
}

std::string text_of(PyObject* object) {
  if (PyType_Check(object)) return reinterpret_cast<PyTypeObject*>(object)->tp_name;
  Ref text = Ref::steal(PyObject_Repr(object));
  const char* utf8 = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
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
  const KindText& kind = kKinds[static_cast<int>(reason.kind)];
  std::ostringstream out;
  out << reason.what << "\n";
  int shown = 0;
  for (const StackEntry& entry : reason.stack) {
    out << (shown ? "  called from " : "  at ") << entry.file << ":" << entry.line << " in "
        << entry.function << "\n";
    std::string line = shown < 4 ? source_line(entry.file, entry.line) : "";
    if (!line.empty()) out << "      " << line << "\n";
    if (++shown == 8) break;
  }
  out << "  why: " << kind.why << "\n  way out: " << kind.way_out;
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
    out << "exit: give up at " << draft.recipe.offset << "\n";
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
