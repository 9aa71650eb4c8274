// Sends results to the host: tensors and counters as frames.
#pragma once

#include <cstdint>

#include "link/formats.h"
#include "npu/driver.h"
#include "runtime/tensor.h"

namespace ethos_hil {

// Sends TENSOR and the tensor's bytes in DATA frames, for an output of the method.
void send_output(std::uint32_t index, const Tensor& tensor);

// The same for an output of the delegate that `instruction` calls. Without its bytes, if it is the output `same_as` of
// the method, whose bytes follow later; otherwise `same_as` is NO_OUTPUT.
void send_delegate_output(std::uint32_t index, std::uint32_t instruction, const Tensor& tensor, std::uint32_t same_as);

void send_counters(std::uint32_t instruction, std::uint32_t delegate, const npu::JobCounters& counters);

}  // namespace ethos_hil
