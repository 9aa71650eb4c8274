// What the host leaves in memory before it starts the firmware: that it is to stay, and with which clocks. A package
// may ask for that, too. It outlives the firmware's own restarts, and says nothing after power-up, when it holds
// anything.
#pragma once

#include "boards/board.h"
#include "link/formats.h"

namespace ethos_hil::monitor {

// Whether the host has asked for the monitor.
bool is_requested();

// Ask for it, from the next restart on, with the line at the speed it has now.
void request(const board::Clocks& clocks);

// The clocks with the present speed of the line.
board::Clocks clocks();

// The speed of the line at the start, and now; bits per second.
std::uint32_t first_baud();
void set_baud(std::uint32_t baud);

}  // namespace ethos_hil::monitor
