// The reasons why a program cannot be run, collected, so that users get all of them at once.
#pragma once

#include <cstddef>

#include "link/formats.h"
#include "link/text.h"

namespace ethos_hil {

class Refusals {
 public:
  // Adds a thing that this firmware lacks, as in "operator aten::sort.values".
  void lack(const Text& what);

  // Adds any other reason, as a sentence without a full stop.
  void add(const Text& reason);

  // Adds a reason of another kind.
  void add(ErrorKind kind, const Text& reason);

  // If there are reasons, ends the run with errors that state all of them.
  void conclude();

 private:
  void make_room(std::size_t length);
  void send();

  Text text_;                 // of kind UNSUPPORTED, not yet sent
  bool lists_lacks_ = false;  // text_ ends in a list of missing things
  bool any_ = false;
};

}  // namespace ethos_hil
