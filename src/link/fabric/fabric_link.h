#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "base/os/unique_fd.h"
#include "fabric/data/end.h"
#include "link/fabric/thread_movers.h"
#include "link/link.h"
#include "wire/subnet/notice.h"

namespace verbatim::link {

/// A program's link to its host in an InfiniBand fabric: packets, LRH to ICRC, go into the switches
/// in shared memory, which the program's threads run with all other programs (fabric/data/). They
/// wait for credits, and none is lost for want of room.
class FabricLink final : public Link {
 public:
  /// Which end of the fabric.
  struct Place {
    std::string host;  // By name, or GUID.
    std::uint8_t port = 1;
    std::uint32_t qpn_range = 0;  // Upper 10 bits of the program's queue pair numbers.
  };
  /// Asks the fabric's daemon for an end, over a connection that the calling process has made to
  /// it; `folder` is that of the fabric's files. ENODEV, EADDRINUSE, EAGAIN in words.
  static Result<std::unique_ptr<FabricLink>> attach(UniqueFd connection, const std::string& folder,
                                                    const Place& place);
  /// No thread is in it any more, nor will be.
  ~FabricLink() override;

  /// By the port's MTU and rate of now. Shared memory damages nothing: packets have no CRC.
  Properties properties() const override;
  Result<NextHop*> next_hop(const Path& path, Qpn destination,
                            std::optional<TimeNs> patience) override;
  bool reserve(std::uint8_t lane, const Reservation& room) override;
  void release(std::uint8_t lane, const Reservation& room) override;
  void damage(std::uint8_t lane, std::uint32_t bytes) override;
  int send(const Packets& packets) noexcept override;
  std::size_t receive(Sink& sink, TimeNs now) override;
  /// Packets to the group's LID come, too: of all groups that share it. Asks the daemon.
  Result<void> join(const MulticastGroup& group) override;
  void leave(const MulticastGroup& group) override;
  /// The port's management agent counts a packet that came with a wrong P_Key or Q_Key, and tells
  /// the subnet manager by this trap. Any thread; does not block. Reports of a flood are summed up.
  void report_bad_key(wire::TrapNumber trap, const wire::BadKeyDetails& details);
  const std::atomic<std::uint32_t>* has_packets() const override { return nullptr; }
  std::span<const int> descriptors() const override { return {&descriptor_, 1}; }
  bool begin_sleep() override;

 private:
  class LaneHop;
  FabricLink(std::shared_ptr<AttachedFabric> fabric, UniqueFd connection, UniqueFd bell);
  fabric::LinkRecord& cable() const;
  void release(fabric::Mover* mover, std::uint8_t lane, const Reservation& room);
  Result<void> set_member(Lid group, bool is_member);

  const std::shared_ptr<AttachedFabric> fabric_;
  fabric::End end_;
  std::mutex posting_;  // Guards the half of `end_` that posts.
  struct BadKeys {
    std::atomic<std::uint32_t> unreported = 0;
    std::atomic<TimeNs> next_report = 0;  // When the daemon may be told of them.
  };
  BadKeys bad_p_keys_;
  BadKeys bad_q_keys_;
  std::mutex asking_;                // One request to the daemon at a time. Guards `members_`.
  std::map<Lid, unsigned> members_;  // Joined groups of each multicast LID.
  const UniqueFd connection_;
  const UniqueFd bell_;
  const bool has_foreign_clock_ = fabric::has_foreign_clock();
  const int descriptor_;
  std::array<std::unique_ptr<NextHop>, fabric::kLanes> hops_;  // By lane.
};

}  // namespace verbatim::link
