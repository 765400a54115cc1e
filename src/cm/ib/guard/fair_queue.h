#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "cm/ib/guard/source.h"
#include "cm/messages.h"

namespace verbatim::cm {

/// Waiting connections, ordered by age and by the address that asked for them. If the queue is
/// full, the source with the most entries loses its oldest one, so that no source can take all
/// places. Sources with few entries (a 64th of all places) count as equal; among these, the oldest
/// entry is dropped.
class FairQueue {
 public:
  explicit FairQueue(std::size_t places)
      : places_(places), few_(std::max<std::size_t>(places / 64, 1)) {}

  /// `since` grows and is different for each entry.
  void add(const Source& source, std::uint64_t since, ConnectionId id);
  /// Does nothing if there is no such entry.
  void remove(const Source& source, std::uint64_t since);
  bool is_full() const { return size_ >= places_; }
  std::size_t size_of(const Source& source) const;
  /// Returns the entry to drop before a new one of `source` is added to a full queue. Returns
  /// nothing if the new one must be refused, because its own source would lose an entry.
  std::optional<ConnectionId> displaced_by(const Source& source) const;

 private:
  using Entries = std::map<std::uint64_t, ConnectionId>;
  /// Weight, age of the oldest entry (inverted: greater is older), source.
  using Rank = std::tuple<std::size_t, std::uint64_t, Source>;
  Rank rank_of(const Source& network, const Entries& entries) const;

  std::size_t places_, few_;
  std::map<Source, Entries> networks_;
  std::set<Rank> ranks_;
  std::size_t size_ = 0;
};

}  // namespace verbatim::cm
