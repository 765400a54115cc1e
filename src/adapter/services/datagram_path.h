#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>

#include "adapter/direct/direct_link.h"
#include "base/net/address.h"
#include "base/time.h"
#include "base/types.h"
#include "port/route.h"

namespace verbatim::adapter {

/// How a UD queue pair reaches one destination. It is looked up once, because programs send to the
/// same destinations repeatedly.
struct DatagramPath {
  std::optional<port::Route> route;  // For packets.
  std::unique_ptr<DirectLink> link;  // Null: uses packets, until it is looked up again.
  TimeNs look_again = 0;
};

struct DatagramPathKey {
  SocketAddress address;
  std::uint8_t source_gid_index = 0;
  Qpn qpn;
  friend bool operator==(const DatagramPathKey&, const DatagramPathKey&) = default;
  struct Hash {
    std::size_t operator()(const DatagramPathKey& key) const {
      return std::hash<SocketAddress>()(key.address) * 31 + key.qpn.value();
    }
  };
};
using DatagramPaths = std::unordered_map<DatagramPathKey, DatagramPath, DatagramPathKey::Hash>;

}  // namespace verbatim::adapter
