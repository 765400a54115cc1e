#pragma once

#include <span>

#include "base/net/path.h"
#include "base/time.h"
#include "base/types.h"
#include "wire/ib/packet.h"

namespace verbatim::port {

/// Takes what comes to a port: the adapter's queue pairs, the agent's queue pair 1.
class Receiver {
 public:
  /// Packets that came together from one sender; their ICRC, headers and P_Key are checked. `group`
  /// is zero for unicast. The packets and paths are valid during the call.
  virtual void on_packets(std::span<const wire::Packet> packets, const Path& from, const Path& to,
                          const Gid& group, TimeNs now) = 0;
  /// A link takes packets again after it said no (`link::Link::reserve`).
  virtual void on_room() {}

 protected:
  ~Receiver() = default;
};

}  // namespace verbatim::port
