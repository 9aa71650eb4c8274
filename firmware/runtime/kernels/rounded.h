// Functions of floats that no finite number of IEEE operations computes exactly, rounded once: they are computed in
// double, whose error is far below half a unit of a float. So the result is the float nearest to the true value but for
// about one argument in 2^27, whatever the C library, and the host's reference (lowering/oracle) can give the same
// bits.
#pragma once

#include <cmath>

namespace ethos_hil {

template <double (*FUNCTION)(double)>
float rounded(float a) {
  return static_cast<float>(FUNCTION(static_cast<double>(a)));
}

inline float rounded_exp(float a) { return rounded<exp>(a); }
inline float rounded_log(float a) { return rounded<log>(a); }
inline float rounded_tanh(float a) { return rounded<tanh>(a); }

}  // namespace ethos_hil
