#include "runtime/kernels/matmul.h"

#include "runtime/kernels/element.h"
#include "runtime/kernels/view.h"

namespace ethos_hil {

namespace {

// out[i, j] = sum over k of a[i, k] * b[k, j], times alpha, plus summand[i, j] times beta.
struct Product {
  View a;
  View b;
  View out;
  const View* summand = nullptr;  // of the output's sizes
  double alpha = 1;
  double beta = 1;
  std::int64_t whole_alpha = 1;
  std::int64_t whole_beta = 1;
};

template <typename T>
T pick(double real, std::int64_t whole) {
  if constexpr (std::is_integral_v<T>) {
    return whole;
  } else {
    return static_cast<T>(real);
  }
}

template <typename T>
void multiply(const Product& product) {
  const View& a = product.a;
  const View& b = product.b;
  const View& out = product.out;
  const Load<T> load = load_as<T>(a.type);
  const Store<T> store = store_as<T>(a.type);
  const std::uint32_t size = element_size(a.type);
  for (std::uint32_t i = 0; i < out.sizes[0]; ++i) {
    for (std::uint32_t j = 0; j < out.sizes[1]; ++j) {
      const std::uint8_t* left = a.data + i * a.strides[0] * size;
      const std::uint8_t* right = b.data + j * b.strides[1] * size;
      T sum = 0;
      for (std::uint32_t k = 0; k < a.sizes[1]; ++k) {
        if constexpr (std::is_same_v<T, float>) {
          sum += *reinterpret_cast<const float*>(left) * *reinterpret_cast<const float*>(right);
        } else {
          sum = plus(sum, times(load(left), load(right)));
        }
        left += a.strides[1] * size;
        right += b.strides[0] * size;
      }
      if (product.summand != nullptr) {
        const View& summand = *product.summand;
        const T added = load(summand.data + (i * summand.strides[0] + j * summand.strides[1]) * size);
        sum = plus(times(sum, pick<T>(product.alpha, product.whole_alpha)),
                   times(added, pick<T>(product.beta, product.whole_beta)));
      }
      store(out.data + (i * out.strides[0] + j * out.strides[1]) * size, sum);
    }
  }
}

void multiply(const Arguments& arguments, const Product& product) {
  const View& a = product.a;
  const View& b = product.b;
  const View& out = product.out;
  const ScalarType type = a.type;
  const bool summand_fits = product.summand == nullptr || product.summand->type == type;
  if (b.type != type || out.type != type || !summand_fits) arguments.reject(Text() << "the types of matrices differ");
  const bool fits = a.rank == 2 && b.rank == 2 && out.rank == 2 && a.sizes[1] == b.sizes[0] &&
                    out.sizes[0] == a.sizes[0] && out.sizes[1] == b.sizes[1];
  if (!fits) arguments.reject_shapes();
  if (type == ScalarType::FLOAT) return multiply<float>(product);
  if (type == ScalarType::DOUBLE) return multiply<double>(product);
  if (is_integral(type) && type != ScalarType::BOOL) return multiply<std::int64_t>(product);
  arguments.reject(Text() << type_name(type) << " is not supported");
}

}  // namespace

void mm(const Arguments& arguments) {
  enum : std::uint32_t { A, B, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  Product product{view_of(arguments.tensor(A)), view_of(arguments.tensor(B)), view_of(arguments.out(OUT))};
  multiply(arguments, product);
}

void bmm(const Arguments& arguments) {
  enum : std::uint32_t { A, B, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  const View a = view_of(arguments.tensor(A));
  const View b = view_of(arguments.tensor(B));
  const View out = view_of(arguments.out(OUT));
  const bool fits =
      a.rank == 3 && b.rank == 3 && out.rank == 3 && b.sizes[0] == a.sizes[0] && out.sizes[0] == a.sizes[0];
  if (!fits) arguments.reject_shapes();
  for (std::uint32_t i = 0; i < out.sizes[0]; ++i) {
    Product product{a, b, out};
    select(product.a, 0, i);
    select(product.b, 0, i);
    select(product.out, 0, i);
    multiply(arguments, product);
  }
}

void addmm(const Arguments& arguments) {
  enum : std::uint32_t { SUMMAND, A, B, BETA, ALPHA, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  Product product{view_of(arguments.tensor(A)), view_of(arguments.tensor(B)), view_of(arguments.out(OUT))};
  View summand = view_of(arguments.tensor(SUMMAND));
  expand(arguments, summand, product.out.sizes, product.out.rank);
  product.summand = &summand;
  if (is_integral(product.a.type)) {
    product.whole_alpha = arguments.integer(ALPHA);
    product.whole_beta = arguments.integer(BETA);
  } else {
    product.alpha = arguments.real(ALPHA);
    product.beta = arguments.real(BETA);
  }
  multiply(arguments, product);
}

void linear(const Arguments& arguments) {
  enum : std::uint32_t { INPUT, WEIGHT, BIAS, OUT, ARGUMENTS = OUT + 2 };
  arguments.expect_count(ARGUMENTS);
  const Tensor& in = arguments.tensor(INPUT);
  const Tensor& out = arguments.out(OUT);
  View weight = view_of(arguments.tensor(WEIGHT));
  const bool contiguous = is_contiguous(in) && is_contiguous(out);
  bool fits = contiguous && in.rank > 0 && in.rank == out.rank && weight.rank == 2;
  for (std::uint32_t i = 0; fits && i + 1 < in.rank; ++i) fits = in.sizes[i] == out.sizes[i];
  if (!fits) arguments.reject_shapes();
  constexpr std::uint32_t TURNED[] = {1, 0};
  permute(weight, TURNED);
  // All dimensions except the last as one.
  const auto flat = [](const Tensor& tensor) {
    View view = view_of(tensor);
    const std::uint32_t width = view.sizes[view.rank - 1];
    std::uint32_t rows = 1;
    for (std::uint32_t i = 0; i + 1 < view.rank; ++i) rows *= view.sizes[i];
    return View{view.data, view.type, 2, {rows, width}, {width, 1}};
  };
  Product product{flat(in), weight, flat(out)};
  View bias;
  if (!arguments.is_none(BIAS)) {
    bias = view_of(arguments.tensor(BIAS));
    expand(arguments, bias, product.out.sizes, product.out.rank);
    product.summand = &bias;
  }
  multiply(arguments, product);
}

}  // namespace ethos_hil
