#pragma once

#include <cstdint>
#include <vector>

#include "base/net/path.h"
#include "base/time.h"
#include "wire/mad/cm_message.h"
#include "wire/mad/management_packet.h"

namespace verbatim::agent {

/// Disconnect requests that the agent sends for killed programs: a DREQ for an established
/// connection, repeated until its DREP comes; one REJ for a connection that was being set up.
class PendingDisconnects {
 public:
  struct Message {
    wire::CmMad mad;
    std::uint32_t address = 0;  // Of the node's: where it leaves from.
    Path path;
    TimeNs due = 0;
    unsigned times_left = 0;
  };

  /// Reads the connection table in a dead program's arena and queues a message for each connection.
  /// -1: the program had no arena.
  void add(int arena_fd, TimeNs now);
  /// Calls `say` for each message that is due, and schedules its repetition.
  template <typename Send>
  void send_due(TimeNs now, Send send) {
    for (Message& message : waiting_) {
      if (message.due > now) continue;
      send(message);
      message.due = now + kRepeatTime;
      --message.times_left;
    }
    std::erase_if(waiting_, [](const Message& message) { return message.times_left == 0; });
  }
  /// A peer's DREP ends its DREQ, if it comes from where that went.
  void on_mad(const Path& source, wire::MadSpan mad);
  TimeNs next_deadline() const;
  bool empty() const { return waiting_.empty(); }

 private:
  static constexpr TimeNs kRepeatTime = 200 * kMillisecond;
  static constexpr unsigned kTimes = 5;
  std::vector<Message> waiting_;
};

}  // namespace verbatim::agent
