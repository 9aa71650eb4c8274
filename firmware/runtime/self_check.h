// A look at the memories that a program is put into, before anything relies on them. A block of memory that is left
// closed to secure code reads as zero and ignores writes on Corstones, unless software asks for a bus error: without
// this check it would show as a missing package, or as wrong outputs.
#pragma once

#include "link/text.h"

namespace ethos_hil {

// False when a memory does not keep what is written to its first or last word, or does not answer: `problem` names it.
bool check_memories(Text& problem);

}  // namespace ethos_hil
