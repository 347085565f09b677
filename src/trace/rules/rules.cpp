#include "trace/rules/rules.h"

#include <unordered_map>

#include "base/error.h"
#include "graph/op_name.h"

namespace braze::trace {
namespace {

template <class Rule>
class RuleMap {
 public:
  void add(std::string_view name, Rule* rule) {
    BRAZE_CHECK(rules_.emplace(name, rule).second, "two rules for ", name, " in rules.inc");
  }
  Rule* find(std::string_view name) const {
    const auto found = rules_.find(name);
    return found == rules_.end() ? nullptr : found->second;
  }

 private:
  std::unordered_map<std::string_view, Rule*> rules_;
};

struct Table {
  Table() {
#define X(kind, name, function) kind.add(name, trace::kind::function);
#include "trace/rules/rules.inc"
#undef X
  }

  RuleMap<metadata::Rule> metadata;
  RuleMap<refusals::Rule> refusals;
  RuleMap<sized_by_data::Rule> sized_by_data;
};

}  // namespace

Rules find_rules(std::string_view name) {
  static const Table table;
  return {table.metadata.find(name), table.refusals.find(graph::OpName(name).functional_base()),
          table.sized_by_data.find(name)};
}

}  // namespace braze::trace
