#include "runtime/kernels/elementwise.h"

#include "runtime/kernels/walk.h"

namespace ethos_hil {

namespace {

constexpr std::uint32_t OPERANDS = 3;

// Upstream's canCast: a conversion must not lose fractions, and only a truth value may become a truth value.
bool can_cast(ScalarType from, ScalarType to) {
  if (is_floating(from) && !is_floating(to)) return false;
  return to != ScalarType::BOOL || from == ScalarType::BOOL;
}

ScalarType promote_with_number(const Arguments& arguments, std::uint32_t position, ScalarType type) {
  switch (arguments.kind(position)) {
    case ValueKind::DOUBLE:
      return is_floating(type) ? type : ScalarType::FLOAT;
    case ValueKind::INT:
      return type == ScalarType::BOOL ? ScalarType::LONG : type;
    default:
      return type;
  }
}

struct Types {
  ScalarType promoted;
  ScalarType compute;
};

class Call {
 public:
  Call(const Arguments& arguments, const Operation& operation, const Positions& positions)
      : arguments_(arguments), operation_(operation), positions_(positions), out_(arguments.out(positions.out)) {
    for (std::uint32_t i = 0; i < operation.operands; ++i) {
      const std::uint32_t position = positions.operands[i];
      if (arguments.kind(position) == ValueKind::TENSOR) tensors_[i] = &arguments.tensor(position);
    }
  }

  void run() const {
    const Types types = choose_types();
    if (out_.elements == 0) return;
    if (types.compute == ScalarType::DOUBLE) return loop<double>(types, operation_.twofold);
    if (is_floating(types.compute)) return loop<float>(types, operation_.single);
    loop<std::int64_t>(types, operation_.whole);
  }

 private:
  [[noreturn]] void reject_types(ScalarType type) const {
    arguments_.reject(Text() << type_name(type) << " to " << type_name(out_.type) << " is not supported");
  }

  Types choose_types() const {
    if (tensors_[0] == nullptr && (operation_.promoted < 2 || tensors_[1] == nullptr)) {
      arguments_.reject(Text() << "argument " << std::uint32_t{positions_.operands[0]} << " is not a tensor");
    }
    const ScalarType promoted = promote_operands();
    if (store_as<float>(out_.type) == nullptr || store_as<float>(promoted) == nullptr) reject_types(promoted);
    // By every rule, half and bfloat16 are computed as floats.
    ScalarType compute = is_floating(promoted) && promoted != ScalarType::DOUBLE ? ScalarType::FLOAT : promoted;
    bool fits = can_cast(promoted, out_.type);
    switch (operation_.typing) {
      case Typing::PROMOTED:
        break;
      case Typing::DIVIDING:
        fits = fits && promoted != ScalarType::BOOL;
        break;
      case Typing::SAME:
        fits = promoted == out_.type;
        break;
      case Typing::BY_FLOAT:
        fits = promoted == out_.type && promoted != ScalarType::BOOL;
        if (promoted != ScalarType::DOUBLE) compute = ScalarType::FLOAT;
        break;
      case Typing::BITWISE:
        fits = fits && is_integral(promoted);
        break;
      case Typing::FLOATING:
        fits = is_floating(out_.type);
        if (!is_floating(promoted)) compute = ScalarType::FLOAT;
        break;
      case Typing::POWER:
        fits = fits && promoted != ScalarType::BOOL;
        if (compute != ScalarType::FLOAT) compute = ScalarType::DOUBLE;
        break;
      case Typing::COMPARISON:
        fits = true;
        if (is_floating(promoted) && tensors_[0] != nullptr && tensors_[1] != nullptr &&
            tensors_[0]->type != tensors_[1]->type) {
          compute = ScalarType::FLOAT;
        }
        break;
      case Typing::TRUTH:
        fits = true;
        compute = ScalarType::DOUBLE;
        break;
    }
    if (!fits) reject_types(promoted);
    return {promoted, compute};
  }

  ScalarType promote_operands() const {
    // Tensors come first: the effect of a number's type depends on them.
    bool any = false;
    ScalarType promoted = ScalarType::BOOL;
    for (std::uint32_t i = 0; i < operation_.promoted; ++i) {
      if (tensors_[i] == nullptr) continue;
      if (load_as<float>(tensors_[i]->type) == nullptr) reject_types(tensors_[i]->type);
      promoted = any ? promote(promoted, tensors_[i]->type) : tensors_[i]->type;
      any = true;
    }
    for (std::uint32_t i = 0; i < operation_.promoted; ++i) {
      if (tensors_[i] == nullptr) promoted = promote_with_number(arguments_, positions_.operands[i], promoted);
    }
    return promoted;
  }

  // Sets the strides of operand `i` along each dimension of the output; 0 where it is repeated. Returns, as bits, the
  // dimensions in which it has the output's size.
  std::uint32_t broadcast_strides(std::uint32_t i, std::uint32_t strides[MAX_RANK]) const {
    const Tensor& tensor = *tensors_[i];
    std::uint32_t own[MAX_RANK] = {};
    element_strides(tensor, own);
    bool fits = tensor.rank <= out_.rank;
    std::uint32_t spanned = 0;
    for (std::uint32_t d = 0; fits && d < out_.rank; ++d) {
      const std::uint32_t missing = out_.rank - tensor.rank;
      strides[d] = 0;
      if (d < missing) continue;
      const bool equal = tensor.sizes[d - missing] == out_.sizes[d];
      spanned |= equal ? 1u << d : 0;
      if (tensor.sizes[d - missing] == 1) continue;
      strides[d] = own[d - missing];
      fits = equal;
    }
    if (!fits) {
      arguments_.reject(Text() << "argument " << std::uint32_t{positions_.operands[i]}
                               << " cannot be broadcast to the output's shape");
    }
    return spanned;
  }

  Walk make_walk() const {
    std::uint32_t strides[1 + OPERANDS][MAX_RANK] = {};
    element_strides(out_, strides[0]);
    std::uint32_t spanned = 0;
    for (std::uint32_t i = 0; i < operation_.operands; ++i) {
      if (tensors_[i] != nullptr) spanned |= broadcast_strides(i, strides[1 + i]);
    }
    if (spanned != (1u << out_.rank) - 1) arguments_.reject(Text() << "the output is larger than what goes into it");
    Walk walk(1u + operation_.operands);
    for (std::uint32_t i = 0; i < out_.rank; ++i) {
      const std::uint8_t dimension = out_.dim_order[i];
      std::uint32_t at[1 + OPERANDS];
      for (std::uint32_t t = 0; t <= OPERANDS; ++t) at[t] = strides[t][dimension];
      walk.add(static_cast<std::uint32_t>(out_.sizes[dimension]), at);
    }
    return walk;
  }

  // Returns a number argument in the compute type. With typing SAME it is first rounded to the output's type, which may
  // be a smaller float type.
  template <typename T>
  T take_number(std::uint32_t position, ScalarType compute) const {
    const T number = convert_number<T>(position, compute);
    if (operation_.typing != Typing::SAME) return number;
    alignas(8) std::uint8_t rounded[8];
    store_as<T>(out_.type)(rounded, number);
    return load_as<T>(out_.type)(rounded);
  }

  template <typename T>
  T convert_number(std::uint32_t position, ScalarType compute) const {
    if (arguments_.kind(position) == ValueKind::DOUBLE) {
      if (is_integral(compute)) {
        arguments_.reject(Text() << "argument " << position << " is a float where " << type_name(compute)
                                 << " is computed");
      }
      return convert<T>(arguments_.real(position));
    }
    const std::int64_t whole = arguments_.integer(position);
    return static_cast<T>(is_integral(compute) ? wrap(compute, whole) : whole);
  }

  template <typename T>
  void loop(const Types& types, T (*function)(T, T, T)) const {
    if (function == nullptr) reject_types(types.promoted);
    T values[OPERANDS] = {};
    const std::uint8_t* data[OPERANDS] = {};
    std::uint32_t sizes[OPERANDS] = {};
    Load<T> loads[OPERANDS] = {};
    for (std::uint32_t i = 0; i < operation_.operands; ++i) {
      if (tensors_[i] == nullptr) {
        values[i] = take_number<T>(positions_.operands[i], types.compute);
        continue;
      }
      data[i] = tensors_[i]->data;
      sizes[i] = element_size(tensors_[i]->type);
      loads[i] = load_as<T>(tensors_[i]->type);
      if (loads[i] == nullptr) reject_types(tensors_[i]->type);
    }
    const Store<T> store = store_as<T>(out_.type);
    const std::uint32_t out_size = element_size(out_.type);
    Walk walk = make_walk();
    do {
      for (std::uint32_t i = 0; i < operation_.operands; ++i) {
        if (loads[i] != nullptr) values[i] = loads[i](data[i] + walk.offset(1 + i) * sizes[i]);
      }
      if constexpr (std::is_integral_v<T>) {
        if (operation_.typing == Typing::DIVIDING && values[1] == 0) arguments_.reject(Text() << "division by zero");
        store(out_.data + walk.offset(0) * out_size, wrap(types.compute, function(values[0], values[1], values[2])));
      } else {
        store(out_.data + walk.offset(0) * out_size, function(values[0], values[1], values[2]));
      }
    } while (walk.next());
  }

  const Arguments& arguments_;
  const Operation& operation_;
  const Positions& positions_;
  Tensor& out_;
  const Tensor* tensors_[OPERANDS] = {};
};

}  // namespace

void run_elementwise(const Arguments& arguments, const Operation& operation, const Positions& positions) {
  Call(arguments, operation, positions).run();
}

}  // namespace ethos_hil
