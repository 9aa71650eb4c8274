// Base64 with the usual alphabet (RFC 4648, 4): bytes as characters that every line and terminal carries.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ethos_hil {

// The encoded size of `size` bytes, padding included.
constexpr std::size_t base64_size(std::size_t size) { return (size + 2) / 3 * 4; }

// Encodes `size` bytes into `out`, which has room for base64_size(size). Returns the encoded size.
std::size_t base64_encode(const std::uint8_t* in, std::size_t size, std::uint8_t* out);

}  // namespace ethos_hil
