#include "link/base64.h"

namespace ethos_hil {

namespace {

constexpr char ALPHABET[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::size_t GROUP = 3;  // bytes that become four characters

}  // namespace

std::size_t base64_encode(const std::uint8_t* in, std::size_t size, std::uint8_t* out) {
  std::uint8_t* next = out;
  for (std::size_t at = 0; at < size; at += GROUP) {
    const std::size_t count = size - at < GROUP ? size - at : GROUP;
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < GROUP; ++i) bits = bits << 8 | (i < count ? in[at + i] : 0u);
    for (std::size_t i = 0; i <= GROUP; ++i) {
      *next++ = static_cast<std::uint8_t>(i <= count ? ALPHABET[bits >> (18 - 6 * i) & 0x3F] : '=');
    }
  }
  return static_cast<std::size_t>(next - out);
}

}  // namespace ethos_hil
