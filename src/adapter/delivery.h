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

/// Delivers packets to queue pairs: by the destination number, or by the multicast group.
class Delivery {
 public:
  Delivery(const Numbers& numbers, const Multicast& groups, Progress& progress,
           observe::PortCounters& counters)
      : numbers_(numbers), groups_(groups), progress_(progress), counters_(counters) {}

  /// Delivers packets that arrived together from one sender, complete and checked. `group`: zero
  /// for unicast. Called in a pass.
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
