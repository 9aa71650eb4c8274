// A boot that can be repeated: the parts of a board that the fuzzers need, and memory whose bounds AddressSanitizer
// checks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "boards/board.h"

namespace ethos_hil::fuzz {

// Runs `body` until it returns or the firmware parks the CPU, which it does on an error. `body` must not own anything:
// its destructors do not run then.
using Body = void (*)(const std::uint8_t* data, std::size_t size);
void boot(Body body, const std::uint8_t* data, std::size_t size);

// Returns `size` bytes at a multiple of 32 with nothing around them, valid until the boot ends. For input data.
std::uint8_t* allocate(std::size_t size);
std::uint8_t* copy(const void* bytes, std::size_t size);

// The memory of a small board.
board::Pool sram();
board::Pool ddr();

// Receives the bytes that the firmware sends. They are dropped until a listener is set.
using Listener = void (*)(const std::uint8_t* bytes, std::size_t size);
void listen(Listener listener);

// What comes over the console from now on, until the boot ends. The bytes must stay valid so long.
void supply(const std::uint8_t* bytes, std::size_t size);

}  // namespace ethos_hil::fuzz
