// The delegate blob that ExecuTorch's EthosUBackend writes (backends/arm/arm_vela.py): a sequence of named blocks, each
// a 16-byte name, a 32-bit size, a byte that says where the data is, 11 zero bytes and the data padded to 16 bytes. The
// data of commands and weights may be in another file; the block then has the name that it has there.
#pragma once

#include <cstdint>

#include "runtime/bytes.h"

namespace ethos_hil {

class Program;

}  // namespace ethos_hil

namespace ethos_hil::npu {

// One input or output in the scratch memory.
struct BlobIo {
  std::uint32_t row_elements;  // innermost dimension
  std::uint32_t rows;          // product of the others
  std::uint32_t element_size;  // bytes
  std::uint32_t offset;        // in scratch

  std::uint32_t elements() const { return rows * row_elements; }
  std::uint32_t nbytes() const { return elements() * element_size; }
};

// A list of inputs or outputs, still in the blob.
class BlobIoList {
 public:
  BlobIoList() = default;
  // Ends in ERROR PROGRAM unless `data` is a whole list whose items lie inside `scratch_size` bytes.
  BlobIoList(Bytes data, std::uint32_t scratch_size, const char* what, std::uint32_t delegate);

  std::uint32_t size() const { return size_; }
  BlobIo item(std::uint32_t index) const;

 private:
  Bytes data_;
  std::uint32_t size_ = 0;
};

struct Blob {
  // Ends in ERROR PROGRAM when the blob is malformed, or `program` does not have what it has by name. `delegate` is for
  // the message.
  Blob(Bytes bytes, std::uint32_t delegate, const Program* program = nullptr);

  Bytes command_data;
  Bytes weights;
  std::uint32_t scratch_size = 0;
  BlobIoList inputs;
  BlobIoList outputs;
};

}  // namespace ethos_hil::npu
