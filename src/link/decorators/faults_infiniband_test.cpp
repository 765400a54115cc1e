#include <gtest/gtest.h>

#include "link/decorators/faults.h"
#include "wire/ib/packet.h"

/// Faults of links that have credits: what is not sent gives its reservation back.
namespace verbatim::link {
namespace {

using Bytes = std::vector<std::byte>;
constexpr std::uint8_t kLane = 2;
constexpr std::size_t kPacketBytes = wire::Lrh::kSize + wire::Bth::kSize + 64 + wire::kIcrcBytes;

struct Way final : NextHop {};

/// Counts, and delivers what the test gives it.
struct CreditLink final : Link {
  Properties properties() const override {
    return {.first_header = FirstHeader::lrh, .lossless = true, .checks_integrity = false};
  }
  Result<NextHop*> next_hop(const Path&, Qpn, std::optional<TimeNs>) override {
    return refuse(ENOSYS, "not tested");
  }
  bool reserve(std::uint8_t, const Reservation&) override { return true; }
  void release(std::uint8_t lane, const Reservation& room) override {
    EXPECT_EQ(lane, kLane);
    EXPECT_EQ(room, Reservation::of(kPacketBytes));
    ++released;
  }
  void damage(std::uint8_t lane, std::uint32_t bytes) override {
    EXPECT_EQ(lane, kLane);
    damaged += bytes;
  }
  int send(const Packets& packets) noexcept override {
    sent += packets.count;
    return 0;
  }
  std::size_t receive(Sink& sink, TimeNs now) override {
    sink.on_packets({.from = nullptr,
                     .to = nullptr,
                     .group = {},
                     .packet_bytes = kPacketBytes,
                     .bytes = arriving},
                    now);
    return 1;
  }
  Result<void> join(const MulticastGroup&) override { return {}; }
  void leave(const MulticastGroup&) override {}
  const std::atomic<std::uint32_t>* has_packets() const override { return nullptr; }
  std::span<const int> descriptors() const override { return {}; }

  std::size_t released = 0, damaged = 0, sent = 0;
  Bytes arriving;
};

struct CountingSink final : Sink {
  void on_packets(const Received& packets, TimeNs) override {
    came += packets.bytes.size() / kPacketBytes;
  }
  std::size_t came = 0;
};

/// Remembers what was damaged.
struct Witness final : FaultWitness {
  int send_marked(const Packets&, Remark) noexcept override { return 0; }
  void note_lost(const Packets& packet, Remark remark) noexcept override {
    const auto* const start = static_cast<const std::byte*>(packet.pieces[0].iov_base);
    last.assign(start, start + packet.pieces[0].iov_len);
    last_remark = remark;
  }
  Bytes last;
  Remark last_remark = Remark::none;
};

class FaultyInfiniband : public testing::Test {
 protected:
  static Bytes packets(std::uint32_t count) {
    Bytes bytes(count * kPacketBytes, std::byte{0x11});
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::span<std::byte> one = std::span(bytes).subspan(i * kPacketBytes, kPacketBytes);
      encode(wire::Lrh{.length_words = kPacketBytes / 4, .slid = Lid{9}},
             one.first<wire::Lrh::kSize>());
      constexpr wire::Opcode kSendOnly =
          wire::opcode_of(wire::Service::rc, wire::Verb::send, wire::Position::only);
      wire::encode_headers({.bth = {.opcode = kSendOnly, .dest_qp = Qpn(0x4001), .psn = Psn(i)}},
                           one.subspan(wire::Lrh::kSize));
    }
    return bytes;
  }
  void send(std::uint32_t count) {
    Bytes bytes = packets(count);
    const iovec piece{bytes.data(), bytes.size()};
    EXPECT_EQ(faults.send({.to = way,
                           .path = path,
                           .seed = seed,
                           .pieces = std::span(&piece, 1),
                           .packet_bytes = kPacketBytes,
                           .count = count,
                           .lane = kLane}),
              0);
  }
  void plan(std::string_view text) { faults.set_plan(FaultPlan::parse(text).value()); }

  CreditLink base;
  Witness witness;
  observe::FaultCounters counters;
  Faults faults{base, counters, &witness, TimerFd::create().value()};
  Way way;
  const Path path = InfinibandPath{.dlid = Lid{3}, .slid = Lid{9}};
  const wire::IcrcSeed seed{wire::Lrh{.slid = Lid{9}}};
};

TEST_F(FaultyInfiniband, WhatIsLostGivesItsReservationBack) {
  plan("loss=100%,seed=1");
  send(5);
  EXPECT_EQ(base.released, 5u);
  EXPECT_EQ(base.sent + base.damaged, 0u);
  EXPECT_EQ(counters.lost.value(), 5u);
}

TEST_F(FaultyInfiniband, WhatIsDamagedTheNextPortDrops) {
  plan("corrupt=100%,seed=1");
  send(3);
  EXPECT_EQ(base.damaged, 3 * kPacketBytes);
  EXPECT_EQ(base.sent + base.released, 0u);
  EXPECT_EQ(counters.corrupted.value(), 3u);
  // A capture shows a packet whose ICRC is wrong.
  EXPECT_EQ(witness.last_remark, Remark::corrupted);
  ASSERT_EQ(witness.last.size(), kPacketBytes);
  const ByteSpan last = witness.last;
  EXPECT_NE(wire::infiniband_icrc(last), wire::load_icrc(last.last<wire::kIcrcBytes>()));
}

TEST_F(FaultyInfiniband, EachPacketIsSentLostOrDamaged) {
  plan("loss=20%,corrupt=20%,seed=3");
  for (unsigned i = 0; i < 100; ++i) send(8);
  EXPECT_EQ(base.sent + counters.lost.value() + counters.corrupted.value(), 800u);
  EXPECT_GT(counters.lost.value(), 0u);
  EXPECT_GT(counters.corrupted.value(), 0u);
}

TEST_F(FaultyInfiniband, ReceivedPacketsAreLostOrFoundDamaged) {
  plan("loss=20%,corrupt=20%,direction=receive,seed=3");
  CountingSink sink;
  for (unsigned i = 0; i < 100; ++i) {
    base.arriving = packets(8);
    faults.receive(sink, 0);
  }
  EXPECT_EQ(sink.came + counters.lost.value() + counters.corrupted.value(), 800u);
  EXPECT_GT(counters.lost.value(), 0u);
  EXPECT_GT(counters.corrupted.value(), 0u);
}

}  // namespace
}  // namespace verbatim::link
