#include "cm/ib/guard/fair_queue.h"

namespace verbatim::cm {

FairQueue::Rank FairQueue::rank_of(const Source& network, const Entries& entries) const {
  return {std::max(entries.size(), few_), ~entries.begin()->first, network};
}

void FairQueue::add(const Source& source, std::uint64_t since, ConnectionId id) {
  const Source network = network_of(source);
  Entries& entries = networks_[network];
  if (!entries.empty()) ranks_.erase(rank_of(network, entries));
  entries.emplace(since, id);
  ranks_.insert(rank_of(network, entries));
  ++size_;
}

void FairQueue::remove(const Source& source, std::uint64_t since) {
  const Source network = network_of(source);
  const auto found = networks_.find(network);
  if (found == networks_.end() || !found->second.contains(since)) return;
  Entries& entries = found->second;
  ranks_.erase(rank_of(network, entries));
  entries.erase(since);
  --size_;
  if (entries.empty()) {
    networks_.erase(found);
  } else {
    ranks_.insert(rank_of(network, entries));
  }
}

std::size_t FairQueue::size_of(const Source& source) const {
  const auto found = networks_.find(network_of(source));
  return found == networks_.end() ? 0 : found->second.size();
}

std::optional<ConnectionId> FairQueue::displaced_by(const Source& source) const {
  if (ranks_.empty()) return std::nullopt;
  const auto& [weight, age, network] = *ranks_.rbegin();
  if (network == network_of(source) || weight < size_of(source) + 1) return std::nullopt;
  return networks_.at(network).begin()->second;
}

}  // namespace verbatim::cm
