#include "trace/ctc_loss.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_ctc_loss.h>
#include <ATen/ops/_ctc_loss_backward.h>
#include <ATen/ops/ctc_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/lift_fresh.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>
#include <limits>
#include <tuple>
#include <vector>

#include "pytorch/aten.h"
#include "trace/composites.h"
#include "trace/constants.h"

namespace braze::trace {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

std::vector<int64_t> lengths_of(const Tensor& lengths) {
  const Tensor numbers = lengths.to(at::kCPU, at::kLong).contiguous();
  const auto* first = numbers.const_data_ptr<int64_t>();
  return {first, first + numbers.numel()};
}

using Pair = std::tuple<Tensor, Tensor>;

// A place before, between and behind each two of `labels`.
c10::SymInt places_of(const c10::SymInt& labels) { return labels * 2 + 1; }

// Of rows of targets, with room for the longest that there may be.
Pair losses(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
            const Tensor& target_lengths, int64_t blank, bool zero_infinity) {
  auto [found, paths] = at::_ctc_loss(log_probs, targets, lengths_of(input_lengths),
                                      lengths_of(target_lengths), blank, zero_infinity);
  if (targets.dim() != 2) return {found, at::empty({0}, log_probs.options())};
  const int64_t places = places_of(targets.size(1)).expect_int();
  if (paths.size(2) == places) return {found, paths};
  Tensor wide = at::empty({paths.size(0), paths.size(1), places}, paths.options());
  wide.narrow(2, 0, paths.size(2)).copy_(paths);
  return {found, wide};
}

Pair losses_meta(const Tensor& log_probs, const Tensor& targets, const Tensor&, const Tensor&,
                 int64_t, bool) {
  TORCH_CHECK(log_probs.dim() == 3, "braze::ctc_loss: log_probs of ", log_probs.dim(),
              " dimensions");
  const c10::SymInt steps = log_probs.sym_size(0), batch = log_probs.sym_size(1);
  const Tensor paths =
      targets.dim() == 2
          ? at::empty_symint({batch, steps, places_of(targets.sym_size(1))}, log_probs.options())
          : at::empty({0}, log_probs.options());
  return {at::empty_symint({batch}, log_probs.options()), paths};
}

Tensor gradient(const Tensor& tangent, const Tensor& log_probs, const Tensor& targets,
                const Tensor& input_lengths, const Tensor& target_lengths, const Tensor& found,
                const Tensor& given_paths, int64_t blank, bool zero_infinity) {
  const std::vector<int64_t> inputs = lengths_of(input_lengths),
                             labels = lengths_of(target_lengths);
  Tensor paths = given_paths;
  if (targets.dim() == 2 && !labels.empty()) {
    const int64_t longest = *std::ranges::max_element(labels);
    paths = paths.narrow(2, 0, places_of(longest).expect_int());
  } else {
    const at::NoGradGuard no_grad;
    paths = std::get<1>(at::_ctc_loss(log_probs, targets, inputs, labels, blank, zero_infinity));
  }
  return at::_ctc_loss_backward(tangent, log_probs, targets, inputs, labels, found, paths, blank,
                                zero_infinity);
}

Tensor gradient_meta(const Tensor&, const Tensor& log_probs, const Tensor&, const Tensor&,
                     const Tensor&, const Tensor&, const Tensor&, int64_t, bool) {
  return at::empty_symint(log_probs.sym_sizes(), log_probs.options());
}

template <class Function>
const auto& operator_of(const char* name) {
  static const auto found =
      c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Function>();
  return found;
}

Pair call_losses(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                 const Tensor& target_lengths, int64_t blank, bool zero_infinity) {
  return operator_of<decltype(losses)>("braze::ctc_loss")
      .call(log_probs, targets, input_lengths, target_lengths, blank, zero_infinity);
}

class CtcLoss : public torch::autograd::Function<CtcLoss> {
 public:
  static Tensors forward(torch::autograd::AutogradContext* context, const Tensor& log_probs,
                         const Tensor& targets, const Tensor& input_lengths,
                         const Tensor& target_lengths, int64_t blank, bool zero_infinity) {
    const auto [found, paths] = [&] {
      const at::AutoDispatchBelowADInplaceOrView below;
      // The result has a history, which a trace would not see with this off, as it is here.
      const at::AutoGradMode mode(true);
      return call_losses(log_probs, targets, input_lengths, target_lengths, blank, zero_infinity);
    }();
    context->save_for_backward({log_probs, targets, input_lengths, target_lengths, found, paths});
    context->mark_non_differentiable({paths});
    context->saved_data["blank"] = blank;
    context->saved_data["zero_infinity"] = zero_infinity;
    return {found, paths};
  }

  static Tensors backward(torch::autograd::AutogradContext* context, const Tensors& tangents) {
    const Tensors saved = context->get_saved_variables();
    const Tensor of_log_probs =
        operator_of<decltype(gradient)>("braze::ctc_loss_backward")
            .call(tangents.at(0), saved.at(0), saved.at(1), saved.at(2), saved.at(3), saved.at(4),
                  saved.at(5), context->saved_data["blank"].toInt(),
                  context->saved_data["zero_infinity"].toBool());
    return {of_log_probs, Tensor(), Tensor(), Tensor(), Tensor(), Tensor()};
  }
};

Pair losses_with_gradient(const Tensor& log_probs, const Tensor& targets,
                          const Tensor& input_lengths, const Tensor& target_lengths, int64_t blank,
                          bool zero_infinity) {
  const Tensors found =
      CtcLoss::apply(log_probs, targets, input_lengths, target_lengths, blank, zero_infinity);
  return {found.at(0), found.at(1)};
}

// Of lengths as tensors, which a trace does not look into.
Tensor pytorchs_gradient(const Tensor& tangent, const Tensor& log_probs, const Tensor& targets,
                         const Tensor& input_lengths, const Tensor& target_lengths,
                         const Tensor& found, int64_t blank, bool zero_infinity) {
  const Tensor paths = [&] {
    const at::NoGradGuard no_grad;
    return std::get<1>(
        at::_ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, zero_infinity));
  }();
  return at::_ctc_loss_backward(tangent, log_probs, targets, input_lengths, target_lengths, found,
                                paths, blank, zero_infinity);
}

// With a gradient of its own it is PyTorch's, whose node says that it has none.
Tensor gradient_with_gradient(const Tensor& tangent, const Tensor& log_probs, const Tensor& targets,
                              const Tensor& input_lengths, const Tensor& target_lengths,
                              const Tensor& found, const Tensor& paths, int64_t blank,
                              bool zero_infinity) {
  if (at::GradMode::is_enabled() && (tangent.requires_grad() || log_probs.requires_grad()))
    return pytorchs_gradient(tangent, log_probs, targets, input_lengths, target_lengths, found,
                             blank, zero_infinity);
  const at::AutoDispatchBelowADInplaceOrView below;
  return operator_of<decltype(gradient)>("braze::ctc_loss_backward")
      .call(tangent, log_probs, targets, input_lengths, target_lengths, found, paths, blank,
            zero_infinity);
}

// Where PyTorch would refuse a call, cast its operand, or leave it to cuDNN, its kernel has it.
bool is_usual(const Tensor& log_probs, const Tensor& targets) {
  const at::ScalarType dtype = log_probs.scalar_type();
  const at::DeviceType device = log_probs.device().type();
  return (log_probs.dim() == 2 || log_probs.dim() == 3) &&
         (dtype == at::kFloat || dtype == at::kDouble) &&
         (device == at::kCPU || (device == at::kCUDA && targets.scalar_type() == at::kLong));
}

// As PyTorch's composite kernel makes of losses what the user is given.
Tensor reduced(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
               const Tensor& target_lengths, int64_t blank, int64_t reduction, bool zero_infinity) {
  const bool is_batched = log_probs.dim() == 3;
  const Tensor labels = targets.to(log_probs.device(), at::kLong);
  Tensor found =
      std::get<0>(call_losses(is_batched ? log_probs : log_probs.unsqueeze(1),
                              is_batched || labels.dim() != 1 ? labels : labels.unsqueeze(0),
                              input_lengths, target_lengths, blank, zero_infinity));
  if (zero_infinity)
    found = at::where(found.eq(std::numeric_limits<double>::infinity()),
                      at::zeros({}, found.options()), found);
  if (reduction == at::Reduction::Mean)
    return found.div(target_lengths.to(found.options()).reshape({-1}).clamp_min(1)).mean();
  if (reduction == at::Reduction::Sum) return found.sum();
  return is_batched ? found : found.squeeze(0);
}

Tensor of_tensors(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                  const Tensor& target_lengths, int64_t blank, int64_t reduction,
                  bool zero_infinity) {
  c10::impl::ExcludeDispatchKeyGuard below(kCompositeKey);
  const auto is_integral = [](const Tensor& lengths) {
    return at::isIntegralType(lengths.scalar_type(), /*includeBool=*/false);
  };
  if (!is_usual(log_probs, targets) || !is_integral(input_lengths) || !is_integral(target_lengths))
    return at::ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, reduction,
                        zero_infinity);
  return reduced(log_probs, targets, input_lengths, target_lengths, blank, reduction,
                 zero_infinity);
}

Tensor literal(at::IntArrayRef numbers) {
  Tensor made;
  {
    const RealCallScope real;
    made = at::tensor(numbers, at::kLong);
  }
  return at::lift_fresh(made);
}

Tensor of_numbers(const Tensor& log_probs, const Tensor& targets, at::IntArrayRef input_lengths,
                  at::IntArrayRef target_lengths, int64_t blank, int64_t reduction,
                  bool zero_infinity) {
  c10::impl::ExcludeDispatchKeyGuard below(kCompositeKey);
  if (!is_usual(log_probs, targets))
    return at::ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, reduction,
                        zero_infinity);
  return reduced(log_probs, targets, literal(input_lengths), literal(target_lengths), blank,
                 reduction, zero_infinity);
}

}  // namespace

void register_ctc_loss(torch::Library& operators) {
  operators.impl("ctc_loss.Tensor", of_tensors);
  operators.impl("ctc_loss.IntList", of_numbers);
}

void register_ctc_loss_operators() {
  static const bool done = [] {
    static torch::Library library(torch::Library::FRAGMENT, "braze", std::nullopt, __FILE__,
                                  __LINE__);
    library.def(
        "ctc_loss(Tensor log_probs, Tensor targets, Tensor input_lengths, Tensor target_lengths, "
        "int blank, bool zero_infinity) -> (Tensor, Tensor)");
    library.def(
        "ctc_loss_backward(Tensor tangent, Tensor log_probs, Tensor targets, "
        "Tensor input_lengths, Tensor target_lengths, Tensor losses, Tensor paths, int blank, "
        "bool zero_infinity) -> Tensor");
    const auto add = [](const char* name, c10::DispatchKey key, auto* function) {
      library.impl(name, torch::dispatch(key, function));
    };
    using c10::DispatchKey;
    for (DispatchKey key : {DispatchKey::CPU, DispatchKey::CUDA}) {
      add("ctc_loss", key, &losses);
      add("ctc_loss_backward", key, &gradient);
    }
    add("ctc_loss", DispatchKey::Meta, &losses_meta);
    add("ctc_loss_backward", DispatchKey::Meta, &gradient_meta);
    add("ctc_loss", DispatchKey::Autograd, &losses_with_gradient);
    add("ctc_loss_backward", DispatchKey::Autograd, &gradient_with_gradient);
    return true;
  }();
  (void)done;
}

}  // namespace braze::trace
