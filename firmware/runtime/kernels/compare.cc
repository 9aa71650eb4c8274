#include "runtime/kernels/compare.h"

#include <limits>

namespace ethos_hil {

namespace {

template <typename T>
T equal(T a, T b, T) {
  return a == b ? 1 : 0;
}
template <typename T>
T not_equal(T a, T b, T) {
  return a != b ? 1 : 0;
}
template <typename T>
T less(T a, T b, T) {
  return a < b ? 1 : 0;
}
template <typename T>
T less_equal(T a, T b, T) {
  return a <= b ? 1 : 0;
}
template <typename T>
T greater(T a, T b, T) {
  return a > b ? 1 : 0;
}
template <typename T>
T greater_equal(T a, T b, T) {
  return a >= b ? 1 : 0;
}

// Every element converts to a double that is 0, infinite or NaN exactly where the element is.
double logical_and(double a, double b, double) { return a != 0 && b != 0 ? 1 : 0; }
double logical_or(double a, double b, double) { return a != 0 || b != 0 ? 1 : 0; }
double logical_xor(double a, double b, double) { return (a != 0) != (b != 0) ? 1 : 0; }
double logical_not(double a, double, double) { return a == 0 ? 1 : 0; }
double not_a_number(double a, double, double) { return is_nan(a) ? 1 : 0; }
double infinite(double a, double, double) {
  return a == std::numeric_limits<double>::infinity() || a == -std::numeric_limits<double>::infinity() ? 1 : 0;
}

}  // namespace

const Operation EQUAL{Typing::COMPARISON, 2, 2, equal, equal, equal};
const Operation NOT_EQUAL{Typing::COMPARISON, 2, 2, not_equal, not_equal, not_equal};
const Operation LESS{Typing::COMPARISON, 2, 2, less, less, less};
const Operation LESS_EQUAL{Typing::COMPARISON, 2, 2, less_equal, less_equal, less_equal};
const Operation GREATER{Typing::COMPARISON, 2, 2, greater, greater, greater};
const Operation GREATER_EQUAL{Typing::COMPARISON, 2, 2, greater_equal, greater_equal, greater_equal};
const Operation LOGICAL_AND{Typing::TRUTH, 2, 2, nullptr, nullptr, logical_and};
const Operation LOGICAL_OR{Typing::TRUTH, 2, 2, nullptr, nullptr, logical_or};
const Operation LOGICAL_XOR{Typing::TRUTH, 2, 2, nullptr, nullptr, logical_xor};
const Operation LOGICAL_NOT{Typing::TRUTH, 1, 1, nullptr, nullptr, logical_not};
const Operation IS_NAN{Typing::TRUTH, 1, 1, nullptr, nullptr, not_a_number};
const Operation IS_INFINITE{Typing::TRUTH, 1, 1, nullptr, nullptr, infinite};

}  // namespace ethos_hil
