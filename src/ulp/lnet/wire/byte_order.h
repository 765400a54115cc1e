#pragma once

#include <bit>
#include <concepts>
#include <cstddef>

#include "base/bytes.h"
#include "ulp/engine/little_endian.h"

namespace verbatim::ulp::lnet {

/// LNet's drivers write in their own order, which a magic number tells; whoever reads turns it.
/// We write little-endian.
enum class Order : bool { little, big };

template <std::unsigned_integral T>
T load(Order order, const std::byte* at) {
  return order == Order::little ? load_le<T>(at) : load_be<T>(at);
}

}  // namespace verbatim::ulp::lnet
