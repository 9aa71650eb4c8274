#include "npu/blob.h"

#include "link/report.h"
#include "runtime/program.h"

namespace ethos_hil::npu {

namespace {

constexpr std::uint32_t NAME_SIZE = 16;
constexpr std::uint32_t BLOCK_HEADER = 32;
constexpr std::uint32_t BLOCK_ALIGNMENT = 16;
constexpr std::uint32_t SIZE_AT = 16;
constexpr std::uint32_t PLACE_AT = 20;
constexpr std::uint8_t EXTERNAL = 1;
constexpr std::uint32_t LAST_KNOWN_REGION = 2;

constexpr std::uint32_t IO_DIMENSIONS = 6;
constexpr std::uint32_t IO_WORDS = IO_DIMENSIONS + 3;  // shape, element size, offset, region
constexpr std::uint32_t IO_SIZE = IO_WORDS * 4;

[[noreturn]] void reject(std::uint32_t delegate, const Text& problem) {
  fail(ErrorKind::PROGRAM, Text() << "delegate " << delegate << ": " << Characters{problem.data(), problem.size()});
}

bool named(Bytes block, const char* name) {
  return std::strncmp(reinterpret_cast<const char*>(block.data), name, NAME_SIZE) == 0;
}

// The data of the block with this header, where its header says; `data` is what follows the header.
Bytes content(Bytes header, Bytes data, const Program* program, std::uint32_t delegate) {
  const Characters name{header.data, NAME_SIZE};
  bool known = header.data[PLACE_AT] <= EXTERNAL;
  for (std::uint32_t i = PLACE_AT + 1; i < BLOCK_HEADER; ++i) known = known && header.data[i] == 0;
  const bool is_external = header.data[PLACE_AT] == EXTERNAL;
  if (!known || (is_external && !named(header, "cmd_data") && !named(header, "weight_data"))) {
    reject(delegate, Text() << "block '" << name << "' has " << header.data[PLACE_AT]
                            << " at byte 20 of its header, or more after it, which this firmware does not know");
  }
  if (!is_external) return data;
  const Bytes found =
      program == nullptr ? Bytes{} : program->named(reinterpret_cast<const char*>(data.data), data.size);
  if (found.data == nullptr) {
    reject(delegate, Text() << "block '" << name << "' is in another file, as '" << Characters{data.data, data.size}
                            << "', which was not given");
  }
  if (!is_aligned(found.data, BLOCK_ALIGNMENT)) {
    reject(delegate,
           Text() << "block '" << name << "' in another file is not aligned to " << BLOCK_ALIGNMENT << " bytes");
  }
  return found;
}

}  // namespace

BlobIoList::BlobIoList(Bytes data, std::uint32_t scratch_size, const char* what, std::uint32_t delegate) : data_(data) {
  if (!data.contains(0, 4) || !data.contains(4, std::uint64_t{data.u32(0)} * IO_SIZE)) {
    reject(delegate, Text() << "list of " << what << "s has " << data.size << " bytes, too few");
  }
  size_ = data.u32(0);
  for (std::uint32_t i = 0; i < size_; ++i) {
    const std::uint32_t at = 4 + i * IO_SIZE;
    const std::uint32_t element_size = data.u32(at + IO_DIMENSIONS * 4);
    std::uint64_t nbytes = element_size;
    for (std::uint32_t dimension = 0; dimension < IO_DIMENSIONS; ++dimension) {
      const std::uint32_t extent = data.u32(at + dimension * 4);
      // nbytes is below 2^32 before each product, so the product cannot overflow.
      nbytes *= extent;
      if (extent == 0 || nbytes > scratch_size) {
        reject(delegate, Text() << what << " " << i << " does not fit the scratch of " << scratch_size << " bytes");
      }
    }
    const std::uint32_t offset = data.u32(at + (IO_DIMENSIONS + 1) * 4);
    const std::uint32_t region = data.u32(at + (IO_DIMENSIONS + 2) * 4);
    if (region > LAST_KNOWN_REGION) {
      reject(delegate, Text() << what << " " << i << " is in region " << region
                              << ", a memory of its own: it is compiled for direct drive from Linux");
    }
    if (element_size == 0 || offset > scratch_size || nbytes > scratch_size - offset) {
      reject(delegate, Text() << what << " " << i << " (" << nbytes << " bytes at " << offset
                              << ") exceeds the scratch of " << scratch_size << " bytes");
    }
  }
}

BlobIo BlobIoList::item(std::uint32_t index) const {
  const std::uint32_t at = 4 + index * IO_SIZE;
  BlobIo io{};
  io.rows = 1;
  for (std::uint32_t dimension = 0; dimension + 1 < IO_DIMENSIONS; ++dimension)
    io.rows *= data_.u32(at + dimension * 4);
  io.row_elements = data_.u32(at + (IO_DIMENSIONS - 1) * 4);
  io.element_size = data_.u32(at + IO_DIMENSIONS * 4);
  io.offset = data_.u32(at + (IO_DIMENSIONS + 1) * 4);
  return io;
}

Blob::Blob(Bytes bytes, std::uint32_t delegate, const Program* program) {
  Bytes input_list;
  Bytes output_list;
  bool has_scratch = false;
  bool ended = false;
  std::uint32_t at = 0;
  while (!ended) {
    if (!bytes.contains(at, BLOCK_HEADER)) {
      reject(delegate, Text() << "blob of " << bytes.size << " bytes ends without vela_end_stream: truncated?");
    }
    const Bytes header = bytes.part(at, BLOCK_HEADER);
    const std::uint32_t size = header.u32(SIZE_AT);
    if (!bytes.contains(at + BLOCK_HEADER, size)) {
      reject(delegate, Text() << "block '" << Characters{header.data, NAME_SIZE} << "' of " << size
                              << " bytes exceeds the blob of " << bytes.size << " bytes");
    }
    const Bytes data = content(header, bytes.part(at + BLOCK_HEADER, size), program, delegate);
    const bool first = at == 0;
    if (first != named(header, "vela_bin_stream")) {
      reject(delegate, Text() << "blob does not start with one block vela_bin_stream: block at " << at << " is '"
                              << Characters{header.data, NAME_SIZE} << "'");
    }
    if (first) {
      // The header block only marks the start.
    } else if (named(header, "cmd_data")) {
      command_data = data;
    } else if (named(header, "weight_data")) {
      weights = data;
    } else if (named(header, "scratch_size")) {
      if (size < 4) reject(delegate, Text() << "block scratch_size has " << size << " bytes");
      scratch_size = data.u32(0);
      has_scratch = true;
    } else if (named(header, "inputs")) {
      input_list = data;
    } else if (named(header, "outputs")) {
      output_list = data;
    } else if (named(header, "vela_end_stream")) {
      ended = true;
    } else {
      reject(delegate, Text() << "blob has a block '" << Characters{header.data, NAME_SIZE}
                              << "' this firmware does not "
                              << "know");
    }
    // The block was found inside the blob, so the sum is at most the blob's size plus the padding.
    at += BLOCK_HEADER + (size + BLOCK_ALIGNMENT - 1) / BLOCK_ALIGNMENT * BLOCK_ALIGNMENT;
  }
  if (command_data.size == 0 || !has_scratch || input_list.data == nullptr || output_list.data == nullptr) {
    reject(delegate, Text() << "blob lacks one of cmd_data, scratch_size, inputs, outputs");
  }
  inputs = BlobIoList(input_list, scratch_size, "input", delegate);
  outputs = BlobIoList(output_list, scratch_size, "output", delegate);
}

}  // namespace ethos_hil::npu
