#pragma once

#include <cstddef>
#include <span>

#include <infinity/queues/QueuePair.h>

#include "infinity/device.h"
#include "infinity/meeting/exchange.h"
#include "infinity/meeting/sockets.h"

namespace infinity::detail {

/// Connects a queue pair to its peer's over a TCP connection. Throws `Error`.
class Meeting {
 public:
  Meeting(Device& device, queues::QueuePair& queue_pair, const Socket& socket)
      : device_(device), queue_pair_(queue_pair), socket_(socket) {}

  void connect(std::span<const std::byte> user_data);
  void accept(std::span<const std::byte> user_data);

 private:
  void send_greeting(std::span<const std::byte> user_data) const;
  void receive_greeting();
  Offer receive_offer() const;
  void prepare_offer(const SourceGid* peer);
  void activate(const Offer& theirs);
  void activate_by_lid();
  void be_ready() const;

  Device& device_;
  queues::QueuePair& queue_pair_;
  const Socket& socket_;
  Greeting theirs_;
  Offer ours_;
  std::uint8_t own_gid_index_ = 0;
};

/// Over iWARP a queue pair cannot connect to itself: a second one is created, whose messages count
/// as the first one's.
void connect_to_itself(Device& device, queues::QueuePair& queue_pair);

}  // namespace infinity::detail
