// Sends results to the host: tensors and counters as frames.
#pragma once

#include <cstdint>

#include "link/formats.h"
#include "npu/driver.h"
#include "runtime/tensor.h"

namespace ethos_hil {

// Sends TENSOR, then the tensor's bytes in DATA frames. `index` is the output's; `instruction` is the DelegateCall's,
// or 0.
void send_tensor(TensorRole role, std::uint32_t index, std::uint32_t instruction, const Tensor& tensor);

void send_counters(std::uint32_t instruction, std::uint32_t delegate, const npu::JobCounters& counters);

}  // namespace ethos_hil
