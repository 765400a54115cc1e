#include "ulp/ipoib/arrivals.h"

#include <algorithm>

#include "ulp/ipoib/wire/connected_peer.h"

namespace verbatim::ulp::ipoib {

Arrivals::Answer Arrivals::on_requested(Id id, const Gid& port, ByteSpan private_data, TimeNs now) {
  if (!decode_connected_peer(private_data)) return {.refusal = "no private data of IPoIB"};
  std::size_t of_port = 0;
  auto oldest = all_.end(), oldest_of_port = all_.end();
  for (auto at = all_.begin(); at != all_.end(); ++at) {
    const auto is_older = [&](auto than) {
      return than == all_.end() || at->second.last_used < than->second.last_used;
    };
    if (at->second.is_ending) continue;
    if (is_older(oldest)) oldest = at;
    if (at->second.port != port) continue;
    ++of_port;
    if (is_older(oldest_of_port)) oldest_of_port = at;
  }
  Answer answer;
  const auto replaced = of_port >= kOfOnePort ? oldest_of_port : oldest;
  if (of_port >= kOfOnePort || all_.size() >= kMax) {
    if (replaced == all_.end() || now - replaced->second.last_used < kReplaced)
      return {.refusal = "too many connections"};
    replaced->second.is_ending = true;
    answer.replaced.push_back(replaced->first);
  }
  all_[id] = {.port = port, .last_used = now};
  due_ = std::min(due_, now + kIdle);
  return answer;
}

void Arrivals::on_message(Id id, TimeNs now) {
  if (const auto found = all_.find(id); found != all_.end()) found->second.last_used = now;
}

std::vector<Arrivals::Id> Arrivals::idle(TimeNs now) {
  std::vector<Id> idle;
  if (now < due_) return idle;
  due_ = kNever;
  for (auto& [id, arrival] : all_) {
    if (arrival.is_ending) continue;
    arrival.is_ending = arrival.last_used + kIdle <= now;
    if (arrival.is_ending) idle.push_back(id);
    if (!arrival.is_ending) due_ = std::min(due_, arrival.last_used + kIdle);
  }
  return idle;
}

}  // namespace verbatim::ulp::ipoib
