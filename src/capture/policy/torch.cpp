// What of torch bypasses the dispatcher, changes state or reads data.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "capture/policy/policy.h"
#include "capture/policy/torch_code.h"

namespace braze::capture {

namespace {

using Set = std::unordered_set<std::string_view>;
using Reasons = std::unordered_map<std::string_view, const char*>;

constexpr const char* kReadsData = "reads the tensor's data";
constexpr const char* kStorage = "hands out the tensor's memory";
constexpr const char* kAutograd = "changes what autograd records";
constexpr const char* kMetadata = "changes the tensor in place behind the dispatcher";
constexpr const char* kProcess = "changes state of the process";
constexpr const char* kRandom = "reads or sets the state of a random generator";
constexpr const char* kFile = "reads or writes a file";

// Answers about a function, kept by the addresses of its names, which as a rule are those of
// interned strings or of C's, and compared. Under the GIL.
template <class Answer>
class Remembered {
 public:
  Answer get(const char* module, const char* name, Answer (*ask)(const char*, const char*)) {
    const auto mixed =
        (reinterpret_cast<uintptr_t>(module) * 31 + reinterpret_cast<uintptr_t>(name)) >> 3;
    Entry& entry = entries_[(mixed ^ (mixed >> 9)) % entries_.size()];
    if (!entry.known || entry.name != name || entry.module != module)
      entry = {true, module, name, ask(module, name)};
    return entry.answer;
  }

 private:
  struct Entry {
    bool known = false;
    std::string module, name;
    Answer answer{};
  };
  std::array<Entry, 512> entries_;
};

}  // namespace

TensorAttribute tensor_attribute(const char* name) {
  static const Set metadata = {"shape",
                               "dtype",
                               "device",
                               "ndim",
                               "layout",
                               "requires_grad",
                               "is_cuda",
                               "is_cpu",
                               "is_sparse",
                               "is_sparse_csr",
                               "is_quantized",
                               "is_meta",
                               "is_mkldnn",
                               "is_mps",
                               "is_xpu",
                               "is_xla",
                               "is_nested",
                               "is_leaf",
                               "itemsize",
                               "nbytes",
                               "is_ipu",
                               "is_vulkan",
                               "is_ort",
                               "is_hpu",
                               "is_mtia",
                               "is_maia",
                               "__class__",
                               "__module__",
                               "__doc__",
                               "__hash__",
                               "__torch_function__",
                               "__torch_dispatch__",
                               "__array_priority__"};
  static const Set tensors = {"T", "mT", "H", "mH", "real", "imag"};
  static const Set refused = {"grad_fn",      "_version", "_base",
                              "_cdata",       "names",    "output_nr",
                              "_grad",        "_grad_fn", "_backward_hooks",
                              "retains_grad", "volatile", "__cuda_array_interface__",
                              "__dict__"};
  if (metadata.contains(name)) return TensorAttribute::kMetadata;
  if (std::string_view(name) == "data") return TensorAttribute::kData;
  if (std::string_view(name) == "grad") return TensorAttribute::kGradient;
  if (tensors.contains(name)) return TensorAttribute::kTensor;
  if (refused.contains(name)) return TensorAttribute::kBreak;
  return TensorAttribute::kOther;
}

namespace {

const char* listed_method_break(std::string_view name) {
  static const Reasons reasons = {
      {"data_ptr", kStorage},
      {"numpy", kReadsData},
      {"__array__", kReadsData},
      {"__array_wrap__", kReadsData},
      {"tolist", kReadsData},
      {"storage", kStorage},
      {"untyped_storage", kStorage},
      {"_typed_storage", kStorage},
      {"_storage", kStorage},
      {"__repr__", kReadsData},
      {"__str__", kReadsData},
      {"__format__", kReadsData},
      {"__reduce_ex__", kReadsData},
      {"__reduce__", kReadsData},
      {"__deepcopy__", kStorage},
      {"__setstate__", kMetadata},
      {"__dlpack__", kStorage},
      {"__dlpack_device__", kStorage},
      {"storage_offset", "reads where the tensor lies in its memory"},
      {"_is_view", kAutograd},
      {"is_set_to", kStorage},
      {"requires_grad_", kAutograd},
      {"retain_grad", kAutograd},
      {"register_hook", kAutograd},
      {"register_post_accumulate_grad_hook", kAutograd},
      {"detach_", kAutograd},
      {"set_", kMetadata},
      {"resize_", kMetadata},
      {"resize_as_", kMetadata},
      {"resize", kMetadata},
      {"share_memory_", kMetadata},
      {"is_shared", kStorage},
      {"pin_memory", kMetadata},
      {"is_pinned", kStorage},
      {"as_subclass", kMetadata},
      {"_make_subclass", kMetadata},
      {"_make_wrapper_subclass", kMetadata},
      {"rename", kMetadata},
      {"rename_", kMetadata},
      {"refine_names", kMetadata},
      {"align_to", kMetadata},
      {"align_as", kMetadata},
      {"unflatten_names", kMetadata},
      {"module_load", kMetadata},
      {"apply_", kReadsData},
      {"map_", kReadsData},
      {"map2_", kReadsData},
      {"__setattr__", kMetadata},
      {"__delattr__", kMetadata},
      {"_set_grad", kAutograd},
      {"_backward", kAutograd},
      {"_use_count", "counts references to the tensor"},
      {"const_data_ptr", kStorage},
      {"_view_func", kAutograd},
      {"_view_func_unsafe", kAutograd},
      {"_rev_view_func_unsafe", kAutograd},
      {"_dtensor__new__", kMetadata},
      {"record_stream", kProcess},
      {"_fix_weakref", kMetadata},
      {"__init__", kMetadata},
  };
  auto it = reasons.find(name);
  return it == reasons.end() ? nullptr : it->second;
}

}  // namespace

const char* tensor_method_break(const char* name) {
  static auto& known = *new Remembered<const char*>;
  return known.get("", name,
                   [](const char*, const char* name) { return listed_method_break(name); });
}

namespace {

const char* torch_function_break(std::string_view m, std::string_view n) {
  static const Reasons reasons = {
      {"manual_seed", kRandom},
      {"seed", kRandom},
      {"initial_seed", kRandom},
      {"get_rng_state", kRandom},
      {"set_rng_state", kRandom},
      {"fork_rng", kRandom},
      {"Generator", kRandom},
      {"default_generator", kRandom},
      {"set_default_dtype", kProcess},
      {"set_default_device", kProcess},
      {"set_default_tensor_type", kProcess},
      {"_set_default_dtype", kProcess},
      {"_set_default_tensor_type", kProcess},
      {"_set_default_device", kProcess},
      {"set_num_threads", kProcess},
      {"set_num_interop_threads", kProcess},
      {"use_deterministic_algorithms", kProcess},
      {"set_deterministic_debug_mode", kProcess},
      {"_set_deterministic_algorithms", kProcess},
      {"set_flush_denormal", kProcess},
      {"set_float32_matmul_precision", kProcess},
      {"set_warn_always", kProcess},
      {"set_printoptions", kProcess},
      {"save", kFile},
      {"load", kFile},
      {"from_file", kFile},
      {"compile", "compiles"},
      {"from_numpy", kReadsData},
      {"frombuffer", kReadsData},
      {"from_dlpack", kStorage},
      {"to_dlpack", kStorage},
      {"is_storage", kStorage},
      {"set_anomaly_enabled", kAutograd},
      {"checkpoint", "recomputes in the backward pass"},
      {"_make_subclass", kMetadata},
      {"synchronize", kProcess},
      {"load_state_dict", kMetadata},
      {"vmap", "is not supported"},
  };
  if (const TorchCodeEntry* listed = torch_code(m, n);
      listed && listed->what == TorchCode::kRefused)
    return listed->why;
  static const Set context = {"apply", "save_for_backward", "mark_non_differentiable",
                              "set_materialize_grads"};
  if (m == "torch.autograd.function" && context.contains(n)) return nullptr;
  if (m == "torch.autograd.function") return kAutograd;
  if ((m.starts_with("torch._C") || m == "torch") &&
      (n.starts_with("_set_") || n.starts_with("set_"))) {
    static const Set undone = {"_set_grad_enabled",          "set_grad_enabled",
                               "set_autocast_enabled",       "set_autocast_dtype",
                               "set_autocast_cache_enabled", "set_autocast_cpu_enabled",
                               "set_autocast_cpu_dtype"};
    if (!undone.contains(n)) return kProcess;
  }
  auto it = reasons.find(n);
  return it == reasons.end() ? nullptr : it->second;
}

bool reads_a_switch(std::string_view m, std::string_view n) {
  // Of the thread's state that each call compares (guard::GlobalState), or of nothing that changes.
  static const Set guarded = {"get_default_dtype",
                              "get_num_threads",
                              "_get_deterministic_algorithms",
                              "_get_deterministic_algorithms_warn_only",
                              "is_grad_enabled",
                              "is_inference_mode_enabled",
                              "_is_torch_function_enabled",
                              "_is_torch_function_all_disabled",
                              "_is_torch_function_mode_enabled",
                              "_get_torch_function_state",
                              "_get_tracing_state",
                              "_is_tracing",
                              "_is_any_autocast_enabled",
                              "is_autocast_enabled",
                              "is_autocast_cpu_enabled",
                              "_get_privateuse1_backend_name",
                              "_get_cpu_capability",
                              "_get_accelerator"};
  if (!m.starts_with("torch._C") && m != "torch") return false;
  for (std::string_view start : {"_get_", "get_", "_is_", "is_"})
    if (n.starts_with(start)) return !guarded.contains(n);
  return n == "_check_sparse_tensor_invariants";
}

bool may_see_fakes(std::string_view m, std::string_view n) {
  static const Set looks_at_metadata = {"_has_torch_function",
                                        "_has_torch_function_unary",
                                        "_has_torch_function_variadic",
                                        "_any_requires_grad",
                                        "_conv_determine_backend_memory_format",
                                        "_disabled_torch_function_impl",
                                        "_get_autocast_dtype",
                                        "_group_tensors_by_device_and_dtype",
                                        "_infer_size",
                                        "_non_sym_sizes",
                                        "_select_batch_norm_backend",
                                        "_select_conv_backend",
                                        "_skip_one_hop_torch_function"};
  const bool is_private = n.starts_with("_") && !n.starts_with("__");
  return m != "torch._C" || !is_private || looks_at_metadata.contains(n);
}

bool takes_objects(std::string_view m, std::string_view n) {
  return (m == "torch.overrides" && (n == "has_torch_function" || n == "is_tensor_like")) ||
         (m == "torch._C" && n.starts_with("_has_torch_function")) || n == "_has_torch_function" ||
         n == "has_torch_function" || n == "has_torch_function_unary" ||
         n == "has_torch_function_variadic" || n == "is_tensor" || n == "is_scripting" ||
         n == "is_tracing" || n == "is_compiling";
}

}  // namespace

// pybind11 makes a class of each that it binds, and a builtin of each function, which holds a
// record of its overloads.
bool is_method_of_native_object(PyObject* function, PyObject* self, const char* name) {
  const auto is_named = [](PyTypeObject* type, std::string_view word) {
    return std::string_view(type->tp_name).find(word) != std::string_view::npos;
  };
  if (!is_named(Py_TYPE(Py_TYPE(self)), "pybind11_type")) return false;
  if (!PyCFunction_Check(function)) return false;
  PyObject* record = PyCFunction_GET_SELF(function);
  if (!record || (!PyCapsule_CheckExact(record) &&
                  !is_named(Py_TYPE(record), "pybind11_detail_function_record")))
    return false;
  static PyObject* const members = PyUnicode_InternFromString("__members__");
  if (_PyType_Lookup(Py_TYPE(self), members) || is_named(Py_TYPE(self), "DispatchKeySet"))
    return false;
  // Contexts are those of PyTorch's own state, which a trace keeps track of.
  static const Set context = {"__init__", "__enter__", "__exit__"};
  if (context.contains(name)) return false;
  static const Set constant = {"rank", "size", "name"};  // of a group of processes
  return !(is_named(Py_TYPE(self), "ProcessGroup") && constant.contains(name));
}

TorchFunctionPolicy torch_function_policy(const char* module, const char* name) {
  static auto& known = *new Remembered<TorchFunctionPolicy>;
  return known.get(module, name, [](const char* module, const char* name) {
    return TorchFunctionPolicy{torch_function_break(module, name), reads_a_switch(module, name),
                               may_see_fakes(module, name), takes_objects(module, name)};
  });
}

bool copies_data(const char* name) {
  static const Set makers = {"tensor", "as_tensor", "asarray", "new_tensor", "new"};
  return makers.contains(name) || std::string_view(name).ends_with("Tensor");
}

bool is_hint_function(const char* module, const char* name) {
  static const Set hints = {"mark_static_address", "mark_dynamic",  "maybe_mark_dynamic",
                            "mark_static",         "mark_unbacked", "graph_break"};
  const std::string_view m = module;
  // Modules that were made in a traced function: looked at by torch.export alone.
  if (m == "torch._dynamo.mutation_guard") return std::string_view(name) == "tag";
  return m.starts_with("torch._dynamo") && hints.contains(name);
}

}  // namespace braze::capture
