// The resident monitor: it takes packages from the line, and keeps the firmware between models. docs/formats.md,
// "Monitor", has the conversation.
#pragma once

namespace ethos_hil::monitor {

// Receives until a whole package is in the window and the host wants it run. Then it returns, and the package runs as
// if it had been there from the start.
void serve();

}  // namespace ethos_hil::monitor
