#include "runtime/bound_function.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/as_strided_ops.h>
#include <ATen/ops/copy_ops.h>
#include <ATen/ops/detach_ops.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/fork_mutex.h"
#include "base/options.h"
#include "runtime/aligned_copies.h"
#include "runtime/cuda/driver.h"
#include "runtime/failure.h"
#include "runtime/torch_threads.h"

namespace braze::runtime {
namespace {

using plan::SlotId;
using plan::SlotKind;

// Plans run on data, below everything that watches or rewrites ATen calls.
const c10::DispatchKeySet kExcluded =
    c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset |
    c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot});

uint64_t next_serial() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

}  // namespace

BoundFunction::BoundFunction(const PreparedFunction& prepared, std::span<const int64_t> symbols,
                             std::shared_ptr<const plan::Layout> layout)
    : prepared_(prepared),
      numbers_(prepared.binder.numbers(symbols, std::move(layout), /*room=*/true)),
      serial_(next_serial()) {
  if (!prepared.function.is_symbolic()) return;
  for (const ExternCall* call : prepared.sized_calls)
    symbolic_arguments_.push_back(call->symbolic_arguments(shapes()));
}

void BoundFunction::run_kernel(size_t step, const PreparedFunction::CpuLaunch& launch,
                               RunContext& context) const {
  const auto [extent, grain] = numbers_.work[step];
  if (extent == 0) return;  // empty tensors: not even a hoisted load may run
  auto& args = context.kernel_args;
  args.resize(launch.args.size());
  for (size_t i = 0; i < args.size(); ++i) args[i] = context.pointers[launch.args[i]];
  const int64_t* sizes = numbers_.kernel_sizes.data() + launch.first_size;
  int64_t status = 0;
  if (extent <= grain || usable_threads() == 1) {
    status = launch.function(args.data(), sizes, 0, extent);
  } else {
    std::atomic<int64_t> failed{0};
    const auto run_range = [&](int64_t begin, int64_t end) {
      if (int64_t code = launch.function(args.data(), sizes, begin, end)) failed = code;
    };
    for_ranges(extent, grain, std::ref(run_range));  // no memory of its own
    status = failed;
  }
  if (status != 0) fail(prepared_.function.on_failure, "index out of range");
}

void BoundFunction::run_kernel(const PreparedFunction::GpuLaunch& launch,
                               RunContext& context) const {
  const plan::Numbers::Launch& grid = numbers_.launches[launch.number];
  if (grid.blocks[0] == 0 || grid.blocks[1] == 0 || grid.blocks[2] == 0) return;
  set_arguments(launch, context);
  std::optional<AlignedCopies> copies;
  if (!std::ranges::all_of(launch.args, [&](const auto& argument) {
        return argument.is_aligned(context.pointers[argument.slot]);
      }))
    copies.emplace(*this, launch, context);
  const cuda::Launch prepared{launch.kernel.function, grid.blocks, grid.threads,
                              grid.shared_bytes + launch.kernel.shared_bytes,
                              context.kernel_args.data()};
  cuda::launch(prepared, context.stream);
  if (copies) copies->put_back(context);
  const auto takes_number = [](const auto& argument) { return argument.by_value; };
  if (!context.recorded || !std::ranges::any_of(launch.args, takes_number)) return;
  if (copies) throw UserError("a kernel that takes numbers is given memory that is not aligned");
  context.recorded->push_back({&launch, cuda::last_node(context.stream)});
}

void BoundFunction::set_arguments(const PreparedFunction::GpuLaunch& launch,
                                  RunContext& context) const {
  auto& args = context.kernel_args;
  args.clear();
  for (const auto& argument : launch.args) {
    void*& pointer = context.pointers[argument.slot];
    args.push_back(argument.by_value ? pointer : &pointer);
  }
  const int64_t* sizes = numbers_.kernel_sizes.data() + launch.first_size;
  for (size_t i = 0; i < launch.size_count; ++i) args.push_back(const_cast<int64_t*>(sizes + i));
  static void* nothing = nullptr;
  for (int i = 0; i < launch.kernel.more_pointers; ++i) args.push_back(&nothing);
}

void BoundFunction::set_numbers(void* graph, const RecordedLaunch& recorded, RunContext& context,
                                std::span<const double> numbers) const {
  bind_numbers(context, numbers);
  const PreparedFunction::GpuLaunch& launch = *recorded.launch;
  const plan::Numbers::Launch& grid = numbers_.launches[launch.number];
  set_arguments(launch, context);
  cuda::set_arguments(graph, recorded.node,
                      {launch.kernel.function, grid.blocks, grid.threads,
                       grid.shared_bytes + launch.kernel.shared_bytes, context.kernel_args.data()});
}

void BoundFunction::run_extern(size_t step, const ExternCall& call, RunContext& context,
                               bool check) const {
  std::span<const c10::IValue> numbers;
  if (const int sized = prepared_.sized_call[step]; sized >= 0)
    numbers = symbolic_arguments_[sized];
  call.run(context.tensors, numbers, shapes(), check ? ResultCheck::kAll : ResultCheck::kLayout);
  for (SlotId result : call.results()) {
    if (result < 0 || prepared_.function.slots[result].kind != SlotKind::kExtern) continue;
    const at::Tensor& tensor = context.tensors[result];
    context.pointers[result] =
        tensor.defined() ? tensor.unsafeGetTensorImpl()->mutable_data() : nullptr;
    for (SlotId view : prepared_.views_of[result]) context.bind_view(view, *this);
  }
}

bool BoundFunction::is_plain(const PreparedFunction::Copy& copy) const {
  const Shapes shapes = this->shapes();
  const auto is_contiguous = [&](SlotId slot) {
    int64_t expected = 1;
    const c10::IntArrayRef sizes = shapes.sizes(slot), strides = shapes.strides(slot);
    for (size_t d = sizes.size(); d-- > 0;) {
      if (sizes[d] != 1 && strides[d] != expected) return false;
      expected *= sizes[d];
    }
    return true;
  };
  return prepared_.dtype[copy.target] == prepared_.dtype[copy.source] &&
         is_contiguous(copy.target) && is_contiguous(copy.source);
}

void BoundFunction::run_copy(const PreparedFunction::Copy& copy, RunContext& context) const {
  const at::Tensor& target = context.tensors[copy.target];
  if (target.is_cpu() && is_plain(copy)) {
    std::memmove(context.pointers[copy.target], context.pointers[copy.source],
                 target.numel() * static_cast<int64_t>(target.itemsize()));
  } else {
    at::_ops::copy_::call(const_cast<at::Tensor&>(target), context.tensors[copy.source], false);
  }
}

void BoundFunction::bind_inputs(RunContext& context,
                                std::span<c10::TensorImpl* const> inputs) const {
  for (SlotId slot = 0; slot < prepared_.function.input_count; ++slot)
    if (!prepared_.survives[slot] && inputs[slot])
      // A plain read leaves copy-on-write storage shared.
      context.pointers[slot] = prepared_.written[slot] ? inputs[slot]->mutable_data()
                                                       : const_cast<void*>(inputs[slot]->data());
  for (SlotId slot : prepared_.extern_inputs)
    context.tensors[slot] = at::Tensor(
        c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>::reclaim_copy(inputs[slot]));
  for (SlotId slot : prepared_.first_outputs) allocate(slot, context);
}

void BoundFunction::allocate(SlotId slot, RunContext& context) const {
  const Shapes shapes = this->shapes();
  context.tensors[slot] =
      allocate_tensor_on(prepared_.device_of_slot[slot], shapes.sizes(slot), shapes.strides(slot),
                         prepared_.dtype[slot], bytes(slot));
  context.pointers[slot] = context.tensors[slot].unsafeGetTensorImpl()->mutable_data();
}

void BoundFunction::free(SlotId slot, RunContext& context) const {
  context.tensors[slot].reset();
  for (SlotId view : prepared_.views_of[slot]) context.tensors[view].reset();
  if (static_cast<size_t>(slot) < context.handed_over.size()) context.handed_over[slot].reset();
}

// A tensor that nobody has kept is used again.
void BoundFunction::bind_numbers(RunContext& context, std::span<const double> numbers) const {
  for (SlotId slot : prepared_.numbers) {
    const double& number = numbers[prepared_.function.slots[slot].number];
    context.pointers[slot] = const_cast<double*>(&number);
    if (!prepared_.needs_tensor[slot]) continue;
    at::Tensor& tensor = context.tensors[slot];
    if (!tensor.defined() || tensor.use_count() > 1 || tensor.storage().use_count() > 1)
      tensor = number_tensor(number);
    else
      *tensor.mutable_data_ptr<double>() = number;
    context.pointers[slot] = tensor.unsafeGetTensorImpl()->mutable_data();
  }
}

void BoundFunction::run_steps(RunContext& context, bool check) const {
  c10::impl::ExcludeDispatchKeyGuard below(kExcluded);
  for (SlotId slot : prepared_.first_views) context.bind_view(slot, *this);
  for (size_t i = 0; i < prepared_.steps.size(); ++i) {
    const PreparedFunction::Step& step = prepared_.steps[i];
    if (auto* launch = std::get_if<PreparedFunction::CpuLaunch>(&step)) {
      run_kernel(i, *launch, context);
    } else if (auto* launch = std::get_if<PreparedFunction::GpuLaunch>(&step)) {
      run_kernel(*launch, context);
    } else if (auto* call = std::get_if<std::unique_ptr<ExternCall>>(&step)) {
      run_extern(i, **call, context, check);
    } else if (auto* copy = std::get_if<PreparedFunction::Copy>(&step)) {
      run_copy(*copy, context);
    } else if (auto* freed = std::get_if<plan::FreeStep>(&step)) {
      free(freed->slot, context);
    } else {
      const SlotId slot = std::get<plan::AllocateStep>(step).slot;
      allocate(slot, context);
      for (SlotId view : prepared_.views_of[slot]) context.bind_view(view, *this);
    }
  }
}

void BoundFunction::run(RunContext& context, std::span<c10::TensorImpl* const> inputs,
                        std::span<const double> numbers, std::vector<at::Tensor>& outputs) {
  // The first time static variables of PyTorch are initialised.
  std::optional<Whole> first;
  if (!has_run_.load(std::memory_order_relaxed)) first.emplace();
  bind_inputs(context, inputs);
  bind_numbers(context, numbers);
  bool check = prepared_.has_externs && (first || options().verify);
#ifdef BRAZE_CHECKS
  check = prepared_.has_externs;
#endif
  run_steps(context, check);
  for (SlotId slot : prepared_.function.outputs) outputs.push_back(make_output(slot, context));
  if (first) has_run_ = true;
}

at::Tensor BoundFunction::make_output(SlotId slot, const RunContext& context) const {
  const std::vector<plan::Slot>& slots = prepared_.function.slots;
  SlotId base = slot;
  while (slots[base].base >= 0) base = slots[base].base;
  if (base == slot) return context.tensors[slot];
  // A view of an input or of another output is made above autograd's keys, so that it knows its
  // base and shares its version counter, as eager's does.
  at::Tensor origin = context.tensors[base];
  // No output requires grad; one that views a parameter was detached.
  if (origin.defined() && origin.requires_grad()) origin = at::_ops::detach::call(origin);
  if (slots[slot].kind == SlotKind::kExtern) {
    const at::Tensor& view = context.tensors[slot];
    if (!origin.defined() || view.dtype() != origin.dtype()) return view;
    return at::_ops::as_strided::call(origin, view.sym_sizes(), view.sym_strides(),
                                      view.sym_storage_offset());
  }
  if (prepared_.dtype[slot] != origin.scalar_type()) return context.tensors[slot];
  const Shapes shapes = this->shapes();
  const int64_t bytes =
      static_cast<char*>(context.pointers[slot]) - static_cast<char*>(context.pointers[base]);
  return at::_ops::as_strided::call(
      origin, c10::fromIntArrayRefSlow(shapes.sizes(slot)),
      c10::fromIntArrayRefSlow(shapes.strides(slot)),
      origin.storage_offset() + bytes / graph::size_of(slots[slot].type.dtype));
}

}  // namespace braze::runtime
