// Times the parts of each step of an execution with the CPU's cycle counter, where the plan asks for it.
#pragma once

#include <cstdint>

#include "link/formats.h"

namespace ethos_hil::step_clock {

// Lets the counter run. Without it, the functions below do nothing.
void enable();

// Forgets what was timed. The time from now on belongs to the part that the next mark() names.
void begin();

// Adds the time since the last mark() or begin() to a part. A time of 2^32 cycles or more is not seen as such.
void mark(StepPart part);

// Sends what was timed since begin(), as the step of this instruction.
void send(std::uint32_t instruction);

}  // namespace ethos_hil::step_clock
