#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/time.h"
#include "wire/subnet/notice.h"

namespace verbatim::mad {

/// Traps of a node on their way to its subnet manager: each is repeated until the manager represses
/// it (IBA 13.4.9), at most `kRepeatsMax` times. Each pause is twice as long as the one before, so
/// that a manager that has vanished costs an idle fabric nothing; one that comes later sweeps.
class TrapSender {
 public:
  /// Of more, the manager has enough to do.
  static constexpr std::size_t kTrapsMax = 16;
  static constexpr std::uint8_t kRepeatsMax = 8;

  explicit TrapSender(std::uint64_t first_transaction) : next_transaction_(first_transaction) {}

  /// `port` sends the trap, at once. It replaces one of this number that the port still repeats.
  void raise(std::uint8_t port, const wire::Notice& notice, TimeNs now);

  struct Due {
    std::uint8_t port = 0;
    std::uint64_t transaction = 0;
    wire::Notice notice;
  };
  /// A trap that is to be sent now, until `on_sent` or `end`.
  std::optional<Due> due(TimeNs now) const;
  /// `pace`: the first pause.
  void on_sent(std::uint64_t transaction, TimeNs now, TimeNs pace);
  /// The manager has repressed it. Returns false if it is no trap of this node.
  bool end(std::uint64_t transaction);

  TimeNs deadline() const;

 private:
  struct Pending {
    Due trap;
    TimeNs next = 0;
    std::uint8_t sent = 0;  // How often.
  };
  std::vector<Pending> pending_;
  std::uint64_t next_transaction_;
};

}  // namespace verbatim::mad
