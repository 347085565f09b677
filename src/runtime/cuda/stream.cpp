#include "runtime/cuda/stream.h"

#include <c10/core/impl/VirtualGuardImpl.h>

namespace braze::runtime::cuda {

void* current_stream(c10::Device device) {
  const c10::impl::VirtualGuardImpl guard(device.type());
  return guard.getStreamNativeHandle(guard.getStream(device));
}

}  // namespace braze::runtime::cuda
