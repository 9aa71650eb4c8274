#include "runtime/kernels/softmax.h"

#include "runtime/kernels/element.h"
#include "runtime/kernels/rounded.h"
#include "runtime/kernels/view.h"
#include "runtime/kernels/walk.h"

namespace ethos_hil {

namespace {

void run(const Arguments& arguments, bool logarithm) {
  enum : std::uint32_t { INPUT, DIMENSION, HALF_TO_FLOAT, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  const Tensor& in = arguments.tensor(INPUT);
  Tensor& out = arguments.out(OUT);
  arguments.expect_same_type(in, out);
  arguments.expect_same_shape(in, out);
  if (!is_floating(in.type) || in.type == ScalarType::DOUBLE) arguments.reject_types(in, out);
  const std::uint32_t dimension = arguments.dimension(arguments.integer(DIMENSION), in.rank);
  const View from = view_of(in);
  const View to = view_of(out);
  const std::uint32_t length = in.rank == 0 ? 1 : from.sizes[dimension];
  const std::uint32_t step = in.rank == 0 ? 0 : from.strides[dimension];
  const std::uint32_t out_step = in.rank == 0 ? 0 : to.strides[dimension];
  if (in.elements == 0) return;
  Walk walk(2);
  for (std::uint32_t i = 0; i < from.rank; ++i) {
    const std::uint32_t strides[] = {from.strides[i], to.strides[i]};
    if (i != dimension) walk.add(from.sizes[i], strides);
  }
  const Load<float> load = load_as<float>(in.type);
  const Store<float> store = store_as<float>(out.type);
  const std::uint32_t size = element_size(in.type);
  do {
    const auto get = [&](std::uint32_t i) { return load(from.data + (walk.offset(0) + i * step) * size); };
    float top = get(0);
    for (std::uint32_t i = 1; i < length; ++i) {
      const float value = get(i);
      top = value < top ? top : value;
    }
    float sum = rounded_exp(get(0) - top);
    for (std::uint32_t i = 1; i < length; ++i) sum += rounded_exp(get(i) - top);
    const float log_sum = logarithm ? rounded_log(sum) : 0.0f;
    for (std::uint32_t i = 0; i < length; ++i) {
      const float above = get(i) - top;
      store(to.data + (walk.offset(1) + i * out_step) * size, logarithm ? above - log_sum : rounded_exp(above) / sum);
    }
  } while (walk.next());
}

}  // namespace

void softmax(const Arguments& arguments) { run(arguments, false); }
void log_softmax(const Arguments& arguments) { run(arguments, true); }

}  // namespace ethos_hil
