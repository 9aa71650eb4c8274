// Data that a program refers to by name, in .ptd files beside it (executorch/extension/flat_tensor/serialize of the
// wheel).
#pragma once

#include <cstdint>

#include "link/formats.h"
#include "runtime/bytes.h"

namespace ethos_hil {

class NamedData {
 public:
  // Adds a file, of at most MAX_DATA_FILES. Ends in ERROR PROGRAM when it is not a complete and valid .ptd.
  void add(Bytes file);

  // The data of this name; null as data where no file has it.
  Bytes find(const char* name, std::uint32_t length) const;

 private:
  Bytes files_[MAX_DATA_FILES];
  std::uint32_t count_ = 0;
};

}  // namespace ethos_hil
