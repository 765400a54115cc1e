#pragma once

#include <cstddef>
#include <map>

#include "base/net/path.h"
#include "base/time.h"
#include "cm/ib/guard/source.h"

namespace verbatim::agent {

/// Counts each source's requests in the current tenth of a second, so that sources with few
/// requests have priority over those with many.
class RequestRates {
 public:
  static constexpr TimeNs kWindow = 100 * kMillisecond;
  static constexpr std::size_t kFew = 32;
  /// Further sources are not counted and treated as sending few.
  static constexpr std::size_t kSourcesMax = 4096;

  /// Counts a request. Returns true if its source has sent at most `kFew` in this window.
  bool count(const Path& from, TimeNs now) {
    if (now >= end_) {
      counts_.clear();
      end_ = now + kWindow;
    }
    const cm::Source source = cm::network_of(cm::source_of(from));
    if (counts_.size() >= kSourcesMax && !counts_.contains(source)) return true;
    return ++counts_[source] <= kFew;
  }

 private:
  TimeNs end_ = 0;
  std::map<cm::Source, std::size_t> counts_;
};

}  // namespace verbatim::agent
