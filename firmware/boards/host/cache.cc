// There is no cache to synchronise with an NPU. Instead these functions check that everything a job may touch is
// memory.
#include <sanitizer/asan_interface.h>

#include "boards/board.h"

namespace ethos_hil::board {

namespace {

// Ends in AddressSanitizer's report at the first byte that must not be touched.
void expect_memory(const void* address, std::size_t count) {
  const void* forbidden = __asan_region_is_poisoned(const_cast<void*>(address), count);
  if (forbidden != nullptr) static_cast<void>(*static_cast<const volatile std::uint8_t*>(forbidden));
}

}  // namespace

void clean_cache(const void* address, std::size_t count) { expect_memory(address, count); }

void invalidate_cache(const void* address, std::size_t count) { expect_memory(address, count); }

}  // namespace ethos_hil::board
