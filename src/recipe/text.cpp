// Recipes as text.
#include "cpython/text.h"

#include <sstream>
#include <string_view>

#include "cpython/lookup.h"
#include "recipe/recipe.h"

namespace braze::recipe {

using cpython::Ref;

namespace {

constexpr const char* kSteps[] = {
#define X(id) #id,
    BRAZE_RECIPE_STEPS(X)
#undef X
};

// The program's own classes are not asked: their __repr__ may do anything.
bool has_plain_repr(PyTypeObject* type) {
  if (cpython::is_python_class(type)) return false;
  const std::string_view name = type->tp_name;
  for (const std::string_view plain :
       {"str", "int", "bool", "float", "bytes", "complex", "NoneType", "ellipsis",
        "NotImplementedType", "torch.dtype", "torch.device", "torch.layout", "torch.memory_format"})
    if (name == plain) return true;
  return false;
}

std::string text_of(PyObject* object) {
  if (PyType_Check(object)) return reinterpret_cast<PyTypeObject*>(object)->tp_name;
  if (!has_plain_repr(Py_TYPE(object)))
    return std::string("a ") + Py_TYPE(object)->tp_name + " object";
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

}  // namespace braze::recipe
