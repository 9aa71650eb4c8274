#include "runtime/results.h"

#include <cstring>

#include "link/crc32.h"
#include "link/frames.h"

namespace ethos_hil {

namespace {

// TensorInfo.same_as has one byte, and 0 is for none.
constexpr std::uint32_t MOST_SAME = UINT8_MAX - 1;

TensorInfo announcement(TensorRole role, std::uint32_t index, const Tensor& tensor) {
  TensorInfo info{};
  info.role = static_cast<std::uint8_t>(role);
  info.dtype = static_cast<std::uint8_t>(tensor.type);
  info.rank = tensor.rank;
  info.index = static_cast<std::uint16_t>(index);
  info.nbytes = tensor.nbytes;
  info.crc32 = crc32(tensor.data, tensor.nbytes);
  if (tensor.rank != 0) std::memcpy(info.dim_order, tensor.dim_order, tensor.rank);
  return info;
}

void announce(const TensorInfo& info, const Tensor& tensor) {
  frames::send(FrameType::TENSOR, &info, sizeof info, tensor.sizes, tensor.rank * sizeof *tensor.sizes);
}

void send_bytes(const Tensor& tensor) {
  for (std::uint32_t offset = 0; offset < tensor.nbytes; offset += MAX_FRAME_PAYLOAD) {
    const std::uint32_t left = tensor.nbytes - offset;
    frames::send(FrameType::DATA, tensor.data + offset, left < MAX_FRAME_PAYLOAD ? left : MAX_FRAME_PAYLOAD);
  }
}

}  // namespace

void send_output(std::uint32_t index, const Tensor& tensor) {
  announce(announcement(TensorRole::OUTPUT, index, tensor), tensor);
  send_bytes(tensor);
}

void send_delegate_output(std::uint32_t index, std::uint32_t instruction, const Tensor& tensor, std::uint32_t same_as) {
  TensorInfo info = announcement(TensorRole::DELEGATE_OUTPUT, index, tensor);
  info.instruction = static_cast<std::uint16_t>(instruction);
  if (same_as <= MOST_SAME) info.same_as = static_cast<std::uint8_t>(same_as + 1);
  announce(info, tensor);
  if (info.same_as == 0) send_bytes(tensor);
}

void send_counters(std::uint32_t instruction, std::uint32_t delegate, const npu::JobCounters& counters) {
  Counters frame{};
  frame.instruction = instruction;
  frame.delegate = delegate;
  frame.cycles = counters.cycles;
  std::memcpy(frame.events, counters.events, sizeof frame.events);
  frame.overflows = counters.overflows;
  frame.stream_size = counters.stream_size;
  frames::send(FrameType::COUNTERS, &frame, sizeof frame);
}

}  // namespace ethos_hil
