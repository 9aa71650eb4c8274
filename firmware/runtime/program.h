// A .pte file. Opening it checks bounds and structure once; afterwards code may walk the flatbuffer freely, but must
// check every index in it. Format: executorch/exir/_serialize/program.fbs of the wheel, and ExecuTorch's
// docs/source/pte-file-format.md for the extended header and the segments after it.
#pragma once

#include <cstdint>
#include <cstring>

#include "runtime/bytes.h"
#include "runtime/named_data.h"
#include "runtime/schema.h"

namespace ethos_hil {

namespace pte = executorch_flatbuffer;

// The number of items of a flatbuffers vector; 0 for an absent one.
template <typename Vector>
std::uint32_t count(const Vector* vector) {
  return vector == nullptr ? 0 : vector->size();
}

// Ends in ERROR PROGRAM, naming `what`, unless `data` is at a multiple of `size`.
void check_alignment(const void* data, std::uint32_t size, const char* what);

// Returns the vector, checked for alignment. In a valid flatbuffer the elements of a vector may lie at any multiple of
// four, where 64-bit ones must not be read.
template <typename T>
const flatbuffers::Vector<T>* aligned(const flatbuffers::Vector<T>* vector, const char* what) {
  if (vector != nullptr) check_alignment(vector->Data(), sizeof(T), what);
  return vector;
}

// The characters of a flatbuffers string; an absent one is empty.
inline const char* text(const flatbuffers::String* string) { return string == nullptr ? "" : string->c_str(); }

// Whether a name in a file is this one, of `length` bytes.
inline bool is_name(const flatbuffers::String* string, const char* name, std::uint32_t length) {
  return string != nullptr && string->size() == length && std::memcmp(string->c_str(), name, length) == 0;
}

class Program {
 public:
  // Ends in ERROR PROGRAM when `file` is not a complete and valid .pte. `beside` has what it refers to by name.
  explicit Program(Bytes file, const NamedData& beside = {});

  // The execution plan of this name. Ends in ERROR PROGRAM, which lists the names there are, when it is missing.
  const pte::ExecutionPlan& plan(const char* name) const;

  // Name of the first plan; ends in ERROR PROGRAM when there is none.
  const char* first_plan() const;

  // Whether constants are in the flatbuffer itself, as in old files. This firmware does not read them there.
  bool has_inline_constants() const { return count(root_->constant_buffer()) != 0; }

  // The data of this name, in the program or beside it; null as data where there is none.
  Bytes named(const char* name, std::uint32_t length) const;

  // The `size` bytes of a constant, or of a variable's initial value; null as data where it has none. Ends in ERROR
  // PROGRAM when they are not there.
  Bytes content(const pte::Tensor& tensor, std::uint32_t size) const;

  // The blob of a delegate, inline or in a segment.
  Bytes delegate_data(std::uint32_t delegate, const pte::BackendDelegateDataReference* reference) const;

 private:
  void read_extended_header();
  Bytes initial_value(const pte::Tensor& variable, std::uint32_t size) const;
  Bytes segment(std::uint32_t index, const char* purpose) const;
  Bytes subsegment(const pte::SubsegmentOffsets* table, std::uint32_t index, std::uint32_t size,
                   const char* what) const;

  Bytes file_;
  Bytes flatbuffer_;
  Bytes segments_;
  NamedData beside_;
  const pte::Program* root_ = nullptr;
};

}  // namespace ethos_hil
