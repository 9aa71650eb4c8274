#include "runtime/kernels/activation.h"

#include "runtime/kernels/element.h"
#include "runtime/kernels/rounded.h"
#include "runtime/kernels/view.h"
#include "runtime/kernels/walk.h"

namespace ethos_hil {

namespace {

// Writes function(a, b) for each pair of elements; all views have the same sizes and type.
template <typename Function>
void for_each(const Arguments& arguments, const View& a, const View& b, const View& out, const Function& function) {
  const bool types = is_floating(out.type) && out.type != ScalarType::DOUBLE && a.type == out.type;
  if (!types) arguments.reject(Text() << type_name(a.type) << " to " << type_name(out.type) << " is not supported");
  bool fits = a.rank == out.rank && b.rank == out.rank;
  bool empty = false;
  for (std::uint32_t i = 0; fits && i < out.rank; ++i) {
    fits = a.sizes[i] == out.sizes[i] && b.sizes[i] == out.sizes[i];
    empty = empty || out.sizes[i] == 0;
  }
  if (!fits) arguments.reject_shapes();
  if (empty) return;
  Walk walk(3);
  for (std::uint32_t i = 0; i < out.rank; ++i) {
    const std::uint32_t strides[] = {a.strides[i], b.strides[i], out.strides[i]};
    walk.add(out.sizes[i], strides);
  }
  const Load<float> load = load_as<float>(out.type);
  const Store<float> store = store_as<float>(out.type);
  const std::uint32_t size = element_size(out.type);
  do {
    const float first = load(a.data + walk.offset(0) * size);
    const float second = load(b.data + walk.offset(1) * size);
    store(out.data + walk.offset(2) * size, function(first, second));
  } while (walk.next());
}

}  // namespace

void elu(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, ALPHA, SCALE, INPUT_SCALE, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  const View in = view_of(arguments.tensor(INPUT));
  const auto scale = static_cast<float>(arguments.real(SCALE));
  const auto input_scale = static_cast<float>(arguments.real(INPUT_SCALE));
  const float below = static_cast<float>(arguments.real(ALPHA)) * scale;
  for_each(arguments, in, in, view_of(arguments.out(OUT)),
           [&](float x, float) { return x <= 0 ? rounded<expm1>(x * input_scale) * below : x * scale; });
}

void logit(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, EPSILON, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  const View in = view_of(arguments.tensor(INPUT));
  const bool clamped = !arguments.is_none(EPSILON);
  const auto low = clamped ? static_cast<float>(arguments.real(EPSILON)) : 0.0f;
  for_each(arguments, in, in, view_of(arguments.out(OUT)), [&](float x, float) {
    if (clamped && x < low) x = low;
    if (clamped && x > 1.0f - low) x = 1.0f - low;
    return rounded_log(x / (1.0f - x));
  });
}

void glu(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, DIMENSION, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  const View in = view_of(arguments.tensor(INPUT));
  if (in.rank == 0) arguments.reject(Text() << "a number has no dimensions");
  const std::uint32_t dimension = arguments.dimension(arguments.integer(DIMENSION), in.rank);
  const std::uint32_t half = in.sizes[dimension] / 2;
  if (in.sizes[dimension] % 2 != 0) arguments.reject_shapes();
  View first = in;
  View second = in;
  slice(first, dimension, 0, half, 1);
  slice(second, dimension, half, half, 1);
  for_each(arguments, first, second, view_of(arguments.out(OUT)),
           [](float a, float b) { return a * (1.0f / (1.0f + rounded_exp(-b))); });
}

}  // namespace ethos_hil
