// A .pte file: bounds and structure are checked once, on opening; afterwards the flatbuffer may be walked freely, but
// every index in it still has to be checked by who follows it. Format: executorch/exir/_serialize/program.fbs of the
// wheel, and ExecuTorch's docs/source/pte-file-format.md for the extended header and the segments behind it.
#pragma once

#include <cstdint>

#include "runtime/bytes.h"
#include "runtime/schema.h"

namespace ethos_hil {

namespace pte = executorch_flatbuffer;

// Number of items of a flatbuffers vector; an absent one is empty.
template <typename Vector>
std::uint32_t count(const Vector* vector) {
  return vector == nullptr ? 0 : vector->size();
}

// Ends in ERROR PROGRAM, naming `what`, unless `data` is at a multiple of `size`.
void check_alignment(const void* data, std::uint32_t size, const char* what);

// The vector itself. A flatbuffer that verifies may still have the elements of a vector at any multiple of four, where
// 64-bit ones must not be read.
template <typename T>
const flatbuffers::Vector<T>* aligned(const flatbuffers::Vector<T>* vector, const char* what) {
  if (vector != nullptr) check_alignment(vector->Data(), sizeof(T), what);
  return vector;
}

// Characters of a flatbuffers string; an absent one is empty.
inline const char* text(const flatbuffers::String* string) { return string == nullptr ? "" : string->c_str(); }

class Program {
 public:
  // Ends in ERROR PROGRAM when `file` is not a whole and sound .pte.
  explicit Program(Bytes file);

  // The execution plan of this name; ends in ERROR PROGRAM, listing the names there are, when it is missing.
  const pte::ExecutionPlan& plan(const char* name) const;

  // Name of the first plan; ends in ERROR PROGRAM when there is none.
  const char* first_plan() const;

  // Whether constants are in the flatbuffer itself, where they were long ago and where this firmware does not look.
  bool has_inline_constants() const { return count(root_->constant_buffer()) != 0; }

  // Bytes of constant tensor `index`, `size` of them. Ends in ERROR PROGRAM when the file does not hold them.
  Bytes constant(std::uint32_t index, std::uint32_t size) const;

  // The `size` bytes that a variable starts with. Ends in ERROR PROGRAM when the file does not hold them.
  Bytes initial_value(const pte::Tensor& variable, std::uint32_t size) const;

  // The blob of a delegate, inline or in a segment.
  Bytes delegate_data(std::uint32_t delegate, const pte::BackendDelegateDataReference* reference) const;

 private:
  void read_extended_header();
  Bytes segment(std::uint32_t index, const char* purpose) const;
  Bytes subsegment(const pte::SubsegmentOffsets* table, std::uint32_t index, std::uint32_t size,
                   const char* what) const;

  Bytes file_;
  Bytes flatbuffer_;
  Bytes segments_;
  const pte::Program* root_ = nullptr;
};

}  // namespace ethos_hil
