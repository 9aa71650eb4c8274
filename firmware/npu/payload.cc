#include "npu/payload.h"

#include "link/report.h"

namespace ethos_hil::npu {

namespace {

constexpr std::uint32_t COP1 = 0x31504F43;
constexpr std::uint32_t COP2 = 0x32504F43;
constexpr std::uint32_t STREAM_ALIGNMENT = 16;

enum Action : std::uint32_t { OPTIMIZER_CONFIG = 1, COMMAND_STREAM = 2, NOP = 5 };

[[noreturn]] void reject(std::uint32_t delegate, const Text& problem) {
  fail(ErrorKind::PROGRAM,
       Text() << "delegate " << delegate << ": command data " << Characters{problem.data(), problem.size()});
}

}  // namespace

Payload::Payload(Bytes data, std::uint32_t delegate) {
  const std::uint32_t magic = data.size < 4 ? 0 : data.u32(0);
  if (magic == COP2) {
    reject(delegate, Text() << "is compiled for direct drive (COP2) from Linux, which no microcontroller's runtime "
                            << "takes: lower the model without --direct_drive");
  }
  if (magic != COP1) reject(delegate, Text() << "starts with " << Hex{magic} << ", expected COP1");
  bool has_config = false;
  std::uint32_t at = 4;
  while (stream.size == 0 && data.contains(at, 4)) {
    const std::uint32_t action = data.u32(at);
    at += 4;
    switch (action & 0xFF) {
      case OPTIMIZER_CONFIG:
        if (!data.contains(at, 8)) reject(delegate, Text() << "ends inside its configuration");
        compiled_for = {data.u32(at + 4), data.u32(at)};
        has_config = true;
        at += 8;
        break;
      case COMMAND_STREAM: {
        // Length in words: bits 31:16 are the low half, bits 15:8 the high one.
        const std::uint32_t size = ((action & 0xFF00) << 8 | action >> 16) * 4;
        if (size == 0 || !data.contains(at, size)) {
          reject(delegate, Text() << "states a command stream of " << size << " bytes at " << at << ", it has "
                                  << data.size << " bytes");
        }
        stream = data.part(at, size);
        break;
      }
      case NOP:
        break;
      default:
        reject(delegate,
               Text() << "has action " << (action & 0xFF) << " at " << at - 4 << ", which this firmware does not know");
    }
  }
  if (!has_config || stream.size == 0) {
    reject(delegate, Text() << "has no " << (has_config ? "command stream" : "NPU configuration"));
  }
  if (!is_aligned(stream.data, STREAM_ALIGNMENT)) {
    reject(delegate, Text() << "has its command stream at an address that is not a multiple of " << STREAM_ALIGNMENT);
  }
}

}  // namespace ethos_hil::npu
