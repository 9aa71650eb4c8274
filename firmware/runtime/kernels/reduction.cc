#include "runtime/kernels/reduction.h"

namespace ethos_hil {

std::uint32_t take_dimensions(const Arguments& arguments, std::uint32_t position, std::uint32_t rank) {
  if (arguments.kind(position) == ValueKind::INT) return arguments.dimension_bit(arguments.integer(position), rank);
  const std::uint32_t all = (1u << rank) - 1;
  if (arguments.is_none(position) || arguments.list_size(position) == 0) return all;
  std::uint32_t taken = 0;
  for (std::uint32_t i = 0; i < arguments.list_size(position); ++i) {
    taken |= arguments.dimension_bit(arguments.list_item(position, i), rank);
  }
  return taken;
}

Reduction::Reduction(const Arguments& arguments, const Tensor& in, const Tensor& out, std::uint32_t reduced, bool keep)
    : in_(in), last_alone_(in.rank > 0 && reduced == 1u << (in.rank - 1u)), empty_(out.elements == 0) {
  if (load_as<float>(in.type) == nullptr || store_as<float>(out.type) == nullptr) arguments.reject_types(in, out);
  std::uint32_t in_strides[MAX_RANK];
  std::uint32_t out_strides[MAX_RANK];
  element_strides(in, in_strides);
  element_strides(out, out_strides);
  std::uint32_t out_dimension = 0;
  for (std::uint32_t i = 0; i < in.rank; ++i) {
    const auto size = static_cast<std::uint32_t>(in.sizes[i]);
    const bool is_reduced = (reduced >> i & 1u) != 0;
    if (is_reduced) {
      inner_.add(size, &in_strides[i]);
      number_ *= size;
    }
    if (is_reduced && !keep) continue;
    const std::int32_t expected = is_reduced ? 1 : in.sizes[i];
    if (out_dimension >= out.rank || out.sizes[out_dimension] != expected) arguments.reject_shapes();
    const std::uint32_t strides[] = {in_strides[i], out_strides[out_dimension]};
    if (!is_reduced) kept_.add(size, strides);
    ++out_dimension;
  }
  if (out_dimension != out.rank) arguments.reject_shapes();
}

}  // namespace ethos_hil
