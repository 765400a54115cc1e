#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "arena/node.h"
#include "base/append_only_list.h"
#include "base/error.h"
#include "base/net/address.h"
#include "base/net/path.h"
#include "base/time.h"
#include "base/types.h"
#include "link/link.h"
#include "observe/counters.h"
#include "port/address_vector.h"
#include "port/pkey_table.h"
#include "port/receive.h"
#include "port/receiver.h"
#include "port/route.h"

namespace verbatim::port {

using arena::GidEntry;

inline constexpr std::size_t kGidsMax = 32;  // The number of bits in PortState.

/// InfiniBand: the LIDs that the subnet manager has given the port. Their low `lmc` bits are path
/// bits: they choose one of several ways to the port (IBA 7.11.1).
struct LidRange {
  Lid base{};
  std::uint8_t lmc = 0;  // 0 to 7.

  std::uint16_t mask() const { return static_cast<std::uint16_t>((1u << lmc) - 1); }
  Lid with(std::uint8_t path_bits) const {
    return Lid{static_cast<std::uint16_t>(raw(base) | (path_bits & mask()))};
  }
  bool contains(Lid lid) const {
    return base != Lid{} && (raw(lid) & ~mask()) == (raw(base) & ~mask());
  }
  std::uint8_t path_bits(Lid lid) const { return static_cast<std::uint8_t>(raw(lid) & mask()); }
  friend bool operator==(const LidRange&, const LidRange&) = default;
};

/// What the agent tells of the network behind the port.
struct PortState {
  std::uint32_t gids = ~0u;  // Bit i: entry i of the GID table is valid.
  bool is_present = true;    // False: the interface was removed, and with it the adapter.
  bool is_active = true;
  Mtu active_mtu = Mtu::k4096;  // Changes without an event, as in kernel drivers.

  bool has_gid(std::size_t index) const { return (gids >> index & 1) != 0; }
  friend bool operator==(const PortState&, const PortState&) = default;
};

/// One port: its GID table, its links, its state. It resolves where packets go, and makes packets
/// of what its links receive. Thread-safe but for what says otherwise.
class Port {
 public:
  /// `number`: from 1, among the adapter's. `receiver` and `counters` outlive it.
  /// `interface_index`: scope of link-local addresses.
  Port(std::uint8_t number, Receiver& receiver, observe::PortCounters& counters,
       std::uint32_t interface_index)
      : number_(number),
        interface_index_(interface_index),
        decapsulation_(number, receiver, counters, interface_index) {}

  std::uint8_t number() const { return number_; }

  /// The next entry of the GID table, which has room: GIDs of one address share its link, which is
  /// there as long as the port. One thread at a time, and while nobody receives.
  void add_gid(const GidEntry& entry, std::unique_ptr<link::Link> link);
  void add_gid(const GidEntry& entry, link::Stack& links);
  /// Null if no GID has this address yet.
  link::Stack* links_of(const SocketAddress& address) const;
  /// GIDs of InfiniBand have no address.
  bool is_infiniband() const { return gids_.size() != 0 && gids_[0].address.empty(); }
  std::span<const GidEntry> gids() const { return gids_.elements(); }
  /// An entry's GID as it is now: over InfiniBand `gids` has the one that it was added with.
  Gid gid(std::size_t index) const;
  /// InfiniBand: the subnet has this prefix from now on (IBA 4.1.1), in paths that are asked for.
  void set_gid_prefix(std::uint64_t prefix) {
    gid_prefix_.store(prefix, std::memory_order_relaxed);
  }
  /// Of a GID that is there. What is put around its link (`set_top`, link/link.h) carries what all
  /// queue pairs send that name it, and what comes to its address.
  link::Stack& links(std::size_t gid_index) const { return *links_[gid_index]; }
  /// For the background thread's epoll: readable when `receive` has something.
  std::vector<int> descriptors() const;

  LidRange lids() const { return lids_.load(std::memory_order_relaxed); }
  void set_lids(LidRange lids) { lids_.store(lids, std::memory_order_relaxed); }

  PKeyTable& pkeys() { return pkeys_; }
  const PKeyTable& pkeys() const { return pkeys_; }

  /// Where an address vector of this port leads. EINVAL if a GID leads nowhere, and if the GID
  /// index does not exist.
  Result<Path> path_to(const AddressVector& vector) const;
  /// How packets get from a GID to that queue pair; `patience` as `link::Link::next_hop` has it.
  /// EINVAL if the path is another port's.
  Result<Route> route(std::size_t gid_index, const Path& path, Qpn destination,
                      std::optional<TimeNs> patience = {}) const;
  /// Both: EINVAL, EHOSTUNREACH.
  Result<Route> resolve(const AddressVector& vector, Qpn destination,
                        std::optional<TimeNs> patience) const;

  /// Packets of a multicast group come, too, over each RoCE version that the port has. EPERM for
  /// version 1 without CAP_NET_RAW. Not while somebody receives, as `leave`.
  Result<void> join(const MulticastGroup& group);
  void leave(const MulticastGroup& group);
  /// Takes what is there, bounded, without blocking, and hands it to the receiver. Returns how many
  /// times a link had something. One thread at a time.
  std::size_t receive(TimeNs now) {
    std::size_t received = 0;
    for (const auto& link : attached_) received += link->links.top().receive(*link, now);
    return received;
  }

  /// Before a thread sleeps on `descriptors`. Returns false if a link has something already. Not
  /// while somebody receives.
  bool begin_sleep();
  /// `receive` takes system calls.
  bool asks_kernel() const;

  PortState state() const { return state_.load(std::memory_order_relaxed); }
  /// Returns the state before.
  PortState set_state(PortState next) { return state_.exchange(next, std::memory_order_relaxed); }

 private:
  /// A link of the port, and what comes over it.
  struct Attached final : link::Sink {
    Attached(std::unique_ptr<link::Link> link, Decapsulation& into)
        : links(std::move(link)), decapsulation(into), properties(links.base().properties()) {}
    void on_packets(const link::Received& packets, TimeNs now) override {
      decapsulation.on_packets(packets, properties, now);
    }
    void on_room() override { decapsulation.on_room(); }
    link::Stack links;
    Decapsulation& decapsulation;
    const link::Properties properties;  // As they were when it was added.
  };
  Result<const GidEntry*> source_of(const AddressVector& vector) const;
  Result<Path> infiniband_path(const AddressVector& vector) const;
  link::Stack* links_for_group(RoceVersion version, sa_family_t family) const;

  const std::uint8_t number_;
  const std::uint32_t interface_index_;
  static_assert(std::atomic<LidRange>::is_always_lock_free);
  std::atomic<LidRange> lids_{LidRange{}};
  PKeyTable pkeys_;
  AppendOnlyList<GidEntry, kGidsMax> gids_;
  std::atomic<std::uint64_t> gid_prefix_ = 0;   // InfiniBand: in the place of the entries' own.
  std::array<link::Stack*, kGidsMax> links_{};  // By GID index.
  Decapsulation decapsulation_;
  std::vector<std::unique_ptr<Attached>> attached_;

  static_assert(std::atomic<PortState>::is_always_lock_free);
  std::atomic<PortState> state_{PortState{}};  // Tells of nothing else.
};

}  // namespace verbatim::port
