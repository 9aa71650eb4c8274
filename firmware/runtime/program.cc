#include "runtime/program.h"

#include "link/report.h"

namespace ethos_hil {

namespace {

constexpr std::uint32_t IDENTIFIER_END = 8;  // root offset, then "ET12"

// The extended header, if there is one, follows the identifier: "eh00", header length, size of the flatbuffer, start of
// the segments, and from length 32 on their total size.
constexpr std::uint32_t EXTENDED_MAGIC = 0x30306865;
constexpr std::uint32_t EXTENDED_OFFSET = 8;
constexpr std::uint32_t EXTENDED_LENGTH_AT = 12;
constexpr std::uint32_t EXTENDED_PROGRAM_SIZE_AT = 16;
constexpr std::uint32_t EXTENDED_SEGMENT_BASE_AT = 24;
constexpr std::uint32_t EXTENDED_SEGMENT_SIZE_AT = 32;
constexpr std::uint32_t EXTENDED_MIN_LENGTH = 24;
constexpr std::uint32_t EXTENDED_LENGTH_WITH_SEGMENT_SIZE = 32;

// Programs nest about six tables deep; a large one has about ten thousand values and instructions.
constexpr flatbuffers::uoffset_t MAX_DEPTH = 32;
constexpr flatbuffers::uoffset_t MAX_TABLES = 1'000'000;

}  // namespace

void check_alignment(const void* data, std::uint32_t size, const char* what) {
  if (!is_aligned(data, size)) fail(ErrorKind::PROGRAM, Text() << what << " is not aligned to " << size << " bytes");
}

Program::Program(Bytes file, const NamedData& beside) : file_(file), flatbuffer_(file), beside_(beside) {
  if (file.size < IDENTIFIER_END) {
    fail(ErrorKind::PROGRAM, Text() << "program has " << file.size << " bytes, too few for a .pte");
  }
  if (!flatbuffers::BufferHasIdentifier(file.data, pte::ProgramIdentifier())) {
    fail(ErrorKind::PROGRAM, Text() << "program is no .pte this firmware reads: identifier '"
                                    << Characters{file.data + 4, 4} << "', expected '" << pte::ProgramIdentifier()
                                    << "'");
  }
  read_extended_header();
  if (flatbuffer_.size >= FLATBUFFERS_MAX_BUFFER_SIZE) {
    fail(ErrorKind::PROGRAM,
         Text() << "program of " << flatbuffer_.size << " bytes is larger than a flatbuffer can be");
  }
  flatbuffers::Verifier verifier(flatbuffer_.data, flatbuffer_.size, MAX_DEPTH, MAX_TABLES);
  if (!pte::VerifyProgramBuffer(verifier)) {
    fail(ErrorKind::PROGRAM, Text() << "program of " << file.size
                                    << " bytes is truncated or corrupt: its flatbuffer does "
                                    << "not verify");
  }
  root_ = pte::GetProgram(flatbuffer_.data);
}

void Program::read_extended_header() {
  if (!file_.contains(EXTENDED_OFFSET, EXTENDED_MIN_LENGTH) || file_.u32(EXTENDED_OFFSET) != EXTENDED_MAGIC) return;
  const std::uint32_t length = file_.u32(EXTENDED_LENGTH_AT);
  const std::uint64_t program_size = file_.u64(EXTENDED_PROGRAM_SIZE_AT);
  const std::uint64_t segment_base = file_.u64(EXTENDED_SEGMENT_BASE_AT);
  if (length < EXTENDED_MIN_LENGTH || !file_.contains(EXTENDED_OFFSET, length)) {
    fail(ErrorKind::PROGRAM, Text() << "program's extended header states its length as " << length << " bytes");
  }
  // segment_base is 0 when there are no segments.
  if (!file_.contains(0, program_size) || segment_base > file_.size) {
    fail(ErrorKind::PROGRAM, Text() << "program is truncated: it has " << file_.size << " bytes, its header states "
                                    << program_size << " and segments from byte " << segment_base);
  }
  if (program_size < IDENTIFIER_END) {
    fail(ErrorKind::PROGRAM, Text() << "program's extended header states a flatbuffer of " << program_size << " bytes");
  }
  std::uint64_t segment_size = segment_base == 0 ? 0 : file_.size - segment_base;
  if (length >= EXTENDED_LENGTH_WITH_SEGMENT_SIZE && file_.contains(EXTENDED_SEGMENT_SIZE_AT, sizeof(std::uint64_t))) {
    const std::uint64_t stated = file_.u64(EXTENDED_SEGMENT_SIZE_AT);
    if (!file_.contains(segment_base, stated)) {
      fail(ErrorKind::PROGRAM, Text() << "program is truncated: it has " << file_.size << " bytes, its header states "
                                      << stated << " bytes of segments from byte " << segment_base);
    }
    segment_size = stated;
  }
  flatbuffer_ = file_.part(0, program_size);
  segments_ = file_.part(segment_base, segment_size);
}

const pte::ExecutionPlan& Program::plan(const char* name) const {
  Text names;
  const auto* plans = root_->execution_plan();
  for (std::uint32_t i = 0; i < count(plans); ++i) {
    const pte::ExecutionPlan* plan = plans->Get(i);
    if (std::strcmp(text(plan->name()), name) == 0) return *plan;
    if (names.size() < Text::CAPACITY / 2) names << " '" << text(plan->name()) << "'";
  }
  fail(ErrorKind::PROGRAM, Text() << "program has no method '" << name << "'; it has" << (names.empty() ? " none" : "")
                                  << Characters{names.data(), names.size()});
}

const char* Program::first_plan() const {
  const auto* plans = root_->execution_plan();
  if (count(plans) == 0) fail(ErrorKind::PROGRAM, Text() << "program has no method");
  return text(plans->Get(0)->name());
}

Bytes Program::segment(std::uint32_t index, const char* purpose) const {
  const auto* segments = root_->segments();
  if (index >= count(segments)) {
    fail(ErrorKind::PROGRAM,
         Text() << purpose << " is in segment " << index << " of " << count(segments) << " segments");
  }
  const pte::DataSegment* segment = segments->Get(index);
  if (!segments_.contains(segment->offset(), segment->size())) {
    fail(ErrorKind::PROGRAM, Text() << "segment " << index << " (" << segment->size() << " bytes at "
                                    << segment->offset() << ") exceeds the program's " << segments_.size
                                    << " bytes of segments: truncated?");
  }
  return segments_.part(segment->offset(), segment->size());
}

Bytes Program::subsegment(const pte::SubsegmentOffsets* table, std::uint32_t index, std::uint32_t size,
                          const char* what) const {
  const auto* offsets = table == nullptr ? nullptr : aligned(table->offsets(), "table of offsets in a segment");
  if (index >= count(offsets)) {
    fail(ErrorKind::PROGRAM, Text() << what << " " << index << " of " << count(offsets));
  }
  const Bytes all = segment(table->segment_index(), what);
  if (!all.contains(offsets->Get(index), size)) {
    fail(ErrorKind::PROGRAM, Text() << what << " " << index << " (" << size << " bytes at " << offsets->Get(index)
                                    << ") exceeds its segment of " << all.size << " bytes");
  }
  return all.part(offsets->Get(index), size);
}

Bytes Program::named(const char* name, std::uint32_t length) const {
  for (std::uint32_t i = 0; i < count(root_->named_data()); ++i) {
    const pte::NamedData* entry = root_->named_data()->Get(i);
    if (is_name(entry->key(), name, length)) return segment(entry->segment_index(), "named data");
  }
  return beside_.find(name, length);
}

Bytes Program::content(const pte::Tensor& tensor, std::uint32_t size) const {
  const pte::ExtraTensorInfo* extra = tensor.extra_tensor_info();
  if (extra != nullptr && extra->location() == pte::TensorDataLocation::EXTERNAL) {
    const char* name = text(extra->fully_qualified_name());
    const Bytes data = named(name, std::strlen(name));
    if (data.data == nullptr || data.size != size) {
      fail(ErrorKind::PROGRAM, Text() << "'" << name << "' has " << data.size << " bytes beside the program, a tensor "
                                      << "needs " << size);
    }
    return data;
  }
  if (tensor.data_buffer_idx() == 0) return {};
  if (tensor.allocation_info() != nullptr) return initial_value(tensor, size);
  return subsegment(root_->constant_segment(), tensor.data_buffer_idx(), size, "constant");
}

Bytes Program::initial_value(const pte::Tensor& variable, std::uint32_t size) const {
  const pte::ExtraTensorInfo* extra = variable.extra_tensor_info();
  const std::uint64_t table = extra == nullptr ? 0 : extra->mutable_data_segments_idx();
  const auto* tables = root_->mutable_data_segments();
  if (table >= count(tables)) {
    fail(ErrorKind::PROGRAM, Text() << "table " << table << " of " << count(tables) << " tables of initial values");
  }
  return subsegment(tables->Get(static_cast<std::uint32_t>(table)), variable.data_buffer_idx(), size, "initial value");
}

Bytes Program::delegate_data(std::uint32_t delegate, const pte::BackendDelegateDataReference* reference) const {
  if (reference == nullptr) {
    fail(ErrorKind::PROGRAM, Text() << "delegate " << delegate << " has no data");
  }
  if (reference->location() == pte::DataLocation::SEGMENT) return segment(reference->index(), "delegate data");
  const auto* blobs = root_->backend_delegate_data();
  if (reference->location() != pte::DataLocation::INLINE || reference->index() >= count(blobs) ||
      blobs->Get(reference->index())->data() == nullptr) {
    fail(ErrorKind::PROGRAM, Text() << "delegate " << delegate << " refers to inline data " << reference->index()
                                    << " of " << count(blobs));
  }
  const auto* data = blobs->Get(reference->index())->data();
  return {data->data(), data->size()};
}

}  // namespace ethos_hil
