// Renesas RA8P1 on the EK-RA8P1. After reset all clocks are 8 MHz of an internal oscillator. This takes the 24 MHz
// crystal for the processor, the NPU and the serial interface: no memory needs wait states for it, and no voltage has
// to change, as both would for the PLL's 1 GHz.
//
// Sources: Renesas' FSP, R7KA8P1KF_core0.h (addresses and bits; of MOMCR those of R7FA8M1AH.h, whose block is the same
// as far as both were compared), bsp_clocks.c, bsp_register_protection.c, bsp_io.h and ra8p1/bsp_feature.h (order,
// keys, what goes with 24 MHz); Zephyr, dts/arm/renesas/ra/ra8 and boards/renesas/ek_ra8p1 (module stop bits, pins),
// drivers/misc/ethos_u/ethos_u_renesas.c (power of the NPU).
#include "boards/port.h"

#include "boards/armv8m/core.h"
#include "boards/ra8/event_link.h"
#include "soc.h"

namespace ethos_hil::port {

namespace {

using core::reg;

volatile std::uint8_t& byte(std::uintptr_t address) { return *reinterpret_cast<volatile std::uint8_t*>(address); }
volatile std::uint16_t& half(std::uintptr_t address) { return *reinterpret_cast<volatile std::uint16_t*>(address); }

constexpr std::uintptr_t SCKSCR = 0x4001E026;  // source of all clocks but those below
constexpr std::uint8_t SOURCE_MOCO = 1;
constexpr std::uint8_t SOURCE_CRYSTAL = 3;
constexpr std::uintptr_t MOSCCR = 0x4001E032;
constexpr std::uint8_t MOSCCR_STOP = 1u << 0;
constexpr std::uintptr_t OSCSF = 0x4001E03C;
constexpr std::uint8_t OSCSF_CRYSTAL = 1u << 3;
constexpr std::uintptr_t SCICKDIVCR = 0x4001E054;
constexpr std::uintptr_t SCICKCR = 0x4001E055;
constexpr std::uint8_t SCICKCR_REQUEST = 1u << 6;
constexpr std::uint8_t SCICKCR_READY = 1u << 7;
constexpr std::uintptr_t PDCTRNPU = 0x4001E114;
constexpr std::uint8_t PDCTR_BUSY = 1u << 6;
constexpr std::uint8_t PDCTR_OFF = 1u << 7;
constexpr std::uintptr_t PRCR = 0x4001E3FA;
constexpr std::uint16_t PRCR_KEY = 0xA500;
constexpr std::uint16_t PRCR_CLOCKS_AND_POWER = 3;
constexpr std::uintptr_t MOMCR = 0x4001EA50;
constexpr std::uint8_t MOMCR_24_MHZ = 5u << 1;

constexpr std::uintptr_t MSTPCRA = 0x40203000;
constexpr std::uint32_t MSTPCRA_NPU = 1u << 16;
constexpr std::uintptr_t MSTPCRB = 0x40203004;
constexpr std::uint32_t MSTPCRB_SCI8 = 1u << 23;

constexpr std::uintptr_t PWPRS = 0x40400D14;
constexpr std::uint8_t PWPRS_PINS = 1u << 6;
constexpr std::uint8_t PWPRS_LOCKED = 1u << 7;
constexpr std::uint32_t PIN_PERIPHERAL = 1u << 16;
constexpr std::uint32_t PIN_SCI_EVEN = 4u << 24;  // SCI 0, 2, ... 8
constexpr std::uint32_t PIN_MEDIUM_DRIVE = 1u << 10;

constexpr std::uintptr_t pin(std::uint32_t port, std::uint32_t number) { return 0x40400800 + port * 64 + number * 4; }
constexpr std::uintptr_t TRANSMIT = pin(13, 2);
constexpr std::uintptr_t RECEIVE = pin(13, 3);

constexpr std::uint32_t MOCO_HZ = 8'000'000;
constexpr std::uint32_t POLLS = 1'000'000;  // a crystal takes some milliseconds

bool becomes(std::uintptr_t address, std::uint8_t mask, std::uint8_t value) {
  for (std::uint32_t i = 0; i < POLLS; ++i) {
    if ((byte(address) & mask) == value) return true;
  }
  return false;
}

bool start_crystal() {
  if ((byte(MOSCCR) & MOSCCR_STOP) != 0) {
    byte(MOMCR) = MOMCR_24_MHZ;
    byte(MOSCCR) = 0;
  }
  return becomes(OSCSF, OSCSF_CRYSTAL, OSCSF_CRYSTAL);
}

// The serial interface's clock stops while its source changes.
void clock_serial_interface(std::uint8_t source) {
  byte(SCICKCR) = byte(SCICKCR) | SCICKCR_REQUEST;
  if (!becomes(SCICKCR, SCICKCR_READY, SCICKCR_READY)) return;
  byte(SCICKDIVCR) = 0;
  byte(SCICKCR) = source | SCICKCR_REQUEST | SCICKCR_READY;
  byte(SCICKCR) = byte(SCICKCR) & ~SCICKCR_REQUEST;
  static_cast<void>(becomes(SCICKCR, SCICKCR_READY, 0));
}

void power_npu() {
  reg(MSTPCRA) = reg(MSTPCRA) & ~MSTPCRA_NPU;
  static_cast<void>(static_cast<std::uint32_t>(reg(MSTPCRA)));
  if (byte(PDCTRNPU) == 0) return;
  if (!becomes(PDCTRNPU, PDCTR_BUSY | PDCTR_OFF, PDCTR_OFF)) return;
  byte(PDCTRNPU) = 0;
  static_cast<void>(becomes(PDCTRNPU, PDCTR_BUSY | PDCTR_OFF, 0));
}

// A pin is given its function before it is given to it.
void connect(std::uintptr_t address, std::uint32_t settings) {
  reg(address) = settings;
  reg(address) = settings | PIN_PERIPHERAL;
}

}  // namespace

board::Clocks prepare() {
  half(PRCR) = PRCR_KEY | PRCR_CLOCKS_AND_POWER;
  const bool has_crystal = start_crystal();
  if (has_crystal) byte(SCKSCR) = SOURCE_CRYSTAL;
  clock_serial_interface(has_crystal ? SOURCE_CRYSTAL : SOURCE_MOCO);
  reg(MSTPCRB) = reg(MSTPCRB) & ~MSTPCRB_SCI8;
  static_cast<void>(static_cast<std::uint32_t>(reg(MSTPCRB)));
  power_npu();
  half(PRCR) = PRCR_KEY;
  byte(PWPRS) = 0;
  byte(PWPRS) = PWPRS_PINS;
  connect(TRANSMIT, PIN_SCI_EVEN | PIN_MEDIUM_DRIVE);
  connect(RECEIVE, PIN_SCI_EVEN);
  byte(PWPRS) = 0;
  byte(PWPRS) = PWPRS_LOCKED;
  event_link() = soc::NPU_EVENT;
  core::barrier();
  if (has_crystal) return {};
  return {MOCO_HZ, MOCO_HZ, 0};
}

}  // namespace ethos_hil::port
