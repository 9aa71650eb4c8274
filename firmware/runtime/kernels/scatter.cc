#include "runtime/kernels/scatter.h"

#include "runtime/kernels/element.h"
#include "runtime/kernels/view.h"
#include "runtime/kernels/walk.h"

namespace ethos_hil {

namespace {

enum : std::uint32_t { INPUT, DIMENSION, INDICES, SOURCE, OUT, ARGUMENTS = OUT + 2 };

// Copies the input to the output, and calls put(place, source) with one element of the output and the offset of its
// source, in elements, for each index. `source` has at least the size of the indices; null where there is none.
template <typename Put>
void for_each_index(const Arguments& arguments, const Tensor* source, const Put& put) {
  arguments.expect_count(ARGUMENTS);
  const Tensor& in = arguments.tensor(INPUT);
  const Tensor& indices = arguments.tensor(INDICES);
  Tensor& out = arguments.out(OUT);
  arguments.expect_same_type(in, out);
  arguments.expect_same_shape(in, out);
  if (indices.type != ScalarType::INT && indices.type != ScalarType::LONG) {
    arguments.reject(Text() << "indices are " << type_name(indices.type) << ", expected INT or LONG");
  }
  const std::uint32_t dimension = arguments.dimension(arguments.integer(DIMENSION), in.rank);
  const View to = view_of(out);
  copy(arguments, view_of(in), to);
  if (indices.elements == 0) return;
  bool fits = indices.rank == in.rank && in.rank > 0 && (source == nullptr || source->rank == in.rank);
  for (std::uint32_t i = 0; fits && i < in.rank; ++i) {
    fits = (i == dimension || indices.sizes[i] <= in.sizes[i]) &&
           (source == nullptr || indices.sizes[i] <= source->sizes[i]);
  }
  if (!fits) arguments.reject_shapes();
  const View picks = view_of(indices);
  const View from = source == nullptr ? picks : view_of(*source);
  Walk walk(3);
  for (std::uint32_t i = 0; i < to.rank; ++i) {
    const std::uint32_t strides[] = {picks.strides[i], i == dimension ? 0 : to.strides[i], from.strides[i]};
    walk.add(picks.sizes[i], strides);
  }
  const Load<std::int64_t> load = load_as<std::int64_t>(indices.type);
  do {
    const std::int64_t index = load(indices.data + walk.offset(0) * element_size(indices.type));
    if (index < 0 || index >= std::int64_t{to.sizes[dimension]}) {
      arguments.reject(Text() << "index " << index << " in a dimension of " << to.sizes[dimension]);
    }
    View place = to;
    place.rank = 0;
    place.data += (walk.offset(1) + static_cast<std::uint32_t>(index) * to.strides[dimension]) * element_size(to.type);
    put(place, walk.offset(2));
  } while (walk.next());
}

View element_of(const Tensor& tensor, std::uint32_t offset) {
  View view = view_of(tensor);
  view.rank = 0;
  view.data += offset * element_size(tensor.type);
  return view;
}

}  // namespace

void scatter_source(const Arguments& arguments) {
  const Tensor& source = arguments.tensor(SOURCE);
  for_each_index(arguments, &source,
                 [&](const View& place, std::uint32_t offset) { copy(arguments, element_of(source, offset), place); });
}

void scatter_add(const Arguments& arguments) {
  const Tensor& source = arguments.tensor(SOURCE);
  for_each_index(arguments, &source,
                 [&](const View& place, std::uint32_t offset) { add(arguments, element_of(source, offset), place); });
}

void scatter_value(const Arguments& arguments) {
  for_each_index(arguments, nullptr, [&](const View& place, std::uint32_t) { fill(arguments, SOURCE, place); });
}

}  // namespace ethos_hil
