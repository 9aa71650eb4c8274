// Operations on one to three operands, element by element, with broadcasting. Each operand is a tensor in any dim_order
// or a number, and is converted to the type that upstream computes in; the result is converted to the output's type.
//
// Types follow ExecuTorch's portable kernels (kernels/portable/cpu/util/elementwise_util.h and the patterns beside it).
// Those require equal dim_orders; this code does not, because offsets come from strides.
#pragma once

#include "runtime/kernels/arguments.h"
#include "runtime/kernels/element.h"

namespace ethos_hil {

// The type in which an operation is computed, and the outputs it may have. "Promoted": upstream's promoteTypes of the
// tensors, and promote_type_with_scalar for a number.
enum class Typing : std::uint8_t {
  PROMOTED,    // promoted; output: any type the result can be cast to
  DIVIDING,    // as PROMOTED, but not BOOL, and no integer is divided by 0
  SAME,        // the type of the first operand, which the output has too
  BY_FLOAT,    // as SAME, but computed as float unless it is DOUBLE
  BITWISE,     // promoted, which must be an integer or BOOL
  FLOATING,    // promoted if floating, else FLOAT; the output is floating
  POWER,       // FLOAT if promoted is FLOAT, else DOUBLE; output: any type promoted can be cast to
  COMPARISON,  // promoted, but FLOAT for a floating mixture; output: any type
  TRUTH,       // whether operands are 0; output: any type
};

struct Operation {
  Typing typing;
  std::uint8_t operands;
  std::uint8_t promoted;  // how many operands, from the first, decide the type
  // Absent operands are 0. Null where there is no such kernel.
  std::int64_t (*whole)(std::int64_t, std::int64_t, std::int64_t);
  float (*single)(float, float, float);
  double (*twofold)(double, double, double);
};

// The positions of operands among a call's arguments.
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
