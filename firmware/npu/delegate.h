// A delegate: its blob, checked, and the copies between tensors and the scratch memory. The copies follow ExecuTorch's
// EthosUBackend: bytes as they are, no conversion of layout or type.
#pragma once

#include <cstdint>

#include "npu/blob.h"
#include "npu/driver.h"
#include "npu/payload.h"
#include "runtime/memory.h"
#include "runtime/tensor.h"

namespace ethos_hil::npu {

class Delegate {
 public:
  Delegate() = default;
  // Ends in ERROR PROGRAM. Does not check whether the NPU can run it (runtime/support.h does).
  Delegate(std::uint32_t index, Bytes blob, const Program* program = nullptr);

  std::uint32_t scratch_size() const { return scratch_size_; }
  void set_scratch(std::uint8_t* scratch) { scratch_ = scratch; }
  void set_fast_scratch(std::uint8_t* fast_scratch, std::uint32_t size) {
    fast_scratch_ = fast_scratch;
    fast_scratch_size_ = size;
  }

  // Copies command stream and weights to SRAM. Ends in ERROR OUT_OF_MEMORY.
  void move_constants(Memory& memory);

  std::uint32_t input_count() const { return inputs_.size(); }
  std::uint32_t output_count() const { return outputs_.size(); }

  // Overwrites the outputs' memory, so that an NPU that writes nothing cannot pass off the last run's results as new
  // ones. Call it before the inputs are copied: an output may share its memory with an input.
  void spoil_outputs() const;

  // `instruction` is for messages.
  void copy_input(std::uint32_t index, const Tensor& tensor, std::uint32_t instruction) const;
  void copy_output(std::uint32_t index, Tensor& tensor, std::uint32_t instruction) const;
  JobCounters run(std::uint32_t timeout_ms, std::uint32_t instruction) const;
  // Runs the command stream as if it ended at `offset`, a multiple of 4 inside it. The stream is as before afterwards.
  JobCounters run_prefix(std::uint32_t offset, std::uint32_t timeout_ms, std::uint32_t instruction) const;
  std::uint32_t stream_size() const { return stream_.size; }

 private:
  JobCounters run(Bytes stream, std::uint32_t timeout_ms, std::uint32_t instruction) const;

  Bytes stream_;
  Bytes weights_;
  std::uint32_t scratch_size_ = 0;
  std::uint8_t* scratch_ = nullptr;
  std::uint8_t* fast_scratch_ = nullptr;
  std::uint32_t fast_scratch_size_ = 0;
  BlobIoList inputs_;
  BlobIoList outputs_;
};

}  // namespace ethos_hil::npu
