#include "mad/sma/trap_sender.h"

#include <algorithm>

namespace verbatim::mad {

void TrapSender::raise(std::uint8_t port, const wire::Notice& notice, TimeNs now) {
  const auto same = std::ranges::find_if(pending_, [&](const Pending& pending) {
    return pending.trap.port == port && pending.trap.notice.trap == notice.trap;
  });
  if (same != pending_.end()) pending_.erase(same);
  if (pending_.size() == kTrapsMax) return;
  pending_.push_back({{port, next_transaction_++, notice}, now});
}

std::optional<TrapSender::Due> TrapSender::due(TimeNs now) const {
  const auto found =
      std::ranges::find_if(pending_, [now](const Pending& pending) { return pending.next <= now; });
  if (found == pending_.end()) return std::nullopt;
  return found->trap;
}

void TrapSender::on_sent(std::uint64_t transaction, TimeNs now, TimeNs pace) {
  for (Pending& pending : pending_) {
    if (pending.trap.transaction == transaction) pending.next = now + (pace << pending.sent++);
  }
  std::erase_if(pending_, [](const Pending& pending) { return pending.sent > kRepeatsMax; });
}

bool TrapSender::end(std::uint64_t transaction) {
  return std::erase_if(pending_, [transaction](const Pending& pending) {
           return pending.trap.transaction == transaction;
         }) > 0;
}

TimeNs TrapSender::deadline() const {
  TimeNs first = kNever;
  for (const Pending& pending : pending_) first = std::min(first, pending.next);
  return first;
}

}  // namespace verbatim::mad
