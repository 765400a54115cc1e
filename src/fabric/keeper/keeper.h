#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/os/timer_fd.h"
#include "base/os/unique_fd.h"
#include "base/time.h"
#include "fabric/data/doorbells.h"
#include "fabric/data/end.h"
#include "fabric/data/shared_fabric.h"
#include "fabric/keeper/shared_node_tables.h"
#include "fabric/management/management_net.h"

namespace verbatim::fabric {

/// The daemon's part in the data path. It owns the shared image, into which the agents of all nodes
/// write; gives programs their ends; and does what no program does: it repairs what dead ones have
/// left, serves links that wait for a time when no program runs, and those that a long walk has
/// left. One thread, which sleeps until one of the descriptors is readable.
class Keeper final : public DataCounters {
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
  /// After it has slept: does what there is to do.
  void serve(TimeNs now);

  /// For a program of the host's port: its end, to which all packets go whose queue pair numbers
  /// are in that range of 2^14. EADDRINUSE: they go to another program's; EINVAL, EAGAIN as
  /// `Ends::take`.
  Result<std::uint32_t> attach(PortPlace host, std::uint32_t qpn_range);
  /// The program is no more, or wants no more.
  void bury(std::uint32_t end);
  /// EINVAL: `group` is no multicast LID.
  Result<void> set_member(std::uint32_t end, Lid group, bool is_member);
  /// Of the shared memory, for programs. Borrowed.
  int image() const { return fabric_->fd(); }

  std::unique_ptr<mad::NodeTables> make_tables(std::uint32_t node);
  void add_counters(PortPlace port, mad::PortCounterValues& values) const override;

 private:
  Keeper(std::unique_ptr<SharedFabric> fabric, std::unique_ptr<Mover> mover, TimerFd timer,
         Pace pace);

  std::unique_ptr<SharedFabric> fabric_;
  std::unique_ptr<Mover> mover_;
  End end_;
  TimerFd timer_;
  const Pace pace_;
  Doorbells doorbells_;
  UniqueFd bell_;
  /// As long as programs serve the timed links in time, it looks later.
  TimeNs patience_ = kKeeperPatience;
};

}  // namespace verbatim::fabric
