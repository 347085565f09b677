#include "runtime/executable.h"

#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/as_strided_ops.h>
#include <ATen/ops/detach_ops.h>
#include <ATen/ops/copy_ops.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <atomic>
#include <cstring>
#include <mutex>

#include "base/log.h"
#include "base/options.h"
#include "runtime/extern_call.h"
#include "runtime/memory.h"
#include "toolchain/toolchain.h"

namespace braze::runtime {
namespace {

using plan::SlotId;
using plan::SlotKind;
using KernelFunction = int64_t (*)(void* const* args, const int64_t* sizes, int64_t begin,
                                   int64_t end);

// Plans run on data, below everything that watches or rewrites ATen calls.
const c10::DispatchKeySet kExcluded =
    c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset |
    c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot});

struct Geometry {  // of a slot, as PyTorch takes it
  std::vector<int64_t> sizes, strides;
  at::ScalarType dtype;
};

struct PreparedKernel {
  KernelFunction function;
  std::vector<SlotId> args;
  int64_t extent, grain;
};
struct PreparedCopy {
  SlotId target, source;
  int64_t bytes;  // both dense and laid out alike: one memcpy; else -1
};
using PreparedStep =
    std::variant<PreparedKernel, std::unique_ptr<ExternCall>, PreparedCopy, plan::FreeStep>;

bool is_dense(const graph::TensorType& type) { return type.is_contiguous(); }

}  // namespace

struct Executable::Impl {
  plan::Plan plan;
  std::string tag;
  std::vector<at::Tensor> constants;
  std::shared_ptr<toolchain::Library> library;
  std::vector<Geometry> geometry;  // by slot
  std::vector<PreparedStep> steps;
  std::vector<SlotId> extern_inputs;          // inputs that steps need as tensors
  std::vector<SlotId> output_slots;           // kOutput, allocated on each call
  std::vector<SlotId> input_views;            // kView of something that only exists during a call
  std::vector<std::vector<SlotId>> views_of;  // by slot: those of input_views with that root
  std::vector<uint8_t> survives;              // by slot: prepared once for all calls of a context
  std::vector<uint8_t> written;               // by input: some step writes to it
  bool has_externs = false;
  std::atomic<bool> checked{false};  // extern results compared with the trace once

  // What changes during a run.
  struct Context {
    Arena arena;
    std::vector<at::Tensor> tensors;  // by slot
    std::vector<void*> pointers;      // by slot
    std::vector<void*> kernel_args;
    Context(Impl& impl);
  };
  std::mutex mutex;
  std::vector<std::unique_ptr<Context>> idle;

  void prepare();
  std::unique_ptr<Context> take_context();
  void return_context(std::unique_ptr<Context> context);
  void run(Context& context, std::span<c10::TensorImpl* const> inputs,
           std::vector<at::Tensor>& outputs);
  void run_kernel(const PreparedKernel& kernel, Context& context);
  void run_copy(const PreparedCopy& copy, Context& context);
  void bind_view(SlotId slot, Context& context);
  at::Tensor make_output(SlotId slot, const Context& context) const;
  SlotId root_of(SlotId slot) const { return plan::root_of(plan, slot); }
};

Executable::Impl::Context::Context(Impl& impl)
    : arena(impl.plan.arena_bytes),
      tensors(impl.plan.slots.size()),
      pointers(impl.plan.slots.size(), nullptr) {
  for (size_t i = 0; i < impl.plan.slots.size(); ++i) {
    const plan::Slot& slot = impl.plan.slots[i];
    const Geometry& geometry = impl.geometry[i];
    if (slot.kind == SlotKind::kArena) {
      pointers[i] = arena.data() + slot.byte_offset;
      if (impl.has_externs)
        tensors[i] = borrow_tensor(pointers[i], geometry.sizes, geometry.strides, geometry.dtype,
                                   slot.bytes);
    } else if (slot.kind == SlotKind::kView && impl.survives[i]) {
      impl.bind_view(static_cast<SlotId>(i), *this);
    } else if (slot.kind == SlotKind::kInput && i < impl.constants.size() &&
               impl.constants[i].defined()) {
      tensors[i] = impl.constants[i];
      pointers[i] = impl.constants[i].data_ptr();
    }
  }
}

void Executable::Impl::prepare() {
  for (const plan::Slot& slot : plan.slots)
    geometry.push_back({sym::constants(slot.type.sizes), sym::constants(slot.type.strides),
                        scalar_type(slot.type.dtype)});
  survives.assign(plan.slots.size(), 0);
  for (size_t i = 0; i < plan.slots.size(); ++i) {
    const plan::Slot& slot = plan.slots[i];
    if (slot.kind == SlotKind::kArena) survives[i] = 1;
    if (slot.kind == SlotKind::kInput && i < constants.size() && constants[i].defined())
      survives[i] = 1;
    if (slot.kind == SlotKind::kView) survives[i] = survives[slot.base];
    if (slot.kind == SlotKind::kOutput) output_slots.push_back(static_cast<SlotId>(i));
    if (slot.kind == SlotKind::kView && !survives[i]) input_views.push_back(static_cast<SlotId>(i));
  }
  views_of.resize(plan.slots.size());
  for (SlotId view : input_views) views_of[root_of(view)].push_back(view);
  if (!plan.kernels.empty()) library = toolchain::build(plan.source, plan.compiler_flags);
  std::vector<KernelFunction> functions;
  for (const plan::Kernel& kernel : plan.kernels)
    functions.push_back(reinterpret_cast<KernelFunction>(library->symbol(kernel.name)));

  std::vector<uint8_t> used(plan.slots.size(), 0);
  written.assign(plan.input_count, 0);
  for (const plan::Step& step : plan.steps) {
    if (auto* kernel = std::get_if<plan::KernelStep>(&step)) {
      steps.push_back(PreparedKernel{functions.at(kernel->kernel), kernel->args, kernel->extent,
                                     kernel->grain});
    } else if (auto* call = std::get_if<plan::ExternStep>(&step)) {
      has_externs = true;
      steps.push_back(std::make_unique<ExternCall>(plan, *call));
      auto mark = [&](SlotId slot) { used[root_of(slot)] = 1; };
      for (const plan::Argument& argument : call->args) {
        if (auto* slot = std::get_if<SlotId>(&argument)) mark(*slot);
        if (auto* list = std::get_if<std::vector<SlotId>>(&argument))
          for (SlotId slot : *list) mark(slot);
        if (auto* list = std::get_if<graph::OptionalRefs<SlotId>>(&argument))
          for (const auto& slot : list->refs)
            if (slot) mark(*slot);
      }
    } else if (auto* copy = std::get_if<plan::CopyStep>(&step)) {
      const auto& target = plan.slots[copy->target].type;
      const auto& source = plan.slots[copy->source].type;
      bool plain = target.dtype == source.dtype && is_dense(target) && is_dense(source);
      int64_t bytes = plain ? target.numel().constant() * graph::size_of(target.dtype) : -1;
      if (SlotId root = root_of(copy->target); root < plan.input_count) written[root] = 1;
      used[root_of(copy->target)] = 1;
      used[root_of(copy->source)] = 1;
      steps.push_back(PreparedCopy{copy->target, copy->source, bytes});
      has_externs = true;
    } else {
      steps.push_back(std::get<plan::FreeStep>(step));
    }
  }
  for (SlotId slot : plan.outputs) {
    BRAZE_CHECK(plan.slots[root_of(slot)].kind != SlotKind::kArena, "output ", slot,
                " in the arena");
    while (plan.slots[slot].base >= 0) slot = plan.slots[slot].base;
    used[slot] = 1;
  }
  for (SlotId slot = 0; slot < plan.input_count; ++slot)
    if (used[slot] && !survives[slot]) extern_inputs.push_back(slot);
}

std::unique_ptr<Executable::Impl::Context> Executable::Impl::take_context() {
  {
    std::lock_guard lock(mutex);
    if (!idle.empty()) {
      auto context = std::move(idle.back());
      idle.pop_back();
      return context;
    }
  }
  return std::make_unique<Context>(*this);
}

void Executable::Impl::return_context(std::unique_ptr<Context> context) {
  // Nothing of the caller's is kept alive between calls.
  for (SlotId slot : extern_inputs) context->tensors[slot].reset();
  for (SlotId slot : input_views) context->tensors[slot].reset();
  for (SlotId slot : output_slots) context->tensors[slot].reset();
  std::lock_guard lock(mutex);
  idle.push_back(std::move(context));
}

void Executable::Impl::bind_view(SlotId slot, Context& context) {
  const plan::Slot& view = plan.slots[slot];
  context.pointers[slot] = static_cast<char*>(context.pointers[view.base]) + view.byte_offset;
  if (!has_externs) return;
  const at::Tensor& base = context.tensors[view.base];
  if (!base.defined()) return;
  const Geometry& shape = geometry[slot];
  context.tensors[slot] = at::_ops::as_strided::call(
      base, c10::fromIntArrayRefSlow(shape.sizes), c10::fromIntArrayRefSlow(shape.strides),
      base.storage_offset() + view.byte_offset / graph::size_of(view.type.dtype));
}

void Executable::Impl::run_kernel(const PreparedKernel& kernel, Context& context) {
  if (kernel.extent == 0) return;  // empty tensors: not even a hoisted load may run
  auto& args = context.kernel_args;
  args.resize(kernel.args.size());
  for (size_t i = 0; i < args.size(); ++i) args[i] = context.pointers[kernel.args[i]];
  int64_t status = 0;
  if (kernel.extent <= kernel.grain || at::get_num_threads() == 1 || at::in_parallel_region()) {
    status = kernel.function(args.data(), nullptr, 0, kernel.extent);
  } else {
    std::atomic<int64_t> failed{0};
    at::parallel_for(0, kernel.extent, kernel.grain, [&](int64_t begin, int64_t end) {
      if (int64_t code = kernel.function(args.data(), nullptr, begin, end)) failed = code;
    });
    status = failed;
  }
  if (status != 0) throw NeedsEager();
}

void Executable::Impl::run_copy(const PreparedCopy& copy, Context& context) {
  const at::Tensor& target = context.tensors[copy.target];
  if (copy.bytes >= 0) {
    std::memmove(context.pointers[copy.target], context.pointers[copy.source], copy.bytes);
  } else {
    // A source that a kernel wrote has a tensor only when some extern call needed one.
    at::_ops::copy_::call(const_cast<at::Tensor&>(target), context.tensors[copy.source], false);
  }
  auto* impl = target.unsafeGetTensorImpl();
  if (plan.slots[root_of(copy.target)].kind == SlotKind::kInput && !impl->is_inference())
    impl->bump_version();
}

void Executable::Impl::run(Context& context, std::span<c10::TensorImpl* const> inputs,
                           std::vector<at::Tensor>& outputs) {
  for (SlotId slot = 0; slot < plan.input_count; ++slot)
    if (!survives[slot])  // a plain read leaves copy-on-write storage shared
      context.pointers[slot] =
          written[slot] ? inputs[slot]->mutable_data() : const_cast<void*>(inputs[slot]->data());
  for (SlotId slot : extern_inputs)
    context.tensors[slot] = at::Tensor(
        c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim_copy(inputs[slot]));
  for (SlotId slot : output_slots) {
    context.tensors[slot] = allocate_tensor(geometry[slot].sizes, geometry[slot].strides,
                                            geometry[slot].dtype, plan.slots[slot].bytes);
    context.pointers[slot] = context.tensors[slot].unsafeGetTensorImpl()->mutable_data();
  }
  bool check = has_externs && (!checked.load(std::memory_order_relaxed) || options().verify);
#ifdef BRAZE_CHECKS
  check = has_externs;
#endif
  {
    c10::impl::ExcludeDispatchKeyGuard below(kExcluded);
    // Views whose base is there from the start; those of extern results are bound when it exists.
    for (SlotId slot : input_views)
      if (plan.slots[root_of(slot)].kind != SlotKind::kExtern) bind_view(slot, context);
    for (const PreparedStep& step : steps) {
      if (auto* kernel = std::get_if<PreparedKernel>(&step)) {
        run_kernel(*kernel, context);
      } else if (auto* call = std::get_if<std::unique_ptr<ExternCall>>(&step)) {
        (*call)->run(context.tensors, check);
        for (SlotId result : (*call)->results())
          if (result >= 0 && plan.slots[result].kind == SlotKind::kExtern) {
            const at::Tensor& tensor = context.tensors[result];
            context.pointers[result] =
                tensor.defined() ? tensor.unsafeGetTensorImpl()->mutable_data() : nullptr;
            for (SlotId view : views_of[result]) bind_view(view, context);
          }
      } else if (auto* copy = std::get_if<PreparedCopy>(&step)) {
        run_copy(*copy, context);
      } else {
        SlotId freed = std::get<plan::FreeStep>(step).slot;
        context.tensors[freed].reset();
        for (SlotId view : views_of[freed]) context.tensors[view].reset();
      }
    }
  }
  if (check) checked = true;
  for (SlotId slot : plan.outputs) outputs.push_back(make_output(slot, context));
}

at::Tensor Executable::Impl::make_output(SlotId slot, const Context& context) const {
  SlotId base = slot;
  while (plan.slots[base].base >= 0) base = plan.slots[base].base;
  if (base == slot) return context.tensors[slot];
  // A view of an input or of another output is made above autograd's keys, so that it knows its
  // base and shares its version counter, as eager's does.
  at::Tensor origin = context.tensors[base];
  // No output requires grad; one that views a parameter was detached.
  if (origin.defined() && origin.requires_grad()) origin = at::_ops::detach::call(origin);
  if (plan.slots[slot].kind == SlotKind::kExtern) {
    const at::Tensor& view = context.tensors[slot];
    if (!origin.defined() || view.dtype() != origin.dtype()) return view;
    return at::_ops::as_strided::call(origin, view.sym_sizes(), view.sym_strides(),
                                      view.sym_storage_offset());
  }
  const Geometry& shape = geometry[slot];
  if (shape.dtype != origin.scalar_type()) return context.tensors[slot];
  int64_t bytes =
      static_cast<char*>(context.pointers[slot]) - static_cast<char*>(context.pointers[base]);
  return at::_ops::as_strided::call(
      origin, c10::fromIntArrayRefSlow(shape.sizes), c10::fromIntArrayRefSlow(shape.strides),
      origin.storage_offset() + bytes / graph::size_of(plan.slots[slot].type.dtype));
}

Executable::Executable(plan::Plan plan, std::vector<at::Tensor> constants, std::string tag)
    : impl_(std::make_unique<Impl>()) {
  impl_->plan = std::move(plan);
  impl_->constants = std::move(constants);
  impl_->tag = std::move(tag);
  impl_->prepare();
}
Executable::~Executable() = default;

void Executable::run(std::span<c10::TensorImpl* const> inputs, std::vector<at::Tensor>& outputs) {
  BRAZE_CHECK(static_cast<int64_t>(inputs.size()) == impl_->plan.input_count);
  auto context = impl_->take_context();
  size_t before = outputs.size();
  try {
    impl_->run(*context, inputs, outputs);
  } catch (...) {
    // The context may hold half-made tensors: it is not used again. Nothing is swallowed.
    outputs.resize(before);
    throw;
  }
  impl_->return_context(std::move(context));
}

bool Executable::writes_inputs_early() const {
  for (const PreparedStep& step : impl_->steps)
    if (auto* call = std::get_if<std::unique_ptr<ExternCall>>(&step))
      if ((*call)->writes_arguments()) return true;
  return false;
}

const plan::Plan& Executable::plan() const { return impl_->plan; }

}  // namespace braze::runtime
