#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include <sys/uio.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/net/address.h"
#include "base/net/path.h"
#include "base/time.h"
#include "base/types.h"
#include "wire/net/icrc.h"

/// Links carry packets: they do all input and output of a port (docs/design.md). The port defines
/// the packets' content.
namespace verbatim::link {

/// A next hop: a send socket, a MAC, an output lane. Created and owned by the link, which never
/// frees it; routes keep pointers to it.
class NextHop {
 public:
  NextHop() = default;
  NextHop(const NextHop&) = delete;
  NextHop& operator=(const NextHop&) = delete;
  virtual ~NextHop() = default;
  /// The address that packets are sent from; with RoCE v2 it has the send socket's own UDP port.
  const SocketAddress& local() const { return local_; }
  /// InfiniBand: the virtual lane of the path's service level.
  std::uint8_t lane() const { return lane_; }

 protected:
  SocketAddress local_;
  std::uint8_t lane_ = 0;
};

/// Room that a lossless link sets aside: so many packets, whose bytes take so many blocks of its
/// credits (IBA 7.9).
struct Reservation {
  static constexpr std::uint32_t kBlockBytes = 64;
  std::uint32_t packets = 0;
  std::uint32_t blocks = 0;
  /// The VCRC takes room, too, but is not among a packet's bytes.
  static constexpr Reservation of(std::size_t packet_bytes, std::uint32_t packets = 1) {
    constexpr std::size_t kVcrcBytes = 2;
    const std::size_t blocks = (packet_bytes + kVcrcBytes + kBlockBytes - 1) / kBlockBytes;
    return {packets, packets * static_cast<std::uint32_t>(blocks)};
  }
  friend bool operator==(const Reservation&, const Reservation&) = default;
};

/// Packets that are sent together, all but the last `packet_bytes` long (the last may be shorter),
/// and all to one queue pair. Their bytes are borrowed until `Link::send` returns: a decorator that
/// needs them longer copies them.
struct Packets {
  NextHop& to;
  const Path& path;
  /// A decorator that removes a packet needs this to compute the others' ICRCs again: the kernel
  /// numbers the datagrams of one call 0, 1, 2... in the IP identification (wire/net/icrc.h).
  const wire::IcrcSeed& seed;
  std::span<const iovec> pieces;
  std::size_t packet_bytes;
  std::uint32_t count;
  std::uint8_t lane;       // InfiniBand's virtual lane; otherwise 0.
  Reservation spare = {};  // Reserved, but not needed: `Link::send` gives it back.
};

/// Packets that arrived together from one sender, all but the last `packet_bytes` long.
struct Received {
  /// Source and destination; null if the packets contain them (GRH, LRH).
  const Path* from;
  const Path* to;
  Gid group;  // Zero: unicast.
  std::size_t packet_bytes;
  MutableByteSpan bytes;  // Valid during the call.
  /// The IPv4 identification of the first packet, where the link sees it: the ICRC covers it.
  std::uint16_t identification = 0;
};

/// Receives packets from a link.
class Sink {
 public:
  virtual void on_packets(const Received& packets, TimeNs now) = 0;
  /// A lossless link has room again after `Link::reserve` said no.
  virtual void on_room() {}

 protected:
  ~Sink() = default;
};

/// What a link's packets begin with: the headers before it are the link's.
enum class FirstHeader : std::uint8_t { bth, grh, lrh };

struct Properties {
  FirstHeader first_header = FirstHeader::bth;
  std::uint32_t packet_bytes_max = 0;
  std::uint32_t rate_mbps = 0;   // 0: nobody knows.
  bool lossless = false;         // It has credits: `reserve` is asked before a packet is made.
  bool checks_integrity = true;  // Else its bytes cannot be damaged: packets need no ICRC.
  bool asks_kernel = true;       // `receive` is a system call, even where nothing has come.
};

/// A link of a port. Decorators derive from it and contain the next link (link/decorators/).
class Link {
 public:
  Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  virtual ~Link() = default;

  virtual Properties properties() const = 0;
  /// Returns the next hop for packets to that queue pair. Called at RTR and for address handles;
  /// waits for neighbour discovery for `patience` (none: as long as a sender may wait).
  /// EHOSTUNREACH, ENOBUFS... Any thread.
  virtual Result<NextHop*> next_hop(const Path& path, Qpn destination,
                                    std::optional<TimeNs> patience) = 0;
  /// Lossless: sets all of the room aside, or returns false. If it refuses a single packet,
  /// `receive` calls `Sink::on_room` once there is some, and `descriptors` become readable. A lossy
  /// link always returns true. Any thread.
  virtual bool reserve(std::uint8_t lane, const Reservation& room) = 0;
  /// Gives room back that no packet needs. A packet that is sent takes that of its size.
  virtual void release(std::uint8_t lane, const Reservation& room) = 0;
  /// A packet with a reservation is damaged on its cable, instead of being sent: the port at the
  /// other end finds it by its CRC, counts it and drops it.
  virtual void damage(std::uint8_t lane, std::uint32_t bytes) {
    release(lane, Reservation::of(bytes));
  }
  /// 0, or an errno value: then the packets count as lost. Any thread, under a queue pair's lock:
  /// it never sleeps longer than a full socket buffer lasts.
  virtual int send(const Packets& packets) noexcept = 0;
  /// Receives a bounded number of packets without blocking. Returns the number of calls of `sink`.
  /// One thread at a time (within a pass).
  virtual std::size_t receive(Sink& sink, TimeNs now) = 0;
  /// Also receives packets to that multicast group.
  virtual Result<void> join(const MulticastGroup& group) = 0;
  virtual void leave(const MulticastGroup& group) = 0;
  /// Not zero: `receive` would return packets. Null: only the kernel knows, by `descriptors`.
  virtual const std::atomic<std::uint32_t>* has_packets() const = 0;
  /// Readable when something has come, or room for which `reserve` has failed: for the background
  /// thread's epoll. Borrowed.
  virtual std::span<const int> descriptors() const = 0;
  /// Before a thread sleeps on `descriptors`. False: there is something to receive already. A link
  /// in shared memory makes them readable only for a thread that has said that it sleeps.
  virtual bool begin_sleep() { return true; }
};

/// A link with its decorators. A decorator is created once per process and never destroyed, because
/// a sender may be inside.
class Stack final {
 public:
  explicit Stack(std::unique_ptr<Link> base) : base_(std::move(base)), top_(base_.get()) {}
  Link& base() const { return *base_; }
  Link& top() const { return *top_.load(std::memory_order_acquire); }
  /// Called at the start, or by the thread that handles the agent's messages. `link` must outlive
  /// all senders of the process.
  void set_top(Link& link) { top_.store(&link, std::memory_order_release); }

 private:
  const std::unique_ptr<Link> base_;
  std::atomic<Link*> top_;
};

}  // namespace verbatim::link
