// Builtin functions, types made in C and their methods.
#include <opcode.h>

#include <string_view>
#include <unordered_set>

#include "base/identity_map.h"
#include "capture/known.h"
#include "capture/policy/policy.h"

namespace braze::capture {

using cpython::Ref;

namespace {

IdentityMap<CalleeRule>& rules() {
  static auto& map = *new IdentityMap<CalleeRule>;
  return map;
}

bool add(const char* module, const char* name, CalleeRule rule) {
  Ref imported = Ref::steal(PyImport_ImportModule(module));
  if (!imported) return false;
  PyObject* callable = PyObject_GetAttrString(imported.get(), name);  // kept for ever
  if (!callable) {
    PyErr_Clear();
    return true;
  }
  if (rule.text.empty()) rule.text = std::string(name) + "()";
  add_rule(callable, std::move(rule));
  return true;
}

struct Evaluated {
  const char* name;
  Callee callee;
};
constexpr Evaluated kEvaluated[] = {
    {"getattr", Callee::kGetattr},
    {"hasattr", Callee::kHasattr},
    {"setattr", Callee::kSetattr},
    {"delattr", Callee::kDelattr},
    {"len", Callee::kLen},
    {"iter", Callee::kIter},
    {"next", Callee::kNext},
    {"vars", Callee::kVars},
    {"id", Callee::kIdentity},
    {"hash", Callee::kIdentity},
    {"isinstance", Callee::kIsinstance},
    {"__build_class__", Callee::kBuildClass},
    {"print", Callee::kPrint},
};

constexpr const char* kReadOnly[] = {
    "issubclass", "all",   "any",    "sum",    "min", "max", "repr", "abs", "callable", "ascii",
    "sorted",     "round", "format", "divmod", "pow", "chr", "ord",  "hex", "oct",      "bin"};

struct Refused {
  const char* name;
  BreakKind kind;
  const char* text;
};
constexpr Refused kRefused[] = {
    {"input", BreakKind::kInput, "input(): reads from the terminal"},
    {"open", BreakKind::kInput, "open(): opens a file"},
    {"breakpoint", BreakKind::kDebugger, "breakpoint(): starts the debugger"},
    {"exec", BreakKind::kRuntimeCode, "exec(): runs code that is made at run time"},
    {"eval", BreakKind::kRuntimeCode, "eval(): runs code that is made at run time"},
    {"compile", BreakKind::kRuntimeCode, "compile(): makes code at run time"},
    {"globals", BreakKind::kIntrospection, "globals(): hands out all globals"},
    {"locals", BreakKind::kIntrospection, "locals(): hands out the frame's locals"},
    {"dir", BreakKind::kIntrospection, "dir(): lists all attributes"},
    {"__import__", BreakKind::kImport, "__import__()"},
};

struct Operator {
  const char* name;
  int op;
};
constexpr Operator kOperators[] = {
    {"add", NB_ADD},
    {"and_", NB_AND},
    {"floordiv", NB_FLOOR_DIVIDE},
    {"lshift", NB_LSHIFT},
    {"matmul", NB_MATRIX_MULTIPLY},
    {"mul", NB_MULTIPLY},
    {"mod", NB_REMAINDER},
    {"or_", NB_OR},
    {"pow", NB_POWER},
    {"rshift", NB_RSHIFT},
    {"sub", NB_SUBTRACT},
    {"truediv", NB_TRUE_DIVIDE},
    {"xor", NB_XOR},
    {"iadd", NB_INPLACE_ADD},
    {"iand", NB_INPLACE_AND},
    {"ifloordiv", NB_INPLACE_FLOOR_DIVIDE},
    {"ilshift", NB_INPLACE_LSHIFT},
    {"imatmul", NB_INPLACE_MATRIX_MULTIPLY},
    {"imul", NB_INPLACE_MULTIPLY},
    {"imod", NB_INPLACE_REMAINDER},
    {"ior", NB_INPLACE_OR},
    {"ipow", NB_INPLACE_POWER},
    {"irshift", NB_INPLACE_RSHIFT},
    {"isub", NB_INPLACE_SUBTRACT},
    {"itruediv", NB_INPLACE_TRUE_DIVIDE},
    {"ixor", NB_INPLACE_XOR},
};

using Set = std::unordered_set<std::string_view>;

}  // namespace

const CalleeRule* callee_rule(PyObject* callable) { return rules().find(callable); }
void add_rule(PyObject* callable, CalleeRule rule) { rules()[callable] = std::move(rule); }

bool initialize_builtin_rules() {
  for (const auto& [name, callee] : kEvaluated)
    if (!add("builtins", name, {.callee = callee})) return false;
  for (const char* name : kReadOnly)
    if (!add("builtins", name, {.callee = Callee::kReadOnly})) return false;
  for (const auto& [name, kind, text] : kRefused)
    if (!add("builtins", name, {.callee = Callee::kBreak, .kind = kind, .text = text}))
      return false;
  for (const auto& [name, op] : kOperators)
    if (!add("operator", name, {.callee = Callee::kOperator, .op = op})) return false;
  for (const char* name : {"_abc_instancecheck", "_abc_subclasscheck"})
    if (!add("_abc", name, {.callee = Callee::kReadOnly})) return false;
  for (const char* name : {"exc_info", "intern"})
    if (!add("sys", name, {.callee = Callee::kReadOnly})) return false;
  if (!add("os", "fspath", {.callee = Callee::kReadOnly})) return false;
  for (const char* name : {"heappush", "heappop", "heapify", "heapreplace", "heappushpop",
                           "_heappop_max", "_heapify_max", "_heapreplace_max"})
    if (!add("_heapq", name, {.callee = Callee::kChangesFirst})) return false;
  for (const char* name : {"insort_left", "insort_right"})
    if (!add("_bisect", name, {.callee = Callee::kChangesFirst})) return false;
  if (!add("_collections", "_count_elements", {.callee = Callee::kChangesFirst})) return false;
  if (!add("_warnings", "_filters_mutated", {.callee = Callee::kDefer})) return false;
  return add("warnings", "warn", {.callee = Callee::kWarn}) &&
         add("operator", "getitem", {.callee = Callee::kReadItem}) &&
         add("operator", "setitem", {.callee = Callee::kWriteItem}) &&
         add("operator", "delitem", {.callee = Callee::kDeleteItem});
}

bool is_pure_c_module(const char* module) {
  static const Set modules = {
      "math",         "cmath",   "_operator",   "operator",   "_struct",   "_string",
      "_stat",        "_json",   "itertools",   "_functools", "functools", "_statistics",
      "_collections", "_typing", "unicodedata", "binascii",   "zlib",      "_sre"};
  return modules.contains(module);
}

bool may_instantiate(PyTypeObject* type) {
  static const Set names = {"object",
                            "list",
                            "dict",
                            "set",
                            "frozenset",
                            "tuple",
                            "str",
                            "int",
                            "float",
                            "bool",
                            "complex",
                            "bytes",
                            "bytearray",
                            "range",
                            "slice",
                            "enumerate",
                            "zip",
                            "map",
                            "filter",
                            "reversed",
                            "super",
                            "property",
                            "classmethod",
                            "staticmethod",
                            "method",
                            "mappingproxy",
                            "types.SimpleNamespace",
                            "module",
                            "NoneType",
                            "ellipsis",
                            "collections.OrderedDict",
                            "collections.deque",
                            "collections.defaultdict",
                            "functools.partial",
                            "types.GenericAlias",
                            "types.UnionType",
                            "method-wrapper",
                            "_io.StringIO",
                            "_io.BytesIO",
                            "re.Pattern",
                            "re.Match",
                            "datetime.date",
                            "datetime.datetime",
                            "datetime.timedelta",
                            "datetime.time",
                            "_struct.Struct",
                            "Struct",
                            "type"};
  std::string_view name = type->tp_name;
  if (names.contains(name) || name.starts_with("itertools.") || name.starts_with("operator."))
    return true;
  return PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(PyExc_BaseException));
}

bool is_class_method_of_builtin(PyTypeObject* type, const char* name) {
  if (!may_instantiate(type)) return false;
  static const Set refused = {"now", "today", "utcnow", "fromtimestamp", "utcfromtimestamp"};
  return !refused.contains(name);
}

MethodEffect container_method(const char* name) {
  static const Set mutating = {"append",
                               "extend",
                               "insert",
                               "pop",
                               "remove",
                               "clear",
                               "sort",
                               "reverse",
                               "update",
                               "setdefault",
                               "popitem",
                               "add",
                               "discard",
                               "move_to_end",
                               "__setitem__",
                               "__delitem__",
                               "appendleft",
                               "popleft",
                               "extendleft",
                               "rotate",
                               "__iadd__",
                               "__imul__",
                               "__ior__",
                               "__iand__",
                               "__isub__",
                               "__ixor__",
                               "intersection_update",
                               "difference_update",
                               "symmetric_difference_update"};
  static const Set reading = {"get",          "keys",
                              "values",       "items",
                              "copy",         "index",
                              "count",        "__getitem__",
                              "__contains__", "__len__",
                              "__iter__",     "__eq__",
                              "__ne__",       "__lt__",
                              "__le__",       "__gt__",
                              "__ge__",       "__repr__",
                              "__str__",      "__format__",
                              "__reversed__", "__add__",
                              "__mul__",      "__rmul__",
                              "__or__",       "__ror__",
                              "__and__",      "__sub__",
                              "__xor__",      "__hash__",
                              "union",        "intersection",
                              "difference",   "symmetric_difference",
                              "issubset",     "issuperset",
                              "isdisjoint",   "__copy__",
                              "__bool__",     "fromkeys",
                              "__init__",     "__reduce_ex__",
                              "__sizeof__",   "__class_getitem__"};
  if (mutating.contains(name)) return MethodEffect::kMutate;
  return reading.contains(name) && std::string_view(name) != "__init__" ? MethodEffect::kRead
                                                                        : MethodEffect::kUnlisted;
}

bool is_reading_method(PyTypeObject* type, const char* name) {
  static const Set frozen = {"re.Pattern",
                             "range",
                             "mappingproxy",
                             "slice",
                             "property",
                             "datetime.date",
                             "datetime.timedelta",
                             "datetime.datetime",
                             "builtin_function_or_method",
                             "method",
                             "types.GenericAlias",
                             "types.UnionType",
                             "method_descriptor",
                             "wrapper_descriptor"};
  static const Set methods = {"__eq__",  "__ne__",     "__hash__",          "__repr__",
                              "__str__", "__format__", "__instancecheck__", "__subclasscheck__"};
  return frozen.contains(type->tp_name) || methods.contains(name);
}

}  // namespace braze::capture
