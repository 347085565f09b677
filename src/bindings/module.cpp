// The extension module `braze._C`: creates the types of dispatch/ and adds a few functions.
#include <pybind11/pybind11.h>

#include "base/options.h"
#include "capture/breaks/catalogue.h"
#include "capture/capture.h"
#include "dispatch/compiled_function.h"
#include "runtime/attention_operator.h"
#include "runtime/batched_products.h"
#include "runtime/dense_operators.h"
#include "runtime/flex_attention_operator.h"
#include "runtime/memory.h"
#include "runtime/memory_meter.h"
#include "runtime/place_sum_operator.h"
#include "runtime/random_operator.h"
#include "target/isa.h"
#include "toolchain/toolchain.h"
#include "trace/ctc_loss.h"
#include "trace/flex_attention.h"
#include "trace/tracer.h"

namespace py = pybind11;

namespace {

using Words = std::initializer_list<std::pair<const char*, py::object>>;

py::dict entry_of(Words words) {
  py::dict entry;
  for (const auto& [name, value] : words) entry[name] = value;
  return entry;
}

// As Python shows the environment: bytes that are no UTF-8 as lone surrogates.
py::object as_python(const std::string& value) {
  return py::reinterpret_steal<py::object>(
      PyUnicode_DecodeFSDefaultAndSize(value.data(), static_cast<Py_ssize_t>(value.size())));
}
template <class Number>
py::object as_python(Number value) {
  return py::cast(value);
}

py::list breaks() {
  py::list out;
  for (const auto& words : braze::capture::break_catalogue())
    out.append(entry_of({{"number", py::cast(words.number)},
                         {"id", py::cast(words.id)},
                         {"why", py::cast(words.why)},
                         {"way_out", py::cast(words.way_out)},
                         {"example", py::cast(words.example)}}));
  return out;
}

py::list errors() {
  py::list out;
  for (const auto& words : braze::capture::error_catalogue())
    out.append(entry_of({{"number", py::cast(words.number)},
                         {"exception", py::cast(words.exception)},
                         {"what", py::cast(words.what)},
                         {"way_out", py::cast(words.way_out)},
                         {"example", py::cast(words.example)}}));
  return out;
}

}  // namespace

PYBIND11_MODULE(_C, module) {
  module.doc() = "The native part of Braze.";
  std::string trouble = braze::trace::initialize(module.ptr());
  if (!trouble.empty()) throw py::import_error(trouble);
  braze::runtime::register_batched_products();
  braze::runtime::register_dense_operators();
  braze::runtime::register_attention_operator();
  braze::runtime::register_place_sum_operator();
  braze::runtime::register_flex_attention_kernels();
  braze::trace::register_flex_attention_operators();
  braze::trace::register_ctc_loss_operators();
  braze::runtime::register_random_operator();
  if (!braze::capture::initialize()) throw py::error_already_set();
  if (!braze::dispatch::initialize(module.ptr())) throw py::error_already_set();

  module.def(
      "options",
      [] {
        py::dict out;
#define X(member, env, type, value, help) out[#member] = as_python(braze::options().member);
        BRAZE_OPTIONS(X)
#undef X
        return out;
      },
      "The settings taken from the environment.");
  module.def("reload_options", &braze::reload_options, "Reads the BRAZE_* environment again.");
  module.def(
      "host_compiler",
      []() -> py::object {
        const auto& compiler = braze::toolchain::host_compiler();
        if (!compiler) return py::none();
        return py::make_tuple(as_python(compiler->path), as_python(compiler->version));
      },
      "(path, version) of the C++ compiler that builds kernels, or None.");
  module.def(
      "host_isa", [] { return std::string(braze::target::to_string(braze::target::host_isa())); },
      "The vector instruction set that kernels are generated for.");
  module.def(
      "clear_cache", [] { braze::toolchain::DiskCache::instance().clear(); },
      "Removes every entry of the disk cache.");
  module.def(
      "set_substitutes",
      [](py::dict functions, py::dict for_floats, py::function checkpointed) {
        braze::capture::set_substitutes(functions.ptr(), for_floats.ptr(), checkpointed.ptr());
      },
      "Python functions that a capture evaluates in the place of others; the one that calls what "
      "is "
      "checkpointed.");
  module.def("break_catalogue", &breaks, "Every kind of break, a dict for each.");
  module.def("error_catalogue", &errors, "Every error of use, a dict for each.");
  module.def(
      "measure_memory",
      [](const py::function& function) {
        const braze::runtime::MemoryMeter meter;
        py::object result = function();
        return py::make_tuple(result, meter.peak(), meter.held());
      },
      "(result of the call, bytes that tensors took at most, bytes that they hold after it).");
  module.def("release_memory", &braze::runtime::release_pooled_memory,
             "Gives idle pooled output memory back to the system; bytes.");
}
