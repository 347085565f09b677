// The exit of a segment as data: how to make the Python results from the tensors that compiled code
// gives and how to replay side effects. Built by the capture, run on every call of the compiled
// code.
//
// A recipe is a list of actions; each action makes one object, numbered by its position, or does
// one effect. Objects that the trace made are rebuilt new on every call; objects from outside are
// read by their source; sharing and cycles inside the result are kept.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cpython/ref.h"
#include "guard/source.h"
#include "sym/int.h"

namespace braze::recipe {

struct Recipe {
  // id, operands
#define BRAZE_RECIPE_ACTIONS(X)                                                                    \
  X(Output)    /* value: tensor `index` of the plan's outputs */                                   \
  X(Constant)  /* value: `object` (immutable) */                                                   \
  X(Number)    /* value: the int `number` of the symbols' values */                                \
  X(Float)     /* value: the float in tensor `index` of the plan's outputs */                      \
  X(Outside)   /* value: what `source` resolves to */                                              \
  X(Tuple)     /* value: tuple of `items` */                                                       \
  X(NewTuple)  /* value: instance of tuple subclass `object` from `items` (namedtuple, torch.Size) \
                */                                                                                 \
  X(New)       /* value: an empty instance of type `object`, made by its base's __new__ */         \
  X(ListFill)  /* effect: `target` (a new or outside list) gets exactly `items` */                 \
  X(DictFill)  /* effect: `target` dict gets exactly items[2i] -> items[2i+1], in order, by        \
                  dict.__setitem__ (OrderedDict by its own) */                                     \
  X(SetFill)   /* effect: `target` set gets exactly `items`; or, if they are all constants, the    \
                  members and the layout of the set `object` */                                    \
  X(DequeFill) /* effect */                                                                        \
  X(SetAttr)   /* effect: object.__setattr__-like store of `items[0]` under name `object` on       \
                  `target`, into its __dict__ or slot */                                           \
  X(DelAttr)   /* effect */                                                                        \
  X(SetGlobal) /* effect: globals dict of function `target`: name `object` = items[0] (empty       \
                  items: deleted) */                                                               \
  X(SetCell)   /* value/effect: cell `target` gets items[0] (empty items: cleared) */              \
  X(NewCell)   /* value: a new cell of items[0] */                                                 \
  X(Function)  /* value: function from code `object`, items: globals, closure, defaults,           \
                  kwdefaults, annotations, dict, name, qualname, doc, module (-1: none) */         \
  X(Method)    /* value: bound method items[0] of items[1] */                                      \
  X(Slice)     /* value: slice(items[0..2]) */                                                     \
  X(Iterator)  /* value: by reduction: items[0](*items[1]) then __setstate__(items[2]) */          \
  X(SetState)  /* effect: `target`.__setstate__(items[0]), of an iterator, which looks at the      \
                  length of what it goes over: behind the effects on containers */                 \
  X(Advance)   /* effect: iterator `target` has given `index` items */                             \
  X(Call)      /* effect: items[0](*items[1], **items[2]): deferred calls (logging, warnings) */   \
  X(Generic)   /* value: copyreg-style: items[0](*items[1]) */

  enum class Kind : uint8_t {
#define X(id) k##id,
    BRAZE_RECIPE_ACTIONS(X)
#undef X
  };
  struct Action {
    Kind kind;
    int index = -1;   // kOutput
    int target = -1;  // effects: number of the action whose value is changed
    cpython::Ref object;
    const guard::Source* source = nullptr;  // kOutside
    sym::Int number;                        // kNumber
    std::vector<int> items;                 // numbers of earlier actions
  };
  std::vector<Action> actions;
  int result = -1;  // kReturn: the action whose value is returned
  // kBreak: the frame's state; kUnset: NULL; kUnchanged: what was there at the segment's beginning
  static constexpr int kUnset = -1, kUnchanged = -2;
  std::vector<int> locals;
  std::vector<int> stack;
  int offset = 0;  // code units

  // Runs the actions. `outputs`: the plan's tensors as Python objects (borrowed); `symbols`: values
  // of the graph's symbols. All values, new references, by action; empty with an exception pending
  // on failure.
  bool run(PyObject* function, PyObject* const* args, std::span<PyObject* const> outputs,
           std::span<const int64_t> symbols, std::vector<cpython::Ref>& values) const;
};

std::string to_string(const Recipe& recipe);

}  // namespace braze::recipe
