#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "connect/connection_service.h"

namespace verbatim::connect {

/// The notes that the agent has of this program's connections, one entry each as long as the agent
/// has something to tell the peer. Peers of connections beyond the table wait for a time-out.
class ConnectionNotes {
 public:
  explicit ConnectionNotes(Host& host) : host_(host) {}

  /// A connection that has begun: nothing is noted yet.
  void begin(ConnectionId id, const Path& path, bool has_sent_reply);
  void set_remote_qpn(ConnectionId id, Qpn qpn);
  void write(ConnectionId id, std::uint32_t remote_id, bool is_established);
  /// Its entry serves the next one. Unknown ids are ignored.
  void end(ConnectionId id);

 private:
  struct Noted {
    ConnectionNote note;
    std::optional<std::uint32_t> entry;
  };
  std::optional<std::uint32_t> take_entry();

  Host& host_;
  std::unordered_map<ConnectionId, Noted> noted_;
  std::vector<std::uint32_t> free_;
  std::uint32_t used_ = 0;  // Entries that were ever taken.
};

}  // namespace verbatim::connect
