// A read-only range of memory with its size. All readers take it instead of a bare pointer.
#pragma once

#include <cstdint>
#include <cstring>

namespace ethos_hil {

struct Bytes {
  const std::uint8_t* data = nullptr;
  std::uint32_t size = 0;

  // Whether [offset, offset + count) lies inside; does not overflow.
  bool contains(std::uint64_t offset, std::uint64_t count) const { return offset <= size && count <= size - offset; }

  // Returns a part. Call contains() first.
  Bytes part(std::uint64_t offset, std::uint64_t count) const {
    return {data + offset, static_cast<std::uint32_t>(count)};
  }

  // Returns the little-endian number at `offset`, which need not be aligned. Call contains() first.
  std::uint32_t u32(std::uint32_t offset) const {
    std::uint32_t value;
    std::memcpy(&value, data + offset, sizeof value);
    return value;
  }
  std::uint64_t u64(std::uint32_t offset) const {
    std::uint64_t value;
    std::memcpy(&value, data + offset, sizeof value);
    return value;
  }
};

inline bool is_aligned(const void* pointer, std::uint32_t alignment) {
  return reinterpret_cast<std::uintptr_t>(pointer) % alignment == 0;
}

}  // namespace ethos_hil
