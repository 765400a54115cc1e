#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "link/link.h"

namespace verbatim::link {

/// A link around another one. It forwards every call, so a decorator overrides only what it
/// changes. Created once per process and never destroyed (`Stack::set_top`), because a sender may
/// be inside.
class Decorator : public Link {
 public:
  /// Requires that `next` outlives the decorator.
  explicit Decorator(Link& next) : next_(next) {}

  Properties properties() const override { return next_.properties(); }
  Result<NextHop*> next_hop(const Path& path, Qpn destination,
                            std::optional<TimeNs> patience) override {
    return next_.next_hop(path, destination, patience);
  }
  bool reserve(std::uint8_t lane, const Reservation& room) override {
    return next_.reserve(lane, room);
  }
  void release(std::uint8_t lane, const Reservation& room) override { next_.release(lane, room); }
  void damage(std::uint8_t lane, std::uint32_t bytes) override { next_.damage(lane, bytes); }
  int send(const Packets& packets) noexcept override { return next_.send(packets); }
  std::size_t receive(Sink& sink, TimeNs now) override { return next_.receive(sink, now); }
  Result<void> join(const MulticastGroup& group) override { return next_.join(group); }
  void leave(const MulticastGroup& group) override { next_.leave(group); }
  const std::atomic<std::uint32_t>* has_packets() const override { return next_.has_packets(); }
  std::span<const int> descriptors() const override { return next_.descriptors(); }
  bool begin_sleep() override { return next_.begin_sleep(); }

 protected:
  Link& next() const { return next_; }

 private:
  Link& next_;
};

}  // namespace verbatim::link
