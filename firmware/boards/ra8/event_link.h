// The slot of the interrupt controller that leads the NPU's event to the processor. Register: Renesas' FSP,
// R7FA8M1AH.h, R_ICU_Type (IELSR); the block is where R7KA8P1KF_core0.h has it.
#pragma once

#include "boards/armv8m/core.h"
#include "soc.h"

namespace ethos_hil::port {

constexpr std::uint32_t EVENT_LINK_REQUEST = 1u << 16;  // the event has come

inline volatile std::uint32_t& event_link() { return core::reg(0x4000C300 + soc::NPU_IRQ * 4); }

}  // namespace ethos_hil::port
