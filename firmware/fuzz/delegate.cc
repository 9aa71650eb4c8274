// Takes any bytes as the blob of a delegate: opens it, copies its inputs and outputs from and to tensors that fit it
// more or less, and starts its job. The first bytes decide how well they fit.
#include "npu/delegate.h"

#include "fuzz/boot.h"

namespace {

using namespace ethos_hil;

constexpr std::size_t CONTROL = 8;
constexpr std::uint32_t MAX_SCRATCH = 1u << 20;
constexpr std::uint32_t MAX_IOS = 64;

// Returns a tensor of about the size in `io`, in memory of its own; `choice` decides how it differs.
Tensor tensor_for(const npu::BlobIo& io, std::uint8_t choice, std::int32_t* size, std::uint8_t* dim_order) {
  constexpr ScalarType TYPES[] = {ScalarType::CHAR, ScalarType::BYTE,  ScalarType::BOOL,   ScalarType::SHORT,
                                  ScalarType::INT,  ScalarType::FLOAT, ScalarType::UINT16, ScalarType::LONG};
  Tensor tensor{};
  tensor.type = TYPES[choice & 7];
  if ((choice & 8) == 0) {  // a type of the right size, mostly
    tensor.type = io.element_size == 4 ? ScalarType::INT : io.element_size == 2 ? ScalarType::SHORT : ScalarType::CHAR;
  }
  std::uint64_t elements = io.elements();
  switch (choice >> 4 & 7) {
    case 1:
      elements = std::uint64_t{io.rows} * (io.row_elements - 1);  // rows without their padding
      break;
    case 2:
      elements *= 2;  // as packed int4 is
      break;
    case 3:
      elements = elements * 2 - io.rows;  // and of odd length
      break;
    case 4:
      elements += 1;
      break;
    case 5:
      elements -= 1;
      break;
    case 6:
      elements = 0;
      break;
    default:
      break;
  }
  *size = static_cast<std::int32_t>(elements);
  *dim_order = 0;
  tensor.rank = 1;
  tensor.writable = true;
  tensor.sizes = size;
  tensor.dim_order = dim_order;
  tensor.elements = static_cast<std::uint32_t>(elements);
  tensor.nbytes = tensor.elements * element_size(tensor.type);
  tensor.data = fuzz::allocate(tensor.nbytes);
  __builtin_memset(tensor.data, 1, tensor.nbytes);
  return tensor;
}

void run(const std::uint8_t* data, std::size_t size) {
  if (size < CONTROL) return;
  const Bytes bytes{fuzz::copy(data + CONTROL, size - CONTROL), static_cast<std::uint32_t>(size - CONTROL)};
  npu::Delegate delegate(0, bytes);
  // A device's memory bounds the rest.
  if (delegate.scratch_size() > MAX_SCRATCH || delegate.input_count() + delegate.output_count() > MAX_IOS) return;
  delegate.set_scratch(fuzz::allocate(delegate.scratch_size()));
  delegate.spoil_outputs();

  const npu::Blob blob(bytes, 0);
  std::int32_t sizes[MAX_IOS];
  std::uint8_t orders[MAX_IOS];
  for (std::uint32_t i = 0; i < delegate.input_count(); ++i) {
    delegate.copy_input(i, tensor_for(blob.inputs.item(i), data[i % CONTROL], sizes + i, orders + i), 0);
  }
  delegate.run(1, 0);
  for (std::uint32_t i = 0; i < delegate.output_count(); ++i) {
    Tensor tensor = tensor_for(blob.outputs.item(i), data[CONTROL - 1 - i % CONTROL], sizes + i, orders + i);
    delegate.copy_output(i, tensor, 0);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::boot(run, data, size);
  return 0;
}
