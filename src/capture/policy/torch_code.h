// What a trace does with PyTorch's own Python code: evaluated like any other, which guards what it
// reads and logs what it writes, unless this list says otherwise.
//
// Native: runs as it is, over fakes, which is faster. Its reads have no guards and its writes are
// not undone, so it may do neither with anything that outlives the call.
// A function of its arguments: native, but evaluated if it can warn, since what warns asks for the
// frames that called it.
// Refused: the call is a break, and so is made for real.
//
// The longest entry decides: a module with all below it, and in it a function or class by the
// beginning of its qualified name. tests/python/capture/test_torch_code.py looks at the code of
// what is listed as native.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace braze::capture {

enum class TorchCode : uint8_t { kEvaluated, kNative, kFunction, kRefused };

// module, qualified name or "", what is done, why
#define BRAZE_TORCH_CODE(X)                                                                       \
  /* Functions of tensors and numbers: they read their arguments and call operators. */           \
  X("torch.functional", "", kFunction, "functions of their arguments")                            \
  X("torch.functional", "einsum", kEvaluated, "reads switches of torch.backends.opt_einsum")      \
  X("torch.functional", "split", kEvaluated, "reads a list that may have numbers that vary")      \
  X("torch.nn.functional", "", kFunction, "functions of their arguments")                         \
  X("torch._tensor", "", kNative, "methods of tensors")                                           \
  X("torch._tensor", "Tensor.split", kEvaluated, "reads a list, as above")                        \
  X("torch._linalg_utils", "", kNative, "functions of their arguments")                           \
  X("torch._lowrank", "", kNative, "functions of their arguments")                                \
  X("torch.signal.windows", "", kNative, "functions of their arguments")                          \
  X("torch.masked", "", kNative, "functions of their arguments")                                  \
  X("torch.sparse", "", kNative, "functions of their arguments")                                  \
  X("torch.sparse", "check_sparse_tensor_invariants", kRefused, "changes state of the process")   \
  X("torch.nested", "", kNative, "functions of their arguments")                                  \
  X("torch.special", "", kNative, "functions of their arguments")                                 \
  X("torch._refs", "", kNative, "operators by other operators")                                   \
  X("torch._prims", "", kNative, "operators by other operators")                                  \
  X("torch._prims_common", "", kNative, "operators by other operators")                           \
  X("torch._decomp", "", kNative, "operators by other operators")                                 \
  X("torch._meta_registrations", "", kNative, "operators by other operators")                     \
  /* Between Python and the operators. */                                                         \
  X("torch", "Sym", kNative, "stands for a plain number")                                         \
  X("torch", "sym_", kNative, "asks what stands for a plain number")                              \
  X("torch", "_sym_", kNative, "asks what stands for a plain number")                             \
  X("torch", "_check", kNative, "an assertion")                                                   \
  X("torch", "_as_tensor_fullprec", kNative, "a function of its arguments")                       \
  X("torch", "_assert", kNative, "an assertion")                                                  \
  X("torch", "__getattr__", kNative, "finds modules")                                             \
  X("torch._ops", "", kNative, "finds and calls operators")                                       \
  X("torch._library", "", kNative, "finds and calls operators")                                   \
  X("torch._library.custom_ops", "CustomOpDef.register", kRefused, "registers a kernel")          \
  X("torch._library.custom_ops", "CustomOpDef.set", kRefused, "changes state of the process")     \
  X("torch.library", "", kNative, "finds and calls operators")                                    \
  X("torch.library", "Library", kRefused, "registers a kernel")                                   \
  X("torch.library", "register", kRefused, "registers a kernel")                                  \
  X("torch.library", "define", kRefused, "registers an operator")                                 \
  X("torch.library", "impl", kRefused, "registers a kernel")                                      \
  X("torch.library", "fallthrough_kernel", kRefused, "registers a kernel")                        \
  X("torch._custom_op", "", kNative, "finds and calls operators")                                 \
  X("torch._jit_internal", "", kNative, "chooses between functions by an argument")               \
  X("torch._VF", "", kNative, "finds operators")                                                  \
  X("torch.overrides", "", kNative, "asks whether a class overrides functions")                   \
  X("torch.utils._python_dispatch", "", kNative, "modes of the dispatcher, which are guarded")    \
  X("torch.utils._pytree", "", kNative, "takes containers apart and puts them together")          \
  X("torch.utils._pytree", "TreeSpec.child", kEvaluated, "reads an attribute")                    \
  X("torch.utils._pytree", "TreeSpec.context", kEvaluated, "reads an attribute")                  \
  X("torch._subclasses", "", kNative, "metadata of operators")                                    \
  X("torch.fx.experimental.sym_node", "", kNative, "stands for a plain number")                   \
  X("torch.jit", "", kNative, "TorchScript's own code")                                           \
  /* State of the thread, which a trace follows, and of the machine, which stays. */              \
  X("torch.amp.autocast_mode", "", kNative, "a switch of the thread, which is guarded")           \
  X("torch.amp.autocast_mode", "autocast_decorator.<locals>", kEvaluated,                         \
    "calls what the user has written")                                                            \
  X("torch.cpu.amp.autocast_mode", "", kNative, "a switch of the thread, which is guarded")       \
  X("torch.cuda.amp.autocast_mode", "", kNative, "a switch of the thread, which is guarded")      \
  X("torch.autograd.profiler", "", kNative, "labels for a profiler")                              \
  X("torch.compiler", "", kNative, "what is said to torch.compile")                               \
  X("torch.cpu", "", kNative, "what the machine has")                                             \
  X("torch.cuda", "", kNative, "what the machine has")                                            \
  X("torch.xpu", "", kNative, "what the machine has")                                             \
  X("torch.mps", "", kNative, "what the machine has")                                             \
  X("torch.mtia", "", kNative, "what the machine has")                                            \
  X("torch.accelerator", "", kNative, "what the machine has")                                     \
  X("torch._dynamo.mutation_guard", "", kEvaluated, "wraps Module.__init__")                      \
  X("torch._dynamo.mutation_guard", "GenerationTracker.tag", kNative, "is read by torch.export")  \
  X("torch._dynamo.mutation_guard", "_GenerationTracker.tag", kNative,                            \
    "the same from PyTorch 2.15 on")                                                              \
  X("torch.utils.hooks", "BackwardHook", kRefused, "hooks into the history of tensors")           \
  X("torch.utils.hooks", "BackwardHook.__init__", kEvaluated, "sets attributes")                  \
  X("torch.utils.hooks", "RemovableHandle.__init__", kRefused, "counts handles in its class")     \
  /* Of nothing here would a part be compiled. */                                                 \
  X("torch.backends", "ContextProp", kRefused, "a switch of PyTorch that no guard covers")        \
  X("torch", "compile", kRefused, "compiles")                                                     \
  X("torch", "get_default_device", kRefused, "reads a switch of PyTorch that no guard covers")    \
  X("torch", "set_", kRefused, "changes state of the process")                                    \
  X("torch", "use_deterministic_algorithms", kRefused, "changes state of the process")            \
  X("torch", "cond", kRefused, "is not traced")                                                   \
  X("torch._compile", "", kRefused, "is not traced")                                              \
  X("torch._dynamo", "", kRefused, "is not traced")                                               \
  X("torch._inductor", "", kRefused, "is not traced")                                             \
  X("torch._functorch", "", kRefused, "is not traced")                                            \
  X("torch._functorch.functional_call", "", kEvaluated, "exchanges parameters of a module")       \
  X("torch._higher_order_ops", "", kRefused, "is not traced")                                     \
  X("torch.func", "", kRefused, "is not traced")                                                  \
  X("torch.fx", "", kRefused, "is not traced")                                                    \
  X("torch.fx._pytree", "", kEvaluated, "takes containers apart")                                 \
  X("torch.fx.graph_module", "_WrappedCall.__call__", kEvaluated, "calls a module")               \
  X("torch.fx.graph_module", "GraphModule.recompile.<locals>", kEvaluated, "calls a module")      \
  X("torch.export", "", kRefused, "is not traced")                                                \
  X("torch.export._unlift", "", kEvaluated, "checks the inputs of an exported program")           \
  X("torch.export._tree_utils", "", kEvaluated, "takes the inputs of an exported program")        \
  X("torch._export.non_strict_utils", "_enter_enable_graph_inputs_of_type_nn_module", kEvaluated, \
    "switches of an exported program")                                                            \
  X("torch._export.non_strict_utils", "_exit_enable_graph_inputs_of_type_nn_module", kEvaluated,  \
    "switches of an exported program")                                                            \
  X("torch.onnx", "", kRefused, "is not traced")                                                  \
  X("torch.onnx", "is_in_onnx_export", kNative, "false while anything is traced")                 \
  X("torch.distributed", "", kRefused, "is not traced")                                           \
  X("torch.distributed", "is_available", kEvaluated, "asks what the build has")                   \
  X("torch.distributed.distributed_c10d", "is_initialized", kEvaluated, "reads an attribute")     \
  X("torch.distributed.distributed_c10d", "_WorldMeta.WORLD", kEvaluated, "reads an attribute")   \
  X("torch.distributed.distributed_c10d", "_World.default_pg", kEvaluated, "reads an attribute")  \
  X("torch.multiprocessing", "", kRefused, "is not traced")                                       \
  X("torch.profiler", "", kRefused, "is not traced")                                              \
  X("torch.testing", "", kRefused, "compares the tensors' data")                                  \
  X("torch.testing._internal", "", kEvaluated, "operators by other operators, for tests")         \
  X("torch.random", "", kRefused, "reads or sets the state of a random generator")                \
  X("torch.cuda.random", "", kRefused, "reads or sets the state of a random generator")           \
  X("torch.xpu.random", "", kRefused, "reads or sets the state of a random generator")            \
  X("torch.serialization", "", kRefused, "reads or writes a file")                                \
  X("torch.hub", "", kRefused, "reads or writes a file")                                          \
  X("torch.package", "", kRefused, "reads or writes a file")                                      \
  X("torch.utils.data", "", kRefused, "is not traced")                                            \
  X("torch.utils.tensorboard", "", kRefused, "reads or writes a file")                            \
  X("torch.utils.benchmark", "", kRefused, "measures time")                                       \
  X("torch.utils.cpp_extension", "", kRefused, "compiles")                                        \
  X("torch.utils.checkpoint", "", kRefused, "recomputes in the backward pass")                    \
  X("torch.utils.checkpoint", "checkpoint_sequential", kEvaluated, "calls checkpoint")            \
  X("torch.utils.weak", "", kRefused, "keeps objects by their addresses")                         \
  X("torch.utils", "swap_tensors", kRefused, "exchanges what two tensors are")                    \
  X("torch.storage", "", kRefused, "hands out the tensor's memory")                               \
  X("torch.optim.lr_scheduler", "LRScheduler", kRefused, "is not traced")                         \
  X("torch.optim.lr_scheduler", "LRScheduler.__init__.<locals>", kEvaluated,                      \
    "wraps Optimizer.step")                                                                       \
  X("torch.optim.lr_scheduler", "LRScheduler.get_last_lr", kEvaluated, "reads an attribute")      \
  X("torch.optim.lr_scheduler", "CosineAnnealingWarmRestarts", kRefused, "is not traced")         \
  X("torch.optim.lr_scheduler", "ReduceLROnPlateau", kRefused, "is not traced")                   \
  X("torch.optim.lr_scheduler", "SequentialLR", kRefused, "is not traced")                        \
  X("torch.optim.lr_scheduler", "ChainedScheduler", kRefused, "is not traced")                    \
  X("torch.optim.lbfgs", "", kRefused, "is not traced")                                           \
  X("torch.autograd", "backward", kRefused, "changes what autograd records")                      \
  X("torch.autograd", "grad", kRefused, "changes what autograd records")                          \
  X("torch.autograd.function", "", kNative, "calls what the user has written")                    \
  X("torch.autograd.functional", "", kRefused, "changes what autograd records")                   \
  X("torch.autograd.forward_ad", "", kRefused, "changes what autograd records")                   \
  X("torch.autograd.graph", "", kRefused, "changes what autograd records")                        \
  X("torch.autograd.gradcheck", "", kRefused, "changes what autograd records")                    \
  X("torch.autograd.anomaly_mode", "", kRefused, "changes what autograd records")

struct TorchCodeEntry {
  std::string_view module, name;
  TorchCode what;
  const char* why;
};
std::span<const TorchCodeEntry> torch_code_entries();

// Of a function of that module of PyTorch; null where nothing is listed.
const TorchCodeEntry* torch_code(std::string_view module, std::string_view qualname);

}  // namespace braze::capture
