#include "runtime/named_data.h"

#include "link/report.h"
#include "runtime/program.h"

// Included after schema.h, which adapts flatbuffers to this machine.
#include "flat_tensor_generated.h"

namespace ethos_hil {

namespace {

namespace ptd = flat_tensor_flatbuffer;

constexpr flatbuffers::uoffset_t MAX_DEPTH = 8;
constexpr flatbuffers::uoffset_t MAX_TABLES = 100'000;

// The header follows the identifier: "FH01", its length, then offset and size of the flatbuffer, and of the segments.
constexpr std::uint32_t MAGIC = 0x31304846;
constexpr std::uint32_t MAGIC_AT = 8;
constexpr std::uint32_t FLATBUFFER_AT = 16;
constexpr std::uint32_t SEGMENTS_AT = 32;
constexpr std::uint32_t HEADER_END = 48;

[[noreturn]] void reject(const char* what) {
  fail(ErrorKind::PROGRAM, Text() << "the .ptd beside the program " << what);
}

// The part of the file that two numbers at `at` describe.
bool states_part(Bytes file, std::uint32_t at) {
  return file.contains(file.u64(at), file.u64(at + sizeof(std::uint64_t)));
}

}  // namespace

void NamedData::add(Bytes file) {
  if (!file.contains(0, HEADER_END) || !flatbuffers::BufferHasIdentifier(file.data, ptd::FlatTensorIdentifier()) ||
      file.u32(MAGIC_AT) != MAGIC) {
    reject("is not one");
  }
  if (!states_part(file, FLATBUFFER_AT) || !states_part(file, SEGMENTS_AT)) reject("is truncated");
  const std::uint64_t end = file.u64(FLATBUFFER_AT) + file.u64(FLATBUFFER_AT + sizeof(std::uint64_t));
  if (end >= FLATBUFFERS_MAX_BUFFER_SIZE) reject("is larger than a flatbuffer can be");
  flatbuffers::Verifier verifier(file.data, static_cast<std::size_t>(end), MAX_DEPTH, MAX_TABLES);
  if (!ptd::VerifyFlatTensorBuffer(verifier)) reject("is corrupt: its flatbuffer does not verify");
  if (ptd::GetFlatTensor(file.data)->version() != 0) reject("is of a version that this firmware does not know");
  if (count_ == MAX_DATA_FILES) reject("is one of too many");
  files_[count_++] = file;
}

Bytes NamedData::find(const char* name, std::uint32_t length) const {
  for (std::uint32_t i = 0; i < count_; ++i) {
    const ptd::FlatTensor* tensors = ptd::GetFlatTensor(files_[i].data);
    for (std::uint32_t at = 0; at < count(tensors->named_data()); ++at) {
      const ptd::NamedData* entry = tensors->named_data()->Get(at);
      if (!is_name(entry->key(), name, length)) continue;
      const Bytes segments =
          files_[i].part(files_[i].u64(SEGMENTS_AT), files_[i].u64(SEGMENTS_AT + sizeof(std::uint64_t)));
      if (entry->segment_index() >= count(tensors->segments())) reject("has data in a segment that it has not");
      const ptd::DataSegment* segment = tensors->segments()->Get(entry->segment_index());
      if (!segments.contains(segment->offset(), segment->size())) reject("has data beyond its end");
      return segments.part(segment->offset(), segment->size());
    }
  }
  return {};
}

}  // namespace ethos_hil
