// The console's UART, polled. A board links one of the drivers in uarts/; soc.h has the addresses and clocks.
#pragma once

#include <cstdint>

namespace ethos_hil::uart {

// The speed until set_speed() says otherwise.
constexpr std::uint32_t BAUD = 115'200;

// Looks for the UART at the addresses of soc.h, and sets it up for both directions: 8 bits, no parity, 1 stop bit.
// False where it is at none; the other functions then drop what they get and return nothing.
bool initialise();

// The address of the UART that was found, or 0.
std::uintptr_t address();

// The speed from now on. 0 leaves clock or baud rate as it is, at first that of soc.h and BAUD. A speed that the UART
// cannot have is ignored.
void set_speed(std::uint32_t clock_hz, std::uint32_t baud);

// Sends a byte. False where there is no room for it at the moment. Without a UART it is dropped: true.
bool try_write(std::uint8_t byte);

// Takes a byte that was received. False where none has come.
bool try_read(std::uint8_t& byte);

// How many received bytes were lost, by what the UART says. Where it has one bit for that, it is set once however many
// followed, so it is at least so many. The count wraps at 2^32.
std::uint32_t lost();

// Whether the last bit of all that was written has left. Ask until it is true: where the UART cannot tell, this counts.
bool is_drained();

}  // namespace ethos_hil::uart
