// The classes that flatc generates from the wheel's program.fbs, adapted to a machine without printf.
#pragma once

// A verified buffer never fails these. If one does, an undefined instruction ends in a FAULT frame.
#define FLATBUFFERS_ASSERT(condition) ((condition) ? static_cast<void>(0) : __builtin_trap())

#include "program_generated.h"
