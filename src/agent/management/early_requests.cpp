#include "agent/management/early_requests.h"

#include <algorithm>

namespace verbatim::agent {

void EarlyRequests::on_listener_gone(Port port, TimeNs now) {
  std::erase_if(listened_until_, [now](const auto& one) { return one.second + kMemory < now; });
  listened_until_[port] = now;
}

bool EarlyRequests::add(std::optional<Port> port, const EarlyRequest& request, TimeNs now) {
  if (waiting_.size() >= kMax) return false;
  std::size_t& count = count_of_[cm::network_of(cm::source_of(request.peer))];
  if (count >= kMaxOfSource) return false;
  ++count;
  const auto listened = port ? listened_until_.find(*port) : listened_until_.end();
  const bool recently = (listened != listened_until_.end() && now <= listened->second + kMemory) ||
                        now < unknown_until_;
  waiting_.push_back(request);
  waiting_.back().due = now + (recently ? kTimeoutAfterListener : kTimeout);
  next_deadline_ = std::min(next_deadline_, waiting_.back().due);
  return true;
}

void EarlyRequests::forget_source(const EarlyRequest& request) {
  const auto found = count_of_.find(cm::network_of(cm::source_of(request.peer)));
  if (--found->second == 0) count_of_.erase(found);
}

void EarlyRequests::find_next_deadline() {
  next_deadline_ = kNever;
  for (const EarlyRequest& request : waiting_) {
    next_deadline_ = std::min(next_deadline_, request.due);
  }
}

}  // namespace verbatim::agent
