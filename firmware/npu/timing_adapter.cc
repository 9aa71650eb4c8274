#include "npu/timing_adapter.h"

#include "boards/board.h"

namespace ethos_hil::npu {

namespace {

enum Index : std::uint32_t {
  MAXR,
  MAXW,
  MAXRW,
  RLATENCY,
  WLATENCY,
  PULSE_ON,
  PULSE_OFF,
  BWCAP,
  PERFCTRL,
  PERFCNT,
  MODE,
  MAXPENDING,
  HISTBIN,
  HISTCNT,
  VERSION,
};

constexpr std::uint32_t KNOWN_VERSION = 0x1117;
constexpr std::uint32_t MODE_DYNAMIC = 1;  // bandwidth is limited by what was transferred, not by time alone

}  // namespace

void TimingAdapter::apply(std::uint32_t port) const {
  volatile std::uint32_t* registers = board::timing_adapter(port);
  if (registers == nullptr) return;
  std::uint32_t version;
  if (!board::try_load(registers + VERSION, version) || version != KNOWN_VERSION) return;
  registers[MAXR] = reads;
  registers[MAXW] = writes;
  registers[MAXRW] = 0;  // no limit to both together
  registers[RLATENCY] = read_latency;
  registers[WLATENCY] = write_latency;
  registers[PULSE_ON] = on;
  registers[PULSE_OFF] = off;
  registers[BWCAP] = bandwidth;
  registers[PERFCTRL] = 0;
  registers[PERFCNT] = 0;
  registers[MODE] = MODE_DYNAMIC;
  registers[HISTBIN] = 0;
  registers[HISTCNT] = 0;
}

}  // namespace ethos_hil::npu
