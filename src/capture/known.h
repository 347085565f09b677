// Names, types and functions that the evaluation compares with, looked up once at import.
#pragma once

#include "cpython/ref.h"

namespace braze::capture {

// id, text
#define BRAZE_NAMES(X)                                      \
  X(getattribute, "__getattribute__")                       \
  X(getattr, "__getattr__")                                 \
  X(setattr, "__setattr__")                                 \
  X(delattr, "__delattr__")                                 \
  X(getitem, "__getitem__")                                 \
  X(setitem, "__setitem__")                                 \
  X(delitem, "__delitem__")                                 \
  X(contains, "__contains__")                               \
  X(get, "get")                                             \
  X(grad, "grad")                                           \
  X(missing, "__missing__")                                 \
  X(call, "__call__")                                       \
  X(dict, "__dict__")                                       \
  X(class_, "__class__")                                    \
  X(enter, "__enter__")                                     \
  X(exit, "__exit__")                                       \
  X(iter, "__iter__")                                       \
  X(next, "__next__")                                       \
  X(len, "__len__")                                         \
  X(bool_, "__bool__")                                      \
  X(new_, "__new__")                                        \
  X(init, "__init__")                                       \
  X(self, "__self__")                                       \
  X(func, "__func__")                                       \
  X(name, "__name__")                                       \
  X(module, "__module__")                                   \
  X(file, "__file__")                                       \
  X(wrapped, "__wrapped__")                                 \
  X(torch_function, "__torch_function__")                   \
  X(copy, "copy")                                           \
  X(defaults, "__defaults__")                               \
  X(kwdefaults, "__kwdefaults__")                           \
  X(annotations, "__annotations__")                         \
  X(fget, "fget")                                           \
  X(fset, "fset")                                           \
  X(fdel, "fdel")                                           \
  X(partial_func, "func")                                   \
  X(partial_args, "args")                                   \
  X(partial_keywords, "keywords")                           \
  X(parameters, "_parameters")                              \
  X(buffers, "_buffers")                                    \
  X(modules, "_modules")                                    \
  X(build_class, "__build_class__")                         \
  X(disable_mark, "_braze_disable")                         \
  X(torch_disable_mark, "_torchdynamo_disable")             \
  X(recursive_mark, "_braze_disable_recursive")             \
  X(torch_recursive_mark, "_torchdynamo_disable_recursive") \
  X(one_step_mark, "_braze_allow_in_graph")                 \
  X(constant_mark, "_braze_constant_result")                \
  X(torch_constant_mark, "_dynamo_marked_constant")         \
  X(match_args, "__match_args__")                           \
  X(setstate, "__setstate__")                               \
  X(item, "item")                                           \
  X(start, "start")                                         \
  X(stop, "stop")                                           \
  X(step, "step")                                           \
  X(tolist, "tolist")                                       \
  X(reduce, "__reduce__")                                   \
  X(items, "items")                                         \
  X(name_plain, "name")                                     \
  X(shape, "shape")                                         \
  X(node, "node")                                           \
  X(dot, ".")                                               \
  X(obj, "obj")                                             \
  X(script_source, "_torchdynamo_inline")                   \
  X(qualified_name, "qualified_name")

struct Names {
#define X(id, text) PyObject* id;
  BRAZE_NAMES(X)
#undef X
};

struct Known {
  Names names;
  PyTypeObject *tensor, *parameter, *module, *size, *logger, *lru_cache, *partial, *tuple_getter,
      *ordered_dict, *deque, *defaultdict, *counter, *enum_type, *context_var, *generator,
      *method_wrapper, *ndarray, *torch_function_mode, *sym_int, *sym_bool, *sym_float, *text,
      *pattern, *script_function, *abc_meta;
  PyObject* module_getattr;              // torch.nn.Module.__getattr__
  PyObject* function_apply;              // what torch.autograd.Function inherits from C
  PyObject* is_compiling;                // torch.compiler.is_compiling
  PyObject *assert_async, *logical_not;  // torch._assert_async, torch.logical_not
  PyObject* gc_get_objects;
  PyObject* gc_collect;
  PyObject* abc_cache_token;  // abc.get_cache_token
  PyObject* break_type;       // what a break travels as
  PyObject*
      atom_types[6];  // torch.dtype, device, layout, memory_format, NotImplementedType, complex
  std::vector<PyTypeObject*> numpy_numbers;  // of numpy's scalars, numbers of up to 16 bytes
  PyObject* sys_modules;
  PyObject* slotnames_code;  // of copyreg._slotnames
  PyObject* scripted;        // torch's memory of what torch.jit.script made of a function
};

inline Known known_objects{};  // filled once, at import
inline const Known& known() { return known_objects; }
inline const Names& names() { return known().names; }

// The function to evaluate for `function`; null: itself.
// A wrapper of functools.lru_cache, also of a second copy of the module.
bool is_lru_cache(PyObject* object);
PyObject* substitute_for(PyObject* function);
bool is_checkpointed_call(PyObject* function);  // the one that calls what is checkpointed
// The same where one of its arguments is a float that varies.
PyObject* substitute_for_floats(PyObject* function);

// False with an exception pending if something expected of PyTorch is not there.
bool initialize_known();

}  // namespace braze::capture
