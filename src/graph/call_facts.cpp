#include "graph/call_facts.h"

#include <unordered_map>

#include "base/error.h"
#include "graph/op_name.h"

namespace braze::graph {
namespace {

enum class Scope : uint8_t { kOne, kAll, kPart, kSame };

struct CallLine {
  Scope scope;
  std::string_view name;
  CallFacts facts;
  std::string_view other;  // kSame
};

constexpr CallLine kCallLines[] = {
#define ONE(name, facts) {Scope::kOne, name, {facts}, {}},
#define ALL(name, facts) {Scope::kAll, name, {facts}, {}},
#define PART(text, facts) {Scope::kPart, text, {facts}, {}},
#define REFUSED(name, why) {Scope::kOne, name, {0, why}, {}},
#define SAME(name, other) {Scope::kSame, name, {}, other},
#include "graph/call_facts.inc"
#undef ONE
#undef ALL
#undef PART
#undef REFUSED
#undef SAME
};

std::unordered_map<std::string_view, CallFacts> lines_of(Scope scope) {
  std::unordered_map<std::string_view, CallFacts> lines;
  lines.reserve(std::size(kCallLines));
  for (const CallLine& line : kCallLines)
    if (line.scope == scope)
      BRAZE_CHECK(lines.emplace(line.name, line.facts).second, "two lines for ", line.name,
                  " in call_facts.inc");
  return lines;
}

}  // namespace

CallFacts find_call_facts(std::string_view name) {
  static const auto one = lines_of(Scope::kOne), all = lines_of(Scope::kAll);
  CallFacts found;
  if (const auto line = one.find(name); line != one.end()) found = line->second;
  if (const auto line = all.find(OpName(name).functional_base()); line != all.end())
    found.facts |= line->second.facts;
  for (const CallLine& line : kCallLines)
    if (line.scope == Scope::kPart && name.find(line.name) != name.npos)
      found.facts |= line.facts.facts;
  return found;
}

std::string_view op_with_honest_schema(std::string_view name) {
  for (const CallLine& line : kCallLines)
    if (line.scope == Scope::kSame && line.name == name) return line.other;
  return {};
}

}  // namespace braze::graph
