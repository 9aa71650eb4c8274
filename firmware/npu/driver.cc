#include "npu/driver.h"

#include "boards/board.h"
#include "link/report.h"
#include "npu/registers.h"

namespace ethos_hil::npu {

namespace {

// As in Arm's driver: a reset takes far fewer polls.
constexpr std::uint32_t RESET_POLLS = 100'000;
constexpr std::uint32_t BASE_ALIGNMENT = 16;

// Which AXI limit a region or the command stream uses: 0 and 1 go out on AXI port 0 (SRAM), 2 and 3 on port 1.
constexpr std::uint32_t STREAM_AXI = 2;
constexpr std::uint32_t CONSTANTS_AXI = 3;
constexpr std::uint32_t SCRATCH_AXI = 0;
constexpr std::uint32_t OTHER_AXI = 1;

constexpr std::uint32_t region_config() {
  std::uint32_t config = CONSTANTS_AXI | SCRATCH_AXI << 2;
  for (std::uint32_t region = 2; region < 8; ++region) config |= OTHER_AXI << region * 2;
  return config;
}

// 64-byte bursts (0), normal memory (0), 32 outstanding reads and 16 writes, both stored minus one.
constexpr std::uint32_t AXI_LIMIT = (32 - 1) << 16 | (16 - 1) << 24;

constexpr std::uint32_t FAULTS = STATUS_BUS_ERROR | STATUS_PARSE_ERROR | STATUS_WATCHDOG | STATUS_ECC;

// An Ethos-U55 has half of the counters a package has room for.
constexpr std::uint32_t COUNTERS = 4;

volatile bool job_ended;
volatile std::uint32_t status_at_end;

volatile std::uint32_t& at(Register which, std::uint32_t index = 0) {
  return board::npu_registers()[static_cast<std::uint32_t>(which) / 4 + index];
}

std::uint32_t address_of(const void* pointer) {
  return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(pointer));
}

void memory_barrier() { __asm volatile("dsb" ::: "memory"); }

[[noreturn]] void fail_with_status(ErrorKind kind, Text& text, std::uint32_t status) {
  const std::uint32_t read = at(Register::QREAD);
  text << ": STATUS " << Hex{status} << ", QREAD " << Hex{read};
  fail(kind, text, status, read);
}

const char* fault_name(std::uint32_t status) {
  if ((status & STATUS_BUS_ERROR) != 0) return "met a bus error";
  if ((status & STATUS_PARSE_ERROR) != 0) return "met a command it cannot parse";
  if ((status & STATUS_WATCHDOG) != 0) return "met a watchdog fault";
  if ((status & STATUS_ECC) != 0) return "met an ECC fault";
  return "stopped before the end of its command stream";
}

}  // namespace

Identity identify() { return {at(Register::ID), at(Register::CONFIG)}; }

void check_can_run(const Identity& program, std::uint32_t delegate) {
  const Identity npu = identify();
  if (npu.product() == PRODUCT_U55 && can_run(npu, program)) return;
  Text text;
  text << "delegate " << delegate << " is compiled for " << program << ", ";
  if (npu.id == 0) {
    text << "but no NPU answers at " << Hex{address_of(const_cast<const std::uint32_t*>(board::npu_registers()))}
         << ", where ID reads 0";
  } else {
    text << "the NPU is " << npu;
    if (npu.product() != PRODUCT_U55) text << ", which this firmware does not drive";
  }
  fail(ErrorKind::NPU_MISMATCH, text, at(Register::STATUS), at(Register::QREAD));
}

void initialise(const std::uint16_t (&events)[EVENT_COUNTERS]) {
  at(Register::RESET) = PRIVILEGED;  // and secure: the memories are used through their secure aliases
  std::uint32_t polls = RESET_POLLS;
  while ((at(Register::STATUS) & STATUS_RESETTING) != 0) {
    if (--polls == 0) {
      Text text;
      text << "the NPU did not come out of reset";
      fail_with_status(ErrorKind::NPU_TIMEOUT, text, at(Register::STATUS));
    }
  }
  const std::uint32_t level = at(Register::PROT) & (PRIVILEGED | NON_SECURE);
  if (level != PRIVILEGED) {
    Text text;
    text << "the NPU runs " << ((level & PRIVILEGED) != 0 ? "privileged" : "unprivileged") << " and "
         << ((level & NON_SECURE) != 0 ? "non-secure" : "secure") << " after reset, expected privileged and secure";
    fail_with_status(ErrorKind::NPU_FAULT, text, at(Register::STATUS));
  }
  // Out of reset the NPU offers to have its clock and power taken away whenever it idles, and its registers with them.
  at(Register::CMD) = CMD_STAY_AWAKE;
  at(Register::QCONFIG) = STREAM_AXI;
  at(Register::REGIONCFG) = region_config();
  for (std::uint32_t i = 0; i < 4; ++i) at(Register::AXI_LIMIT0, i) = AXI_LIMIT;

  at(Register::PMCCNTR_CFG) = EVENT_NPU_ACTIVE | EVENT_NPU_IDLE << 16;
  for (std::uint32_t i = 0; i < COUNTERS; ++i) at(Register::PMEVTYPER0, i) = events[i];
  at(Register::PMCNTENSET) = PMCNTEN_CYCLES | ((1u << COUNTERS) - 1);
  board::enable_npu_interrupt();
}

JobCounters run(const Job& job, std::uint32_t timeout_ms, std::uint32_t instruction) {
  for (std::uint32_t i = 0; i < REGIONS; ++i) {
    if (!is_aligned(job.bases[i], BASE_ALIGNMENT)) {
      fail(ErrorKind::PROGRAM, Text() << "instruction " << instruction << ": base of region " << i << " is "
                                      << Hex{address_of(job.bases[i])} << ", no multiple of " << BASE_ALIGNMENT);
    }
  }
  job_ended = false;
  at(Register::PMCR) = PMCR_ENABLE | PMCR_RESET_EVENTS | PMCR_RESET_CYCLES;
  // Addresses of an Ethos-U55 have 32 bits; the high words keep their reset value of zero.
  at(Register::QBASE_LOW) = address_of(job.stream.data);
  at(Register::QSIZE) = job.stream.size;
  for (std::uint32_t i = 0; i < REGIONS; ++i) at(Register::BASEP0_LOW, 2 * i) = address_of(job.bases[i]);
  memory_barrier();
  at(Register::CMD) = CMD_RUN;

  if (!board::wait_for(job_ended, timeout_ms)) {
    Text text;
    text << "instruction " << instruction << ": the NPU did not finish within " << timeout_ms << " ms";
    fail_with_status(ErrorKind::NPU_TIMEOUT, text, at(Register::STATUS));
  }
  const std::uint32_t status = status_at_end;
  if ((status & (FAULTS | STATUS_RUNNING)) != 0 || (status & STATUS_END_REACHED) == 0) {
    Text text;
    text << "instruction " << instruction << ": the NPU " << fault_name(status);
    fail_with_status(ErrorKind::NPU_FAULT, text, status);
  }
  at(Register::PMCR) = 0;  // counters stand still, so the two halves of the cycle counter belong together
  JobCounters counters{};
  counters.cycles = at(Register::PMCCNTR_LOW);
  counters.cycles |= std::uint64_t{at(Register::PMCCNTR_HIGH) & 0xFFFF} << 32;
  for (std::uint32_t i = 0; i < COUNTERS; ++i) counters.events[i] = at(Register::PMEVCNTR0, i);
  return counters;
}

void on_interrupt() {
  status_at_end = at(Register::STATUS);
  at(Register::CMD) = CMD_CLEAR_IRQ;
  memory_barrier();  // the interrupt line must be low before the handler returns
  job_ended = true;
}

}  // namespace ethos_hil::npu
