#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/time.h"
#include "ulp/ipoib/outputs.h"

namespace verbatim::ulp::ipoib {

/// The multicast groups that an interface sends to or listens to, in one partition. A pure step.
class Groups {
 public:
  static constexpr std::size_t kGroupsMax = 1024, kWaiting = 64;  // As Linux.
  static constexpr TimeNs kIdle = 300 * kSecond;                  // Who only sends leaves after it.
  static constexpr TimeNs kJoinAgain = kSecond, kJoinAgainMax = 16 * kSecond;

  Groups(std::vector<Packet>& released, SenderCounters& counters)
      : released_(released), counters_(counters) {}

  void send(const Gid& group, EtherType type, ByteSpan packet, TimeNs now, Outputs& out);
  /// Each `listen` needs an `unlisten`.
  void listen(const Gid& group, TimeNs now, Outputs& out);
  void unlisten(const Gid& group, TimeNs now);
  /// Empty: the subnet administrator refuses, or does not answer.
  void on_group(const Gid& group, std::optional<WayId> way, TimeNs now, Outputs& out);

  void on_time(TimeNs now, Outputs& out);
  TimeNs deadline() const { return due_; }

  struct Shown {
    Gid group;
    bool is_ready = false, receives = false;
  };
  std::vector<Shown> shown() const;

 private:
  struct Held {
    EtherType type{};
    Packet packet;
  };
  struct Group {
    bool is_asked = false;
    std::optional<WayId> way;
    std::uint32_t listeners = 0;
    bool receives = false;  // As last asked for.
    unsigned failures = 0;
    TimeNs due = kNever;  // Joins again; or leaves, if nothing was sent to it meanwhile.
    TimeNs last_used = 0;
    std::vector<Held> waiting;
  };
  using Map = std::map<Gid, Group>;

  Group* group_at(const Gid& gid, std::uint32_t listeners, TimeNs now, Outputs& out);
  void leave(Map::iterator group, Outputs& out);
  bool make_room(Outputs& out);
  void join(const Gid& gid, Group& group, Outputs& out);
  void set_due(Group& group, TimeNs due);
  void release(Group& group, Outputs& out);

  Map groups_;
  std::vector<Packet>& released_;
  SenderCounters& counters_;
  TimeNs due_ = kNever;  // No later than that of any group.
};

}  // namespace verbatim::ulp::ipoib
