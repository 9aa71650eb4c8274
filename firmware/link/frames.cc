#include "link/frames.h"

#include <cstring>

#include "boards/board.h"
#include "link/base64.h"
#include "link/cobs.h"
#include "link/crc32.h"

namespace ethos_hil::frames {

namespace {

constexpr std::size_t MAX_FRAME = sizeof(FrameHeader) + MAX_FRAME_PAYLOAD + sizeof(std::uint32_t);

constexpr std::uint8_t DELIMITER[] = {0};
constexpr std::uint8_t LINE_END[] = {'\n'};
std::uint32_t frames_sent;
bool is_printable;

// Each writes `size` bytes and the delimiter to `out`, and returns how many bytes that are.
std::size_t encode_binary(const std::uint8_t* bytes, std::size_t size, std::uint8_t* out) {
  const std::size_t length = cobs_encode(bytes, size, out);
  out[length] = DELIMITER[0];
  return length + 1;
}

std::size_t encode_printable(const std::uint8_t* bytes, std::size_t size, std::uint8_t* out) {
  out[0] = PRINTABLE_MARK;
  const std::size_t length = 1 + base64_encode(bytes, size, out + 1);
  out[length] = LINE_END[0];
  return length + 1;
}

constexpr std::size_t MOST_ENCODED = base64_size(MAX_FRAME) + 2;
static_assert(MOST_ENCODED >= cobs_bound(MAX_FRAME) + 1);

}  // namespace

void begin(bool printable) {
  is_printable = printable;
  resume();
}

void resume() { board::write(is_printable ? LINE_END : DELIMITER, 1); }

void send(FrameType type, const void* head, std::size_t head_size, const void* tail, std::size_t tail_size) {
  // The frame is complete in memory before its first byte is sent, so that a fault while the payload is read is
  // reported in a separate frame and not in the middle of this one.
  static std::uint8_t frame[MAX_FRAME];
  static std::uint8_t encoded[MOST_ENCODED];
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

  board::write(encoded, (is_printable ? encode_printable : encode_binary)(frame, size, encoded));
  ++frames_sent;
}

std::uint32_t sent() { return frames_sent; }

}  // namespace ethos_hil::frames
