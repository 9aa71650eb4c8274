// Operations on one to three operands, element by element, with broadcasting: each operand is a tensor in any dim_order
// or a number, and is converted to the type that upstream computes in; the result is converted to the output's type.
//
// Types follow ExecuTorch's portable kernels (kernels/portable/cpu/util/elementwise_util.h and the patterns beside it).
// Where those ask for equal dim_orders, this does not: offsets come from strides.
#pragma once

#include "runtime/kernels/arguments.h"
#include "runtime/kernels/element.h"

namespace ethos_hil {

// What an operation is computed in, and which outputs it may have. "Promoted": upstream's promoteTypes of the tensors,
// and of a number as promote_type_with_scalar has it.
enum class Typing : std::uint8_t {
  PROMOTED,    // promoted; to a type the result can be cast to
  DIVIDING,    // the same, but not BOOL, and an integer is not divided by 0
  SAME,        // that of the first operand, which is the output's
  BY_FLOAT,    // the same, computed as float unless it is DOUBLE
  BITWISE,     // promoted, which must be an integer or BOOL
  FLOATING,    // promoted if floating, else FLOAT; the output is floating
  POWER,       // FLOAT if that is promoted, else DOUBLE; to a type the promoted one can be cast to
  COMPARISON,  // promoted, but FLOAT for a floating mixture; to any type
  TRUTH,       // whether operands are 0; to any type
};

struct Operation {
  Typing typing;
  std::uint8_t operands;
  std::uint8_t promoted;  // so many of the operands, from the first, decide the type
  // Operands that are not there are 0. Null where there is no such kernel.
  std::int64_t (*whole)(std::int64_t, std::int64_t, std::int64_t);
  float (*single)(float, float, float);
  double (*twofold)(double, double, double);
};

// Where operands are among a call's arguments.
struct Positions {
  std::uint8_t operands[3];
  std::uint8_t out;
};

void run_elementwise(const Arguments& arguments, const Operation& operation, const Positions& positions);

// The kernel of an operation whose operands are the first arguments, followed by the output, twice.
template <const Operation& OPERATION>
void elementwise(const Arguments& arguments) {
  arguments.expect_count(OPERATION.operands + 2u);
  run_elementwise(arguments, OPERATION, {{0, 1, 2}, OPERATION.operands});
}

}  // namespace ethos_hil
