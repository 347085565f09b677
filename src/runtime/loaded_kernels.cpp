#include "runtime/loaded_kernels.h"

#include <map>
#include <string>
#include <utility>

#include "runtime/cuda/flex_attention.h"
#include "runtime/cuda/triton.h"
#include "runtime/flex_attention_operator.h"
#include "toolchain/nvrtc.h"

namespace braze::runtime {
namespace {

// What the kernels of a code object are.
struct Use {
  std::vector<std::string> names;
  int device = 0;
};

std::vector<Use> uses_of(const plan::Module& module) {
  std::vector<Use> uses(module.code.size());
  for (const plan::Function& function : module.functions)
    for (const plan::KernelSignature& kernel : function.kernels) {
      uses[kernel.code].names.push_back(kernel.name);
      uses[kernel.code].device = function.device.index;
    }
  return uses;
}

void load_on_cpu(const plan::Module& module, const std::vector<Use>& uses, LoadedKernels& loaded) {
  std::vector<toolchain::LibrarySource> sources;
  std::vector<size_t> objects;
  for (size_t i = 0; i < module.code.size(); ++i) {
    const plan::Code& code = module.code[i];
    if (code.language != plan::Language::kCpp) continue;
    sources.push_back({.text = code.text, .flags = code.flags, .symbols = uses[i].names});
    objects.push_back(i);
  }
  const auto libraries = toolchain::build_all(sources);
  for (size_t i = 0; i < objects.size(); ++i) loaded.libraries[objects[i]] = libraries[i];
}

// All at once: they compile side by side.
void load_on_gpu(const plan::Module& module, const std::vector<Use>& uses, LoadedKernels& loaded) {
  std::vector<toolchain::CudaSource> sources;
  std::vector<size_t> objects;
  for (size_t i = 0; i < module.code.size(); ++i) {
    const plan::Code& code = module.code[i];
    if (code.language != plan::Language::kCuda) continue;
    sources.push_back({.text = code.text, .flags = code.flags});
    objects.push_back(i);
  }
  // Loaded by the operators, at their first call.
  for (const plan::Function& function : module.functions)
    for (const plan::Step& step : function.steps)
      if (const auto* called = std::get_if<plan::ExternStep>(&step))
        for (std::string_view source : flex_sources(*called))
          sources.push_back(cuda::flex_program(source, function.device.index));
  if (sources.empty()) return;
  const toolchain::Cubins cubins = toolchain::cubins(sources);
  std::map<std::pair<size_t, int>, std::shared_ptr<cuda::LoadedCode>> codes;  // each on its device
  for (size_t i = 0; i < objects.size(); ++i) {
    const std::pair place(cubins.of_source[i], uses[objects[i]].device);
    std::shared_ptr<cuda::LoadedCode>& code = codes[place];
    if (!code) code = std::make_shared<cuda::LoadedCode>(place.second, cubins.code[place.first]);
    loaded.on_device[objects[i]] = code;
  }
}

// What a kernel takes beside what the plan says is known once it is compiled.
std::vector<cuda::TritonBinary> load_triton(const plan::Module& module,
                                            const std::vector<Use>& uses, LoadedKernels& loaded) {
  std::vector<cuda::TritonSource> sources;
  std::vector<size_t> objects;
  for (size_t i = 0; i < module.code.size(); ++i) {
    const plan::Code& code = module.code[i];
    if (code.language != plan::Language::kTriton) continue;
    sources.push_back({uses[i].names.front(), code.text, code.flags});
    objects.push_back(i);
  }
  std::vector<cuda::TritonBinary> by_object(module.code.size());
  std::vector<cuda::TritonBinary> binaries = cuda::triton_binaries(sources);
  for (size_t i = 0; i < objects.size(); ++i) {
    loaded.on_device[objects[i]] =
        std::make_shared<cuda::LoadedCode>(uses[objects[i]].device, binaries[i].cubin);
    by_object[objects[i]] = std::move(binaries[i]);
  }
  return by_object;
}

LoadedKernel on_gpu(const cuda::LoadedCode& code, const std::string& name, int device,
                    const cuda::TritonBinary& made) {
  const LoadedKernel kernel{code.kernel(name), made.shared_bytes, made.more_pointers};
  cuda::allow_shared(device, kernel.function, kernel.shared_bytes);
  return kernel;
}

// What a plan's launches take of shared memory.
void allow_planned(const plan::Function& function, const std::vector<Use>& uses,
                   const std::vector<LoadedKernel>& kernels) {
  for (const plan::Step& step : function.steps) {
    const auto* run = std::get_if<plan::KernelStep>(&step);
    const auto* grid = run ? std::get_if<plan::Grid>(&run->launch) : nullptr;
    if (!grid || !grid->shared_bytes.is_constant()) continue;
    const LoadedKernel& kernel = kernels[run->kernel];
    const auto bytes = static_cast<uint32_t>(grid->shared_bytes.constant()) + kernel.shared_bytes;
    cuda::allow_shared(uses[function.kernels[run->kernel].code].device, kernel.function, bytes);
  }
}

}  // namespace

LoadedKernels load_kernels(const plan::Module& module) {
  LoadedKernels loaded;
  loaded.libraries.resize(module.code.size());
  loaded.on_device.resize(module.code.size());
  const std::vector<Use> uses = uses_of(module);
  load_on_cpu(module, uses, loaded);
  load_on_gpu(module, uses, loaded);
  const std::vector<cuda::TritonBinary> of_triton = load_triton(module, uses, loaded);
  for (const plan::Function& function : module.functions) {
    std::vector<LoadedKernel>& found = loaded.functions.emplace_back();
    for (const plan::KernelSignature& kernel : function.kernels) {
      if (const auto& library = loaded.libraries[kernel.code])
        found.push_back({library->symbol(kernel.name)});
      else
        found.push_back(on_gpu(*loaded.on_device[kernel.code], kernel.name,
                               uses[kernel.code].device, of_triton[kernel.code]));
    }
    allow_planned(function, uses, found);
  }
  return loaded;
}

}  // namespace braze::runtime
