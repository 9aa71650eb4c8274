// Poisons the pools for AddressSanitizer, in builds that have it (boards/host): no access is allowed to a byte that was
// not allocated, nor to the gap after an allocation. In other builds these functions do nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ETHOS_HIL_POISONS_POOLS
#include <sanitizer/asan_interface.h>
#endif
#endif

namespace ethos_hil {

#ifdef ETHOS_HIL_POISONS_POOLS

constexpr std::uint32_t POOL_GAP = 64;  // bytes

inline void forbid(const void* begin, std::size_t size) { __asan_poison_memory_region(begin, size); }
inline void allow(const void* begin, std::size_t size) { __asan_unpoison_memory_region(begin, size); }

#else

constexpr std::uint32_t POOL_GAP = 0;

inline void forbid(const void*, std::size_t) {}
inline void allow(const void*, std::size_t) {}

#endif

}  // namespace ethos_hil
