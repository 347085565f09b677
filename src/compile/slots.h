// Helpers shared by the builders of plan functions: slots in the arguments of steps.
#pragma once

#include <utility>
#include <variant>
#include <vector>

#include "graph/argument.h"
#include "plan/function.h"

namespace braze::compile {

// A copy of the argument in which `map(From) -> To` has replaced what stands for each tensor.
template <class To, class From, class Map>
graph::BasicArgument<To> map_argument(const graph::BasicArgument<From>& argument, Map&& map) {
  return std::visit(
      [&](const auto& held) -> graph::BasicArgument<To> {
        using Held = std::decay_t<decltype(held)>;
        if constexpr (std::is_same_v<Held, From>) {
          return map(held);
        } else if constexpr (std::is_same_v<Held, std::vector<From>>) {
          std::vector<To> list;
          for (const From& element : held) list.push_back(map(element));
          return list;
        } else if constexpr (std::is_same_v<Held, graph::OptionalRefs<From>>) {
          graph::OptionalRefs<To> list;
          for (const std::optional<From>& element : held.refs) {
            list.refs.push_back(element ? std::optional<To>(map(*element)) : std::nullopt);
          }
          return list;
        } else {
          return held;
        }
      },
      argument);
}

// Calls `visit` for every tensor that the argument names, in order.
template <class Ref, class Visit>
void for_each_ref(const graph::BasicArgument<Ref>& argument, Visit&& visit) {
  if (const Ref* ref = std::get_if<Ref>(&argument)) visit(*ref);
  if (const auto* list = std::get_if<std::vector<Ref>>(&argument)) {
    for (const Ref& ref : *list) visit(ref);
  }
  if (const auto* list = std::get_if<graph::OptionalRefs<Ref>>(&argument)) {
    for (const std::optional<Ref>& ref : list->refs) {
      if (ref) visit(*ref);
    }
  }
}

// Puts a FreeStep behind the last step that names each kExtern slot, itself or through a kView
// slot. Outputs and their bases are kept. (A kExtern view holds the storage of its base by itself.)
void add_free_steps(plan::Function& function);

// For a function that is handed some of its inputs (`handed_over`, by input) for good: each of them
// is freed behind the last step that needs it, and kOutput slots get their memory with the first
// step that needs it and are freed as well, so that what is freed can become what is allocated.
void allocate_by_need(plan::Function& function, const std::vector<bool>& handed_over);

}  // namespace braze::compile
