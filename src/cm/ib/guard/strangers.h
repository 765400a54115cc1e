#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/net/address.h"
#include "cm/ib/guard/source.h"
#include "cm/messages.h"

namespace verbatim::cm {

/// TCP connections that cost a descriptor and belong to no program: accepted ones whose Request has
/// not come, and rejected ones that their peers have not closed. Anybody may open them, so there is
/// room for a number of them. A new one always gets in: where there is no room, the oldest goes,
/// and where those from one source at one listener have half of the room, the oldest of these.
class Strangers {
 public:
  /// As the newest.
  void add(ConnectionId id, ListenerId listener, const SocketAddress& source);
  /// Does nothing for one that is not among them.
  void remove(ConnectionId id);
  /// Who has to go before another from there gets in; nothing if there is room.
  std::optional<ConnectionId> surplus(std::size_t room, ListenerId listener,
                                      const SocketAddress& source) const;
  /// Nothing if there is none.
  std::optional<ConnectionId> oldest() const;

 private:
  struct Stranger {
    ConnectionId id{};
    ListenerId listener{};
    Source source{};  // Its network.
  };

  std::vector<Stranger> all_;  // The oldest first.
};

}  // namespace verbatim::cm
