// Frames as harness/image/formats.py defines them: header, payload and CRC-32 of both, in COBS and a zero byte, or on a
// printable link as a line of base64.
#pragma once

#include <cstddef>
#include <cstdint>

#include "link/formats.h"

namespace ethos_hil::frames {

// Separates the first frame from whatever the line carried before. On a `printable` link all frames are lines of text.
void begin(bool printable);

// Separates the next frame from one that was cut short.
void resume();

// Sends one frame whose payload is `head` followed by `tail`, together at most MAX_FRAME_PAYLOAD bytes.
void send(FrameType type, const void* head, std::size_t head_size, const void* tail = nullptr,
          std::size_t tail_size = 0);

// Frames sent so far.
std::uint32_t sent();

}  // namespace ethos_hil::frames
