// The actions that replay side effects; the last clean-up of a recipe.
#include "capture/exit/recipe_builder.h"
#include "capture/known.h"

namespace braze::capture {

using Kind = Recipe::Kind;
using Action = Recipe::Action;

// --- Side effects

bool RecipeBuilder::shadow_changed(const World::Shadow& shadow) const {
  PyObject *a = shadow.before.get(), *b = shadow.copy.get();
  if (PyList_Check(a)) {
    Py_ssize_t n = PyList_GET_SIZE(a);
    if (n != PyList_GET_SIZE(b)) return true;
    for (Py_ssize_t i = 0; i < n; ++i)
      if (PyList_GET_ITEM(a, i) != PyList_GET_ITEM(b, i)) return true;
    return false;
  }
  if (PyDict_Check(a)) {
    if (PyDict_GET_SIZE(a) != PyDict_GET_SIZE(b)) return true;
    const auto entries_a = dict_entries(a), entries_b = dict_entries(b);
    return !entries_a || !entries_b || *entries_a != *entries_b;
  }
  Ref list_a = own_items(a), list_b = own_items(b);
  if (!list_a || !list_b) return PyErr_Clear(), true;
  if (PyList_GET_SIZE(list_a.get()) != PyList_GET_SIZE(list_b.get())) return true;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list_a.get()); ++i)
    if (PyList_GET_ITEM(list_a.get(), i) != PyList_GET_ITEM(list_b.get(), i)) return true;
  return false;
}

bool RecipeBuilder::is_resized(PyObject* dict) const {
  for (const World::Shadow& shadow : world_.shadows())
    if (shadow.original.get() == dict || shadow.copy.get() == dict)
      return PyDict_GET_SIZE(shadow.original.get()) != PyDict_GET_SIZE(shadow.copy.get());
  return false;
}

bool RecipeBuilder::side_effects() {
  std::vector<PyObject*> written;
  for (const Write& write : world_.log().writes()) {
    if (!write.owner) continue;  // moved into a shadow of the instance dict
    written.push_back(write.owner.get());
    int target;
    if (write.kind == Write::Kind::kCell) {
      const Source* cell = world_.object_source(write.owner.get());
      if (!cell) return refuse(write.owner.get(), "a variable of a function from outside") >= 0;
      target = emit({.kind = Kind::kOutside, .source = cell});
    } else {
      target = value(write.owner.get());
    }
    if (target < 0) return false;
    Action action{.kind = write.kind == Write::Kind::kGlobal ? Kind::kSetGlobal
                          : write.kind == Write::Kind::kCell ? Kind::kSetCell
                          : write.value                      ? Kind::kSetAttr
                                                             : Kind::kDelAttr,
                  .target = target,
                  .object = write.name};
    if (write.value) {
      int item = value(write.value.get());
      if (item < 0) return false;
      action.items = {item};
    }
    effects_.push_back(std::move(action));
  }
  for (const World::Shadow& shadow : world_.shadows()) {
    if (!shadow_changed(shadow)) continue;
    written.push_back(shadow.original.get());
    if (PyObject* owner = world_.dicts().owner_of(shadow.original.get())) written.push_back(owner);
    int target = value(shadow.original.get());
    if (target < 0) return false;
    if (!note_fill(target, shadow.copy.get())) return false;
  }
  for (const GrownLists::Grown& grown : world_.grown.all()) {
    written.push_back(grown.list.get());
    if (!note_growth(grown)) return false;
  }
  for (const Ref& changed : trace_.late_calls.changed()) written.push_back(changed.get());
  world_.guard_distinct(written);
  for (Action& action : places_) effects_.push_back(std::move(action));
  places_.clear();
  for (const DeferredCall& call : trace_.deferred) {
    std::vector<int> items{value(call.callable.get())};
    if (items[0] < 0) return false;
    size_t keywords = call.kwnames ? static_cast<size_t>(PyTuple_GET_SIZE(call.kwnames.get())) : 0;
    Action args{.kind = Kind::kTuple};
    for (size_t i = 0; i + keywords < call.args.size(); ++i) {
      args.items.push_back(value(call.args[i].get()));
      if (args.items.back() < 0) return false;
    }
    items.push_back(emit(std::move(args)));
    Action named{
        .kind = Kind::kDictFill,
        .target = emit({.kind = Kind::kNew,
                        .object = Ref::borrow(reinterpret_cast<PyObject*>(&PyDict_Type))})};
    for (size_t i = 0; i < keywords; ++i) {
      named.items.push_back(
          constant(PyTuple_GET_ITEM(call.kwnames.get(), static_cast<Py_ssize_t>(i))));
      named.items.push_back(value(call.args[call.args.size() - keywords + i].get()));
      if (named.items.back() < 0) return false;
    }
    items.push_back(named.target);
    if (keywords) emit(std::move(named));
    effects_.push_back({.kind = Kind::kCall, .items = std::move(items)});
  }
  if (const std::optional<bool> mode = trace_.recording.left_grad_mode()) {
    static PyObject* set = [] {
      Ref module = Ref::steal(PyImport_ImportModule("torch._C"));
      return PyObject_GetAttrString(module.get(), "_set_grad_enabled");
    }();
    const int args = emit({.kind = Kind::kTuple, .items = {constant(*mode ? Py_True : Py_False)}});
    const int named = emit(
        {.kind = Kind::kNew, .object = Ref::borrow(reinterpret_cast<PyObject*>(&PyDict_Type))});
    effects_.push_back({.kind = Kind::kCall, .items = {constant(set), args, named}});
  }
  for (Action& action : effects_) emit(std::move(action));
  effects_.clear();
  return true;
}

void RecipeBuilder::prune() {
  auto is_value = [](const Action& action) {
    switch (action.kind) {
      case Kind::kOutput:
      case Kind::kConstant:
      case Kind::kOutside:
      case Kind::kTuple:
      case Kind::kSlice:
        return true;
      default:
        return false;  // effects, and objects that effects fill
    }
  };
  std::vector<int> places(recipe.actions.size(), -1);
  std::vector<bool> used(recipe.actions.size(), false);
  auto use = [&](int action) {
    if (action >= 0) used[static_cast<size_t>(action)] = true;
  };
  use(recipe.result);
  for (int action : recipe.locals) use(action);
  for (int action : recipe.stack) use(action);
  for (size_t i = recipe.actions.size(); i-- > 0;) {
    const Action& action = recipe.actions[i];
    if (is_value(action) && !used[i]) continue;
    used[i] = true;
    use(action.target);
    for (int item : action.items) use(item);
  }
  std::vector<Action> kept;
  auto renumber = [&](int& action) {
    if (action >= 0) action = places[static_cast<size_t>(action)];
  };
  for (size_t i = 0; i < recipe.actions.size(); ++i) {
    if (!used[i]) continue;
    places[i] = static_cast<int>(kept.size());
    Action& action = kept.emplace_back(std::move(recipe.actions[i]));
    renumber(action.target);
    for (int& item : action.items) renumber(item);
  }
  recipe.actions = std::move(kept);
  renumber(recipe.result);
  for (int& action : recipe.locals) renumber(action);
  for (int& action : recipe.stack) renumber(action);
}

// Of a list or deque from outside of which nothing was read.
bool RecipeBuilder::note_growth(const GrownLists::Grown& grown) {
  PyObject* type = reinterpret_cast<PyObject*>(Py_TYPE(grown.list.get()));
  const Ref append = Ref::steal(PyObject_GetAttrString(type, "append"));
  const int list = append ? value(grown.list.get()) : -1;
  if (list < 0) return false;
  for (const Ref& item : grown.items) {
    const int appended = value(item.get());
    if (appended < 0) return false;
    const int args = emit({.kind = Kind::kTuple, .items = {list, appended}});
    const int named = emit(
        {.kind = Kind::kNew, .object = Ref::borrow(reinterpret_cast<PyObject*>(&PyDict_Type))});
    effects_.push_back({.kind = Kind::kCall, .items = {constant(append.get()), args, named}});
  }
  return true;
}

// The contents of an outside container, replayed after everything has been read.
bool RecipeBuilder::note_fill(int target, PyObject* container) {
  Recipe::Action action{.kind = Kind::kListFill, .target = target};
  Ref items;
  if (PyDict_Check(container)) {
    action.kind = Kind::kDictFill;
    items = Ref::steal(PyList_New(0));
    const auto entries = dict_entries(container);
    if (!items || !entries) return refuse(container, "its keys change") >= 0;
    for (const auto& [key, item] : *entries)
      if (PyList_Append(items.get(), key) < 0 || PyList_Append(items.get(), item) < 0) return false;
  } else {
    action.kind = PySet_Check(container)                         ? Kind::kSetFill
                  : PyObject_TypeCheck(container, known().deque) ? Kind::kDequeFill
                                                                 : Kind::kListFill;
    if (PyByteArray_Check(container)) return refuse(container, "it was changed") >= 0;
    items = own_items(container);
  }
  if (!items || !values(items.get(), action.items)) return false;
  if (PySet_Check(container) && !keep_layout(action, container)) return false;
  effects_.push_back(std::move(action));
  return true;
}

}  // namespace braze::capture
