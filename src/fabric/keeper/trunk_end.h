#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/os/unique_fd.h"
#include "base/time.h"
#include "fabric/data/doorbells.h"
#include "fabric/data/end.h"
#include "fabric/data/shared_fabric.h"
#include "fabric/trunk/datagram.h"

namespace verbatim::fabric {

/// A trunk in the data path: an end in the place of a port's cable. What leaves by the port is
/// taken out here, and what comes from the other side is posted here, as a program does it. The
/// credits of what leaves are those of the buffer behind the peer's port: both sides count the same
/// packets from the session's begin.
class TrunkEnd {
 public:
  /// `end`: of `Ends::take_trunk`.
  TrunkEnd(SharedFabric& fabric, Mover& mover, std::uint32_t end, UniqueFd bell);

  /// Readable when packets, credits or slots have come for which this sleeps.
  int bell() const { return bell_.get(); }
  /// False: there is something already. `has_room`: packets that leave are something.
  bool begin_sleep(bool has_room);
  void end_sleep() { end_.end_sleep(); }
  void on_bell() const { Doorbells::silence(bell_.get()); }

  /// Both sides begin to count. Nothing leaves before the peer has told its limits. Requires that
  /// the port is down.
  void begin_session();
  /// All that was to leave is lost, as on a cut cable. Requires that the port is down.
  void end_session();

  /// Calls `sink(packet)` for packets that leave, LRH to ICRC, at most `packets_max`. The LRH has
  /// the packet's lane. Returns how many.
  template <typename Sink>
  std::size_t take(TimeNs now, std::size_t packets_max, Sink sink) {
    return end_.receive<End::Credits::of_peer>(
        mover_.walker(), now,
        [&](const IncomingPacket& packet) {
          if (packet.bytes.empty()) return;  // A program has written its length.
          packet.bytes[0] =
              (packet.bytes[0] & std::byte{0x0f}) | static_cast<std::byte>(packet.lane << 4);
          sink(ByteSpan(packet.bytes));
        },
        packets_max);
  }
  void set_peer_limits(const trunk::Limits& limits);

  /// A packet that has come, LRH to ICRC. It moves on with `push`. What is no packet, or comes to a
  /// port that is not armed, or is more than `limits` allow, is dropped.
  void post(ByteSpan packet);
  /// Moves on what was posted, and what waits here for credits and slots that there are now.
  void push();
  /// What the peer may send: as much as a cable's buffer takes, and what waits here.
  trunk::Limits limits() { return shown_ = limits_now(); }

 private:
  /// What moves a packet on: the headers say it.
  struct Facts {
    Lid dlid{};
    PKey p_key{};
    std::uint8_t service_level = 0;
    std::uint8_t lane = 0;
    Qpn destination;
  };
  struct Waiting {
    std::uint32_t blocks = 0;
    std::deque<std::vector<std::byte>> packets{};
  };
  /// A trunk is long: for each lane it has a buffer besides that of the port, as devices that
  /// extend InfiniBand's range do. The credits of a cable would not last for a round trip of two
  /// daemons.
  std::uint32_t waiting_capacity(unsigned lane) const { return 2 * image_.capacity(lane); }
  static std::optional<Facts> facts_of(ByteSpan packet);
  bool post_now(ByteSpan packet, const Facts& facts);
  bool is_armed() const;
  void reset();
  LinkRecord& out() const { return image_.link(image_.to_end(end_.index())); }
  LinkRecord& in() const { return image_.link(image_.from_end(end_.index())); }
  trunk::Limits limits_now() const;

  SharedFabric& fabric_;
  Mover& mover_;
  const Image& image_;
  End end_;
  UniqueFd bell_;
  // Blocks of each lane, ever, when the session began:
  trunk::Limits sent_before_{};    // that had left,
  trunk::Limits posted_before_{};  // and that had come.
  trunk::Limits dropped_{};        // In the session: they take no place in the buffer.
  trunk::Limits shown_{};          // What `limits` has said last.
  std::array<Waiting, trunk::kDataLanes> waiting_;
};

}  // namespace verbatim::fabric
