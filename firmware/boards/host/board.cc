// A board that is a process: it takes its package from standard input and sends its frames to standard output. Only the
// firmware itself is as on a device; sanitizers watch it. There is no NPU (npu.cc).
#include "boards/board.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "link/formats.h"

namespace ethos_hil::board {

namespace {

// The SRAM of a Corstone-300, and less DDR than its 256 MiB, because all of it is poisoned at every start. In HELLO,
// number 0 means no board.
constexpr std::uint32_t SRAM_SIZE = 2u << 20;
constexpr std::uint32_t DDR_SIZE = 64u << 20;
constexpr std::uint32_t CPU_HZ = 1'000'000'000;

Pool package;
Pool sram;
Pool ddr;

[[noreturn]] void give_up(const char* problem) {
  std::fprintf(stderr, "ethos-hil-host: %s\n", problem);
  std::_Exit(2);
}

Pool map(std::uint32_t size) {
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) give_up("no memory for the pools");
  return {static_cast<std::uint8_t*>(memory), size};
}

// Reads it into memory of exactly its size, so that AddressSanitizer sees a read beyond its end.
Pool read_package() {
  const Pool all = map(DDR_SIZE);
  std::uint32_t size = 0;
  while (size < DDR_SIZE) {
    const ssize_t count = read(STDIN_FILENO, all.begin + size, DDR_SIZE - size);
    if (count < 0) give_up("cannot read the package from standard input");
    if (count == 0) break;
    size += static_cast<std::uint32_t>(count);
  }
  // A device's window is never smaller than a header, and has zeros where nothing was put.
  const std::uint32_t room = size < sizeof(PackageHeader) ? sizeof(PackageHeader) : size;
  void* exact = nullptr;
  if (posix_memalign(&exact, PACKAGE_ALIGNMENT, room) != 0) give_up("no memory for the package");
  std::memset(exact, 0, room);
  std::memcpy(exact, all.begin, size);
  munmap(all.begin, DDR_SIZE);
  return {static_cast<std::uint8_t*>(exact), room};
}

}  // namespace

Identity identity() { return {0, CPU_HZ}; }

Pool package_window() { return package; }

Pool sram_pool() { return sram; }

Pool ddr_pool(const std::uint8_t*) { return ddr; }

void initialise() {
  if (isatty(STDIN_FILENO) != 0) give_up("usage: ethos-hil-host < PACKAGE (frames go to standard output)");
  package = read_package();
  sram = map(SRAM_SIZE);
  ddr = map(DDR_SIZE);
}

void set_clocks(const Clocks&) {}

std::uintptr_t console() { return 0; }

bool try_load(const volatile std::uint32_t* address, std::uint32_t& value) {
  value = *address;
  return true;
}

bool try_store(volatile std::uint32_t* address, std::uint32_t value) {
  *address = value;
  return true;
}

void write(const std::uint8_t* bytes, std::size_t count) {
  while (count > 0) {
    const ssize_t written = ::write(STDOUT_FILENO, bytes, count);
    if (written < 0) give_up("cannot write to standard output");
    bytes += written;
    count -= static_cast<std::size_t>(written);
  }
}

bool try_write(std::uint8_t byte) {
  write(&byte, 1);
  return true;
}

// Standard input was read to its end for the package.
bool try_read(std::uint8_t&) { return false; }

std::uint32_t lost_bytes() { return 0; }

bool is_drained() { return true; }

// A process's stack grows on demand, and is not filled with a colour.
std::uint32_t stack_size() { return 0; }
std::uint32_t stack_used() { return 0; }

// This machine has neither debugger nor simulator.
std::int32_t semihosting(std::uint32_t, const void*) { return -1; }

// A process is started again by whoever started it.
Pool code(std::uint32_t) { return {}; }
void restart() { park(); }

void park() { std::_Exit(0); }

}  // namespace ethos_hil::board
