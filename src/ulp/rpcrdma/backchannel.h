#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <vector>

#include "ulp/rpcrdma/pieces.h"

namespace verbatim::ulp::rpcrdma {

/// Calls of the NFS server to its client on the same connection (RFC 8167), as the side sees them
/// that sends them over RDMA: they go inline, and only as many as the peer has credits for.
class Backchannel {
 public:
  static constexpr std::size_t kWaitingMax = 16;
  static constexpr std::uint32_t kCreditsMax = 64;

  bool may_send() const { return open_.size() < credits_; }
  void on_sent(std::uint32_t xid) { open_.push_back(xid); }
  /// False: no call of this number is open.
  bool on_reply(std::uint32_t xid, std::uint32_t credits) {
    if (std::erase(open_, xid) == 0) return false;
    credits_ = std::clamp(credits, 1u, kCreditsMax);
    return true;
  }

  bool is_full() const { return waiting_.size() >= kWaitingMax; }
  void wait(const Lent& record) { waiting_.push_back(record); }
  bool has_waiting() const { return !waiting_.empty(); }
  Lent next() {
    Lent record = waiting_.front();
    waiting_.pop_front();
    return record;
  }

 private:
  std::vector<std::uint32_t> open_;
  std::uint32_t credits_ = 1;  // RFC 8167: until the peer says more.
  std::deque<Lent> waiting_;
};

}  // namespace verbatim::ulp::rpcrdma
