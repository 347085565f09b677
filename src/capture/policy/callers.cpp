// Code that asks who calls it.
#include <string_view>

#include "base/identity_map.h"
#include "base/is_one_of.h"
#include "capture/policy/policy.h"
#include "cpython/text.h"

namespace braze::capture {

namespace {

// typing asks, on behalf of `isinstance` with a protocol, whether abc or functools calls; no traced
// code is of these.
bool is_instance_check(PyCodeObject* code) {
  if (std::string_view(cpython::utf8_of(code->co_name)) != "_caller") return false;
  PyFrameObject* frame = PyEval_GetFrame();
  if (!frame) return false;
  PyCodeObject* asking = PyFrame_GetCode(frame);
  const bool checks =
      std::string_view(cpython::utf8_of(asking->co_name)) == "_allow_reckless_class_checks";
  Py_DECREF(asking);
  return checks;
}

}  // namespace

// Known by the functions that it names: of code that runs natively, that is all that is known of
// it.
bool asks_for_caller(PyCodeObject* code) {
  static auto& memo = *new IdentityMap<int8_t>;  // 1 + the answer
  int8_t& known = memo[reinterpret_cast<PyObject*>(code)];
  if (known) return known == 2 && !is_instance_check(code);
  known = 1;
  Py_INCREF(code);  // its address is kept
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_names); ++i) {
    const std::string_view name = cpython::utf8_of(PyTuple_GET_ITEM(code->co_names, i));
    if (name == "_getframe" || name == "_getframemodulename") known = 2;
  }
  return known == 2 && !is_instance_check(code);
}

bool asks_for_caller(PyTypeObject* type) {
  return is_one_of(type->tp_name, {"typing.TypeVar", "typing.ParamSpec", "typing.TypeVarTuple",
                                   "typing.TypeAliasType"});
}

}  // namespace braze::capture
