#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/os/timer_fd.h"
#include "base/os/unique_fd.h"
#include "base/time.h"
#include "fabric/data/doorbells.h"
#include "fabric/data/end.h"
#include "fabric/data/shared_fabric.h"
#include "fabric/keeper/shared_node_tables.h"
#include "fabric/keeper/trunk_end.h"
#include "fabric/management/management_net.h"

namespace verbatim::fabric {

/// The daemon's part in the data path. It owns the shared image, into which the agents of all nodes
/// write; gives programs their ends; and does what no program does: it repairs what dead ones have
/// left, serves links that wait for a time when no program runs, and those that a long walk has
/// left. One thread, which sleeps until one of the descriptors is readable.
class Keeper final : public DataCounters, public LinkWatcher {
 public:
  using Pace = SharedNodeTables::Pace;
  static Result<std::unique_ptr<Keeper>> create(const Topology& topology, Pace pace);

  /// Programs find the doorbells in `folder` from now on.
  Result<void> open(const std::string& folder);
  int bell() const { return bell_.get(); }
  int timer() const { return timer_.fd(); }

  /// Before the thread sleeps: whoever has something for it rings from now on. False: there is
  /// something already.
  bool begin_sleep();
  /// `bell` is readable: takes the rings.
  void on_bell();
  /// After it has slept: does what there is to do. `now` is of the fabric's clock.
  void serve(TimeNs now);

  /// What programs have sent to queue pair 1 of a node since the last call: an agent's question.
  struct Arrived {
    PortPlace port;  // Through which it has come.
    ManagementDatagram datagram;
  };
  std::vector<Arrived> take_datagrams() { return std::exchange(arrived_, {}); }
  /// The other way: a datagram has arrived at the host's port, and is for a program's queue pair.
  /// It is lost if there is no room.
  void hand_over(PortPlace port, const ManagementDatagram& datagram);

  /// For a program of the host's port: its end, to which all packets go whose queue pair numbers
  /// are in that range of 2^14. EADDRINUSE: they go to another program's; EINVAL, EAGAIN as
  /// `Ends::take`.
  Result<std::uint32_t> attach(PortPlace host, std::uint32_t qpn_range);
  /// The program is no more, or wants no more.
  void bury(std::uint32_t end);
  /// EINVAL: `group` is no multicast LID.
  Result<void> set_member(std::uint32_t end, Lid group, bool is_member);
  /// The cable's bits are wrong at this rate:
  /// `ManagementNet::set_bit_error_rate`.
  void set_bit_error_rate(std::uint32_t cable, double rate);
  /// Ports that have counted LocalLinkIntegrityErrors since they were named last: each is named
  /// once a second at most.
  std::vector<PortPlace> take_integrity_errors(TimeNs now);
  /// What crosses the cable goes to the image's tap, too; management datagrams by `on_crossing`.
  void set_watched(std::uint32_t cable, bool is_watched);
  void on_crossing(std::uint32_t cable, bool from_b, const ManagementDatagram& datagram,
                   bool is_damaged) override;
  /// Of the shared memory, for programs. Borrowed.
  int image() const { return fabric_->fd(); }

  /// A trunk in the place of a cable. EINVAL, EBUSY, EAGAIN as `Ends::take_trunk`.
  Result<std::unique_ptr<TrunkEnd>> plug_trunk(PortPlace place);
  /// What is wrong in the shared memory now (audit.h), a sentence each.
  std::vector<std::string> audit() const;
  std::unique_ptr<mad::NodeTables> make_tables(std::uint32_t node);
  void add_counters(PortPlace port, mad::PortCounterValues& values) const override;

 private:
  Keeper(std::unique_ptr<SharedFabric> fabric, std::unique_ptr<Mover> mover, TimerFd timer,
         Pace pace);

  void set_timer(TimeNs due);

  std::unique_ptr<SharedFabric> fabric_;
  std::unique_ptr<Mover> mover_;
  End end_;
  TimerFd timer_;
  TimeNs due_ = kNever;  // When it expires, by the fabric's clock.
  const Pace pace_;
  Doorbells doorbells_;
  UniqueFd bell_;
  struct Known {
    std::uint32_t integrity_errors = 0;
    TimeNs next = 0;  // When more may be told.
  };
  void on_packet(const IncomingPacket& packet);

  std::vector<Arrived> arrived_;
  std::map<LinkIndex, Known> noisy_links_;  // With bit errors.
  /// As long as programs serve the timed links in time, it looks later.
  TimeNs patience_ = kKeeperPatience;
};

}  // namespace verbatim::fabric
