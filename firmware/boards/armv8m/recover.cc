#include "boards/armv8m/recover.h"

#include "boards/armv8m/core.h"
#include "boards/board.h"

// Each function returns through its label `..._failed` when its instruction faults. A bus may report an error only
// after the instruction that caused it, so a barrier waits for that, and its address counts too.
extern "C" {
extern const std::uint8_t semihosting_call_begin[], semihosting_call_end[], semihosting_call_failed[];
extern const std::uint8_t bus_load_begin[], bus_load_end[], bus_load_failed[];
extern const std::uint8_t bus_store_begin[], bus_store_end[], bus_store_failed[];

// A breakpoint with a fixed number, the operation in r0, its argument in r1, the answer in r0 (Arm, "Semihosting for
// AArch32 and AArch64"). Without a host the breakpoint is a HardFault.
[[gnu::naked]] std::int32_t semihosting_call(std::uint32_t, const void*) {
  __asm volatile(
      ".global semihosting_call_begin, semihosting_call_end, semihosting_call_failed\n"
      "semihosting_call_begin:\n"
      "bkpt 0xAB\n"
      "semihosting_call_end:\n"
      "bx lr\n"
      "semihosting_call_failed:\n"
      "mov r0, #-1\n"
      "bx lr\n");
}

// The value in the low word, and 1 in the high one if there is a value.
[[gnu::naked]] std::uint64_t bus_load(std::uintptr_t) {
  __asm volatile(
      ".global bus_load_begin, bus_load_end, bus_load_failed\n"
      "bus_load_begin:\n"
      "ldr r0, [r0]\n"
      "dsb\n"
      "bus_load_end:\n"
      "movs r1, #1\n"
      "bx lr\n"
      "bus_load_failed:\n"
      "movs r0, #0\n"
      "movs r1, #0\n"
      "bx lr\n");
}

// 1 if it was stored.
[[gnu::naked]] std::uint32_t bus_store(std::uintptr_t, std::uint32_t) {
  __asm volatile(
      ".global bus_store_begin, bus_store_end, bus_store_failed\n"
      "bus_store_begin:\n"
      "str r1, [r0]\n"
      "dsb\n"
      "bus_store_end:\n"
      "movs r0, #1\n"
      "bx lr\n"
      "bus_store_failed:\n"
      "movs r0, #0\n"
      "bx lr\n");
}
}

namespace ethos_hil::core {

namespace {

// HFSR says that a breakpoint had no debugger, and CFSR and SFSR nothing. Some implementations set FORCED too.
bool is_breakpoint(const FaultState& state) {
  return state.cfsr == 0 && state.sfsr == 0 && (state.hfsr & (HFSR_DEBUGEVT | HFSR_FORCED)) != 0;
}

bool is_bus_error(const FaultState& state) {
  constexpr std::uint32_t ERRORS = CFSR_PRECISERR | CFSR_IMPRECISERR;
  return state.sfsr == 0 && (state.cfsr & ERRORS) != 0 && (state.cfsr & ~(ERRORS | CFSR_BFARVALID)) == 0;
}

struct Recoverable {
  const std::uint8_t* begin;  // its first instruction
  const std::uint8_t* end;    // the one after its last
  const std::uint8_t* failed;
  bool (*may_happen)(const FaultState& state);
};

constexpr Recoverable TABLE[] = {
    {semihosting_call_begin, semihosting_call_end, semihosting_call_failed, is_breakpoint},
    {bus_load_begin, bus_load_end, bus_load_failed, is_bus_error},
    {bus_store_begin, bus_store_end, bus_store_failed, is_bus_error},
};

}  // namespace

std::uintptr_t resume_after(const FaultState& state) {
  for (const Recoverable& row : TABLE) {
    const auto begin = reinterpret_cast<std::uintptr_t>(row.begin);
    const auto end = reinterpret_cast<std::uintptr_t>(row.end);
    // The end too: there the core is when the barrier has reported the error.
    if (begin <= state.pc && state.pc <= end && row.may_happen(state)) {
      return reinterpret_cast<std::uintptr_t>(row.failed);
    }
  }
  return 0;
}

}  // namespace ethos_hil::core

namespace ethos_hil::board {

std::int32_t semihosting(std::uint32_t operation, const void* argument) {
  return semihosting_call(operation, argument);
}

bool try_load(const volatile std::uint32_t* address, std::uint32_t& value) {
  const std::uint64_t answer = bus_load(reinterpret_cast<std::uintptr_t>(address));
  value = static_cast<std::uint32_t>(answer);
  return (answer >> 32) != 0;
}

bool try_store(volatile std::uint32_t* address, std::uint32_t value) {
  return bus_store(reinterpret_cast<std::uintptr_t>(address), value) != 0;
}

}  // namespace ethos_hil::board
