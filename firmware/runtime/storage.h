// The bytes of a method's tensors: in planned memory, or as constants in the program.
#pragma once

#include <cstdint>

#include "runtime/memory.h"
#include "runtime/program.h"
#include "runtime/tensor.h"

namespace ethos_hil {

class Storage {
 public:
  // Allocates the planned buffer of `plan` that is to be fast, FAST_MEMORY_ID, in SRAM: it has no other place. Ends in
  // ERROR PROGRAM or OUT_OF_MEMORY.
  Storage(const Program& program, const pte::ExecutionPlan& plan, Memory& memory);

  // Allocates the others; a program that has a fast one says that these are slow, and has them in DDR.
  void allocate(Memory& memory, Place place);

  // Returns the tensor that `source` describes, checked; `index` of the value is for messages. A variable gets its
  // initial value now. A tensor that gets its memory later, from the user or another tensor, has null as data. Ends in
  // ERROR PROGRAM.
  Tensor tensor(std::uint32_t index, const pte::Tensor& source) const;

  std::uint32_t planned_bytes() const { return planned_bytes_; }

 private:
  struct Buffer {
    std::uint8_t* data = nullptr;
    std::uint32_t size = 0;
  };

  void allocate(Buffer& buffer, Memory& memory, const char* purpose, Place place);
  std::uint8_t* planned_memory(std::uint32_t index, const pte::AllocationDetails& where, std::uint32_t nbytes) const;

  const Program& program_;
  std::uint32_t buffer_count_ = 0;
  Buffer* buffers_ = nullptr;
  bool has_fast_ = false;
  std::uint32_t planned_bytes_ = 0;
};

}  // namespace ethos_hil
