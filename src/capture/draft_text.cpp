// Drafts as text.
#include <sstream>

#include "capture/capture.h"

namespace braze::capture {

std::string to_string(const Draft& draft) {
  std::ostringstream out;
  if (draft.exit == ExitKind::kReturn) {
    out << "exit: return\n";
  } else {
    if (draft.exit == ExitKind::kBreak)
      out << "exit: break at " << draft.recipe.offset << (draft.traced ? "" : ", by CPython");
    else if (draft.exit == ExitKind::kRaise)
      out << "exit: raise at " << draft.recipe.offset;
    else
      out << "exit: give up";
    out << "\n";
    if (draft.reason) out << to_string(*draft.reason) << "\n";
  }
  out << graph::to_string(draft.graph) << "\n";
  for (size_t i = 0; i < draft.inputs.size(); ++i)
    out << "input " << i << ": "
        << (draft.inputs[i].source ? guard::to_string(draft.inputs[i].source) : "constant") << "\n";
  out << recipe::to_string(draft.recipe);
  return out.str();
}

}  // namespace braze::capture
