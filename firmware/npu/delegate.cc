#include "npu/delegate.h"

#include <cstring>

#include "boards/board.h"
#include "link/report.h"
#include "runtime/step_clock.h"

namespace ethos_hil::npu {

namespace {

constexpr std::uint32_t BLOB_ALIGNMENT = 16;
constexpr int SPOILT = 0xA5;
// NPU_OP_STOP with all bits of its mask, as Vela ends a stream.
constexpr std::uint32_t COMMAND_STOP = 0xFFFF'0000;

// Whether the backend takes inputs of this element type and size.
bool accepts(ScalarType type, std::uint32_t size) {
  switch (type) {
    case ScalarType::BOOL:
    case ScalarType::BYTE:
    case ScalarType::CHAR:
    case ScalarType::SHORT:
    case ScalarType::INT:
      return element_size(type) == size;
    default:
      return false;
  }
}

// Unpacks two elements from each of `count` bytes, the low half first.
void unpack_int4(std::uint8_t* to, const std::uint8_t* from, std::uint32_t count) {
  const auto sign_extended = [](std::uint32_t half) { return static_cast<std::uint8_t>((half ^ 8) - 8); };
  for (std::uint32_t i = 0; i < count; ++i) {
    to[2 * i] = sign_extended(from[i] & 0xF);
    to[2 * i + 1] = sign_extended(from[i] >> 4);
  }
}

[[noreturn]] void reject(std::uint32_t instruction, const char* what, std::uint32_t index, const Tensor& tensor,
                         const BlobIo& io) {
  fail(ErrorKind::PROGRAM, Text() << "instruction " << instruction << ": " << what << " " << index
                                  << " of the delegate is " << tensor.elements << " elements of "
                                  << type_name(tensor.type) << ", its blob states " << io.elements() << " of "
                                  << io.element_size << " bytes");
}

}  // namespace

Delegate::Delegate(std::uint32_t index, Bytes bytes, const Program* program) {
  if (!is_aligned(bytes.data, BLOB_ALIGNMENT)) {
    fail(ErrorKind::PROGRAM,
         Text() << "delegate " << index << ": blob is not aligned to " << BLOB_ALIGNMENT << " bytes");
  }
  const Blob blob(bytes, index, program);
  const Payload payload(blob.command_data, index);
  stream_ = payload.stream;
  weights_ = blob.weights;
  scratch_size_ = blob.scratch_size;
  inputs_ = blob.inputs;
  outputs_ = blob.outputs;
}

void Delegate::move_constants(Memory& memory) {
  const auto copy = [&memory](Bytes& bytes, const char* purpose) {
    if (bytes.size == 0) return;
    std::uint8_t* place = memory.allocate(bytes.size, purpose, Place::SRAM);
    std::memcpy(place, bytes.data, bytes.size);
    bytes.data = place;
  };
  copy(stream_, "command stream of the NPU");
  copy(weights_, "weights of the NPU");
}

void Delegate::spoil_outputs() const {
  for (std::uint32_t i = 0; i < outputs_.size(); ++i) {
    const BlobIo io = outputs_.item(i);
    std::memset(scratch_ + io.offset, SPOILT, io.nbytes());
  }
}

void Delegate::copy_input(std::uint32_t index, const Tensor& tensor, std::uint32_t instruction) const {
  const BlobIo io = inputs_.item(index);
  if (!accepts(tensor.type, io.element_size) || tensor.elements != io.elements()) {
    reject(instruction, "input", index, tensor, io);
  }
  std::memcpy(scratch_ + io.offset, tensor.data, tensor.nbytes);
}

void Delegate::copy_output(std::uint32_t index, Tensor& tensor, std::uint32_t instruction) const {
  const BlobIo io = outputs_.item(index);
  const std::uint8_t* source = scratch_ + io.offset;
  if (tensor.nbytes == io.nbytes()) {
    std::memcpy(tensor.data, source, tensor.nbytes);
    return;
  }
  // Otherwise rows are copied one by one: the NPU may have padded them, or packed two int4 into a byte.
  const std::uint32_t source_row = io.row_elements * io.element_size;
  const std::uint32_t row = tensor.nbytes / io.rows;
  const bool is_packed =
      tensor.type == ScalarType::CHAR && io.element_size == 1 && row == std::uint64_t{source_row} * 2;
  if (tensor.nbytes % io.rows != 0 || (row > source_row && !is_packed)) {
    reject(instruction, "output", index, tensor, io);
  }
  for (std::uint32_t i = 0; i < io.rows; ++i) {
    if (is_packed) {
      unpack_int4(tensor.data + i * row, source + i * source_row, source_row);
    } else {
      std::memcpy(tensor.data + i * row, source + i * source_row, row);
    }
  }
}

JobCounters Delegate::run(std::uint32_t timeout_ms, std::uint32_t instruction) const {
  return run(stream_, timeout_ms, instruction);
}

JobCounters Delegate::run_prefix(std::uint32_t offset, std::uint32_t timeout_ms, std::uint32_t instruction) const {
  auto& command = *reinterpret_cast<volatile std::uint32_t*>(const_cast<std::uint8_t*>(stream_.data) + offset);
  const std::uint32_t kept = command;
  command = COMMAND_STOP;
  if (command != COMMAND_STOP) {
    fail(ErrorKind::UNSUPPORTED, Text() << "instruction " << instruction
                                        << ": its command stream is in memory that cannot be written, so that "
                                        << "no part of it can run alone");
  }
  const JobCounters counters = run(stream_.part(0, offset + sizeof kept), timeout_ms, instruction);
  command = kept;
  return counters;
}

JobCounters Delegate::run(Bytes stream, std::uint32_t timeout_ms, std::uint32_t instruction) const {
  board::clean_cache(stream.data, stream.size);
  board::clean_cache(weights_.data, weights_.size);
  board::clean_cache(scratch_, scratch_size_);
  // Only the NPU uses it, but a line that the CPU wrote before may still be on its way there.
  board::clean_cache(fast_scratch_, fast_scratch_size_);
  step_clock::mark(StepPart::CLEAN);
  const JobCounters counters = npu::run({stream, {weights_.data, scratch_, fast_scratch_}}, timeout_ms, instruction);
  board::invalidate_cache(scratch_, scratch_size_);
  step_clock::mark(StepPart::INVALIDATE);
  return counters;
}

}  // namespace ethos_hil::npu
