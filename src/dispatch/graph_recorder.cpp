#include "dispatch/graph_recorder.h"

#include <c10/util/Exception.h>

#include <string>
#include <utility>

#include "dispatch/gil.h"
#include "runtime/cuda/driver.h"
#include "runtime/cuda/recording.h"

namespace braze::dispatch {
namespace {

using cpython::Ref;

// The pending Python exception as PyTorch's, in words.
[[noreturn]] void raise_recording_failure() {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  const Ref own_type = Ref::steal(type), own_value = Ref::steal(value),
            own_traceback = Ref::steal(traceback);
  std::string words = "a CUDA graph failed";
  if (const Ref text = Ref::steal(value ? PyObject_Str(value) : nullptr))
    if (const char* utf8 = PyUnicode_AsUTF8(text.get())) words = utf8;
  PyErr_Clear();
  TORCH_CHECK(false, words);
}

class PythonRecording : public runtime::cuda::Recording {
 public:
  explicit PythonRecording(Ref object) : object_(std::move(object)) {}
  ~PythonRecording() override {
    if (!Py_IsInitialized()) {
      object_.release();
      replay_.release();
      return;
    }
    const Gil gil;
    replay_ = Ref();
    object_ = Ref();
  }

  void finish(bool has_numbers) override {
    const Gil gil;
    const Ref made = Ref::steal(
        PyObject_CallMethod(object_.get(), "finish", "O", has_numbers ? Py_True : Py_False));
    if (!made) raise_recording_failure();
    executable_ = PyLong_AsVoidPtr(made.get());
    replay_ = Ref::steal(PyObject_GetAttrString(object_.get(), "replay"));
    if (!replay_) raise_recording_failure();
  }

  void abandon() noexcept override {
    const Gil gil;
    const Ref done = Ref::steal(PyObject_CallMethod(object_.get(), "abandon", nullptr));
    if (!done) PyErr_WriteUnraisable(object_.get());
  }

  void launch() override {
    const Gil gil;
    if (const Ref done = Ref::steal(PyObject_CallNoArgs(replay_.get())); !done)
      raise_recording_failure();
  }

  void* executable() const override { return executable_; }

 private:
  Ref object_, replay_;
  void* executable_ = nullptr;
};

class PythonRecorder : public runtime::cuda::Recorder {
 public:
  explicit PythonRecorder(Ref begin) : begin_(std::move(begin)) {}

  c10::DeviceType device_type() const override { return c10::kCUDA; }

  std::unique_ptr<runtime::cuda::Recording> begin(c10::Device device,
                                                  std::function<void()>) override {
    const Gil gil;
    Ref object = Ref::steal(PyObject_CallFunction(begin_.get(), "i", int{device.index()}));
    if (!object) raise_recording_failure();
    if (object.get() == Py_None) return nullptr;
    return std::make_unique<PythonRecording>(std::move(object));
  }

  bool is_recording(void* stream) const override { return runtime::cuda::is_recording(stream); }

  void copy(void* target, const void* source, int64_t bytes, void* stream) const override {
    runtime::cuda::copy(target, source, bytes, stream);
  }

 private:
  Ref begin_;
};

PyObject* record_cuda_graphs(PyObject*, PyObject* begin) {
  runtime::cuda::install(std::make_unique<PythonRecorder>(Ref::borrow(begin)));
  Py_RETURN_NONE;
}

PyMethodDef kRecorderMethods[] = {
    {"record_cuda_graphs", record_cuda_graphs, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

bool initialize_graph_recorder(PyObject* module) {
  return PyModule_AddFunctions(module, kRecorderMethods) == 0;
}

}  // namespace braze::dispatch
