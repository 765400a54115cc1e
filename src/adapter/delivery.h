#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "adapter/numbers.h"
#include "adapter/progress/progress.h"
#include "base/net/address.h"
#include "base/time.h"
#include "base/types.h"
#include "observe/counters.h"
#include "wire/ib/packet.h"

namespace verbatim::adapter {

class QueuePair;

/// Multicast groups (IBA 10.5) and the UD queue pairs that are in them. Read during turns, changed
/// between them.
struct Group {
  Gid gid;
  std::vector<QueuePair*> members;
};
using Groups = std::vector<Group>;

/// From packets to queue pairs: by the number that they name, or by the group that they came to.
class Delivery {
 public:
  Delivery(const Numbers& numbers, const Groups& groups, Progress& progress,
           observe::PortCounters& counters)
      : numbers_(numbers), groups_(groups), progress_(progress), counters_(counters) {}

  /// Packets that came together from one sender, whole and checked. `group`: zero for unicast.
  /// During a turn.
  void on_packets(std::span<const wire::Packet> packets, const SocketAddress& source,
                  const SocketAddress& destination, const Gid& group, TimeNs now);

 private:
  class Reception;
  std::span<QueuePair* const> members(const Gid& gid) const;

  const Numbers& numbers_;
  const Groups& groups_;
  Progress& progress_;
  observe::PortCounters& counters_;
};

}  // namespace verbatim::adapter
