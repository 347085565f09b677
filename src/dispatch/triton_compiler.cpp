#include "dispatch/triton_compiler.h"

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "dispatch/gil.h"
#include "runtime/cuda/triton.h"

namespace braze::dispatch {
namespace {

using cpython::Ref;
using runtime::cuda::TritonBinary;
using runtime::cuda::TritonSource;

[[noreturn]] void raise_triton_failure() {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  const Ref own_type = Ref::steal(type), own_value = Ref::steal(value),
            own_traceback = Ref::steal(traceback);
  std::string words = "no reason given";
  if (const Ref text = Ref::steal(value ? PyObject_Str(value) : nullptr))
    if (const char* utf8 = PyUnicode_AsUTF8(text.get())) words = utf8;
  PyErr_Clear();
  throw InternalError(__FILE__, __LINE__, "Triton failed: " + words);
}

Ref checked(PyObject* made) {
  if (!made) raise_triton_failure();
  return Ref::steal(made);
}

Ref source_of(const TritonSource& source) {
  const Ref flags = checked(PyList_New(0));
  for (const std::string& flag : source.flags) {
    const Ref text = checked(PyUnicode_FromString(flag.c_str()));
    if (PyList_Append(flags.get(), text.get()) < 0) raise_triton_failure();
  }
  return checked(Py_BuildValue("(ssO)", source.name.c_str(), source.text.c_str(), flags.get()));
}

TritonBinary binary_of(PyObject* given) {
  TritonBinary binary;
  unsigned shared = 0;
  PyObject* cubin = nullptr;
  if (!PyArg_ParseTuple(given, "IiS", &shared, &binary.more_pointers, &cubin))
    raise_triton_failure();
  binary.shared_bytes = shared;
  binary.cubin.assign(PyBytes_AS_STRING(cubin), static_cast<size_t>(PyBytes_GET_SIZE(cubin)));
  return binary;
}

class PythonCompiler : public runtime::cuda::TritonCompiler {
 public:
  PythonCompiler(std::string version, Ref compile)
      : version_(std::move(version)), compile_(std::move(compile)) {}

  const std::string& version() const override { return version_; }

  std::vector<TritonBinary> compile(std::span<const TritonSource> sources,
                                    const std::string& folder) override {
    const Gil gil;
    const Ref list = checked(PyList_New(0));
    for (const TritonSource& source : sources)
      if (PyList_Append(list.get(), source_of(source).get()) < 0) raise_triton_failure();
    const Ref made =
        checked(PyObject_CallFunction(compile_.get(), "Os", list.get(), folder.c_str()));
    const Ref items = checked(PySequence_List(made.get()));
    std::vector<TritonBinary> binaries;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i)
      binaries.push_back(binary_of(PyList_GET_ITEM(items.get(), i)));
    return binaries;
  }

 private:
  std::string version_;
  Ref compile_;
};

PyObject* compile_triton(PyObject*, PyObject* args) {
  const char* version = nullptr;
  PyObject* compile = nullptr;
  if (!PyArg_ParseTuple(args, "sO", &version, &compile)) return nullptr;
  runtime::cuda::install(std::make_unique<PythonCompiler>(version, Ref::borrow(compile)));
  Py_RETURN_NONE;
}

PyMethodDef kTritonMethods[] = {
    {"compile_triton", compile_triton, METH_VARARGS, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool initialize_triton_compiler(PyObject* module) {
  return PyModule_AddFunctions(module, kTritonMethods) == 0;
}

}  // namespace braze::dispatch
