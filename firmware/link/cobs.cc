#include "link/cobs.h"

namespace ethos_hil {

std::size_t cobs_encode(const std::uint8_t* in, std::size_t size, std::uint8_t* out) {
  std::size_t length_at = 0;  // where the current group's length byte goes
  std::size_t end = 1;
  std::uint8_t length = 1;
  for (std::size_t i = 0; i < size; ++i) {
    // A full group stands for 254 bytes without a zero; it is closed only when another byte follows.
    if (length == 0xFF) {
      out[length_at] = length;
      length_at = end++;
      length = 1;
    }
    if (in[i] == 0) {
      out[length_at] = length;
      length_at = end++;
      length = 1;
    } else {
      out[end++] = in[i];
      ++length;
    }
  }
  out[length_at] = length;
  return end;
}

std::size_t cobs_decode(const std::uint8_t* in, std::size_t size, std::uint8_t* out) {
  std::size_t end = 0;
  std::size_t at = 0;
  while (at < size) {
    const std::size_t length = in[at++];
    if (length == 0 || length - 1 > size - at) return COBS_INVALID;
    for (const std::size_t stop = at + length - 1; at < stop; ++at) {
      if (in[at] == 0) return COBS_INVALID;
      out[end++] = in[at];
    }
    // Every group except a full one stands for a zero after it; the zero after the last group does not exist.
    if (length != 0xFF && at < size) out[end++] = 0;
  }
  return end;
}

}  // namespace ethos_hil
