// The kernels of arrange.h that take or return a list of tensors.
#include "runtime/kernels/arrange.h"
#include "runtime/kernels/view.h"

namespace ethos_hil {

namespace {

const Tensor& input_of(const Arguments& arguments, std::uint32_t position, std::uint32_t item) {
  const Tensor* tensor = arguments.tensor_item(position, item);
  if (tensor == nullptr) arguments.reject(Text() << "input " << item << " is missing");
  return *tensor;
}

// Takes the first part of a dimension; `left` becomes the rest.
View take_run(const Arguments& arguments, View& left, std::uint32_t dimension, std::uint32_t length) {
  const std::uint32_t size = left.sizes[dimension];
  if (length > size) arguments.reject_shapes();
  View run = left;
  slice(run, dimension, 0, length, 1);
  slice(left, dimension, length, size - length, 1);
  return run;
}

std::uint32_t take_dimension(const Arguments& arguments, std::uint32_t position, std::uint32_t rank) {
  if (rank == 0) arguments.reject(Text() << "a number has no dimensions");
  return arguments.dimension(arguments.integer(position), rank);
}

// Checks that the outputs are one list, which the call may name once or twice.
void expect_outputs(const Arguments& arguments, std::uint32_t out_at) {
  if (arguments.count() != out_at + 1 && arguments.count() != out_at + 2) arguments.expect_count(out_at + 1);
}

}  // namespace

void cat(const Arguments& arguments) {
  enum : std::uint32_t { INPUTS, DIMENSION, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  View left = view_of(arguments.out(OUT));
  const std::uint32_t dimension = take_dimension(arguments, DIMENSION, left.rank);
  for (std::uint32_t i = 0; i < arguments.tensor_count(INPUTS); ++i) {
    const Tensor& in = input_of(arguments, INPUTS, i);
    // An empty vector joins anything, as upstream.
    if (in.rank == 1 && in.elements == 0) continue;
    if (in.rank != left.rank) arguments.reject_shapes();
    copy(arguments, view_of(in), take_run(arguments, left, dimension, static_cast<std::uint32_t>(in.sizes[dimension])));
  }
  if (left.sizes[dimension] != 0) arguments.reject_shapes();
}

void split_with_sizes_copy(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, SIZES, DIMENSION, OUT };
  expect_outputs(arguments, OUT);
  View left = view_of(arguments.tensor(INPUT));
  const std::uint32_t dimension = take_dimension(arguments, DIMENSION, left.rank);
  const std::uint32_t count = arguments.tensor_count(OUT);
  if (arguments.list_size(SIZES) != count) arguments.reject_shapes();
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::int64_t size = arguments.list_item(SIZES, i);
    if (size < 0 || size > std::int64_t{left.sizes[dimension]}) arguments.reject_shapes();
    const View part = take_run(arguments, left, dimension, static_cast<std::uint32_t>(size));
    copy(arguments, part, view_of(arguments.out_item(OUT, i)));
  }
  if (left.sizes[dimension] != 0) arguments.reject_shapes();
}

}  // namespace ethos_hil
