#include "runtime/results.h"

#include <cstring>

#include "link/crc32.h"
#include "link/frames.h"

namespace ethos_hil {

void send_tensor(TensorRole role, std::uint32_t index, std::uint32_t instruction, const Tensor& tensor) {
  TensorInfo info{};
  info.role = static_cast<std::uint8_t>(role);
  info.dtype = static_cast<std::uint8_t>(tensor.type);
  info.rank = tensor.rank;
  info.index = static_cast<std::uint16_t>(index);
  info.instruction = static_cast<std::uint16_t>(instruction);
  info.nbytes = tensor.nbytes;
  info.crc32 = crc32(tensor.data, tensor.nbytes);
  if (tensor.rank != 0) std::memcpy(info.dim_order, tensor.dim_order, tensor.rank);
  frames::send(FrameType::TENSOR, &info, sizeof info, tensor.sizes, tensor.rank * sizeof *tensor.sizes);
  for (std::uint32_t offset = 0; offset < tensor.nbytes; offset += MAX_FRAME_PAYLOAD) {
    const std::uint32_t left = tensor.nbytes - offset;
    frames::send(FrameType::DATA, tensor.data + offset, left < MAX_FRAME_PAYLOAD ? left : MAX_FRAME_PAYLOAD);
  }
}

void send_counters(std::uint32_t instruction, std::uint32_t delegate, const npu::JobCounters& counters) {
  Counters frame{};
  frame.instruction = instruction;
  frame.delegate = delegate;
  frame.cycles = counters.cycles;
  std::memcpy(frame.events, counters.events, sizeof frame.events);
  frames::send(FrameType::COUNTERS, &frame, sizeof frame);
}

}  // namespace ethos_hil
