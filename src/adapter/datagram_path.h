#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>

#include "adapter/direct_link.h"
#include "adapter/packet_route.h"
#include "base/address.h"
#include "base/time.h"
#include "base/types.h"

namespace verbatim::adapter {

/// How a UD queue pair reaches one destination. It looks that up once, for programs send to the
/// same ones again and again.
struct DatagramPath {
  std::optional<Route> route;        // Of packets.
  std::unique_ptr<DirectLink> link;  // Null: packets, until it is looked for again.
  TimeNs look_again = 0;
};

struct DatagramPlace {
  SocketAddress address;
  std::uint8_t source_gid_index = 0;
  Qpn qpn;
  friend bool operator==(const DatagramPlace&, const DatagramPlace&) = default;
  struct Hash {
    std::size_t operator()(const DatagramPlace& place) const {
      return std::hash<SocketAddress>()(place.address) * 31 + place.qpn.value();
    }
  };
};
using DatagramPaths = std::unordered_map<DatagramPlace, DatagramPath, DatagramPlace::Hash>;

}  // namespace verbatim::adapter
