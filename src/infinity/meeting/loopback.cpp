#include <cerrno>
#include <future>
#include <random>

#include <sys/socket.h>

#include "infinity/failure.h"
#include "infinity/meeting/manager.h"
#include "infinity/meeting/meeting.h"
#include "infinity/meeting/peer.h"

namespace infinity::detail {

struct Loopback {
  static void by_address(const Device& device, queues::QueuePair& queue_pair) {
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
    queue_pair.enroll(&queue_pair);
    queue_pair.activate(peer);
  }

  static void by_manager(const Device& device, queues::QueuePair& queue_pair) {
    auto address = Manager::address_of(device);
    if (!address)
      refuse("QueuePairFactory::createLoopback: rdma_cm knows no IPv4 address of the device");
    queue_pair.twin_ = std::make_unique<queues::QueuePair>(queue_pair.context);
    queues::QueuePair& twin = *queue_pair.twin_;
    queue_pair.enroll(&queue_pair);
    twin.enroll(&queue_pair);

    std::random_device random;
    const std::uint64_t ticket = (std::uint64_t{random()} << 32) | random();
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      fail(errno, "QueuePairFactory::createLoopback: no sockets");
    const Socket watched(ends[0]);
    twin.manager_ = Manager::listen(AF_INET);
    reinterpret_cast<sockaddr_in&>(*address).sin_port = htons(twin.manager_->port());
    auto accepted = std::async(std::launch::async, [&] {
      twin.manager_->accept(device, twin.getQueuePairNumber(), ticket, watched.get());
    });
    const Socket ours(ends[1]);  // Closed before the wait for `accepted`, if `connect` throws.
    queue_pair.manager_ =
        Manager::connect(device, *address, queue_pair.getQueuePairNumber(), ticket);
    accepted.get();
  }
};

void connect_to_itself(Device& device, queues::QueuePair& queue_pair) {
  if (device.is_iwarp) {
    Loopback::by_manager(device, queue_pair);
  } else {
    Loopback::by_address(device, queue_pair);
  }
}

}  // namespace infinity::detail
