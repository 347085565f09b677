#include "capture/world/world.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "capture/known.h"
#include "cpython/watch.h"

namespace braze::capture {

namespace {

// Numbers that vary may stand in the copies of these, which C code takes out as it finds them.
bool may_hold_symbols(PyObject* container) {
  if (PyDict_CheckExact(container) || PyList_CheckExact(container) || PyTuple_CheckExact(container))
    return true;
  const Known& k = known();
  return is_type_of(container, k.ordered_dict) || is_type_of(container, k.defaultdict) ||
         is_type_of(container, k.counter);
}

}  // namespace

World::World(Breaks& breaks, Recording& recording, TraceGuards& guards, const DynamicSizes* dynamic)
    : breaks_(breaks),
      recording_(recording),
      guards_(guards),
      dicts_(*this),
      dynamic_(dynamic),
      floats_(*this, recording, guards, dynamic) {}

World::~World() = default;

// --- Guards of what it knows ---------------------------------------------------------------------

void World::guard_identity_of_pair(const Tracked& a, const Tracked& b) {
  if (a.get() == b.get()) return;  // one source or a guard of sameness stands already
  if (is_atom(a.get()) || is_atom(b.get())) return;
  if (is_structure(a.get()) || is_structure(b.get())) {
    guard_identity_of_function(a.get());
    guard_identity_of_function(b.get());
    return;
  }
  const Source* x = source_of(a);
  const Source* y = source_of(b);
  if (x && y && x != y) guards_.add(GuardKind::kNotSameObject, x, nullptr, y);
}

const Source* World::object_source(PyObject* object) {
  const Source* known = source_of(object);
  if (!known || !PyCell_Check(object)) return known;
  if (known->kind == SourceKind::kContents) return known->base;
  return known->kind == SourceKind::kCell
             ? guards_.source(SourceKind::kCellObject, known->base, known->key.get())
             : nullptr;
}

void World::guard_same_cell(PyObject* cell, const Source* source) {
  const auto is_fixed = [](const Source* of) {
    return of->base &&
           (of->base->kind == SourceKind::kPinned || of->base->kind == SourceKind::kFunction);
  };
  const Source* known = object_source(cell);
  if (known && known != source && !(is_fixed(known) && is_fixed(source)))
    guards_.add(GuardKind::kSameObject, source, nullptr, known);
}

// One guard for the objects of each class.
void World::guard_distinct(const std::vector<PyObject*>& written) {
  struct Group {
    PyTypeObject* type;
    std::vector<const Source*> sources;
    size_t written = 0;
  };
  std::vector<Group> groups;
  IdentityMap<size_t> group_of;  // by class, counted from 1
  std::unordered_set<const Source*> seen;
  const auto add = [&](PyObject* object, bool is_written) {
    const Source* source = object_source(object);
    size_t& group = group_of[Py_TYPE(object)];
    if (!source || (!group && !is_written) || !seen.insert(source).second) return;
    if (!group) {
      groups.push_back({Py_TYPE(object), {}});
      group = groups.size();
    }
    groups[group - 1].sources.push_back(source);
    if (is_written) ++groups[group - 1].written;
  };
  for (PyObject* object : written) add(object, true);
  for (PyObject* other : changeable_) add(other, false);
  for (Group& group : groups) {
    // Constants are what they are, and a frame makes a cell for each of its variables.
    const bool constant =
        std::all_of(group.sources.begin(), group.sources.end(), [&](const Source* source) {
          return source->kind == SourceKind::kPinned ||
                 (group.type == &PyCell_Type && source->kind == SourceKind::kArgument);
        });
    if (constant || group.sources.size() < 2) continue;
    guards_.add({.kind = GuardKind::kDistinct,
                 .source = group.sources.front(),
                 .expected = Ref(),
                 .details = std::make_unique<guard::GuardDetails>(guard::GuardDetails{
                     .group = std::move(group.sources), .written = group.written})});
  }
  dicts_.guard_own(written, changeable_);
}

void World::guard_identity_of_function(PyObject* object) {
  if (const Source* source = guards_.body_source(object))
    guards_.add(GuardKind::kIdentity, source, object);
}

void World::guard_as_key(PyObject* object) {
  if (is_atom(object)) return;
  if (is_structure(object)) return guard_identity_of_function(object);
  if (PyTuple_Check(object)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
      guard_as_key(PyTuple_GET_ITEM(object, i));
  } else if (const Source* s = source_of(object); s && s->kind != SourceKind::kPinned) {
    guards_.add(GuardKind::kIdentity, s, object);
  }
}

// --- Reading ------------------------------------------------------------------------------------

Tracked World::read(PyObject* value, const Source* source, bool alone) {
  if (dynamic_ && !dynamic_->floats.empty() && is_numpy_number(value) &&
      dynamic_->floats.contains(guards_.text_of(source)))
    loose_numbers_.add(value);
  if (is_atom(value)) {
    if (alone && dynamic_ && !dynamic_->integers.empty() && PyLong_CheckExact(value))
      if (Tracked symbol = read_integer(value, source)) return symbol;
    if (alone && dynamic_ && dynamic_->mode != DynamicSizes::Mode::kNever &&
        PyFloat_CheckExact(value))
      if (Tracked symbol = floats_.read(value, source)) return symbol;
    guards_.add(GuardKind::kValue, source, value);
    return Tracked::borrow(value, source);
  }
  const Source* const* before = origin_.find(value);
  if (!before) return read_new(value, source);
  if (PyCell_Check(value)) {
    guard_same_cell(value, source);
    return Tracked::borrow(value, source);
  }
  if (const Ref* stand_in = stand_ins_.empty() ? nullptr : stand_ins_.find(value))
    value = stand_in->get();
  if (*before == source) return Tracked::borrow(value, source);
  if (is_structure(value) && !guards_.body_source(value))
    guards_.add(GuardKind::kIdentity, source, value);
  else if (!guards_.has(GuardKind::kSameObject, source)) {
    guards_.add(GuardKind::kSameObject, source, nullptr, *before);
    guards_.note(GuardKind::kSameObject, source);
  }
  return Tracked::borrow(value, *before);
}

World::ObjectKind World::kind_of(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (const ObjectKind* known = kinds_.find(type)) return *known;
  const ObjectKind kind{.is_fixed = is_structure(object) || is_frozen(object) ||
                                    is_number_or_text(object) || is_typing_form(object),
                        .is_immutable = is_immutable(object)};
  hold(Ref::borrow(reinterpret_cast<PyObject*>(type)));
  return kinds_[type] = kind;
}

Tracked World::read_new(PyObject* value, const Source* source) {
  if (is_tensor(value) && !read_tensor(value, source)) return {};
  origin_[value] = PyCell_Check(value) ? guards_.source(SourceKind::kContents, source) : source;
  hold(Ref::borrow(value));
  rely_on_specials(PyType_Check(value) ? reinterpret_cast<PyTypeObject*>(value) : Py_TYPE(value));
  if (const Ref* stand_in = stand_ins_.empty() ? nullptr : stand_ins_.find(value)) {
    origin_[stand_in->get()] = source;
    return Tracked(*stand_in, source);
  }
  if (PyFunction_Check(value)) {
    auto* function = reinterpret_cast<PyFunctionObject*>(value);
    if (!guards_.read_by_body(function, source)) {
      guards_.add(GuardKind::kIdentity, source, value);
      rely_on(function);
    }
  } else if (kind_of(value).is_fixed) {
    guards_.add(GuardKind::kIdentity, source, value);
  } else if (!is_tensor(value) &&
             !(source->kind == SourceKind::kInstanceDict && PyDict_CheckExact(value))) {
    guards_.add(GuardKind::kType, source, reinterpret_cast<PyObject*>(Py_TYPE(value)));
    if ((PyRange_Check(value) || PySlice_Check(value)) && !read_bounds(value, source)) return {};
  }
  if (!is_tensor(value) && !kind_of(value).is_immutable) changeable_.push_back(value);
  return Tracked::borrow(value, source);
}

// Of a range or slice, which native code looks into without a trace of it.
bool World::read_bounds(PyObject* value, const Source* source) {
  for (PyObject* name : {names().start, names().stop, names().step}) {
    Ref bound = Ref::steal(PyObject_GetAttr(value, name));
    if (!bound || !read(bound.get(), guards_.source(SourceKind::kAttribute, source, name), false))
      return false;
  }
  return true;
}

// What guard::to_string() gives for a parameter, buffer or part of a module, of which most share
// their beginnings.
std::string World::name_of_part(const Source* source) {
  const char* key =
      PyUnicode_CheckExact(source->key.get()) ? PyUnicode_AsUTF8(source->key.get()) : nullptr;
  const std::string_view text = key ? key : "";
  if (!key) PyErr_Clear();
  const bool is_name = key && PyUnicode_IsIdentifier(source->key.get());
  const bool is_number = !text.empty() && text.find_first_not_of("0123456789") == text.npos;
  if (!is_name && !is_number) return guards_.name_of(source);
  std::string name = name_of_module(source->base->base);
  name += is_name ? '.' : '[';
  name += text;
  if (is_number) name += ']';
  return name;
}

const std::string& World::name_of_module(const Source* source) {
  if (auto known = module_names_.find(source); known != module_names_.end()) return known->second;
  const bool is_part = source->kind == SourceKind::kItem &&
                       source->base->kind == SourceKind::kAttribute &&
                       source->base->key.get() == names().modules;
  std::string name = is_part ? name_of_part(source) : guards_.name_of(source);
  return module_names_[source] = std::move(name);
}

bool World::read_tensor(PyObject* tensor, const Source* source) {
  if (is_fake(tensor)) return true;
  const Source* holder = source->kind == SourceKind::kItem ? source->base : nullptr;
  bool bound = holder && holder->kind == SourceKind::kAttribute &&
               (holder->key.get() == names().parameters || holder->key.get() == names().buffers);
  const graph::InputKind kind = bound ? graph::InputKind::kParameter : graph::InputKind::kUser;
  std::string why, name = bound ? name_of_part(source) : guards_.name_of(source);
  std::vector<DynamicDimension> dims;
  if (dynamic_ && !bound && may_be_symbolic(tensor))
    dims = dynamic_dimensions(*dynamic_, tensor, guards_.text_of(source));
  if (!recording_.declare(tensor, kind, name, &why))
    return breaks_.refuse(BreakKind::kUnsupportedTensor, name + ": " + why);
  guards_.add(GuardKind::kTensor, source, tensor);
  if (!dims.empty()) {
    const auto strides = dynamic_->strides.find(guards_.text_of(source));
    Recording::StandIn made = recording_.symbolic_input(
        tensor, kind, std::move(name), dims,
        strides == dynamic_->strides.end() ? std::set<int>() : strides->second);
    guards_.free_sizes(source, made.free_sizes, made.free_strides);
    symbolic_tensors_.push_back(
        {Ref::borrow(tensor), source, made.free_sizes, made.free_strides, std::move(dims)});
    stood_for_[made.tensor.get()] = tensor;
    stand_ins_[tensor] = std::move(made.tensor);
  }
  tensors_.push_back({Ref::borrow(tensor), source});
  return true;
}

Tracked World::read_integer(PyObject* value, const Source* source) {
  for (const SymbolicInteger& known : symbolic_integers_)
    if (known.source == source) return Tracked(known.object, source);
  if (guards_.has(GuardKind::kValue, source)) return {};
  auto found = dynamic_->integers.find(guards_.text_of(source));
  if (found == dynamic_->integers.end() || !found->second) return {};
  // 0 and 1 decide too much to be symbols; what is large could overflow where Python's does not.
  constexpr int64_t kLargest = int64_t{1} << 31;
  int overflow = 0;
  const int64_t number = PyLong_AsLongLongAndOverflow(value, &overflow);
  if (overflow || number == 0 || number == 1 || number > kLargest || number < -kLargest) return {};
  guards_.add(GuardKind::kType, source, reinterpret_cast<PyObject*>(&PyLong_Type));
  symbolic_integers_.push_back({recording_.symbolic_integer(number), source, number});
  return Tracked(symbolic_integers_.back().object, source);
}

Tracked World::wrap(Ref value) const {
  if (!value) return Tracked();
  if (!originals_.empty())
    if (PyObject* const* original = originals_.find(value.get())) return wrap(*original);
  if (!stand_ins_.empty())
    if (const Ref* stand_in = stand_ins_.find(value.get())) value = *stand_in;
  const Source* source = is_atom(value.get()) ? nullptr : source_of(value.get());
  return Tracked(std::move(value), source);
}
Tracked World::wrap(PyObject* value) const { return wrap(Ref::borrow(value)); }

void World::rely_on(PyFunctionObject* function) {
  auto* object = reinterpret_cast<PyObject*>(function);
  if (created_.contains(object) || guards_.body_source(object)) return;
  const Source* code = guards_.source(SourceKind::kCode, guards_.function_base(function));
  guards_.add(GuardKind::kIdentity, code, function->func_code);
}

const Source* World::item_source(PyObject* container, const Source* s, PyObject* key) {
  if (s->kind == SourceKind::kInstanceDict && PyUnicode_CheckExact(key)) {
    if (dicts_.owner_of_item(container, key))
      return guards_.source(SourceKind::kAttribute, s->base, key);
  }
  return guards_.source(SourceKind::kItem, s, key);
}

bool World::read_all(PyObject* container, std::vector<std::pair<Ref, Ref>>* symbols) {
  const Source* s = source_of(container);
  if (!s || shadows_.contains(container)) return true;
  if (grown.contain(container)) return shadow_to_read(*this, container) != nullptr;
  // Who asks with `symbols` makes the shadow, or has made it.
  if (!symbols && PyDict_Check(container) && !log_.is_unwritten(container))
    return shadow_to_read(*this, container) != nullptr;
  bool& is_read = all_read_[container];
  if (is_read) return true;
  is_read = true;
  if (!may_hold_symbols(container)) symbols = nullptr;
  const auto read_item = [&](PyObject* key, PyObject* value, const Source* source) {
    Tracked item = read(value, source, symbols != nullptr);
    if (item && symbols && is_symbolic(item.get())) {
      symbols->emplace_back(Ref::borrow(key), item.object);
      all_read_[container] = false;  // whoever looks at the container itself sees the number
    }
    return bool(item);
  };
  if (PyDict_Check(container)) {
    std::vector<std::pair<Ref, Ref>> items;
    Py_ssize_t position = 0;
    PyObject *key, *value;
    while (PyDict_Next(container, &position, &key, &value)) {
      if (is_tensor(key) && !source_of(key))
        return breaks_.refuse(BreakKind::kUnsupported, "a dict with tensors as keys");
      if (is_tensor(key)) guard_as_key(key);
      items.emplace_back(Ref::borrow(key), Ref::borrow(value));
    }
    Ref list = own_items(container);
    Ref keys = list ? Ref::steal(PyList_AsTuple(list.get())) : Ref();
    if (!keys) return false;
    guards_.add(GuardKind::kKeys, s, keys.get());
    for (auto& [k, v] : items)
      if (!read_item(k.get(), v.get(), item_source(container, s, k.get()))) return false;
    return true;
  }
  if (PyList_Check(container) || PyTuple_Check(container)) {
    Py_ssize_t n = PySequence_Fast_GET_SIZE(container);
    guards_.add_length(s, n);
    for (Py_ssize_t i = 0; i < n; ++i) {
      Ref index = Ref::steal(PyLong_FromSsize_t(i));
      if (!read_item(index.get(), PySequence_Fast_GET_ITEM(container, i),
                     guards_.source(SourceKind::kItem, s, index.get())))
        return false;
    }
    return true;
  }
  if (PyObject_TypeCheck(container, known().deque)) {
    Ref items = own_items(container);
    if (!items) return false;
    guards_.add_length(s, PyList_GET_SIZE(items.get()));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); ++i) {
      Ref index = Ref::steal(PyLong_FromSsize_t(i));
      if (!read(PyList_GET_ITEM(items.get(), i), guards_.source(SourceKind::kItem, s, index.get()),
                false))
        return false;
    }
    return true;
  }
  if (PyAnySet_Check(container)) {
    Ref list = own_items(container);
    Ref members = list ? Ref::steal(PyList_AsTuple(list.get())) : Ref();
    if (!members) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(members.get()); ++i)
      if (PyObject* item = PyTuple_GET_ITEM(members.get(), i);
          !is_atom(item) && !is_structure(item))
        return breaks_.refuse(
            BreakKind::kUnsupported,
            "a set from outside that holds more than numbers and strings: " + guards_.name_of(s));
    guards_.add(GuardKind::kSetValue, s, members.get());
  }
  return true;
}

Ref read_items(World& world, PyObject* container) {
  if (PyDict_Check(container) && world.source_of(container) &&
      !world.log().is_unwritten(container) && !shadow_to_read(world, container))
    return {};
  std::vector<std::pair<Ref, Ref>> symbols;
  if (!world.read_all(container, &symbols)) return {};
  if (symbols.empty()) return Ref::borrow(world.effective(container));
  Ref copy =
      PyDict_Check(container) ? copy_container(container) : Ref::steal(PySequence_List(container));
  for (const auto& [key, symbol] : symbols)
    if (!copy || PyObject_SetItem(copy.get(), key.get(), symbol.get()) < 0) return {};
  return PyTuple_CheckExact(container) ? Ref::steal(PyList_AsTuple(copy.get())) : copy;
}

}  // namespace braze::capture
