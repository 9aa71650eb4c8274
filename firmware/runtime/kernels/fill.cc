#include "runtime/kernels/fill.h"

#include <cmath>

#include "runtime/kernels/element.h"
#include "runtime/kernels/view.h"

namespace ethos_hil {

namespace {

void fill_range(const Arguments& arguments, double start, double end, double step, std::uint32_t out_at) {
  Tensor& out = arguments.out(out_at);
  const Store<double> store = store_as<double>(out.type);
  if (store == nullptr || out.type == ScalarType::BOOL) {
    arguments.reject(Text() << type_name(out.type) << " is not supported");
  }
  const double count = std::ceil((end - start) / step);
  if (out.rank != 1 || count != static_cast<double>(out.elements)) {
    arguments.reject(Text() << "the output has not as many elements as the range");
  }
  const std::uint32_t size = element_size(out.type);
  for (std::uint32_t i = 0; i < out.elements; ++i) store(out.data + i * size, start + i * step);
}

}  // namespace

void full(const Arguments& arguments) {
  enum : std::uint32_t { SIZES, VALUE, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  fill(arguments, VALUE, view_of(arguments.out(OUT)));
}

void full_like(const Arguments& arguments) {
  enum : std::uint32_t { LIKE, VALUE };
  // full_like has a memory_format before its output; fill.Scalar has none.
  const std::uint32_t out_at = arguments.count() == VALUE + 3 ? VALUE + 1 : VALUE + 2;
  arguments.expect_count(out_at + 2);
  arguments.expect_same_shape(arguments.tensor(LIKE), arguments.out(out_at));
  fill(arguments, VALUE, view_of(arguments.out(out_at)));
}

void zeros(const Arguments& arguments) {
  enum : std::uint32_t { SIZES, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  fill_whole(arguments, 0, view_of(arguments.out(OUT)));
}

void ones(const Arguments& arguments) {
  enum : std::uint32_t { SIZES, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  fill_whole(arguments, 1, view_of(arguments.out(OUT)));
}

void scalar_tensor(const Arguments& arguments) {
  enum : std::uint32_t { VALUE, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  if (arguments.out(OUT).rank != 0) arguments.reject(Text() << "the output has dimensions");
  fill(arguments, VALUE, view_of(arguments.out(OUT)));
}

void arange(const Arguments& arguments) {
  enum : std::uint32_t { END, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  fill_range(arguments, 0, arguments.real(END), 1, OUT);
}

void arange_start(const Arguments& arguments) {
  enum : std::uint32_t { START, END, STEP, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  fill_range(arguments, arguments.real(START), arguments.real(END), arguments.real(STEP), OUT);
}

}  // namespace ethos_hil
