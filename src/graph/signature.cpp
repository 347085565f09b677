#include "graph/signature.h"

#include <array>

namespace braze::graph {
namespace {

#define X(name, word) std::string_view(word),
constexpr auto kInputWords = std::array{BRAZE_INPUT_KINDS(X)};
constexpr auto kOutputWords = std::array{BRAZE_OUTPUT_KINDS(X)};
constexpr auto kViewWords = std::array{BRAZE_VIEW_ORIGINS(X)};
constexpr auto kHistoryWords = std::array{BRAZE_HISTORIES(X)};
#undef X

template <class Kind, size_t N>
std::optional<Kind> find(const std::array<std::string_view, N>& words, std::string_view word) {
  for (size_t i = 0; i < N; ++i)
    if (words[i] == word) return static_cast<Kind>(i);
  return std::nullopt;
}

}  // namespace

std::string_view to_string(InputKind kind) { return kInputWords[static_cast<size_t>(kind)]; }
std::string_view to_string(OutputKind kind) { return kOutputWords[static_cast<size_t>(kind)]; }
std::string_view to_string(ViewOrigin origin) { return kViewWords[static_cast<size_t>(origin)]; }

std::string_view to_string(History history) { return kHistoryWords[static_cast<size_t>(history)]; }

namespace {

std::string text_without_history(const OutputState& state) {
  if (state.is_inference) return "inference";
  if (!state.is_view) return state.is_alias ? "alias" : "";
  if (state.view == ViewOrigin::kPlain) return "view";
  return "view(" + std::string(to_string(state.view)) + ")";
}

}  // namespace

std::string to_string(const OutputState& state) {
  const std::string text = text_without_history(state), history(to_string(state.history));
  return text + (text.empty() || history.empty() ? "" : " ") + history;
}

std::optional<InputKind> parse_input_kind(std::string_view word) {
  return find<InputKind>(kInputWords, word);
}
std::optional<OutputKind> parse_output_kind(std::string_view word) {
  return find<OutputKind>(kOutputWords, word);
}
std::optional<ViewOrigin> parse_view_origin(std::string_view word) {
  return find<ViewOrigin>(kViewWords, word);
}
std::optional<History> parse_history(std::string_view word) {
  return find<History>(kHistoryWords, word);
}

}  // namespace braze::graph
