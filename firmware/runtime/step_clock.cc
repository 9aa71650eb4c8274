#include "runtime/step_clock.h"

#include "boards/board.h"
#include "link/frames.h"

namespace ethos_hil::step_clock {

namespace {

bool is_enabled;
std::uint32_t last;
Step step;

}  // namespace

void enable() {
  is_enabled = true;
  board::start_cycle_counter();
}

void begin() {
  if (!is_enabled) return;
  step = {};
  last = board::cycles();
}

void mark(StepPart part) {
  if (!is_enabled) return;
  const std::uint32_t now = board::cycles();
  step.parts[static_cast<std::uint32_t>(part)] += now - last;
  last = now;
}

void send(std::uint32_t instruction) {
  if (!is_enabled) return;
  step.instruction = instruction;
  frames::send(FrameType::STEP, &step, sizeof step);
}

}  // namespace ethos_hil::step_clock
