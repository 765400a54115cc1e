#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "base/net/address.h"
#include "cm/ib/guard/source.h"
#include "cm/messages.h"

namespace verbatim::cm {

/// TCP connections that use a descriptor but belong to no program yet, or no more: accepted ones
/// without a Request, and rejected ones that the peer has not closed. Anyone can open them, so
/// their number is limited. A new one is always accepted: if there is no room, the oldest is
/// dropped; if one source has half of the room at one listener, the oldest of that source.
class Strangers {
 public:
  /// Adds it as the newest.
  void add(ConnectionId id, ListenerId listener, const SocketAddress& source);
  /// Does nothing if it is not in the list.
  void remove(ConnectionId id);
  /// Returns the one to drop before another one from `source` is added; nothing if there is room.
  std::optional<ConnectionId> surplus(std::size_t room, ListenerId listener,
                                      const SocketAddress& source) const;
  /// Returns nothing if the list is empty.
  std::optional<ConnectionId> oldest() const;

 private:
  struct Stranger {
    ConnectionId id{};
    ListenerId listener{};
    Source source{};  // The network that counts as one source.
  };

  std::vector<Stranger> all_;  // Oldest first.
};

}  // namespace verbatim::cm
