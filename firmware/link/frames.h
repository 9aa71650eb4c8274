// Frames as harness/image/formats.py defines them: COBS(header, payload, CRC-32 of both) and a zero byte.
#pragma once

#include <cstddef>
#include <cstdint>

#include "link/formats.h"

namespace ethos_hil::frames {

// Separates the first frame from whatever the line carried before.
void begin();

// Sends one frame whose payload is `head` followed by `tail`, together at most MAX_FRAME_PAYLOAD bytes.
void send(FrameType type, const void* head, std::size_t head_size, const void* tail = nullptr,
          std::size_t tail_size = 0);

// Frames sent so far.
std::uint32_t sent();

}  // namespace ethos_hil::frames
