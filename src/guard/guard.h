// Guards: what must still hold for compiled code to be used, and their compiled check.
//
// A capture emits a flat list of (source, kind, expected). `GuardSet` compiles it: sources become a
// tree, and the dicts, classes, functions and lists whose contents were relied on become checks
// that are made in flat loops (dicts and classes by CPython's version tags), so that an
// unchanged model costs no walk; after a change only what lies under the changed node is checked
// again, by the keys that were read. Tensor sources are checked on every call and handed to the
// executable.
//
// A set keeps alive the compiled function, what guards expect by identity, and constants (code,
// classes, module-level functions, scalars) that it has met; of the objects that are passed as
// arguments, and of the captured tensors, nothing.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "guard/shapes.h"
#include "guard/source.h"

namespace c10 {
struct TensorImpl;
}

namespace braze::guard {

// id, text
#define BRAZE_GUARDS(X)                                                                            \
  X(Value, "==") /* type and value equal `expected` (None, bool, int, float by bits, str, bytes,   \
                    dtype, device, enum, tuples and frozensets of such) */                         \
  X(Identity, "is")             /* the very object */                                              \
  X(Type, "type is")            /* exact type is `expected` */                                     \
  X(Body, "is a function like") /* expected: the function_body() of a function */                  \
  X(Length, "len ==")           /* of a list, tuple, dict, set, deque; expected: int */            \
  X(Keys, "keys ==")            /* keys of a dict in order; expected: tuple */                     \
  X(Present, "has")             /* the source resolves */                                          \
  X(Absent, "lacks")            /* the source does not resolve */                                  \
  X(Tensor, "tensor") /* like `expected`: Python type, key set, dtype, device, sizes, strides,     \
                         requires_grad */                                                          \
  X(SameObject,                                                                                    \
    "is same as")            /* resolves to the same object as the other source; expected: null */ \
  X(NotSameObject, "is not") /* two sources that must differ */                                    \
  X(Distinct, "are distinct") /* the first `written` of `group` are objects of their own: each     \
                                 differs from all others of it; source: its first */               \
  X(OwnDict,                                                                                       \
    "has its own dict")       /* the first `written` of `group` share no `__dict__` with another   \
                                 of it, which may be that dict itself; source: its first */        \
  X(FloatCompare, "compares") /* a float that compares as it did; expected: (Py_LT ..., number,    \
                                 outcome) */                                                       \
  X(SetValue, "set ==")       /* members, expected: a tuple of them in order */                    \
  X(DisjointMemory, "no overlap")  /* of the tensors of `group`, those of the first `written` of   \
                                      `memories` share no byte with a tensor of another memory;    \
                                      source: its first */                                         \
  X(SharedMemory, "shares memory") /* tensor source `source` lies in memory as captured, seen from \
                                      `other`; expected: (bytes between them, whether PyTorch      \
                                      knows of it: one storage) */

enum class GuardKind : uint8_t {
#define X(id, text) k##id,
  BRAZE_GUARDS(X)
#undef X
};

// What few guards have.
struct GuardDetails {
  // kTensor: dimensions whose size or stride may be any, by bit; ShapeGuards tell which.
  uint64_t free_sizes = 0, free_strides = 0;
  bool no_hooks = false;             // kTensor: neither on the tensor nor on its accumulation
  std::vector<const Source*> group;  // kDistinct, kOwnDict, kDisjointMemory
  size_t written = 0;                // the same
  std::vector<int> memories;         // kDisjointMemory: by member of the group
};

struct Guard {
  GuardKind kind;
  const Source* source;
  cpython::Ref expected;
  const Source* other = nullptr;          // kSameObject, kNotSameObject, kSharedMemory
  std::unique_ptr<GuardDetails> details;  // of each with a group; null: nothing of it

  bool has_group() const { return details != nullptr && !details->group.empty(); }
};

// A capture makes thousands: memory is taken as they come, none of it twice.
using Guards = std::deque<Guard>;

// The thread's torch state that compiled code depends on: grad mode, inference mode, autocast
// (enabled, dtypes, cache), default dtype, deterministic algorithms, dispatch and function modes.
// Taken at capture, compared in a few loads.
struct GlobalState {
  uint64_t included = 0, excluded = 0;  // dispatch key sets of the thread
  uint8_t grad_mode = 0, inference_mode = 0, deterministic = 0, deterministic_warn = 0;
  uint8_t default_dtype = 0, autocast_enabled = 0, autocast_dtype = 0, torch_function = 0;
  int32_t torch_function_modes = 0, torch_dispatch_modes = 0;
  int32_t saved_tensor_hooks = 0;  // in grad mode: how many pairs are in force
  int32_t default_device = 0;      // 1: a torch.set_default_device mode is on
  int32_t threads = 0;
  int32_t attention_kernels = 0;  // that are allowed (torch.nn.attention.sdpa_kernel), as bits
  static GlobalState current();
  friend bool operator==(const GlobalState&, const GlobalState&) = default;
  // "grad mode: on -> off"
  std::string difference(const GlobalState& now) const;
};

class GuardSet {
 public:
  // `function` is the compiled function (held). `inputs`: sources of the graph inputs, in order,
  // each with a kTensor guard in `guards`; null for graph constants (their output stays untouched).
  GuardSet(std::shared_ptr<SourceArena> sources, Guards guards, std::vector<const Source*> inputs,
           PyObject* function, GlobalState state, ShapeGuards shapes = {});
  ~GuardSet();
  GuardSet(const GuardSet&) = delete;

  // Whether this entry fits the call. Runs no user code unless something watched has changed. On
  // success inputs_out[i] is the tensor of input i (borrowed, valid for the call).
  // `function`: what stands for the compiled function in this call; null: that one itself.
  bool check(PyObject* const* args, c10::TensorImpl** inputs_out, PyObject* function = nullptr);
  // The values of the symbols at the last successful check, until the next one.
  std::span<const int64_t> symbols() const;
  // The same of `ShapeGuards::floats`.
  std::span<const double> floats() const;

  // If nothing but sizes, integers and floats keeps this entry from fitting the call: which; else
  // nothing.
  std::optional<std::vector<Variation>> variations(PyObject* const* args,
                                                   PyObject* parameter_names);

  // The guards that fail, each as one line with old and new value ("x.size(0): 4 -> 8").
  std::vector<std::string> failures(PyObject* const* args, PyObject* parameter_names,
                                    PyObject* function = nullptr);
  // The first of them; empty if all hold.
  std::string why_not(PyObject* const* args, PyObject* parameter_names,
                      PyObject* function = nullptr);
  std::vector<std::string> describe(PyObject* parameter_names) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace braze::guard
