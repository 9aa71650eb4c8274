// The common part of all boards with an Armv8.1-M core: everything but addresses (soc.h), UART and port.
#include "boards/board.h"

#include "boards/armv8m/core.h"
#include "boards/port.h"
#include "boards/uart.h"
#include "soc.h"

extern "C" {
extern std::uint8_t __boot_begin[], __boot_end[], __code_begin[], __code_end[];
extern std::uint8_t __package_start[], __package_limit[], __sram_pool_start[], __sram_pool_end[], __ddr_end[];
}

namespace ethos_hil::board {

namespace {

constexpr std::uintptr_t POOL_ALIGNMENT = 32;
std::uint32_t cpu_hz = soc::CPU_HZ;

Pool between(std::uint8_t* begin, std::uint8_t* end) {
  return {begin,
          static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(end) - reinterpret_cast<std::uintptr_t>(begin))};
}

}  // namespace

Identity identity() { return {soc::NUMBER, cpu_hz}; }

void set_clocks(const Clocks& clocks) {
  if (clocks.cpu_hz != 0) cpu_hz = clocks.cpu_hz;
  uart::set_speed(clocks.peripheral_hz, clocks.baud);
}

Pool package_window() { return between(__package_start, __package_limit); }

Pool code(std::uint32_t part) {
  return part == 0 ? between(__boot_begin, __boot_end) : between(__code_begin, __code_end);
}

Pool sram_pool() { return between(__sram_pool_start, __sram_pool_end); }

Pool ddr_pool(const std::uint8_t* package_end) {
  const auto aligned = (reinterpret_cast<std::uintptr_t>(package_end) + POOL_ALIGNMENT - 1) & ~(POOL_ALIGNMENT - 1);
  return between(reinterpret_cast<std::uint8_t*>(aligned), __ddr_end);
}

volatile std::uint32_t* npu_registers() { return reinterpret_cast<volatile std::uint32_t*>(soc::NPU_BASE); }

volatile std::uint32_t* timing_adapter(std::uint32_t port) {
  return reinterpret_cast<volatile std::uint32_t*>(soc::TIMING_ADAPTERS[port]);
}

void initialise() {
  const Clocks clocks = port::prepare();
  static_cast<void>(uart::initialise());
  set_clocks(clocks);
}

std::uintptr_t console() { return uart::address(); }

void write(const std::uint8_t* bytes, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    while (!uart::try_write(bytes[i])) {
    }
  }
}

bool try_write(std::uint8_t byte) { return uart::try_write(byte); }

bool try_read(std::uint8_t& byte) { return uart::try_read(byte); }

std::uint32_t lost_bytes() { return uart::lost(); }

bool is_drained() { return uart::is_drained(); }

void enable_npu_interrupt() {
  constexpr std::uintptr_t WORD = soc::NPU_IRQ / 32 * 4;
  constexpr std::uint32_t BIT = 1u << soc::NPU_IRQ % 32;
  core::reg(core::NVIC_ICPR + WORD) = BIT;  // what a program before this one left pending
  core::barrier();
  core::reg(core::NVIC_ISER + WORD) = BIT;
}

}  // namespace ethos_hil::board
