#include "agent/identity/view.h"
#include "agent/server/server.h"

/// The port's counters in the view, by which readers see traffic without a request to the agent.
namespace verbatim::agent {
namespace {

/// Maximum age of the view's counters. An update costs one read call per program.
constexpr TimeNs kCountersAge = kSecond;

}  // namespace

TimeNs Server::counters_deadline() const {
  const bool nothing_changes = connection_of_slot_.empty() && totals_of_the_gone_ == totals_shown_;
  return nothing_changes ? kNever : counters_deadline_;
}

PortTotals Server::port_totals_now() const {
  PortTotals totals = totals_of_the_gone_;
  for (const auto& [slot, fd] : connection_of_slot_) {
    const auto found = connections_.find(fd);
    if (found != connections_.end() && found->second.program) {
      totals += port_totals(found->second.program->arena());
    }
  }
  return totals;
}

void Server::look_at_counters() {
  const TimeNs now = monotonic_now();
  if (now < counters_deadline_) return;
  counters_deadline_ = now + kCountersAge;
  const PortTotals totals = port_totals_now();
  if (totals == totals_shown_) return;
  if (!fabric_) {
    show_counters(folder_.view(options_.node), slots_->node(), totals_shown_, totals);
  }
  totals_shown_ = totals;
}

}  // namespace verbatim::agent
