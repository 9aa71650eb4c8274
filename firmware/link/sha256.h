// SHA-256 (FIPS 180-4) of a block of memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ethos_hil {

struct Sha256 {
  std::uint8_t bytes[32];
};

Sha256 sha256(const std::uint8_t* data, std::size_t size);

}  // namespace ethos_hil
