// Recipes as text.
#include "cpython/text.h"

#include <sstream>
#include <string_view>

#include "cpython/lookup.h"
#include "recipe/recipe.h"

namespace braze::recipe {

using cpython::Ref;

namespace {

constexpr const char* kActions[] = {
#define X(id) #id,
    BRAZE_RECIPE_ACTIONS(X)
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
  for (size_t i = 0; i < recipe.actions.size(); ++i) {
    const Recipe::Action& action = recipe.actions[i];
    out << "%" << i << " = " << kActions[static_cast<int>(action.kind)];
    if (action.index >= 0) out << " #" << action.index;
    if (action.target >= 0) out << " %" << action.target << " <-";
    if (action.object) out << " " << text_of(action.object.get());
    if (action.source) out << " " << guard::to_string(action.source);
    if (!action.items.empty()) out << " (" << numbers(action.items) << ")";
    out << "\n";
  }
  if (recipe.result >= 0) out << "return %" << recipe.result << "\n";
  return out.str();
}

}  // namespace braze::recipe
