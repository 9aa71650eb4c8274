#include "fuzz/boot.h"

#include <csetjmp>
#include <cstdlib>
#include <cstring>

namespace ethos_hil {

namespace fuzz {

namespace {

// Small, because they are poisoned again for each of some thousand boots a second. A program that does not fit ends in
// an error.
constexpr std::uint32_t SRAM_SIZE = 256u << 10;
constexpr std::uint32_t DDR_SIZE = 1u << 20;
constexpr std::size_t ALIGNMENT = 32;
constexpr std::size_t MAX_ALLOCATIONS = 256;

alignas(ALIGNMENT) std::uint8_t sram_memory[SRAM_SIZE];
alignas(ALIGNMENT) std::uint8_t ddr_memory[DDR_SIZE];
std::jmp_buf parked;
void* allocations[MAX_ALLOCATIONS];
std::size_t allocation_count;
Listener listener_of_all;
const std::uint8_t* supplied;
std::size_t supplied_count;

}  // namespace

void boot(Body body, const std::uint8_t* data, std::size_t size) {
  if (setjmp(parked) == 0) body(data, size);
  while (allocation_count > 0) std::free(allocations[--allocation_count]);
  listener_of_all = nullptr;
  supplied_count = 0;
}

std::uint8_t* allocate(std::size_t size) {
  void* memory = nullptr;
  if (allocation_count == MAX_ALLOCATIONS || posix_memalign(&memory, ALIGNMENT, size) != 0) std::abort();
  allocations[allocation_count++] = memory;
  return static_cast<std::uint8_t*>(memory);
}

std::uint8_t* copy(const void* bytes, std::size_t size) {
  std::uint8_t* memory = allocate(size);
  if (size != 0) std::memcpy(memory, bytes, size);
  return memory;
}

board::Pool sram() { return {sram_memory, SRAM_SIZE}; }
board::Pool ddr() { return {ddr_memory, DDR_SIZE}; }

void listen(Listener listener) { listener_of_all = listener; }

void supply(const std::uint8_t* bytes, std::size_t size) {
  supplied = bytes;
  supplied_count = size;
}

}  // namespace fuzz

namespace board {

void write(const std::uint8_t* bytes, std::size_t count) {
  if (fuzz::listener_of_all != nullptr) fuzz::listener_of_all(bytes, count);
}

bool try_write(std::uint8_t byte) {
  write(&byte, 1);
  return true;
}

bool try_read(std::uint8_t& byte) {
  if (fuzz::supplied_count == 0) return false;
  byte = *fuzz::supplied++;
  --fuzz::supplied_count;
  return true;
}

std::uint32_t lost_bytes() { return 0; }

bool is_drained() { return true; }

// This machine has neither debugger nor simulator.
std::int32_t semihosting(std::uint32_t, const void*) { return -1; }

void restart() { park(); }

void park() { std::longjmp(fuzz::parked, 1); }

}  // namespace board

}  // namespace ethos_hil
