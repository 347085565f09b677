// Turns what a trace made and wrote into a recipe.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "capture/trace_context.h"
#include "recipe/recipe.h"

namespace braze::capture {

using recipe::Recipe;

// Keys and items of a dict, in its order, borrowed: their __hash__ and __eq__ are not called, which
// may do more than compare. Of an OrderedDict that was changed behind its back: none.
std::optional<std::vector<std::pair<PyObject*, PyObject*>>> dict_entries(PyObject* dict);

class RecipeBuilder {
 public:
  explicit RecipeBuilder(TraceContext& trace) : trace_(trace), world_(trace.world) {}

  // The action that makes this value; -1 with a break pending if a recipe cannot express it.
  int value(PyObject* object);
  int value(const Tracked& tracked);
  // Replays the logs of the world and the deferred calls. After every `value`: effects on objects
  // from outside come after all reads of them.
  bool side_effects();

  // Leaves out values that nothing uses.
  void prune();

  Recipe recipe;
  std::vector<PyObject*> outputs;  // the tensors that `Output` actions stand for, borrowed

 private:
  int emit(Recipe::Action action);
  // A value seen for the first time. What can hold itself enters its action into `index_` before it
  // looks at its parts.
  int make(const Tracked& tracked);
  int refuse(PyObject* object, const char* why);
  int constant(PyObject* object);
  int address(PyObject* number, const TraceContext::Address& address);
  int outside(PyObject* object, const Source* source);
  int tensor(PyObject* object);
  int tuple(PyObject* object);
  int text(PyObject* object);
  int function(PyObject* object);
  int cell(PyObject* object);
  // A built-in one whose __reduce__ neither advances it nor runs user code.
  static bool is_plain_iterator(PyObject* object);
  int iterator(PyObject* object);
  int exhausted_iterator(PyObject* object, PyObject* reduced);
  int dict_iterator(PyObject* object, PyObject* dict, Py_ssize_t given);
  int instance(PyObject* object);
  int exception(PyObject* object);
  int built_in_exception(PyObject* object);
  bool values(PyObject* sequence, std::vector<int>& items);
  bool fill(int target, PyObject* container);
  bool keep_layout(Recipe::Action& action, PyObject* set);
  bool attribute_dict(int target, PyObject* dict);
  bool attributes(int target, PyObject* object);
  bool is_dict_of_its_own(PyObject* dict, PyObject* object) const;
  bool is_constant(int action) const {
    return recipe.actions[action].kind == Recipe::Kind::kConstant;
  }
  bool shadow_changed(const World::Shadow& shadow) const;
  bool is_resized(PyObject* dict) const;  // one from outside
  bool note_fill(int target, PyObject* container);
  bool note_growth(const GrownLists::Grown& grown);

  TraceContext& trace_;
  World& world_;
  static constexpr int kUnderWay = -1;   // what it is made of is being visited
  IdentityMap<int> index_;               // action of a value + 1, or kUnderWay
  std::vector<Recipe::Action> effects_;  // on objects from outside
  std::vector<Recipe::Action> places_;   // of iterators, behind those effects
};

}  // namespace braze::capture
