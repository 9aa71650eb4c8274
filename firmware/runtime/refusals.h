// Why a program cannot be run: everything there is to say, collected, so that nobody has to come back for the next
// reason.
#pragma once

#include <cstddef>

#include "link/formats.h"
#include "link/text.h"

namespace ethos_hil {

class Refusals {
 public:
  // What this firmware does not have, as in "operator aten::sort.values".
  void lack(const Text& what);

  // Any other reason, as a sentence without a full stop.
  void add(const Text& reason);

  // A reason of its own kind.
  void add(ErrorKind kind, const Text& reason);

  // Ends the run with errors that hold all reasons, if there is one.
  void conclude();

 private:
  void make_room(std::size_t length);
  void send();

  Text text_;                 // of kind UNSUPPORTED, not yet sent
  bool lists_lacks_ = false;  // text_ ends in a list of what is lacking
  bool any_ = false;
};

}  // namespace ethos_hil
