// A boot that can be repeated: what the fuzzers need of a board, and memory whose every end AddressSanitizer watches.
#pragma once

#include <cstddef>
#include <cstdint>

#include "boards/board.h"

namespace ethos_hil::fuzz {

// Runs `body` until it returns or the firmware parks the CPU, which is how it ends when something is wrong. `body` must
// not own anything: its destructors do not run then.
using Body = void (*)(const std::uint8_t* data, std::size_t size);
void boot(Body body, const std::uint8_t* data, std::size_t size);

// `size` bytes at a multiple of 32, nothing around them, valid until the boot ends. For what comes from outside.
std::uint8_t* allocate(std::size_t size);
std::uint8_t* copy(const void* bytes, std::size_t size);

// The memory of a small board.
board::Pool sram();
board::Pool ddr();

// Called with what the firmware sends; nothing is, until it is set.
using Listener = void (*)(const std::uint8_t* bytes, std::size_t size);
void listen(Listener listener);

}  // namespace ethos_hil::fuzz
