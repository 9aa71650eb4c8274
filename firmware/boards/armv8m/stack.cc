// The depth of the main stack. Start-up fills it with a colour from its limit to its top; words that still have the
// colour were never written. A frame that leaves a gap counts as used up to its deepest word.
#include "boards/board.h"

extern "C" {
extern const std::uint32_t __stack_limit, __stack_top;
}

namespace ethos_hil::board {

namespace {

constexpr std::uint32_t COLOUR = 0xC5C5C5C5;  // as in startup.cc

std::uint32_t bytes_between(const std::uint32_t* begin, const std::uint32_t* end) {
  return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(end) - reinterpret_cast<std::uintptr_t>(begin));
}

}  // namespace

std::uint32_t stack_size() { return bytes_between(&__stack_limit, &__stack_top); }

std::uint32_t stack_used() {
  const std::uint32_t* deepest = &__stack_limit;
  while (deepest != &__stack_top && *deepest == COLOUR) ++deepest;
  return bytes_between(deepest, &__stack_top);
}

}  // namespace ethos_hil::board
