#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/eventfd.h>

#include "adapter/adapter_test_util.h"
#include "base/os/unique_fd.h"
#include "link/link.h"

/// InfiniBand ports for tests: a link between them, and how to use queue pairs on them.
namespace verbatim::adapter {

/// One end of a lossless InfiniBand link in memory. The packets that one end sends lie in the other
/// end's buffer until it receives them: the buffer's free bytes are the sender's credit.
class MemoryLink final : public link::Link {
 public:
  using Ends = std::pair<std::unique_ptr<MemoryLink>, std::unique_ptr<MemoryLink>>;
  static Ends make(std::uint32_t buffer_bytes) {
    auto wire = std::make_shared<Wire>();
    for (End& end : *wire) {
      end.event.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
      end.credit = buffer_bytes / link::Reservation::kBlockBytes;
    }
    return {std::unique_ptr<MemoryLink>(new MemoryLink(wire, 0)),
            std::unique_ptr<MemoryLink>(new MemoryLink(wire, 1))};
  }

  link::Properties properties() const override {
    return {.first_header = link::FirstHeader::lrh,
            .packet_bytes_max = 4096,
            .rate_mbps = rate_mbps,
            .lossless = true};
  }
  Result<link::NextHop*> next_hop(const Path& path, Qpn, std::optional<TimeNs>) override {
    if (std::holds_alternative<InfinibandPath>(path)) return &hop_;
    return refuse(EINVAL, "InfiniBand alone");
  }
  bool reserve(std::uint8_t, const link::Reservation& room) override {
    const std::lock_guard guard(own_.lock);
    own_.lacks_room = own_.credit < room.blocks;
    if (own_.lacks_room) {
      refusals.fetch_add(1, std::memory_order_relaxed);
      return false;
    }
    own_.credit -= room.blocks;
    own_.reserved += room.blocks;
    return true;
  }
  void release(std::uint8_t, const link::Reservation& room) override {
    {
      const std::lock_guard guard(own_.lock);
      own_.reserved -= room.blocks;
    }
    own_.add_credit(room.blocks);
  }
  int send(const link::Packets& packets) noexcept override {
    std::vector<std::byte> all;
    for (const iovec& piece : packets.pieces) {
      const auto* const bytes = static_cast<const std::byte*>(piece.iov_base);
      all.insert(all.end(), bytes, bytes + piece.iov_len);
    }
    const auto* const path = std::get_if<InfinibandPath>(&packets.path);
    const bool is_cut = path != nullptr && path->dlid == cut_.load(std::memory_order_relaxed);
    for (std::size_t at = 0; at < all.size(); at += packets.packet_bytes) {
      const auto end = std::min(at + packets.packet_bytes, all.size());
      const std::size_t blocks = link::Reservation::of(end - at).blocks;
      own_.use(blocks);
      if (is_cut) {
        own_.add_credit(blocks);
        continue;
      }
      other_.add_packet(
          {all.begin() + static_cast<long>(at), all.begin() + static_cast<long>(end)});
    }
    if (packets.spare.blocks != 0) release(packets.lane, packets.spare);
    return 0;
  }
  std::size_t receive(link::Sink& sink, TimeNs now) override {
    eventfd_t ignored = 0;
    eventfd_read(own_.event.get(), &ignored);
    if (own_.take_room()) sink.on_room();
    if (holds_.load(std::memory_order_relaxed)) return 0;
    std::size_t received = 0;
    for (std::vector<std::byte> packet; own_.take(packet); ++received) {
      sink.on_packets({.from = nullptr,
                       .to = nullptr,
                       .group = {},
                       .packet_bytes = packet.size(),
                       .bytes = packet},
                      now);
      other_.add_credit(link::Reservation::of(packet.size()).blocks);
    }
    return received;
  }
  Result<void> join(const MulticastGroup&) override { return {}; }
  void leave(const MulticastGroup&) override {}
  const std::atomic<std::uint32_t>* has_packets() const override { return nullptr; }
  std::span<const int> descriptors() const override { return descriptors_; }

  /// What this end sends to the LID is lost from now on.
  void cut(Lid to) { cut_.store(to, std::memory_order_relaxed); }
  /// As long as it holds, this end receives nothing, and the other end gets no credit back.
  void hold() { holds_.store(true, std::memory_order_relaxed); }
  void let_go() {
    holds_.store(false, std::memory_order_relaxed);
    eventfd_write(own_.event.get(), 1);
  }

  std::uint32_t rate_mbps = 0;             // Of `properties`.
  std::atomic<std::uint32_t> refusals{0};  // Times that `reserve` said no.

 private:
  /// What one end has received, and may send.
  struct End {
    void add_packet(std::vector<std::byte> packet) {
      {
        const std::lock_guard guard(lock);
        packets.push_back(std::move(packet));
      }
      eventfd_write(event.get(), 1);
    }
    bool take(std::vector<std::byte>& packet) {
      const std::lock_guard guard(lock);
      if (packets.empty()) return false;
      packet = std::move(packets.front());
      packets.pop_front();
      return true;
    }
    /// Returns true once after the end lacked room and got some.
    bool take_room() {
      const std::lock_guard guard(lock);
      return std::exchange(has_room_again, false);
    }
    /// A packet takes what was reserved for it.
    void use(std::size_t blocks) {
      const std::lock_guard guard(lock);
      EXPECT_GE(reserved, blocks) << "sent without credit";
      reserved -= blocks;
    }
    void add_credit(std::size_t blocks) {
      {
        const std::lock_guard guard(lock);
        credit += blocks;
        if (!std::exchange(lacks_room, false)) return;
        has_room_again = true;
      }
      eventfd_write(event.get(), 1);
    }
    std::mutex lock;  // Guards what follows.
    std::deque<std::vector<std::byte>> packets;
    std::size_t credit = 0;  // Blocks.
    std::size_t reserved = 0;
    bool lacks_room = false;
    bool has_room_again = false;
    UniqueFd event;
  };
  using Wire = std::array<End, 2>;
  class Hop final : public link::NextHop {};

  MemoryLink(std::shared_ptr<Wire> wire, std::size_t side)
      : wire_(std::move(wire)),
        own_((*wire_)[side]),
        other_((*wire_)[1 - side]),
        descriptors_{own_.event.get()} {}

  const std::shared_ptr<Wire> wire_;
  End& own_;
  End& other_;
  const std::array<int, 1> descriptors_;
  std::atomic<bool> holds_{false};
  std::atomic<Lid> cut_{Lid{}};
  Hop hop_;
};

inline Gid gid_with(std::uint8_t last_byte) {
  Gid gid;
  gid.bytes[0] = 0xfe;
  gid.bytes[1] = 0x80;
  gid.bytes[15] = last_byte;
  return gid;
}

inline void connect(Side& left, Side& right) {
  left.connect(right, Mtu::k4096, 0);
  right.connect(left, Mtu::k4096, 0);
}

/// Brings a UD queue pair to RTS.
inline void start_datagrams(Side& side) {
  QueuePairAttributes attributes{.state = QpState::init, .qkey = QKey{0x1234}, .port = side.port};
  attributes.pkey_index = side.pkey_index;
  ASSERT_TRUE(side.qp->modify(attributes, kState | kPKeyIndex | kPort | kQKey));
  attributes.state = QpState::rtr;
  ASSERT_TRUE(side.qp->modify(attributes, kState));
  attributes.state = QpState::rts;
  ASSERT_TRUE(side.qp->modify(attributes, kState | kSendPsn));
}

inline int send_datagram(Side& side, const Destination& destination, Qpn to, const Segment& local) {
  return side.qp->post_send({.wr_id = ++side.posted,
                             .request = {.operation = Operation::send, .length = local.length},
                             .segments = std::span(&local, 1),
                             .flags = kPostSignaled,
                             .destination = &destination,
                             .remote_qpn = to,
                             .remote_qkey = QKey{0x1234}});
}

/// Waits five seconds at most.
template <typename Value>
bool becomes(std::uint64_t wanted, Value value) {
  for (const TimeNs end = monotonic_now() + 5 * kSecond; monotonic_now() < end; sched_yield()) {
    if (value() == wanted) return true;
  }
  return false;
}

}  // namespace verbatim::adapter
