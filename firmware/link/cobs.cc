#include "link/cobs.h"

namespace ethos_hil {

std::size_t cobs_encode(const std::uint8_t* in, std::size_t size, std::uint8_t* out) {
  std::size_t length_at = 0;  // where the current group's length byte goes
  std::size_t end = 1;
  std::uint8_t length = 1;
  for (std::size_t i = 0; i < size; ++i) {
    // A full group stands for 254 bytes and no zero; it is closed only when another byte follows.
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

}  // namespace ethos_hil
