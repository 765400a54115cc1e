#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "connect/connection_service.h"

namespace verbatim::connect {

/// Notes on this program's connections for the agent, which disconnects the peers if the program
/// dies: one entry per connection that needs it. Peers of connections beyond the table wait for a
/// time-out.
class ConnectionNotes {
 public:
  explicit ConnectionNotes(Host& host) : host_(host) {}

  /// A connection begins; nothing is noted yet.
  void begin(ConnectionId id, const Path& path, bool has_sent_reply);
  void set_remote_qpn(ConnectionId id, Qpn qpn);
  void write(ConnectionId id, std::uint32_t remote_id, bool is_established);
  /// Frees the connection's entry. Ignores unknown ids.
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
  std::uint32_t used_ = 0;  // Entries that were ever used.
};

}  // namespace verbatim::connect
