#include "link/decorators/faults.h"

#include <algorithm>
#include <memory>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "link/decorators/capture.h"
#include "wire/ib/packet.h"
#include "wire/net/grh.h"
#include "wire/net/ip.h"

namespace verbatim::link {
namespace {

TimeNs test_now = 0;
TimeNs test_clock() { return test_now; }

struct Way final : NextHop {
  explicit Way(const SocketAddress& local) { local_ = local; }
};

using Bytes = std::vector<std::byte>;

std::vector<Bytes> split(ByteSpan bytes, std::size_t packet_bytes) {
  std::vector<Bytes> packets;
  for (std::size_t at = 0; at < bytes.size(); at += packet_bytes) {
    const ByteSpan one = bytes.subspan(at, std::min(packet_bytes, bytes.size() - at));
    packets.emplace_back(one.begin(), one.end());
  }
  return packets;
}

/// Records what is sent, and delivers what the test gives it.
class TestLink final : public Link {
 public:
  struct Sent {
    std::vector<Bytes> packets;
    const void* first_piece;
  };
  Properties properties() const override { return {}; }
  Result<NextHop*> next_hop(const Path&, Qpn, std::optional<TimeNs>) override {
    return refuse(ENOSYS, "not tested");
  }
  bool reserve(std::uint8_t, const Reservation&) override { return true; }
  void release(std::uint8_t, const Reservation&) override {}
  int send(const Packets& packets) noexcept override {
    Bytes bytes;
    for (const iovec& piece : packets.pieces) {
      const auto* const start = static_cast<const std::byte*>(piece.iov_base);
      bytes.insert(bytes.end(), start, start + piece.iov_len);
    }
    calls.push_back({split(bytes, packets.packet_bytes), packets.pieces.front().iov_base});
    EXPECT_EQ(calls.back().packets.size(), packets.count);
    return 0;
  }
  std::size_t receive(Sink& sink, TimeNs now) override {
    if (arriving.empty()) return 0;
    sink.on_packets(
        {.from = &from, .to = &to, .group = {}, .packet_bytes = packet_bytes, .bytes = arriving},
        now);
    return 1;
  }
  Result<void> join(const MulticastGroup&) override { return {}; }
  void leave(const MulticastGroup&) override {}
  const std::atomic<std::uint32_t>* has_packets() const override { return nullptr; }
  std::span<const int> descriptors() const override { return {}; }

  std::vector<Sent> calls;
  Bytes arriving;
  std::size_t packet_bytes = 0;
  Path from, to;
};

struct TestSink final : Sink {
  void on_packets(const Received& packets, TimeNs) override {
    for (Bytes& one : split(packets.bytes, packets.packet_bytes)) came.push_back(std::move(one));
  }
  std::vector<Bytes> came;
};

/// A sender to 127.0.0.3 or ::1, and a link with faults below it.
class FaultyLink : public testing::Test {
 protected:
  static constexpr std::size_t kPayload = 64;

  void SetUp() override {
    test_now = kSecond;
    use("127.0.0.2", "127.0.0.3", kRocePort);
  }
  void use(std::string_view from, std::string_view to, std::uint16_t port) {
    const auto source = *SocketAddress::parse(from, port == 0 ? 0 : 50'000);
    const auto destination = *SocketAddress::parse(to, port);
    way = std::make_unique<Way>(source);
    path = roce_path(destination);
    seed = std::make_unique<wire::IcrcSeed>(wire::flow_of(source, destination));
    grh_bytes = port == 0 ? wire::Grh::kSize : 0;
  }
  void plan(std::string_view text) { faults.set_plan(FaultPlan::parse(text).value()); }

  Bytes packet(std::uint32_t psn, std::uint16_t identification) const {
    Bytes bytes(grh_bytes + wire::Bth::kSize + kPayload + wire::kIcrcBytes,
                static_cast<std::byte>(psn));
    const MutableByteSpan from_bth = MutableByteSpan(bytes).subspan(grh_bytes);
    constexpr wire::Opcode kSendOnly =
        wire::opcode_of(wire::Service::rc, wire::Verb::send, wire::Position::only);
    wire::encode_headers({.bth = {.opcode = kSendOnly, .dest_qp = Qpn(0x4001), .psn = Psn(psn)}},
                         from_bth);
    wire::store_icrc(
        seed->compute(from_bth.first(from_bth.size() - wire::kIcrcBytes), identification),
        from_bth.last<wire::kIcrcBytes>());
    return bytes;
  }
  Bytes packets(std::uint32_t first_psn, std::uint32_t count) const {
    Bytes bytes;
    for (std::uint32_t i = 0; i < count; ++i) {
      const Bytes one = packet(first_psn + i, static_cast<std::uint16_t>(i));
      bytes.insert(bytes.end(), one.begin(), one.end());
    }
    return bytes;
  }
  void send(std::uint32_t first_psn, std::uint32_t count) {
    Bytes bytes = packets(first_psn, count);
    // In two pieces; the first ends within a header.
    const std::array<iovec, 2> pieces{
        iovec{bytes.data(), grh_bytes + 5},
        iovec{bytes.data() + grh_bytes + 5, bytes.size() - grh_bytes - 5}};
    EXPECT_EQ(faults.send({.to = *way,
                           .path = path,
                           .seed = *seed,
                           .pieces = pieces,
                           .packet_bytes = bytes.size() / count,
                           .count = count,
                           .lane = 0}),
              0);
  }
  /// So many packets are there to be received, from this node's own address as by a loopback.
  void arrive(std::uint32_t first_psn, std::uint32_t count) {
    base.from = roce_path(way->local());
    base.to = path;
    base.arriving = packets(first_psn, count);
    base.packet_bytes = base.arriving.size() / count;
  }
  std::vector<Bytes> receive(std::uint32_t first_psn, std::uint32_t count) {
    TestSink sink;
    arrive(first_psn, count);
    faults.receive(sink, 0);
    return std::move(sink.came);
  }
  std::uint32_t psn_of(const Bytes& bytes) const { return load_be24(&bytes[grh_bytes + 9]); }
  bool is_right(const Bytes& bytes, std::size_t identification) const {
    return verify_icrc(*seed, ByteSpan(bytes).subspan(grh_bytes),
                       static_cast<std::uint16_t>(identification)) == identification;
  }
  /// Returns the PSNs of sent packets in order; checks that each ICRC is right for its index in its
  /// call.
  std::vector<std::uint32_t> take_sent() {
    std::vector<std::uint32_t> psns;
    for (const auto& call : base.calls) {
      for (std::size_t i = 0; i < call.packets.size(); ++i) {
        EXPECT_TRUE(is_right(call.packets[i], i)) << "packet " << i << " of a call";
        psns.push_back(psn_of(call.packets[i]));
      }
    }
    base.calls.clear();
    return psns;
  }

  TestLink base;
  observe::FaultCounters counters;
  Faults faults{base, counters, nullptr, TimerFd::create().value(), test_clock};
  std::unique_ptr<Way> way;
  Path path;
  std::unique_ptr<wire::IcrcSeed> seed;
  std::size_t grh_bytes = 0;
};

using Psns = std::vector<std::uint32_t>;

TEST_F(FaultyLink, WithoutFaultTheSamePiecesGoOn) {
  plan("off");
  Bytes bytes = packets(1, 2);
  const iovec piece{bytes.data(), bytes.size()};
  faults.send({*way, path, *seed, std::span(&piece, 1), bytes.size() / 2, 2, 0});
  ASSERT_EQ(base.calls.size(), 1u);
  EXPECT_EQ(base.calls[0].first_piece, bytes.data());
}

TEST_F(FaultyLink, LostPacketsLeaveRunsWhoseIcrcsAreRight) {
  plan("loss=20%,seed=1");
  std::size_t sent = 0;
  for (std::uint32_t i = 0; i < 100; ++i) {
    send(i * 16, 16);
    sent += take_sent().size();
  }
  EXPECT_NEAR(static_cast<double>(counters.lost.value()), 320, 80);
  EXPECT_EQ(sent, 1'600 - counters.lost.value());
}

TEST_F(FaultyLink, Ipv6AndRoceV1KeepTheirIcrcs) {
  plan("loss=20%,reorder=20%,duplicate=20%,seed=1");
  use("::1", "::1", kRocePort);
  send(0, 64);
  EXPECT_FALSE(take_sent().empty());
  use("127.0.0.2", "127.0.0.3", 0);
  send(0, 64);
  EXPECT_FALSE(take_sent().empty());
  EXPECT_GT(counters.lost.value(), 0u);
}

TEST_F(FaultyLink, ABlackHoleTakesAll) {
  plan("loss=100%");
  send(0, 3);
  EXPECT_TRUE(base.calls.empty());
  EXPECT_EQ(counters.lost.value(), 3u);
}

TEST_F(FaultyLink, DuplicatesFollowTheirPackets) {
  plan("duplicate=100%");
  send(5, 2);
  EXPECT_EQ(take_sent(), (Psns{5, 5, 6, 6}));
  EXPECT_EQ(counters.duplicated.value(), 2u);
}

/// Returns a plan that reorders only packet `hit` of the next `count`.
std::string reorder_only(std::uint32_t hit, std::uint32_t count) {
  for (int seed = 0;; ++seed) {
    const std::string text = fmt::format("reorder=20%,seed={}", seed);
    const FaultPlan plan = FaultPlan::parse(text).value();
    bool fits = true;
    for (std::uint32_t i = 0; i < count; ++i) {
      const PacketIdentity packet{
          .offset = static_cast<std::int32_t>(i),
          .attempt = 1,
          .opcode = wire::opcode_of(wire::Service::rc, wire::Verb::send, wire::Position::only)};
      fits = fits && plan.decide(packet).reorder == (i == hit);
    }
    if (fits) return text;
  }
}

TEST_F(FaultyLink, AReorderedPacketLeavesBehindTheNext) {
  plan(reorder_only(1, 4));
  send(0, 4);
  EXPECT_EQ(take_sent(), (Psns{0, 2, 1, 3}));
  EXPECT_EQ(counters.reordered.value(), 1u);
}

TEST_F(FaultyLink, AReorderedLastPacketLeavesBehindTheNextCall) {
  plan(reorder_only(1, 4));
  send(0, 2);
  EXPECT_EQ(take_sent(), (Psns{0}));
  send(2, 2);
  EXPECT_EQ(take_sent(), (Psns{2, 3, 1}));
}

TEST_F(FaultyLink, AReorderedPacketThatNoneFollowsLeavesSoon) {
  plan("reorder=100%");
  send(7, 1);
  faults.send_due();
  EXPECT_TRUE(take_sent().empty());
  test_now += Faults::kReorderTime;
  faults.send_due();
  EXPECT_EQ(take_sent(), (Psns{7}));
}

TEST_F(FaultyLink, DelayedPacketsLeaveWhenTheirTimeHasCome) {
  plan("delay=1ms");
  send(0, 2);
  test_now += 999 * kMicrosecond;
  send(2, 1);
  faults.send_due();
  EXPECT_TRUE(take_sent().empty());
  test_now += kMicrosecond;
  faults.send_due();
  EXPECT_EQ(take_sent(), (Psns{0, 1}));
  test_now += kMillisecond;
  faults.send_due();
  EXPECT_EQ(take_sent(), (Psns{2}));
  EXPECT_EQ(counters.delayed.value(), 3u);
}

TEST_F(FaultyLink, TooManyDelayedPacketsAreLostAndCounted) {
  plan("delay=1s");
  for (std::uint32_t i = 0; i < Faults::kDelayedMax / 64 + 1; ++i) send(i * 64, 64);
  EXPECT_EQ(counters.delayed.value(), Faults::kDelayedMax);
  EXPECT_EQ(counters.overflowed.value(), 64u);
  test_now += kSecond;
  faults.send_due();
  EXPECT_EQ(take_sent().size(), Faults::kDelayedMax);
}

TEST_F(FaultyLink, ReceiversFindEveryCorruption) {
  plan("corrupt=100%,seed=9");
  for (std::uint32_t i = 0; i < 10'000; ++i) {
    send(i, 1);
    const Bytes& came = base.calls.back().packets.front();
    ASSERT_EQ(verify_icrc(*seed, came, 0), std::nullopt);
    ASSERT_EQ(load_be24(&came[5]), 0x4001u);  // It still reaches its receiver.
    base.calls.clear();
  }
  EXPECT_EQ(counters.corrupted.value(), 10'000u);
}

TEST_F(FaultyLink, TheSameSeedHitsTheSamePackets) {
  const auto run = [this](std::uint32_t first_psn) {
    plan("loss=10%,duplicate=10%,reorder=5%,seed=11");
    for (std::uint32_t i = 0; i < 50; ++i) send(first_psn + i * 8, 8);
    Psns psns = take_sent();
    for (std::uint32_t& psn : psns) psn -= first_psn;
    test_now += kSecond;
    faults.send_due();
    base.calls.clear();
    return psns;
  };
  EXPECT_EQ(run(0), run(100'000));
}

TEST_F(FaultyLink, ReceivedPacketsAreLost) {
  plan("loss=100%,direction=receive");
  EXPECT_TRUE(receive(7, 3).empty());
  EXPECT_EQ(counters.lost.value(), 3u);
  send(0, 2);  // Sending is as it was.
  EXPECT_EQ(take_sent(), (Psns{0, 1}));
}

TEST_F(FaultyLink, ReceivedPacketsComeTwice) {
  plan("duplicate=100%,direction=receive");
  const auto came = receive(7, 2);
  Psns psns;
  for (const Bytes& one : came) psns.push_back(psn_of(one));
  EXPECT_EQ(psns, (Psns{7, 7, 8, 8}));
  for (const std::size_t i : {0, 1, 2, 3}) EXPECT_TRUE(is_right(came[i], i / 2));
  EXPECT_EQ(counters.duplicated.value(), 2u);
}

TEST_F(FaultyLink, ReceivedPacketsAreCorrupted) {
  plan("corrupt=100%,direction=receive,seed=9");
  for (std::uint32_t i = 0; i < 1'000; ++i) {
    for (const Bytes& one : receive(i, 1)) ASSERT_EQ(verify_icrc(*seed, one, 0), std::nullopt);
  }
  EXPECT_EQ(counters.corrupted.value(), 1'000u);
}

TEST_F(FaultyLink, ReceivedPacketsOfOtherPeersPass) {
  plan("loss=100%,direction=receive,peer=127.0.0.9");
  EXPECT_EQ(receive(7, 3).size(), 3u);
}

TEST_F(FaultyLink, ACaptureBelowHasWhatCameOnce) {
  auto ring = CaptureRing::create(1 << 16).value();
  auto reader = CaptureReader::open(UniqueFd(dup(ring->fd()))).value();
  CaptureTap tap;
  tap.set_ring(std::move(ring));
  Capture capture(base, tap);
  Faults above(capture, counters, &capture, TimerFd::create().value(), test_clock);
  above.set_plan(FaultPlan::parse("loss=100%,direction=receive").value());
  TestSink sink;
  arrive(7, 1);
  above.receive(sink, 0);
  EXPECT_TRUE(sink.came.empty());
  CapturedPacket packet;
  ByteSpan bytes;
  ASSERT_TRUE(reader.next(packet, bytes));
  EXPECT_EQ(packet.direction, Direction::receive);
  EXPECT_EQ(packet.remark, Remark::none);
  EXPECT_FALSE(reader.next(packet, bytes));
}

TEST_F(FaultyLink, ReceivingLosesDuplicatesAndCorrupts) {
  plan("loss=20%,duplicate=20%,corrupt=20%,direction=receive,seed=2");
  TestSink sink;
  for (std::uint32_t i = 0; i < 100; ++i) {
    arrive(i * 8, 8);
    EXPECT_EQ(faults.receive(sink, 0), 1u);
  }
  const auto bad = std::ranges::count_if(
      sink.came, [this](const Bytes& one) { return !verify_icrc(*seed, one, 0).has_value(); });
  EXPECT_EQ(sink.came.size(), 800 - counters.lost.value() + counters.duplicated.value());
  EXPECT_GE(static_cast<std::uint64_t>(bad), counters.corrupted.value());
  EXPECT_LE(static_cast<std::uint64_t>(bad), 2 * counters.corrupted.value());
  for (const auto* counter : {&counters.lost, &counters.duplicated, &counters.corrupted}) {
    EXPECT_NEAR(static_cast<double>(counter->value()), 150, 55);
  }
  send(0, 2);  // Sending is not affected.
  EXPECT_EQ(take_sent(), (Psns{0, 1}));
}

}  // namespace
}  // namespace verbatim::link
