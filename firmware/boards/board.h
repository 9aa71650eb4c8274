// What the firmware needs from a board. Each directory boards/<name>/ implements it once.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ethos_hil::board {

struct Identity {
  std::uint16_t number;  // as sent in HELLO: 300, 320
  std::uint32_t cpu_hz;
};
Identity identity();

// A part of memory for the caller alone.
struct Pool {
  std::uint8_t* begin;
  std::uint32_t size;  // bytes
};

// The memory where the host puts the package: from the package's start to the last address it may use.
Pool package_window();

// The firmware's own code and constants, in two parts.
constexpr std::uint32_t CODE_PARTS = 2;
Pool code(std::uint32_t part);

// Memory next to the NPU, for the data used most.
Pool sram_pool();

// The large memory after a package that ends at `package_end`.
Pool ddr_pool(const std::uint8_t* package_end);

// The NPU's register block.
volatile std::uint32_t* npu_registers();

// Whether the NPU is to reach what `pointer` points at through its port for SRAM, not through that for external memory.
bool is_at_sram_port(const void* pointer);

// The register block of the timing adapter between the NPU's AXI `port` (0 or 1) and its memory, on boards that can
// have one; null on others. Where it is left out, its registers read as zero or do not exist.
volatile std::uint32_t* timing_adapter(std::uint32_t port);

// Clocks, console and interrupt controller; called once, before anything else.
void initialise();

// Clocks and the console's speed, where they are not those of identity(); 0 leaves one as it is. Call it while nothing
// is on its way: before write(), or when is_drained().
struct Clocks {
  std::uint32_t cpu_hz;
  std::uint32_t peripheral_hz;
  std::uint32_t baud;
};
void set_clocks(const Clocks& clocks);

// The address of the console's UART, or 0 where there is none.
std::uintptr_t console();

// Sends bytes over the console; returns when the last one is handed to the UART.
void write(const std::uint8_t* bytes, std::size_t count);

// Sends one byte; false where there is no room for it at the moment.
bool try_write(std::uint8_t byte);

// Takes one byte that came over the console; false where there is none. Bytes that come while none are taken are
// lost: some UARTs hold only one.
bool try_read(std::uint8_t& byte);

// How many received bytes the console says it lost since the start, at least; wraps at 2^32.
std::uint32_t lost_bytes();

// Whether the last bit of all that was written has left. Ask until it is true: where the UART cannot tell, this counts.
bool is_drained();

// Lets the NPU's interrupt through to npu::on_interrupt().
void enable_npu_interrupt();

// Sleeps until `flag` is set by an interrupt handler. False when it is not set within `milliseconds`.
bool wait_for(const volatile bool& flag, std::uint32_t milliseconds);

// A counter of the CPU's cycles that wraps at 2^32. It may stand still while the CPU sleeps, and always where a board
// has none.
void start_cycle_counter();
std::uint32_t cycles();

// Access a word where nothing may answer. False, and no value, when the bus reports an error.
bool try_load(const volatile std::uint32_t* address, std::uint32_t& value);
bool try_store(volatile std::uint32_t* address, std::uint32_t value);

// A semihosting call to the debugger or simulator of this CPU. Returns -1 without one.
std::int32_t semihosting(std::uint32_t operation, const void* argument);

// Make `count` bytes visible to the NPU, or what the NPU wrote visible to the CPU. Nothing while the D-cache is off.
void clean_cache(const void* address, std::size_t count);
void invalidate_cache(const void* address, std::size_t count);

// The main stack: its size, and the most that was in use since the start, in bytes.
std::uint32_t stack_size();
std::uint32_t stack_used();

// Starts the firmware again as its loader did. Only the package's window and what is in no section that start-up fills
// stay as they are.
[[noreturn]] void restart();

// Sleeps for ever.
[[noreturn]] void park();

}  // namespace ethos_hil::board
