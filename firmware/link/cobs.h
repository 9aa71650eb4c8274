// Consistent Overhead Byte Stuffing: an encoding without zero bytes, so that a zero can separate frames (S. Cheshire
// and M. Baker, "Consistent Overhead Byte Stuffing", 1999).
#pragma once

#include <cstddef>
#include <cstdint>

namespace ethos_hil {

// The largest encoded size of `size` bytes.
constexpr std::size_t cobs_bound(std::size_t size) { return size + size / 254 + 1; }

// The result of decoding bytes that are not an encoding.
constexpr std::size_t COBS_INVALID = ~std::size_t{0};

// Encodes `size` bytes into `out`, which has room for cobs_bound(size). Returns the encoded size. Adds no delimiter.
std::size_t cobs_encode(const std::uint8_t* in, std::size_t size, std::uint8_t* out);

// Decodes `size` bytes, without their delimiter, into `out`, which has room for as many. Returns the decoded size, or
// COBS_INVALID when they are not an encoding.
std::size_t cobs_decode(const std::uint8_t* in, std::size_t size, std::uint8_t* out);

}  // namespace ethos_hil
