#include "pytorch/operators.h"

#include "base/error.h"
#include "graph/op_name.h"

namespace braze::pytorch {

std::string graph_name(const c10::OperatorName& name) {
  std::string result = name.name;
  if (!name.overload_name.empty()) result += "." + name.overload_name;
  if (size_t colons = result.find("::"); colons != std::string::npos)
    result.replace(colons, 2, 1, '.');
  return result;
}

std::optional<c10::OperatorHandle> find_operator(std::string_view graph_name) {
  const graph::OpName parts(graph_name);
  std::string base(parts.base);
  const size_t dot = base.find('.');
  BRAZE_CHECK(dot != std::string::npos, graph_name);
  base.replace(dot, 1, "::");
  return c10::Dispatcher::singleton().findSchema({std::move(base), std::string(parts.overload)});
}

}  // namespace braze::pytorch
