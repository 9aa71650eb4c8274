#include "link/frames.h"

#include <cstring>

#include "boards/board.h"
#include "link/cobs.h"
#include "link/crc32.h"

namespace ethos_hil::frames {

namespace {

constexpr std::size_t MAX_FRAME = sizeof(FrameHeader) + MAX_FRAME_PAYLOAD + sizeof(std::uint32_t);

constexpr std::uint8_t DELIMITER[] = {0};
std::uint32_t frames_sent;

}  // namespace

void begin() { board::write(DELIMITER, sizeof DELIMITER); }

void send(FrameType type, const void* head, std::size_t head_size, const void* tail, std::size_t tail_size) {
  // The frame is complete in memory before its first byte is sent, so that a fault while the payload is read is
  // reported in a separate frame and not in the middle of this one.
  static std::uint8_t frame[MAX_FRAME];
  static std::uint8_t encoded[cobs_bound(MAX_FRAME) + 1];
  if (head_size + tail_size > MAX_FRAME_PAYLOAD) __builtin_trap();

  const FrameHeader header{static_cast<std::uint8_t>(type), 0, static_cast<std::uint16_t>(frames_sent)};
  std::size_t size = 0;
  const auto append = [&size](const void* data, std::size_t count) {
    if (count != 0) std::memcpy(frame + size, data, count);
    size += count;
  };
  append(&header, sizeof header);
  append(head, head_size);
  append(tail, tail_size);
  const std::uint32_t crc = crc32(frame, size);
  append(&crc, sizeof crc);

  std::size_t length = cobs_encode(frame, size, encoded);
  encoded[length++] = 0;
  board::write(encoded, length);
  ++frames_sent;
}

std::uint32_t sent() { return frames_sent; }

}  // namespace ethos_hil::frames
