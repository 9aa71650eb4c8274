// The driver payload in a blob's cmd_data: "COP1", then actions (Arm's Ethos-U core driver, "Driver payload"). It
// contains the NPU's identity and the command stream.
#pragma once

#include <cstdint>

#include "npu/identity.h"
#include "runtime/bytes.h"

namespace ethos_hil::npu {

struct Payload {
  // Ends in ERROR PROGRAM when the payload is malformed. `delegate` is for the message.
  Payload(Bytes data, std::uint32_t delegate);

  Identity compiled_for{};
  Bytes stream;  // register command stream
};

}  // namespace ethos_hil::npu
