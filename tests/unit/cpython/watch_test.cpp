#include "cpython/watch.h"

#include "cpython/lookup.h"
#include "python.h"

namespace braze::cpython {
namespace {

using testing::Program;
using testing::repr;
using testing::take_exception;

constexpr char kClasses[] = R"(
class Base:
    def method(self): return 1
class C(Base):
    def __init__(self): self.a = 1; self.b = 2
class Slots: __slots__ = ('x', 'y')
def store(o, v): o.a = v
m = C(); o = C()
for i in range(2000): store(o, i); store(m, 1)
)";

class InstanceDict : public ::testing::TestWithParam<const char*> {};

TEST_P(InstanceDict, ChangesAreSeen) {
  Program program(kClasses);
  PyObject* m = program.get("m");
  PyObject** slot = observable_dict_slot(m);
  ASSERT_NE(slot, nullptr);
  PyObject* dict = *slot;
  const Ref keep = Ref::borrow(dict);
  for (int round = 0; round < 3; ++round) {
    const uint64_t version = dict_version(dict);
    program.run(GetParam());
    EXPECT_TRUE(*slot != dict || dict_version(dict) != version) << GetParam();
    program.run(
        "m.a = 1; m.b = 2\nm.new = 5\ndel m.new\n"
        "m.__dict__.setdefault('c', 3)");
    if (*slot != dict) break;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Writes, InstanceDict,
    ::testing::Values("m.a = object()", "store(m, object())",
                      "for i in range(100): store(m, object())", "setattr(m, 'b', object())",
                      "m.fresh = object()\ndel m.fresh", "m.__dict__['a'] = object()",
                      "object.__setattr__(m, 'a', object())", "del m.b",
                      "vars(m).update(b=object())", "m.__dict__.pop('a')", "m.__dict__.clear()",
                      "m.__dict__ = dict(m.__dict__)", "m.__dict__ |= {'a': object()}",
                      "m.__dict__.popitem()"));

TEST(DictVersion, ReadingKeepsIt) {
  Program program(kClasses);
  PyObject** slot = observable_dict_slot(program.get("m"));
  const uint64_t version = dict_version(*slot);
  program.run("m.a; m.b; list(m.__dict__.items()); m.method()\nfor i in range(2000): m.a, m.b");
  EXPECT_EQ(dict_version(*slot), version);
}

TEST(DictVersion, TellsDictsApart) {
  const Ref first = Ref::steal(PyDict_New()), second = Ref::steal(PyDict_New());
  PyDict_SetItemString(first.get(), "a", Py_None);
  PyDict_SetItemString(second.get(), "a", Py_None);
  EXPECT_NE(dict_version(first.get()), dict_version(second.get()));
  const Ref copy = Ref::steal(PyDict_Copy(first.get()));
  EXPECT_NE(dict_version(first.get()), dict_version(copy.get()));
}

TEST(DictSlot, ClassReplacedAndNoDict) {
  Program program(kClasses);
  EXPECT_EQ(observable_dict_slot(program.eval("Slots()").get()), nullptr);
  EXPECT_EQ(observable_dict_slot(program.eval("3").get()), nullptr);
  PyObject** slot = observable_dict_slot(program.get("m"));
  PyObject* dict = *slot;
  program.run("m.__class__ = type('D', (C,), {})");
  EXPECT_EQ(*slot, dict);
  EXPECT_EQ(PyErr_Occurred(), nullptr);
}

class TypeChange : public ::testing::TestWithParam<const char*> {};

TEST_P(TypeChange, IsSeen) {
  Program program(kClasses);
  auto type = reinterpret_cast<PyTypeObject*>(program.get("C"));
  for (int round = 0; round < 3; ++round) {
    const unsigned version = type_version(type);
    ASSERT_NE(version, 0u);
    program.run("m.method(); C.method");
    EXPECT_EQ(current_type_version(type), version);
    program.run(GetParam());
    EXPECT_NE(current_type_version(type), version);
  }
}

INSTANTIATE_TEST_SUITE_P(Writes, TypeChange,
                         ::testing::Values("C.method = lambda self: 2",
                                           "Base.method = lambda self: 3", "Base.other = 1",
                                           "C.p = property(lambda self: 1)",
                                           "C.__bases__ = (type('B', (Base,), {}),)",
                                           "C.temporary = 1\ndel C.temporary"));

// ---- lookup.h

TEST(Lookup, KeepsAPendingException) {
  Program program(kClasses);
  const Ref name = program.eval("'method'"), missing = program.eval("'missing'");
  auto type = reinterpret_cast<PyTypeObject*>(program.get("C"));
  PyObject* dict = program.globals();
  PyErr_SetString(PyExc_ValueError, "pending");
  EXPECT_NE(type_lookup(type, name.get()), nullptr);
  EXPECT_EQ(type_lookup(type, missing.get()), nullptr);
  EXPECT_EQ(dict_get(dict, missing.get()), nullptr);
  EXPECT_FALSE(stored_attribute(program.get("m"), missing.get()));
  EXPECT_TRUE(instance_dict(program.get("m")));
  EXPECT_FALSE(instance_dict(Py_None));
  EXPECT_EQ(take_exception(), "ValueError: pending");
}

TEST(Lookup, StoredAttributes) {
  Program program(
      "class C:\n"
      "  __slots__ = ('s', 'unset', '__dict__')\n"
      "  on_class = 3\n"
      "  @property\n"
      "  def p(self): raise SystemExit('user code ran')\n"
      "  def __getattr__(self, name): raise SystemExit('user code ran')\n"
      "c = C(); c.s = 1; c.d = 2\n"
      "c.__dict__['p'] = 7; c.__dict__['s'] = 8\n"
      "import math\n");
  const auto stored = [&](const char* object, const char* name) {
    const Ref key = Ref::steal(PyUnicode_FromString(name));
    const Ref value = stored_attribute(program.get(object), key.get());
    EXPECT_EQ(PyErr_Occurred(), nullptr);
    return value ? repr(value) : "absent";
  };
  EXPECT_EQ(stored("c", "s"), "1");
  EXPECT_EQ(stored("c", "unset"), "absent");
  EXPECT_EQ(stored("c", "d"), "2");
  EXPECT_EQ(stored("c", "p"), "absent");
  EXPECT_EQ(stored("c", "on_class"), "absent");
  EXPECT_EQ(stored("C", "on_class"), "3");
  EXPECT_EQ(stored("C", "__name__"), "'C'");
  EXPECT_EQ(stored("math", "missing"), "absent");
  EXPECT_EQ(stored("math", "pi").substr(0, 4), "3.14");
}

TEST(Lookup, Cells) {
  Program program(
      "def outer():\n  a = 1\n  def inner(): return a, b\n  if 0: b = 2\n  return inner\n"
      "inner = outer()");
  PyFunctionObject* inner = as_function(program.get("inner"));
  ASSERT_NE(inner, nullptr);
  EXPECT_EQ(repr(cell_contents(closure_cell(inner, 0))), "1");
  EXPECT_EQ(cell_contents(closure_cell(inner, 1)), nullptr);
  EXPECT_EQ(closure_cell(inner, 2), nullptr);
  EXPECT_EQ(as_function(Py_None), nullptr);
}

}  // namespace
}  // namespace braze::cpython
