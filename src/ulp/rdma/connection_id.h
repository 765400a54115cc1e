#pragma once

#include <cstdint>

#include "base/types.h"
#include "ulp/rdma/completions.h"

namespace verbatim::ulp::rdma {

enum class ListenerId : std::uint32_t {};
/// A connection's number (22 bits) and how often the number was used before.
enum class ConnectionId : std::uint32_t {};

constexpr ConnectionId connection_id(std::uint32_t number, std::uint8_t count) {
  return ConnectionId{std::uint32_t{count} << 22 | number};
}
constexpr std::uint32_t number_of(ConnectionId id) {
  return raw(id) & (WorkId::kConnectionsMax - 1);
}
constexpr std::uint8_t count_of(ConnectionId id) {
  return static_cast<std::uint8_t>(raw(id) >> 22);
}

}  // namespace verbatim::ulp::rdma
