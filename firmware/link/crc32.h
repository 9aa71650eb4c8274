// The CRC-32 of zlib and Ethernet: polynomial 0x04C11DB7 reflected, initial and final value inverted.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ethos_hil {

// Returns the CRC of `size` bytes. For data in several pieces, pass the CRC of the pieces before (as for zlib.crc32).
std::uint32_t crc32(const void* data, std::size_t size, std::uint32_t previous = 0);

}  // namespace ethos_hil
