#include "agent/early_requests.h"

#include <algorithm>

namespace verbatim::agent {

void EarlyRequests::on_listener_gone(Port port, TimeNs now) {
  std::erase_if(listened_until_, [now](const auto& one) { return one.second + kMemory < now; });
  listened_until_[port] = now;
}

bool EarlyRequests::add(std::optional<Port> port, const EarlyRequest& request, TimeNs now) {
  if (waiting_.size() >= kMax) return false;
  const auto listened = port ? listened_until_.find(*port) : listened_until_.end();
  const bool recently = listened != listened_until_.end() && now <= listened->second + kMemory;
  waiting_.push_back(request);
  waiting_.back().due = now + (recently ? kPatienceAfterListener : kPatience);
  return true;
}

TimeNs EarlyRequests::next_deadline() const {
  TimeNs next = kNever;
  for (const EarlyRequest& request : waiting_) next = std::min(next, request.due);
  return next;
}

}  // namespace verbatim::agent
