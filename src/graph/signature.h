// What inputs and outputs of a graph, and of the module that is made of it, are to who calls it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace braze::graph {

// name, word of the text form
#define BRAZE_INPUT_KINDS(X)                                                                  \
  X(User, "")               /* an argument of the call or reached from one */                 \
  X(Parameter, "parameter") /* bound by pointer: module parameters and buffers */             \
  X(Constant, "constant")   /* made while tracing: the graph has its contents, or the caller  \
                               binds the tensor for good */                                   \
  X(Number, "number")       /* f64[]: a float of the call, given by value; numbers are in the \
                               order of inputs */                                             \
  X(Tangent, "tangent")     /* of a backward: the gradient of what the forward returned */    \
  X(Saved, "saved")         /* of a backward: what the forward has kept for it */

#define BRAZE_OUTPUT_KINDS(X)                                        \
  X(User, "")             /* a result of the call */                 \
  X(Saved, "saved")       /* of a forward: kept for the backward */  \
  X(Gradient, "gradient") /* of a backward, or of a joint graph: the \
                             gradient of an input */

// How a view came to be, by which autograd decides what a later write to it in place means.
#define BRAZE_VIEW_ORIGINS(X)                                                              \
  X(Plain, "plain")                /* by an operator with autograd on */                   \
  X(CustomFunction, "custom")      /* by the forward of an autograd.Function */            \
  X(MultiOutput, "one_of_many")    /* by an operator that gives several, such as unbind */ \
  X(NoGrad, "no_grad")             /* with autograd off */                                 \
  X(InferenceMode, "in_inference") /* in inference mode, of a tensor made outside of it */

// What an output that requires grad, without a gradient of the compiled code's, has for a history.
#define BRAZE_HISTORIES(X)                                                                 \
  X(None, "")          /* none, or one that the compiled code gives it */                  \
  X(UsedUp, "used_up") /* one that a backward in the code has been through and given up */ \
  X(Leaf, "leaf")      /* a leaf */

#define X(name, word) k##name,
enum class InputKind : uint8_t { BRAZE_INPUT_KINDS(X) };
enum class OutputKind : uint8_t { BRAZE_OUTPUT_KINDS(X) };
enum class ViewOrigin : uint8_t { BRAZE_VIEW_ORIGINS(X) };
enum class History : uint8_t { BRAZE_HISTORIES(X) };
#undef X

std::string_view to_string(InputKind kind);  // empty: kUser
std::string_view to_string(OutputKind kind);
std::string_view to_string(ViewOrigin origin);
std::string_view to_string(History history);
std::optional<InputKind> parse_input_kind(std::string_view word);
std::optional<OutputKind> parse_output_kind(std::string_view word);
std::optional<ViewOrigin> parse_view_origin(std::string_view word);
std::optional<History> parse_history(std::string_view word);

// What PyTorch knows of an output besides its contents and layout, as the traced code made it. A
// tensor from outside is that very tensor and has no such state.
struct OutputState {
  bool is_made = false;       // by the traced code
  bool is_inference = false;  // made in inference mode, or a view of such a tensor
  bool is_view = false;       // to autograd
  ViewOrigin view = ViewOrigin::kPlain;
  bool is_alias = false;  // none of these, but of memory that another tensor made: `detach`
  History history = History::kNone;
  friend bool operator==(const OutputState&, const OutputState&) = default;
};

// "inference", "view", "view(no_grad)", "alias leaf"; empty for an ordinary tensor.
std::string to_string(const OutputState& state);

struct OutputRole {
  OutputKind kind = OutputKind::kUser;
  OutputState state;
  friend bool operator==(const OutputRole&, const OutputRole&) = default;
};

}  // namespace braze::graph
