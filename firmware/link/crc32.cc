#include "link/crc32.h"

namespace ethos_hil {

namespace {

constexpr std::uint32_t POLYNOMIAL = 0xEDB88320;

struct Table {
  std::uint32_t entry[256];
};

constexpr Table make_table() {
  Table table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value & 1) != 0 ? value >> 1 ^ POLYNOMIAL : value >> 1;
    table.entry[byte] = value;
  }
  return table;
}

constexpr Table TABLE = make_table();

}  // namespace

std::uint32_t crc32(const void* data, std::size_t size, std::uint32_t previous) {
  const auto* bytes = static_cast<const std::uint8_t*>(data);
  std::uint32_t crc = ~previous;
  for (std::size_t i = 0; i < size; ++i) crc = crc >> 8 ^ TABLE.entry[(crc ^ bytes[i]) & 0xFF];
  return ~crc;
}

}  // namespace ethos_hil
