#include "runtime/storage.h"

#include <cstring>

#include "link/report.h"

namespace ethos_hil {

Storage::Storage(const Program& program, const pte::ExecutionPlan& plan, Memory& memory) : program_(program) {
  // Entry 0 is reserved; a tensor's memory_id n is entry n.
  const auto* sizes = aligned(plan.non_const_buffer_sizes(), "table of planned buffers");
  buffer_count_ = count(sizes);
  buffers_ = memory.allocate_array<Buffer>(buffer_count_, "table of buffers");
  for (std::uint32_t i = 1; i < buffer_count_; ++i) {
    const std::int64_t size = sizes->Get(i);
    if (size < 0) fail(ErrorKind::PROGRAM, Text() << "planned buffer " << i << " has " << size << " bytes");
    // Memory of this size does not exist, so that `allocate` refuses it.
    buffers_[i].size = size > UINT32_MAX ? UINT32_MAX : static_cast<std::uint32_t>(size);
  }
  has_fast_ = FAST_MEMORY_ID < buffer_count_ && buffers_[FAST_MEMORY_ID].size != 0;
  if (has_fast_) allocate(buffers_[FAST_MEMORY_ID], memory, "fast planned memory", Place::SRAM);
}

void Storage::allocate(Memory& memory, Place place) {
  for (std::uint32_t i = 1; i < buffer_count_; ++i) {
    if (buffers_[i].data == nullptr) allocate(buffers_[i], memory, "planned memory", has_fast_ ? Place::DDR : place);
  }
}

void Storage::allocate(Buffer& buffer, Memory& memory, const char* purpose, Place place) {
  buffer.data = memory.allocate(buffer.size, purpose, place);
  // State without an initial value starts at zero, even on a board whose memory keeps what the last run left there.
  std::memset(buffer.data, 0, buffer.size);
  planned_bytes_ += buffer.size;
}

Tensor Storage::tensor(std::uint32_t index, const pte::Tensor& source) const {
  Tensor tensor{};
  tensor.type = source.scalar_type();
  const std::uint32_t size = element_size(tensor.type);
  const std::uint32_t rank = count(source.sizes());
  if (rank > MAX_RANK || rank != count(source.dim_order()) || source.storage_offset() != 0) {
    fail(ErrorKind::PROGRAM, Text() << "value " << index << " is a tensor with " << rank << " sizes, "
                                    << count(source.dim_order()) << " in dim_order and storage offset "
                                    << source.storage_offset());
  }
  tensor.rank = static_cast<std::uint8_t>(rank);
  std::uint64_t elements = 1;
  std::uint32_t seen = 0;
  for (std::uint32_t i = 0; i < rank; ++i) {
    const std::int32_t extent = source.sizes()->Get(i);
    const std::uint8_t dimension = source.dim_order()->Get(i);
    elements *= extent < 0 ? std::uint64_t{UINT32_MAX} : static_cast<std::uint32_t>(extent);
    seen |= dimension < rank ? 1u << dimension : 0;
    if (elements > INT32_MAX / size) {
      fail(ErrorKind::PROGRAM, Text() << "value " << index << ": size " << i << " of the tensor is " << extent
                                      << ", which makes it too large");
    }
  }
  if (seen != (1u << rank) - 1) {
    fail(ErrorKind::PROGRAM, Text() << "value " << index << ": the tensor's dim_order is not a permutation");
  }
  if (rank != 0) {
    tensor.sizes = source.sizes()->data();
    tensor.dim_order = source.dim_order()->data();
  }
  tensor.elements = static_cast<std::uint32_t>(elements);
  tensor.nbytes = tensor.elements * size;

  const pte::AllocationDetails* where = source.allocation_info();
  const Bytes content = program_.content(source, tensor.nbytes);
  tensor.writable = where != nullptr || content.data == nullptr;
  if (where != nullptr) {
    tensor.data = planned_memory(index, *where, tensor.nbytes);
    if (content.size != 0) std::memcpy(tensor.data, content.data, content.size);
  } else {
    // The const_cast is safe: `writable` is checked before every write.
    tensor.data = const_cast<std::uint8_t*>(content.data);
  }
  if (!is_aligned(tensor.data, size)) {
    fail(ErrorKind::PROGRAM, Text() << "value " << index << " is a tensor of " << type_name(tensor.type)
                                    << " whose data is not aligned to " << size << " bytes");
  }
  return tensor;
}

std::uint8_t* Storage::planned_memory(std::uint32_t index, const pte::AllocationDetails& where,
                                      std::uint32_t nbytes) const {
  const std::uint64_t offset = std::uint64_t{where.memory_offset_high()} << 32 | where.memory_offset_low();
  const std::uint32_t id = where.memory_id();
  if (id == 0 || id >= buffer_count_ || offset > buffers_[id].size || nbytes > buffers_[id].size - offset) {
    fail(ErrorKind::PROGRAM, Text() << "value " << index << " (" << nbytes << " bytes at " << offset
                                    << " of planned buffer " << id << ") lies outside the planned memory");
  }
  return buffers_[id].data + offset;
}

}  // namespace ethos_hil
