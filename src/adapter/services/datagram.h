#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>

#include "adapter/queue_pair/core/core.h"
#include "adapter/queue_pair/core/direct_end.h"
#include "adapter/queue_pair/core/send_work.h"
#include "adapter/services/service.h"
#include "base/net/address.h"
#include "base/time.h"
#include "base/types.h"
#include "port/burst.h"
#include "port/receive_header.h"
#include "port/route.h"
#include "transport/ib/datagram.h"
#include "wire/ib/packet.h"

namespace verbatim::adapter::services {

/// How a UD queue pair reaches one destination. It looks that up once, for programs send to the
/// same ones again and again.
struct DatagramPath {
  std::optional<port::Route> route;  // Of packets.
  std::unique_ptr<DirectLink> link;  // Null: packets, until it is looked for again.
  port::DatagramOrigin origin;       // What the receiver sees of the link.
  TimeNs look_again = 0;
};

struct DatagramPathKey {
  Path path;
  std::uint8_t source_gid_index = 0;
  Qpn qpn;
  friend bool operator==(const DatagramPathKey&, const DatagramPathKey&) = default;
  struct Hash {
    std::size_t operator()(const DatagramPathKey& key) const {
      const auto* const infiniband = std::get_if<InfinibandPath>(&key.path);
      const std::size_t place = infiniband != nullptr
                                    ? std::to_underlying(infiniband->dlid)
                                    : std::hash<SocketAddress>()(address_of(key.path));
      return place * 31 + key.qpn.value();
    }
  };
};
using DatagramPaths = std::unordered_map<DatagramPathKey, DatagramPath, DatagramPathKey::Hash>;

/// UD: each datagram takes its own path, in memory to a program of this machine, else in packets.
class Datagram : public Unacknowledged {
 public:
  Datagram(QueuePairCore& core, DirectEnd& direct) : core_(core), direct_(direct) {}
  void enter(QpState from, QpState to, std::uint32_t changed);
  void transmit(TimeNs now);
  void reset() { paths_.clear(); }
  /// Nothing: it goes over the wire.
  std::optional<transport::Status> send_directly(const SendWork& work, const LocalMemory& local);
  void on_packet(const wire::Packet& packet, const Path& from, const Path& to);
  void on_peer_gone(const DirectPeer& peer);

 private:
  void forget_old_paths();
  /// `now`: 0 reads the clock, if need be.
  const DatagramPath* path_to(const DatagramPathKey& key, TimeNs now = 0);
  std::optional<transport::Status> send_directly(const transport::SendRequest& request,
                                                 const LocalMemory& local, const DatagramPath& path,
                                                 QKey qkey);
  /// Nothing: the link does not take it now.
  std::optional<transport::Status> send(port::Burst& burst, transport::Slot slot, TimeNs now);
  transport::DatagramConfig config() const;
  bool is_own_multicast(const wire::Headers& headers, const Path& from) const;

  QueuePairCore& core_;
  DirectEnd& direct_;
  DatagramPaths paths_;
};

}  // namespace verbatim::adapter::services
