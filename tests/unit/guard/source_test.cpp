#include "guard/source.h"

#include <gtest/gtest.h>

#include <set>

#include "cpython/lookup.h"
#include "cpython/python.h"
#include "guard_module.h"

namespace braze::guard {
namespace {

using cpython::Ref;
using cpython::testing::Program;
using cpython::testing::repr;
using cpython::testing::take_exception;
using Kind = SourceKind;

Ref str(const char* text) { return Ref::steal(PyUnicode_FromString(text)); }
Ref number(long value) { return Ref::steal(PyLong_FromLong(value)); }

TEST(SourceArena, OnePathOneSource) {
  SourceArena arena;
  const Source* first = arena.get(Kind::kArgument, nullptr, number(0).get());
  EXPECT_EQ(arena.get(Kind::kArgument, nullptr, number(0).get()), first);
  EXPECT_NE(arena.get(Kind::kArgument, nullptr, number(1).get()), first);
  // Equal strings that are different objects, and large numbers.
  const Source* a = arena.get(Kind::kAttribute, first, str("some name").get());
  EXPECT_EQ(arena.get(Kind::kAttribute, first, str("some name").get()), a);
  EXPECT_NE(arena.get(Kind::kItem, first, str("some name").get()), a);
  const Source* big = arena.get(Kind::kItem, first, number(1L << 40).get());
  EXPECT_EQ(arena.get(Kind::kItem, first, number(1L << 40).get()), big);
  // True is not 1 and 1.0 is not 1.
  const Source* one = arena.get(Kind::kItem, first, number(1).get());
  EXPECT_NE(arena.get(Kind::kItem, first, Py_True), one);
  EXPECT_NE(arena.get(Kind::kItem, first, Ref::steal(PyFloat_FromDouble(1.0)).get()), one);
  EXPECT_EQ(arena.get(Kind::kItem, first, Py_None), arena.get(Kind::kItem, first, Py_None));
}

TEST(SourceArena, GrowsAndNumbersInOrder) {
  SourceArena arena;
  const Source* base = arena.get(Kind::kFunction);
  std::set<const Source*> seen;
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 20000; ++i) {
      const Source* source = arena.get(Kind::kItem, base, number(i).get());
      EXPECT_EQ(source->id, i + 1);
      EXPECT_EQ(source->base, base);
      seen.insert(source);
    }
  }
  EXPECT_EQ(seen.size(), 20000u);
  EXPECT_EQ(arena.size(), 20001);
}

TEST(SourceArena, HoldsItsKeys) {
  const Ref key = str("a key of its own");
  const Py_ssize_t before = Py_REFCNT(key.get());
  {
    SourceArena arena;
    arena.get(Kind::kPinned, nullptr, key.get());
    EXPECT_EQ(Py_REFCNT(key.get()), before + 1);
  }
  EXPECT_EQ(Py_REFCNT(key.get()), before);
}

constexpr char kProgram[] = R"(
import collections, math, torch
class C:
    shared = 'on class'
    __slots__ = ('slot', '__dict__')
    @property
    def p(self): raise SystemExit
c = C(); c.slot = 1; c.x = 2; c._modules = {'first': 3, '0': 4, 'not a name': 5}
c.items, c.pair, c.queue = [10, 11], (20, 21), collections.deque([30, 31])
def outer():
    v = 'cell'
    def f(a, b=7, *, k=8): return v, GLOBAL, len
    return f
f = outer()
GLOBAL = 'global'
)";

class SourceKinds : public ::testing::Test {
 protected:
  SourceKinds() : program_(kProgram) {
    argument_ = get(Kind::kArgument, nullptr, number(0));
    function_ = arena_.get(Kind::kFunction);
  }
  const Source* get(Kind kind, const Source* base, const Ref& key) {
    return arena_.get(kind, base, key.get());
  }
  std::string value(const Source* source) {
    PyObject* args[] = {program_.get("c")};
    const Ref result = resolve(source, program_.get("f"), args);
    EXPECT_EQ(PyErr_Occurred(), nullptr);
    return result ? repr(result) : "absent";
  }
  std::string text(const Source* source) {
    const Ref names = program_.eval("('self', 'other')");
    return to_string(source, names.get(), program_.get("f"));
  }

  Program program_;
  SourceArena arena_;
  const Source* argument_;
  const Source* function_;
};

TEST_F(SourceKinds, Roots) {
  EXPECT_EQ(value(argument_).substr(0, 12), "<program.C o");
  EXPECT_EQ(text(argument_), "self");
  EXPECT_EQ(to_string(argument_), "argument 0");
  EXPECT_EQ(text(function_), "program.outer.<locals>.f");
  EXPECT_EQ(to_string(function_), "function");
  const Source* math = get(Kind::kPinned, nullptr, Ref::borrow(program_.get("math")));
  EXPECT_EQ(text(math), "math");
  EXPECT_EQ(text(get(Kind::kAttribute, math, str("pi"))), "math.pi");
  EXPECT_EQ(text(get(Kind::kPinned, nullptr, program_.eval("torch.nn.functional"))),
            "torch.nn.functional");
  EXPECT_EQ(text(get(Kind::kPinned, nullptr, program_.eval("C"))), "program.C");
  EXPECT_EQ(text(get(Kind::kPinned, nullptr, program_.eval("c"))), "<C object>");
  EXPECT_EQ(text(arena_.get(Kind::kBuiltins)), "builtins");
  EXPECT_EQ(value(get(Kind::kItem, arena_.get(Kind::kBuiltins), str("len"))),
            "<built-in function len>");
  const Source* native = get(Kind::kNative, nullptr, program_.eval("torch.is_grad_enabled"));
  EXPECT_EQ(value(native), "True");
  EXPECT_EQ(text(native), "torch.is_grad_enabled()");
  EXPECT_EQ(value(get(Kind::kNative, nullptr, program_.eval("math.sqrt"))), "absent");
}

TEST_F(SourceKinds, PartsOfAFunction) {
  const Source* global = get(Kind::kGlobal, function_, str("GLOBAL"));
  EXPECT_EQ(value(global) + text(global), "'global'GLOBAL");
  const Source* builtin = get(Kind::kBuiltin, function_, str("len"));
  EXPECT_EQ(value(builtin) + text(builtin), "<built-in function len>len");
  const Source* cell = get(Kind::kCell, function_, number(0));
  EXPECT_EQ(value(cell) + text(cell), "'cell'v");
  EXPECT_EQ(to_string(cell), "closure variable 0");
  EXPECT_EQ(value(get(Kind::kCellObject, function_, number(0))).substr(0, 8), "<cell at");
  EXPECT_EQ(value(get(Kind::kCell, function_, number(1))), "absent");
  const Source* standard = get(Kind::kDefault, function_, number(0));
  EXPECT_EQ(value(standard) + text(standard), "7program.outer.<locals>.f.__defaults__[0]");
  EXPECT_EQ(value(get(Kind::kDefault, function_, number(1))), "absent");
  const Source* keyword = get(Kind::kKwDefault, function_, str("k"));
  EXPECT_EQ(value(keyword) + text(keyword), "8program.outer.<locals>.f.__kwdefaults__['k']");
  EXPECT_EQ(value(get(Kind::kCode, function_, Ref())).substr(0, 12), "<code object");
  EXPECT_EQ(value(get(Kind::kGlobal, argument_, str("GLOBAL"))), "absent");
}

TEST_F(SourceKinds, PartsOfAnObject) {
  const auto attribute = [&](const char* name) {
    return get(Kind::kAttribute, argument_, str(name));
  };
  EXPECT_EQ(value(attribute("x")) + text(attribute("x")), "2self.x");
  EXPECT_EQ(value(attribute("slot")), "1");
  EXPECT_EQ(value(attribute("p")), "absent");
  EXPECT_EQ(value(attribute("shared")), "absent");
  const Source* type = arena_.get(Kind::kType, argument_);
  EXPECT_EQ(value(type) + text(type), "<class 'program.C'>type(self)");
  const Source* on_type = get(Kind::kTypeAttribute, type, str("shared"));
  EXPECT_EQ(value(on_type) + text(on_type), "'on class'type(self).shared");
  EXPECT_EQ(value(get(Kind::kTypeAttribute, argument_, str("shared"))), "absent");
  const Source* dict = arena_.get(Kind::kInstanceDict, argument_);
  EXPECT_EQ(text(dict), "self.__dict__");
  EXPECT_EQ(value(get(Kind::kItem, dict, str("x"))), "2");
  EXPECT_EQ(text(get(Kind::kItem, dict, str("x"))), "self.x");
}

TEST_F(SourceKinds, Items) {
  const auto item = [&](const char* container, const Ref& key) {
    return get(Kind::kItem, get(Kind::kAttribute, argument_, str(container)), key);
  };
  EXPECT_EQ(value(item("items", number(1))) + text(item("items", number(1))), "11self.items[1]");
  EXPECT_EQ(value(item("items", number(-1))), "11");
  EXPECT_EQ(value(item("items", number(2))), "absent");
  EXPECT_EQ(value(item("items", str("a"))), "absent");
  EXPECT_EQ(value(item("pair", number(0))), "20");
  EXPECT_EQ(value(item("queue", number(1))), "31");
  EXPECT_EQ(value(item("queue", number(5))), "absent");
  EXPECT_EQ(value(item("slot", number(0))), "absent");
  // What nn.Module keeps in its dicts is written as attributes and indices.
  EXPECT_EQ(text(item("_modules", str("first"))), "self.first");
  EXPECT_EQ(text(item("_modules", str("0"))), "self[0]");
  EXPECT_EQ(text(item("_modules", str("not a name"))), "self._modules['not a name']");
  EXPECT_EQ(value(item("_modules", str("0"))), "4");
  const Source* dict = arena_.get(Kind::kInstanceDict, argument_);
  const Source* modules = get(Kind::kItem, dict, str("_modules"));
  EXPECT_EQ(text(get(Kind::kItem, modules, str("first"))), "self.first");
}

// What a pure function gives for a number that is read, and constants.
TEST_F(SourceKinds, Computed) {
  auto computed = [&](const Source* base, const char* key) {
    return get(Kind::kComputed, base, program_.eval(key));
  };
  const Source* four = get(Kind::kPinned, nullptr, program_.eval("4.0"));
  const Source* root = computed(four, "(math.sqrt, 0)");
  EXPECT_EQ(value(root) + " " + text(root), "2.0 math.sqrt(<float object>)");
  const Source* power = computed(root, "(math.pow, 1, 3)");
  EXPECT_EQ(value(power) + " " + text(power), "9.0 math.pow(3, math.sqrt(<float object>))");
  EXPECT_EQ(value(computed(root, "(math.pow, -1)")), "4.0");
  EXPECT_EQ(text(computed(root, "(math.pow, -1)")),
            "math.pow(math.sqrt(<float object>), math.sqrt(<float object>))");
  EXPECT_EQ(value(computed(four, "(math.log, 0, -1.0)")), "absent");  // it raises
  EXPECT_EQ(value(computed(get(Kind::kPinned, nullptr, str("4")), "(math.sqrt, 0)")), "absent");
}

TEST_F(SourceKinds, KeepAPendingException) {
  const Source* missing = get(Kind::kAttribute, argument_, str("missing"));
  const Source* failing = get(Kind::kNative, nullptr, program_.eval("math.sqrt"));
  PyObject* args[] = {program_.get("c")};
  PyErr_SetString(PyExc_KeyError, "kept");
  EXPECT_FALSE(resolve(missing, program_.get("f"), args));
  EXPECT_FALSE(resolve(failing, program_.get("f"), args));
  EXPECT_EQ(to_string(missing), "argument 0.missing");
  EXPECT_EQ(take_exception(), "KeyError: 'kept'");
}

}  // namespace
}  // namespace braze::guard
