// Generated from harness/image/formats.py by `python -m ethos_hil.harness.image.formats`. Do not edit.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ethos_hil {

constexpr std::uint8_t PACKAGE_MAGIC[8] = {0x45, 0x48, 0x49, 0x4c, 0x50, 0x4b, 0x47, 0x00};
constexpr std::uint8_t MAILBOX_MAGIC[8] = {0x45, 0x48, 0x49, 0x4c, 0x4d, 0x4f, 0x4e, 0x00};
constexpr std::uint32_t PACKAGE_VERSION = 6;
constexpr std::uint32_t PACKAGE_ALIGNMENT = 32;
constexpr std::uint32_t MAX_DATA_FILES = 8;
constexpr std::uint32_t FAST_MEMORY_ID = 3;
constexpr std::uint32_t PROTOCOL_VERSION = 5;
constexpr std::uint32_t MAX_RANK = 16;
constexpr std::uint32_t PRINTABLE_MARK = 126;
constexpr std::uint32_t MAX_FRAME_PAYLOAD = 1024;
constexpr std::uint32_t MAX_CHUNK = 1024;
constexpr std::uint32_t MAX_COMMAND = 32;
constexpr std::uint32_t EVENT_COUNTERS = 8;
constexpr std::uint32_t LAST_FRAME_TYPE = 12;

enum class PackageFlag : std::uint32_t {
  SEND_DELEGATE_OUTPUTS = 1,
  PRINTABLE_LINK = 2,
  TIME_STEPS = 4,
  STAY = 8,
};

enum class DeviceMemoryMode : std::uint32_t {
  SHARED_SRAM = 0,
  SRAM_ONLY = 1,
  DEDICATED_SRAM = 2,
};

enum class FrameType : std::uint32_t {
  HELLO = 1,
  LOG = 2,
  LOADED = 3,
  RUN_BEGIN = 4,
  TENSOR = 5,
  DATA = 6,
  COUNTERS = 7,
  RUN_END = 8,
  ERROR = 9,
  FAULT = 10,
  END = 11,
  STEP = 12,
};

enum class HostFrameType : std::uint32_t {
  SYNC = 1,
  BEGIN = 2,
  CHUNK = 3,
  RUN = 4,
  SPEED = 5,
};

enum class MonitorFrameType : std::uint32_t {
  READY = 32,
  RECEIVED = 33,
  REFUSED = 34,
  STARTED = 35,
  SPEED = 36,
};

enum class Refusal : std::uint32_t {
  COMMAND = 1,
  WINDOW = 2,
  INCOMPLETE = 3,
  DIGEST = 4,
};

enum class StepPart : std::uint32_t {
  INPUTS = 0,
  CLEAN = 1,
  START = 2,
  WAIT = 3,
  END = 4,
  INVALIDATE = 5,
  OUTPUTS = 6,
  KERNEL = 7,
};

enum class TensorRole : std::uint32_t {
  OUTPUT = 0,
  DELEGATE_OUTPUT = 1,
};

enum class ErrorKind : std::uint32_t {
  PACKAGE = 1,
  PROGRAM = 2,
  UNSUPPORTED = 3,
  OUT_OF_MEMORY = 4,
  INPUT = 5,
  NPU_MISMATCH = 6,
  NPU_FAULT = 7,
  NPU_TIMEOUT = 8,
  KERNEL = 9,
  MISMATCH = 10,
  MEMORY = 11,
};

// First bytes of the package. Offsets are from the start of the package.
struct PackageHeader {
  std::uint8_t magic[8];  // PACKAGE_MAGIC
  std::uint32_t version;  // PACKAGE_VERSION
  std::uint32_t total_size;  // bytes of the whole package, header included
  std::uint32_t program_offset;  // the .pte, aligned to PACKAGE_ALIGNMENT
  std::uint32_t program_size;  // bytes
  std::uint32_t data_offset;  // data_count InputRef records: the .ptd files, each aligned to PACKAGE_ALIGNMENT
  std::uint32_t data_count;  // at most MAX_DATA_FILES
  std::uint32_t inputs_offset;  // input_set_count x inputs_per_set InputRef records
  std::uint32_t input_set_count;  // input sets, run one after the other
  std::uint32_t inputs_per_set;  // tensors in each set, in the order of the method's inputs
  std::uint32_t repeat;  // times each input set is executed
  std::uint32_t npu_timeout_ms;  // bound on the wait for one NPU job
  std::uint32_t flags;  // PackageFlag bits
  std::uint32_t event_sets_offset;  // event_set_count EventSet records, aligned to 4
  std::uint32_t event_set_count;  // at least 1; execution n of an input set counts set n modulo this
  std::uint32_t cuts_offset;  // cut_count Cut records, aligned to 4
  std::uint32_t cut_count;  // ends of prefixes that each call of a delegate runs before the whole stream
  std::uint8_t method[32];  // name of the execution plan, NUL-padded
  std::uint8_t run_id[16];  // random for every packed image; echoed, so that an old answer cannot pass for a new one
  std::uint8_t image_hash[32];  // SHA-256 of the firmware ELF followed by the package with run_id, image_hash and crc32 zero
  std::uint8_t program_hash[32];  // SHA-256 of the .pte; the device computes it again
  std::uint32_t memory_mode;  // DeviceMemoryMode: where the parts of the program go
  std::uint32_t fast_scratch_size;  // bytes of fast scratch for DEDICATED_SRAM, otherwise 0
  std::uint32_t cpu_hz;  // CPU clock in Hz, 0 for the one that the firmware knows
  std::uint32_t peripheral_hz;  // clock of the UART in Hz, 0 for the one that the firmware knows
  std::uint32_t baud;  // bits per second of the UART, 0 for the firmware's own
  std::uint32_t crc32;  // zlib CRC-32 of this header before this field, then of all bytes after the header
};
static_assert(sizeof(PackageHeader) == 208);
static_assert(offsetof(PackageHeader, magic) == 0);
static_assert(offsetof(PackageHeader, version) == 8);
static_assert(offsetof(PackageHeader, total_size) == 12);
static_assert(offsetof(PackageHeader, program_offset) == 16);
static_assert(offsetof(PackageHeader, program_size) == 20);
static_assert(offsetof(PackageHeader, data_offset) == 24);
static_assert(offsetof(PackageHeader, data_count) == 28);
static_assert(offsetof(PackageHeader, inputs_offset) == 32);
static_assert(offsetof(PackageHeader, input_set_count) == 36);
static_assert(offsetof(PackageHeader, inputs_per_set) == 40);
static_assert(offsetof(PackageHeader, repeat) == 44);
static_assert(offsetof(PackageHeader, npu_timeout_ms) == 48);
static_assert(offsetof(PackageHeader, flags) == 52);
static_assert(offsetof(PackageHeader, event_sets_offset) == 56);
static_assert(offsetof(PackageHeader, event_set_count) == 60);
static_assert(offsetof(PackageHeader, cuts_offset) == 64);
static_assert(offsetof(PackageHeader, cut_count) == 68);
static_assert(offsetof(PackageHeader, method) == 72);
static_assert(offsetof(PackageHeader, run_id) == 104);
static_assert(offsetof(PackageHeader, image_hash) == 120);
static_assert(offsetof(PackageHeader, program_hash) == 152);
static_assert(offsetof(PackageHeader, memory_mode) == 184);
static_assert(offsetof(PackageHeader, fast_scratch_size) == 188);
static_assert(offsetof(PackageHeader, cpu_hz) == 192);
static_assert(offsetof(PackageHeader, peripheral_hz) == 196);
static_assert(offsetof(PackageHeader, baud) == 200);
static_assert(offsetof(PackageHeader, crc32) == 204);

// Where one input tensor's bytes are, in the layout of its dim_order; or where a file is.
struct InputRef {
  std::uint32_t offset;  // from the start of the package
  std::uint32_t size;  // bytes
};
static_assert(sizeof(InputRef) == 8);
static_assert(offsetof(InputRef, offset) == 0);
static_assert(offsetof(InputRef, size) == 4);

// What the NPU's event counters count.
struct EventSet {
  std::uint16_t events[8];  // PMU event number for each event counter, 0 for an unused one
};
static_assert(sizeof(EventSet) == 16);
static_assert(offsetof(EventSet, events) == 0);

// The end of a prefix of a delegate's command stream. Cuts are in ascending order of delegate, then of offset.
struct Cut {
  std::uint32_t delegate;  // index into the method's delegates
  std::uint32_t offset;  // byte of the register command stream where a STOP stands in for the command
};
static_assert(sizeof(Cut) == 8);
static_assert(offsetof(Cut, delegate) == 0);
static_assert(offsetof(Cut, offset) == 4);

// Start of every frame. On the wire: COBS(header, payload, crc32 of both) followed by one zero byte; on a printable link PRINTABLE_MARK, base64(header, payload, crc32 of both), and a line feed.
struct FrameHeader {
  std::uint8_t type;  // FrameType
  std::uint8_t reserved;  // zero
  std::uint16_t sequence;  // 0 for the first frame, then one more each time, modulo 65536
};
static_assert(sizeof(FrameHeader) == 4);
static_assert(offsetof(FrameHeader, type) == 0);
static_assert(offsetof(FrameHeader, reserved) == 1);
static_assert(offsetof(FrameHeader, sequence) == 2);

// Sent once, first.
struct Hello {
  std::uint16_t protocol;  // PROTOCOL_VERSION
  std::uint16_t board;  // number of the system on chip: 300, 310 or 320
  std::uint32_t cpu_hz;  // CPU clock in Hz
  std::uint32_t uart;  // address of the UART that sends this
  std::uint32_t npu_id;  // the NPU's ID register
  std::uint32_t npu_config;  // the NPU's CONFIG register
  std::uint8_t run_id[16];  // as in the package
  std::uint8_t image_hash[32];  // as in the package
  std::uint8_t program_hash[32];  // SHA-256 of the program, computed on the device
};
static_assert(sizeof(Hello) == 100);
static_assert(offsetof(Hello, protocol) == 0);
static_assert(offsetof(Hello, board) == 2);
static_assert(offsetof(Hello, cpu_hz) == 4);
static_assert(offsetof(Hello, uart) == 8);
static_assert(offsetof(Hello, npu_id) == 12);
static_assert(offsetof(Hello, npu_config) == 16);
static_assert(offsetof(Hello, run_id) == 20);
static_assert(offsetof(Hello, image_hash) == 36);
static_assert(offsetof(Hello, program_hash) == 68);

// A console line: this, then UTF-8 text to the end of the payload.
struct Log {
  std::uint32_t level;  // 0 debug, 1 info, 2 error
};
static_assert(sizeof(Log) == 4);
static_assert(offsetof(Log, level) == 0);

// Sent once, when the program has been checked and memory laid out.
struct Loaded {
  std::uint32_t inputs;  // of the method
  std::uint32_t outputs;  // of the method
  std::uint32_t instructions;  // of the method's chain
  std::uint32_t delegates;  // of the method
  std::uint32_t planned_bytes;  // planned memory of the method
  std::uint32_t scratch_bytes;  // largest NPU scratch of its delegates
  std::uint32_t fast_scratch_bytes;  // fast scratch of the NPU, 0 without one
  std::uint32_t sram_used;  // bytes of the SRAM pool in use
  std::uint32_t sram_size;  // bytes of the SRAM pool
  std::uint32_t ddr_used;  // bytes of the DDR pool in use, the package excluded
  std::uint32_t ddr_size;  // bytes of the DDR pool, the package excluded
  std::uint32_t stack_size;  // bytes of the main stack
};
static_assert(sizeof(Loaded) == 48);
static_assert(offsetof(Loaded, inputs) == 0);
static_assert(offsetof(Loaded, outputs) == 4);
static_assert(offsetof(Loaded, instructions) == 8);
static_assert(offsetof(Loaded, delegates) == 12);
static_assert(offsetof(Loaded, planned_bytes) == 16);
static_assert(offsetof(Loaded, scratch_bytes) == 20);
static_assert(offsetof(Loaded, fast_scratch_bytes) == 24);
static_assert(offsetof(Loaded, sram_used) == 28);
static_assert(offsetof(Loaded, sram_size) == 32);
static_assert(offsetof(Loaded, ddr_used) == 36);
static_assert(offsetof(Loaded, ddr_size) == 40);
static_assert(offsetof(Loaded, stack_size) == 44);

// Starts one execution.
struct RunBegin {
  std::uint32_t input_set;
  std::uint32_t repeat;
};
static_assert(sizeof(RunBegin) == 8);
static_assert(offsetof(RunBegin, input_set) == 0);
static_assert(offsetof(RunBegin, repeat) == 4);

// Announces a tensor: this, then rank u32 sizes. Its bytes follow in DATA frames, unless same_as says otherwise.
struct TensorInfo {
  std::uint8_t role;  // TensorRole
  std::uint8_t dtype;  // ExecuTorch ScalarType; for delegate outputs that of the tensor they are copied into
  std::uint8_t rank;  // number of sizes that follow, at most MAX_RANK
  std::uint8_t same_as;  // 0; for n, the bytes are those of method output n - 1 of this run, and no DATA follows
  std::uint16_t index;  // output index of the method, or of the delegate
  std::uint16_t instruction;  // instruction index of the DelegateCall, 0 for a method output
  std::uint32_t nbytes;  // bytes in the DATA frames that follow
  std::uint32_t crc32;  // zlib CRC-32 of those bytes
  std::uint8_t dim_order[16];  // dim_order of the tensor, rank entries, the rest zero
};
static_assert(sizeof(TensorInfo) == 32);
static_assert(offsetof(TensorInfo, role) == 0);
static_assert(offsetof(TensorInfo, dtype) == 1);
static_assert(offsetof(TensorInfo, rank) == 2);
static_assert(offsetof(TensorInfo, same_as) == 3);
static_assert(offsetof(TensorInfo, index) == 4);
static_assert(offsetof(TensorInfo, instruction) == 6);
static_assert(offsetof(TensorInfo, nbytes) == 8);
static_assert(offsetof(TensorInfo, crc32) == 12);
static_assert(offsetof(TensorInfo, dim_order) == 16);

// NPU counters of one job: a DelegateCall, or a prefix of its command stream. Prefixes come first.
struct Counters {
  std::uint32_t instruction;  // instruction index of the DelegateCall
  std::uint32_t delegate;  // index into the method's delegates
  std::uint64_t cycles;  // PMCCNTR over the job
  std::uint32_t events[8];  // the event counters, in the order of the execution's event set; 0 where the NPU has none
  std::uint32_t overflows;  // PMOVSSET: bit i for event counter i, bit 31 for the cycle counter; it has wrapped
  std::uint32_t stream_size;  // bytes of the command stream that ran, its STOP included
};
static_assert(sizeof(Counters) == 56);
static_assert(offsetof(Counters, instruction) == 0);
static_assert(offsetof(Counters, delegate) == 4);
static_assert(offsetof(Counters, cycles) == 8);
static_assert(offsetof(Counters, events) == 16);
static_assert(offsetof(Counters, overflows) == 48);
static_assert(offsetof(Counters, stream_size) == 52);

// With PackageFlag::TIME_STEPS: the CPU's cycles for a KernelCall or a DelegateCall, after its other frames.
struct Step {
  std::uint32_t instruction;  // instruction index of the call
  std::uint32_t parts[8];  // cycles of each StepPart, modulo 2^32; of a call's last job, if prefixes ran before
};
static_assert(sizeof(Step) == 36);
static_assert(offsetof(Step, instruction) == 0);
static_assert(offsetof(Step, parts) == 4);

// Ends one execution.
struct RunEnd {
  std::uint32_t input_set;
  std::uint32_t repeat;
  std::uint32_t stack_used;  // most bytes of the main stack in use since the start
};
static_assert(sizeof(RunEnd) == 12);
static_assert(offsetof(RunEnd, input_set) == 0);
static_assert(offsetof(RunEnd, repeat) == 4);
static_assert(offsetof(RunEnd, stack_used) == 8);

// Why the firmware stopped: this, then UTF-8 text to the end of the payload. END with a non-zero status follows.
struct Error {
  std::uint32_t kind;  // ErrorKind
  std::uint32_t needed;  // OUT_OF_MEMORY: bytes needed; NPU_*: STATUS register; otherwise 0
  std::uint32_t available;  // OUT_OF_MEMORY: bytes available; NPU_*: QREAD register; otherwise 0
};
static_assert(sizeof(Error) == 12);
static_assert(offsetof(Error, kind) == 0);
static_assert(offsetof(Error, needed) == 4);
static_assert(offsetof(Error, available) == 8);

// An unhandled CPU exception: stacked frame and fault registers. END with a non-zero status follows.
struct FaultInfo {
  std::uint32_t r0;  // stacked
  std::uint32_t r1;  // stacked
  std::uint32_t r2;  // stacked
  std::uint32_t r3;  // stacked
  std::uint32_t r12;  // stacked
  std::uint32_t lr;  // stacked
  std::uint32_t pc;  // stacked
  std::uint32_t xpsr;  // stacked
  std::uint32_t exception;  // IPSR: 3 HardFault, 4 MemManage, 5 BusFault, 6 UsageFault, 7 SecureFault
  std::uint32_t cfsr;  // fault register
  std::uint32_t hfsr;  // fault register
  std::uint32_t mmfar;  // fault register
  std::uint32_t bfar;  // fault register
  std::uint32_t sfsr;  // fault register
  std::uint32_t sfar;  // fault register
};
static_assert(sizeof(FaultInfo) == 60);
static_assert(offsetof(FaultInfo, r0) == 0);
static_assert(offsetof(FaultInfo, r1) == 4);
static_assert(offsetof(FaultInfo, r2) == 8);
static_assert(offsetof(FaultInfo, r3) == 12);
static_assert(offsetof(FaultInfo, r12) == 16);
static_assert(offsetof(FaultInfo, lr) == 20);
static_assert(offsetof(FaultInfo, pc) == 24);
static_assert(offsetof(FaultInfo, xpsr) == 28);
static_assert(offsetof(FaultInfo, exception) == 32);
static_assert(offsetof(FaultInfo, cfsr) == 36);
static_assert(offsetof(FaultInfo, hfsr) == 40);
static_assert(offsetof(FaultInfo, mmfar) == 44);
static_assert(offsetof(FaultInfo, bfar) == 48);
static_assert(offsetof(FaultInfo, sfsr) == 52);
static_assert(offsetof(FaultInfo, sfar) == 56);

// The last frame. Without it the run is not valid.
struct End {
  std::uint32_t status;  // 0 when every run of the plan was executed, otherwise 1
  std::uint32_t runs;  // executions finished
  std::uint32_t frames;  // frames sent, this one included
};
static_assert(sizeof(End) == 12);
static_assert(offsetof(End, status) == 0);
static_assert(offsetof(End, runs) == 4);
static_assert(offsetof(End, frames) == 8);

// What a loader writes to the symbol `monitor_mailbox` before it starts the firmware, so that the monitor stays.
struct Mailbox {
  std::uint8_t magic[8];  // MAILBOX_MAGIC
  std::uint32_t cpu_hz;  // CPU clock in Hz, 0 for the one that the firmware knows
  std::uint32_t peripheral_hz;  // clock of the UART in Hz, 0 for the one that the firmware knows
  std::uint32_t baud;  // bits per second of the UART now, 0 for the firmware's own
  std::uint32_t first_baud;  // the same at the start
  std::uint32_t crc32;  // zlib CRC-32 of the fields before
};
static_assert(sizeof(Mailbox) == 28);
static_assert(offsetof(Mailbox, magic) == 0);
static_assert(offsetof(Mailbox, cpu_hz) == 8);
static_assert(offsetof(Mailbox, peripheral_hz) == 12);
static_assert(offsetof(Mailbox, baud) == 16);
static_assert(offsetof(Mailbox, first_baud) == 20);
static_assert(offsetof(Mailbox, crc32) == 24);

// Start of every frame to the device. On the wire: COBS(header, payload, crc32 of the payload) and one zero byte.
struct HostHeader {
  std::uint8_t type;  // HostFrameType
  std::uint8_t reserved[3];  // zero
  std::uint32_t upload;  // a number of the host's for one upload, not 0; of SYNC one to repeat
  std::uint32_t offset;  // of CHUNK: its first byte's place in the package; otherwise 0
  std::uint32_t size;  // bytes of payload, at most MAX_CHUNK for CHUNK and MAX_COMMAND otherwise
  std::uint32_t crc32;  // zlib CRC-32 of the fields before
};
static_assert(sizeof(HostHeader) == 20);
static_assert(offsetof(HostHeader, type) == 0);
static_assert(offsetof(HostHeader, reserved) == 1);
static_assert(offsetof(HostHeader, upload) == 4);
static_assert(offsetof(HostHeader, offset) == 8);
static_assert(offsetof(HostHeader, size) == 12);
static_assert(offsetof(HostHeader, crc32) == 16);

// Payload of BEGIN.
struct Upload {
  std::uint32_t size;  // bytes of the package
  std::uint32_t crc32;  // zlib CRC-32 of all of them
};
static_assert(sizeof(Upload) == 8);
static_assert(offsetof(Upload, size) == 0);
static_assert(offsetof(Upload, crc32) == 4);

// Payload of SPEED, to the device and back.
struct Speed {
  std::uint32_t baud;  // bits per second
};
static_assert(sizeof(Speed) == 4);
static_assert(offsetof(Speed, baud) == 0);

// The monitor waits for a package. Sent at its start, and in answer to SYNC.
struct Ready {
  std::uint32_t nonce;  // HostHeader.upload of SYNC; 0 at the start
  std::uint16_t protocol;  // PROTOCOL_VERSION
  std::uint16_t board;  // as in Hello
  std::uint32_t cpu_hz;  // CPU clock in Hz
  std::uint32_t baud;  // bits per second, 0 for the firmware's own
  std::uint32_t npu_id;  // the NPU's ID register; 0 where none answers
  std::uint32_t npu_config;  // the NPU's CONFIG register
  std::uint32_t window;  // bytes that a package may have
  std::uint32_t lost;  // bytes that the UART says it lost, since the start
  std::uint32_t code_crc32;  // zlib CRC-32 of the firmware's code and constants in memory; 0 at the start
};
static_assert(sizeof(Ready) == 36);
static_assert(offsetof(Ready, nonce) == 0);
static_assert(offsetof(Ready, protocol) == 4);
static_assert(offsetof(Ready, board) == 6);
static_assert(offsetof(Ready, cpu_hz) == 8);
static_assert(offsetof(Ready, baud) == 12);
static_assert(offsetof(Ready, npu_id) == 16);
static_assert(offsetof(Ready, npu_config) == 20);
static_assert(offsetof(Ready, window) == 24);
static_assert(offsetof(Ready, lost) == 28);
static_assert(offsetof(Ready, code_crc32) == 32);

// How much of a package has arrived. Sent for each BEGIN and CHUNK, and for damaged frames of an upload.
struct Received {
  std::uint32_t upload;  // the number of the upload, 0 when there is none
  std::uint32_t next;  // bytes that have arrived, from the start of the package
  std::uint32_t damaged;  // frames that arrived damaged, since the start
  std::uint32_t lost;  // bytes that the UART says it lost, since the start
};
static_assert(sizeof(Received) == 16);
static_assert(offsetof(Received, upload) == 0);
static_assert(offsetof(Received, next) == 4);
static_assert(offsetof(Received, damaged) == 8);
static_assert(offsetof(Received, lost) == 12);

// The monitor does not do what a frame asks for.
struct Refused {
  std::uint32_t reason;  // Refusal
  std::uint32_t expected;  // size or checksum that was expected
  std::uint32_t found;  // size or checksum that was found
};
static_assert(sizeof(Refused) == 12);
static_assert(offsetof(Refused, reason) == 0);
static_assert(offsetof(Refused, expected) == 4);
static_assert(offsetof(Refused, found) == 8);

// A package runs. HELLO follows.
struct Started {
  std::uint32_t crc32;  // zlib CRC-32 of the package in memory
};
static_assert(sizeof(Started) == 4);
static_assert(offsetof(Started, crc32) == 0);

}  // namespace ethos_hil
