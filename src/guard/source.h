// Sources: where a value that the trace relied on was read from, as a path from the call.
// Interned: one path, one Source. A tree by `base`; the roots are arguments, the function and
// pinned objects.
#pragma once

#include <memory>
#include <string>

#include "cpython/ref.h"

namespace braze::guard {

// id, text, what `key` is
#define BRAZE_SOURCES(X)                                                                           \
  X(Argument, "argument") /* bound parameter, or local or stack entry of a frame; key: int index;  \
                             no base */                                                            \
  X(Function, "function") /* the compiled function object itself; no base, no key */               \
  X(Pinned, "pinned")     /* key: an object held by the source (a module, a class); no base */     \
  X(Builtins, "builtins") /* the builtins dict of the compiled function */                         \
  X(Global, "global")   /* base: function (a Python function object); key: name in its globals */  \
  X(Builtin, "builtin") /* base: function; key: name in its builtins */                            \
  X(Cell, "cell")       /* base: function; key: int index of the closure cell: its contents */     \
  X(CellObject, "cell object") /* base: function; key: int index: the cell itself */               \
  X(Default, "default")        /* base: function; key: int index into __defaults__ */              \
  X(KwDefault, "kwdefault")    /* base: function; key: name in __kwdefaults__ */                   \
  X(Code, "code")              /* base: function: its __code__ */                                  \
  X(Attribute, "attribute") /* base: any; key: name: instance __dict__ entry, module attribute, or \
                               C data descriptor */                                                \
  X(TypeAttribute,                                                                                 \
    "type attribute") /* base: a type; key: name: what the look-up along the MRO finds, unbound */ \
  X(SpecialMethods, "special methods") /* base: a type: names and values that decide what native   \
                                          code does with its instances; see cpython/lookup.h */    \
  X(Type, "type")                      /* base: any: its type */                                   \
  X(InstanceDict, "dict")              /* base: any: its __dict__ */                               \
  X(Contents, "contents")              /* base: a cell: what it holds */                           \
  X(Item, "item")         /* base: dict, list, tuple or deque; key: the key or int index */        \
  X(Computed, "computed") /* base: a float or int, or what a method written in C is of; key: tuple \
                             (callable, place, constants ...):                                     \
                             what the callable, a pure function of numbers, gives for the          \
                             constants with the base at that place among them; -1: of it twice;    \
                             -2: of the base and of `other` */                                     \
  X(Native, "native") /* result of a C function that depends on nothing else: key: the callable;   \
                         re-called to check */

enum class SourceKind : uint8_t {
#define X(id, text) k##id,
  BRAZE_SOURCES(X)
#undef X
};

struct Source {
  SourceKind kind;
  int id = 0;
  const Source* base = nullptr;
  cpython::Ref key;
  const Source* other = nullptr;  // kComputed of two
};

// Owns the sources of one capture (and then of its entry).
class SourceArena {
 public:
  SourceArena();
  ~SourceArena();
  const Source* get(SourceKind kind, const Source* base = nullptr, PyObject* key = nullptr,
                    const Source* other = nullptr);
  int size() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// As a person would write it: "self.encoder.layers[3].weight", "torch.nn.functional", "x".
// `parameter_names`: tuple of the bound parameters' names, may be null (then "argument 0").
// `function`: the compiled function, for the names of closure variables; may be null.
std::string to_string(const Source* source, PyObject* parameter_names = nullptr,
                      PyObject* function = nullptr);

// Reads the value again. A new reference; empty, with no exception pending, when it is absent.
// `args` are the bound parameters, `function` the compiled function.
cpython::Ref resolve(const Source* source, PyObject* function, PyObject* const* args);

}  // namespace braze::guard
