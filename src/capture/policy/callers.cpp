// Code that asks who calls it.
#include <algorithm>
#include <string_view>

#include "capture/identity_map.h"
#include "capture/policy/policy.h"
#include "cpython/text.h"

namespace braze::capture {

// Known by the functions that it names: of code that runs natively, that is all that is known of
// it.
bool asks_for_caller(PyCodeObject* code) {
  static auto& memo = *new IdentityMap<int8_t>;  // 1 + the answer
  int8_t& known = memo[reinterpret_cast<PyObject*>(code)];
  if (known) return known == 2;
  known = 1;
  Py_INCREF(code);  // its address is kept
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_names); ++i) {
    const std::string_view name = cpython::utf8_of(PyTuple_GET_ITEM(code->co_names, i));
    if (name == "_getframe" || name == "_getframemodulename") known = 2;
  }
  return known == 2;
}

}  // namespace braze::capture
