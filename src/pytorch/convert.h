// The graph's dtypes and devices as PyTorch's, and back.
#pragma once

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>

#include <optional>

#include "graph/types.h"

namespace braze::pytorch {

at::ScalarType scalar_type_of(graph::DType dtype);
graph::DType dtype_of(at::ScalarType type);  // InternalError for unsupported ones
std::optional<graph::DType> try_dtype_of(at::ScalarType type);

c10::Device device_of(graph::Device device);
graph::Device graph_device(c10::Device device);  // InternalError for others than CPUs and GPUs

}  // namespace braze::pytorch
