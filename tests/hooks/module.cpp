#include "hooks.h"

PyMODINIT_FUNC PyInit__test_hooks() {
  static PyModuleDef definition = {.m_base = PyModuleDef_HEAD_INIT,
                                   .m_name = "_test_hooks",
                                   .m_doc = "What the tests see of a trace and of a capture.",
                                   .m_size = -1};
  PyObject* module = PyModule_Create(&definition);
  if (module && braze::trace::add_hooks(module) && braze::capture::add_hooks(module) &&
      braze::runtime::add_hooks(module))
    return module;
  Py_XDECREF(module);
  return nullptr;
}
