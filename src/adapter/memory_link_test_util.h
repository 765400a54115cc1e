#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include "base/os/unique_fd.h"
#include "link/link.h"

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
      end.credit = buffer_bytes;
    }
    return {std::unique_ptr<MemoryLink>(new MemoryLink(wire, 0)),
            std::unique_ptr<MemoryLink>(new MemoryLink(wire, 1))};
  }

  link::Properties properties() const override {
    return {.first_header = link::FirstHeader::lrh, .packet_bytes_max = 4096, .lossless = true};
  }
  Result<link::NextHop*> next_hop(const Path& path, Qpn, std::optional<TimeNs>) override {
    if (std::holds_alternative<InfinibandPath>(path)) return &hop_;
    return refuse(EINVAL, "InfiniBand alone");
  }
  bool reserve(std::uint8_t, std::uint32_t bytes) override {
    const std::lock_guard guard(own_.lock);
    own_.lacks_room = own_.credit < bytes;
    if (own_.lacks_room) {
      refusals.fetch_add(1, std::memory_order_relaxed);
      return false;
    }
    own_.credit -= bytes;
    own_.reserved += bytes;
    return true;
  }
  void release(std::uint8_t, std::uint32_t bytes) override {
    {
      const std::lock_guard guard(own_.lock);
      own_.reserved -= bytes;
    }
    own_.add_credit(bytes);
  }
  int send(const link::Packets& packets) noexcept override {
    std::vector<std::byte> all;
    for (const iovec& piece : packets.pieces) {
      const auto* const bytes = static_cast<const std::byte*>(piece.iov_base);
      all.insert(all.end(), bytes, bytes + piece.iov_len);
    }
    {
      const std::lock_guard guard(own_.lock);
      EXPECT_GE(own_.reserved, all.size()) << "sent without credit";
      own_.reserved -= all.size();
    }
    for (std::size_t at = 0; at < all.size(); at += packets.packet_bytes) {
      const auto end = std::min(at + packets.packet_bytes, all.size());
      other_.add_packet(
          {all.begin() + static_cast<long>(at), all.begin() + static_cast<long>(end)});
    }
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
      other_.add_credit(packet.size());
    }
    return received;
  }
  Result<void> join(const Gid&) override { return {}; }
  void leave(const Gid&) override {}
  const std::atomic<std::uint32_t>* has_packets() const override { return nullptr; }
  std::span<const int> descriptors() const override { return descriptors_; }

  /// As long as it holds, this end receives nothing, and the other end gets no credit back.
  void hold() { holds_.store(true, std::memory_order_relaxed); }
  void let_go() {
    holds_.store(false, std::memory_order_relaxed);
    eventfd_write(own_.event.get(), 1);
  }

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
    void add_credit(std::size_t bytes) {
      {
        const std::lock_guard guard(lock);
        credit += bytes;
        if (!std::exchange(lacks_room, false)) return;
        has_room_again = true;
      }
      eventfd_write(event.get(), 1);
    }
    std::mutex lock;  // Guards what follows.
    std::deque<std::vector<std::byte>> packets;
    std::size_t credit = 0;
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
  Hop hop_;
};

}  // namespace verbatim::adapter
