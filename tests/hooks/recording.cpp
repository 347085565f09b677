// "CUDA graphs" on machines without a GPU, for tests of what they must not be seen to do.
#include "hooks.h"
#include "repeater.h"

namespace braze::runtime {
namespace {

PyObject* repeat_on_cpu(PyObject*, PyObject*) {
  cuda::install(std::make_unique<Repeater>());
  Py_RETURN_NONE;
}

}  // namespace

bool add_hooks(PyObject* module) {
  static PyMethodDef methods[] = {{"repeat_on_cpu", repeat_on_cpu, METH_NOARGS, nullptr},
                                  {nullptr, nullptr, 0, nullptr}};
  return PyModule_AddFunctions(module, methods) == 0;
}

}  // namespace braze::runtime
