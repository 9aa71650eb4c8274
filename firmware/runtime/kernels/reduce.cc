#include "runtime/kernels/reduce.h"

#include "runtime/kernels/reduction.h"

namespace ethos_hil {

namespace {

// The step for each element: one function for each type to compute in.
struct Step {
  std::int64_t (*whole)(std::int64_t, std::int64_t);
  float (*single)(float, float);
  double (*twofold)(double, double);
};

// The value that a reduction starts with.
enum class Start : std::uint8_t {
  FIRST,  // its first element, or 0 if there is none
  ZERO,
};

struct Reducer {
  Step step;
  bool must_have;  // refuses an input without elements
};

template <typename T>
T add(T sum, T value) {
  return plus(sum, value);
}
template <typename T>
T multiply(T product, T value) {
  return times(product, value);
}
template <typename T>
T keep_larger(T best, T value) {
  return is_nan(value) || value > best ? value : best;
}
template <typename T>
T keep_smaller(T best, T value) {
  return is_nan(value) || value < best ? value : best;
}
double either(double any, double value) { return any != 0 || value != 0 ? 1 : 0; }

constexpr Reducer SUM{{add, add, add}, false};
constexpr Reducer PRODUCT{{multiply, multiply, multiply}, true};
constexpr Reducer LARGEST{{keep_larger, keep_larger, keep_larger}, true};
constexpr Reducer SMALLEST{{keep_smaller, keep_smaller, keep_smaller}, true};
constexpr Reducer ANY{{nullptr, nullptr, either}, false};

template <typename T>
void reduce_as(Reduction& reduction, Tensor& out, T (*step)(T, T), Start start, bool divide) {
  const Store<T> store = store_as<T>(out.type);
  const std::uint32_t size = element_size(out.type);
  reduction.for_each_output([&](std::uint32_t first, std::uint32_t at) {
    T result = 0;
    bool started = start == Start::ZERO;
    reduction.for_each_element<T>(first, [&](T value) {
      result = started ? step(result, value) : value;
      started = true;
    });
    if constexpr (std::is_floating_point_v<T>) {
      if (divide) result /= static_cast<T>(static_cast<float>(reduction.number()));
    }
    store(out.data + at * size, result);
  });
}

// `accumulator`: the type to compute in.
void reduce(const Arguments& arguments, Reduction& reduction, Tensor& out, const Reducer& reducer,
            ScalarType accumulator, Start start, bool divide = false) {
  if (reducer.must_have && reduction.number() == 0) arguments.reject(Text() << "the input is empty");
  if (accumulator == ScalarType::DOUBLE) {
    reduce_as<double>(reduction, out, reducer.step.twofold, start, divide);
  } else if (is_floating(accumulator)) {
    reduce_as<float>(reduction, out, reducer.step.single, start, divide);
  } else {
    reduce_as<std::int64_t>(reduction, out, reducer.step.whole, start, divide);
  }
}

void add_up(const Arguments& arguments, const Tensor& in, Tensor& out, std::uint32_t reduced, bool keep, bool divide) {
  Reduction reduction(arguments, in, out, reduced, keep);
  if (is_floating(in.type) && !is_floating(out.type)) arguments.reject_types(in, out);
  if (divide && !is_floating(out.type)) arguments.reject_types(in, out);
  const Start start = reduction.last_alone() && in.type == out.type ? Start::ZERO : Start::FIRST;
  reduce(arguments, reduction, out, SUM, out.type, start, divide);
}

// The store decides whether an integer output wraps: a BOOL output, which a sum of BOOL may have, is true or false.
void sum_or_mean(const Arguments& arguments, bool divide) {
  enum : std::uint32_t { INPUT, DIMENSIONS, KEEP, DTYPE, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  const Tensor& in = arguments.tensor(INPUT);
  add_up(arguments, in, arguments.out(OUT), take_dimensions(arguments, DIMENSIONS, in.rank),
         arguments.integer(KEEP) != 0, divide);
}

// Arguments: (input, dimensions, keep, out, out). The output has the input's type.
void extreme(const Arguments& arguments, const Reducer& reducer) {
  enum : std::uint32_t { INPUT, DIMENSIONS, KEEP, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  const Tensor& in = arguments.tensor(INPUT);
  Tensor& out = arguments.out(OUT);
  arguments.expect_same_type(in, out);
  Reduction reduction(arguments, in, out, take_dimensions(arguments, DIMENSIONS, in.rank),
                      arguments.integer(KEEP) != 0);
  reduce(arguments, reduction, out, reducer, in.type, Start::FIRST);
}

// Arguments: (input, out, out). The output has the input's type.
void extreme_of_all(const Arguments& arguments, const Reducer& reducer) {
  enum : std::uint32_t { INPUT, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  const Tensor& in = arguments.tensor(INPUT);
  Tensor& out = arguments.out(OUT);
  arguments.expect_same_type(in, out);
  Reduction reduction(arguments, in, out, (1u << in.rank) - 1, false);
  reduce(arguments, reduction, out, reducer, in.type, Start::FIRST);
}

void find_any(const Arguments& arguments, std::uint32_t reduced, bool keep, std::uint32_t out_at) {
  const Tensor& in = arguments.tensor(0);
  Tensor& out = arguments.out(out_at);
  if (out.type != ScalarType::BOOL && out.type != ScalarType::BYTE) arguments.reject_types(in, out);
  Reduction reduction(arguments, in, out, reduced, keep);
  reduce(arguments, reduction, out, ANY, ScalarType::DOUBLE, Start::ZERO);
}

}  // namespace

void sum(const Arguments& arguments) { sum_or_mean(arguments, false); }
void mean(const Arguments& arguments) { sum_or_mean(arguments, true); }

void mean_all(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, DTYPE, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  const Tensor& in = arguments.tensor(INPUT);
  Tensor& out = arguments.out(OUT);
  Reduction reduction(arguments, in, out, (1u << in.rank) - 1, false);
  if (!is_floating(out.type)) arguments.reject_types(in, out);
  reduce(arguments, reduction, out, SUM, out.type, Start::FIRST, true);
}

namespace {

void multiply_all(const Arguments& arguments, std::uint32_t reduced, bool keep, std::uint32_t out_at) {
  const Tensor& in = arguments.tensor(0);
  Tensor& out = arguments.out(out_at);
  Reduction reduction(arguments, in, out, reduced, keep);
  // Of half and bfloat16 upstream rounds each product; these are refused.
  const bool half = is_floating(out.type) && element_size(out.type) == 2;
  if (half || (is_floating(in.type) && in.type != out.type)) arguments.reject_types(in, out);
  reduce(arguments, reduction, out, PRODUCT, out.type, Start::FIRST);
}

}  // namespace

void product(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, DIMENSION, KEEP, DTYPE, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  const std::uint32_t rank = arguments.tensor(INPUT).rank;
  multiply_all(arguments, arguments.dimension_bit(arguments.integer(DIMENSION), rank), arguments.integer(KEEP) != 0,
               OUT);
}

void product_all(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, DTYPE, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  multiply_all(arguments, (1u << arguments.tensor(INPUT).rank) - 1, false, OUT);
}

void largest(const Arguments& arguments) { extreme(arguments, LARGEST); }
void smallest(const Arguments& arguments) { extreme(arguments, SMALLEST); }
void largest_all(const Arguments& arguments) { extreme_of_all(arguments, LARGEST); }
void smallest_all(const Arguments& arguments) { extreme_of_all(arguments, SMALLEST); }

void any(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, DIMENSIONS, KEEP, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  const std::uint32_t rank = arguments.tensor(INPUT).rank;
  // Here an empty list means no dimension, not all.
  const bool none = arguments.kind(DIMENSIONS) == ValueKind::INT_LIST && arguments.list_size(DIMENSIONS) == 0;
  find_any(arguments, none ? 0 : take_dimensions(arguments, DIMENSIONS, rank), arguments.integer(KEEP) != 0, OUT);
}

void any_all(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  find_any(arguments, (1u << arguments.tensor(INPUT).rank) - 1, false, OUT);
}

namespace {

// The first of the best elements, and its index in the reduced dimensions. NaN is better than any number.
template <typename T>
void find_best(Reduction& reduction, bool want_larger, Tensor* values, Tensor& indices) {
  reduction.for_each_output([&](std::uint32_t first, std::uint32_t at) {
    T best{};
    std::int64_t best_at = 0;
    std::int64_t i = 0;
    reduction.for_each_element<T>(first, [&](T value) {
      if (i == 0 || (!is_nan(best) && !(want_larger ? value <= best : value >= best))) {
        best = value;
        best_at = i;
      }
      ++i;
    });
    if (values != nullptr) store_as<T>(values->type)(values->data + at * element_size(values->type), best);
    reinterpret_cast<std::int64_t*>(indices.data)[at] = best_at;
  });
}

void find_best(const Arguments& arguments, const Tensor& in, std::uint32_t reduced, bool keep, bool want_larger,
               Tensor* values, Tensor& indices) {
  arguments.expect_type(indices, ScalarType::LONG, "the tensor of indices");
  Reduction reduction(arguments, in, indices, reduced, keep);
  if (reduction.number() == 0) arguments.reject(Text() << "the input is empty");
  if (values != nullptr) {
    arguments.expect_same_type(in, *values);
    if (!same_shape(*values, indices) || !same_layout(*values, indices)) arguments.reject_shapes();
  }
  if (in.type == ScalarType::DOUBLE) return find_best<double>(reduction, want_larger, values, indices);
  if (is_floating(in.type)) return find_best<float>(reduction, want_larger, values, indices);
  find_best<std::int64_t>(reduction, want_larger, values, indices);
}

void arg_best(const Arguments& arguments, bool want_larger) {
  enum : std::uint32_t { INPUT, DIMENSION, KEEP, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  const Tensor& in = arguments.tensor(INPUT);
  find_best(arguments, in, take_dimensions(arguments, DIMENSION, in.rank), arguments.integer(KEEP) != 0, want_larger,
            nullptr, arguments.out(OUT));
}

void best_along(const Arguments& arguments, bool want_larger) {
  enum : std::uint32_t { INPUT, DIMENSION, KEEP, VALUES, INDICES, ARGUMENTS = INDICES + 2 };
  arguments.expect_count(ARGUMENTS);
  const Tensor& in = arguments.tensor(INPUT);
  find_best(arguments, in, arguments.dimension_bit(arguments.integer(DIMENSION), in.rank), arguments.integer(KEEP) != 0,
            want_larger, &arguments.out(VALUES), arguments.out(INDICES));
}

}  // namespace

void argmax(const Arguments& arguments) { arg_best(arguments, true); }
void argmin(const Arguments& arguments) { arg_best(arguments, false); }
void max_along(const Arguments& arguments) { best_along(arguments, true); }
void min_along(const Arguments& arguments) { best_along(arguments, false); }

}  // namespace ethos_hil
