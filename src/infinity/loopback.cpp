#include "infinity/failure.h"
#include "infinity/manager.h"
#include "infinity/meeting.h"
#include "infinity/peer.h"

namespace infinity::detail {

struct Loopback {
  static void over_roce(const Device& device, queues::QueuePair& queue_pair) {
    PeerAddress peer{.lid = device.port.lid,
                     .mtu = device.port.active_mtu,
                     .queue_pair = queue_pair.getQueuePairNumber(),
                     .sequence_number = queue_pair.getSequenceNumber()};
    if (device.is_ethernet) {
      const auto gid = device.gid_for(in6_addr{}, nullptr);
      if (!gid) refuse("QueuePairFactory::createLoopback: the device has no GID");
      peer.gid = gid->gid;
      peer.own_gid_index = gid->index;
    }
    queue_pair.enroll();
    queue_pair.activate(peer);
  }
};

void connect_to_itself(Device& device, queues::QueuePair& queue_pair) {
  if (device.is_iwarp) refuse("QueuePairFactory::createLoopback: not over iWARP");
  Loopback::over_roce(device, queue_pair);
}

}  // namespace infinity::detail
