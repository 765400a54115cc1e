#include "agent/management/early_requests.h"

#include <algorithm>

namespace verbatim::agent {

void EarlyRequests::on_listener_gone(const ServiceRange& services, TimeNs now) {
  std::erase_if(listened_until_, [now](const auto& one) { return one.second + kMemory < now; });
  listened_until_[services] = now;
}

bool EarlyRequests::add(ServiceId service, const EarlyRequest& request, TimeNs now,
                        bool is_expected) {
  if (waiting_.size() >= kMax) return false;
  std::size_t& count = count_of_[cm::network_of(cm::source_of(request.peer))];
  if (count >= kMaxOfSource) return false;
  ++count;
  const bool recently = is_expected || now < unknown_until_ || listened_recently(service, now);
  waiting_.push_back(request);
  waiting_.back().due = now + (recently ? kTimeoutAfterListener : kTimeout);
  next_deadline_ = std::min(next_deadline_, waiting_.back().due);
  return true;
}

bool EarlyRequests::listened_recently(ServiceId service, TimeNs now) const {
  return std::ranges::any_of(listened_until_, [&](const auto& listened) {
    return listened.first.contains(service) && now <= listened.second + kMemory;
  });
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
