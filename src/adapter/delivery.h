#pragma once

#include <span>

#include "adapter/numbers.h"
#include "adapter/progress/progress.h"
#include "base/net/address.h"
#include "base/time.h"
#include "base/types.h"
#include "observe/counters.h"
#include "wire/ib/packet.h"

namespace verbatim::adapter {

class Multicast;

/// From packets to queue pairs: by the number that they name, or by the group that they came to.
class Delivery {
 public:
  Delivery(const Numbers& numbers, const Multicast& groups, Progress& progress,
           observe::PortCounters& counters)
      : numbers_(numbers), groups_(groups), progress_(progress), counters_(counters) {}

  /// Packets that came together from one sender, whole and checked. `group`: zero for unicast.
  /// During a turn.
  void on_packets(std::span<const wire::Packet> packets, const SocketAddress& source,
                  const SocketAddress& destination, const Gid& group, TimeNs now);

 private:
  class Reception;

  const Numbers& numbers_;
  const Multicast& groups_;
  Progress& progress_;
  observe::PortCounters& counters_;
};

}  // namespace verbatim::adapter
