#include "link/fabric/fabric_link.h"

#include <cstring>
#include <thread>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>

#include "link/fabric/daemon_for_test.h"
#include "link/fabric/outgoing_headers.h"
#include "wire/ib/bth.h"
#include "wire/net/lrh.h"

namespace verbatim::link {
namespace {

using fabric::kQpnRangeBits;
using fabric::row_of_switches;

constexpr std::uint32_t kRange = 2;
constexpr int kPatienceMs = 20'000;

using Packet = std::vector<std::byte>;

/// LRH, BTH, a number, filling.
Packet packet_of(Lid to, std::uint32_t range, std::uint32_t number, std::size_t bytes = 64) {
  Packet packet(bytes);
  wire::encode(wire::Lrh{.dlid = to, .length_words = static_cast<std::uint16_t>(bytes / 4)},
               std::span<std::byte, wire::Lrh::kSize>(packet.data(), wire::Lrh::kSize));
  wire::Bth bth;
  bth.dest_qp = Qpn(range << kQpnRangeBits | 7);
  wire::encode(bth, std::span<std::byte, wire::Bth::kSize>(packet.data() + wire::Lrh::kSize,
                                                           wire::Bth::kSize));
  std::memcpy(packet.data() + wire::Lrh::kSize + wire::Bth::kSize, &number, sizeof number);
  return packet;
}

std::uint32_t number_of(ByteSpan packet) {
  std::uint32_t number = 0;
  std::memcpy(&number, packet.data() + wire::Lrh::kSize + wire::Bth::kSize, sizeof number);
  return number;
}

class Collector final : public Sink {
 public:
  void on_packets(const Received& packets, TimeNs) override {
    ASSERT_EQ(packets.bytes.size(), packets.packet_bytes);
    numbers.push_back(number_of(packets.bytes));
  }
  void on_room() override { ++rooms; }
  std::vector<std::uint32_t> numbers;
  unsigned rooms = 0;
};

const wire::IcrcSeed kNoSeed{wire::IpFlow{}};

/// Packets of equal size as one burst, cut into pieces at odd places.
int send(FabricLink& link, NextHop& hop, const Path& path, const std::vector<Packet>& packets) {
  Packet all;
  for (const Packet& packet : packets) all.insert(all.end(), packet.begin(), packet.end());
  std::vector<iovec> pieces;
  for (std::size_t at = 0; at < all.size(); at += 37) {
    pieces.push_back({all.data() + at, std::min<std::size_t>(37, all.size() - at)});
  }
  return link.send({.to = hop,
                    .path = path,
                    .seed = kNoSeed,
                    .pieces = pieces,
                    .packet_bytes = packets.front().size(),
                    .count = static_cast<std::uint32_t>(packets.size()),
                    .lane = hop.lane()});
}

/// Sends one packet if there is credit.
bool send_one(FabricLink& link, const DaemonForTest& daemon, unsigned to, std::uint32_t number,
              std::size_t bytes = 64) {
  const Path path = InfinibandPath{.dlid = daemon.lid(to)};
  NextHop& hop = *link.next_hop(path, Qpn(kRange << kQpnRangeBits), {}).value();
  // As a port does, which learns the size later.
  if (!link.reserve(hop.lane(), Reservation::of(4200))) return false;
  Reservation spare = Reservation::of(4200);
  spare.packets = 0;
  spare.blocks -= Reservation::of(bytes).blocks;
  link.release(hop.lane(), spare);
  EXPECT_EQ(send(link, hop, path, {packet_of(daemon.lid(to), kRange, number, bytes)}), 0);
  return true;
}

/// Receives until `wanted` packets are there, and sleeps in between as a program's thread does.
void receive_until(FabricLink& link, Collector& collector, std::size_t wanted) {
  while (collector.numbers.size() < wanted) {
    if (link.receive(collector, monotonic_now()) != 0 || !link.begin_sleep()) continue;
    pollfd ready{.fd = link.descriptors()[0], .events = POLLIN, .revents = 0};
    ASSERT_EQ(poll(&ready, 1, kPatienceMs), 1) << collector.numbers.size() << " of " << wanted;
  }
}

TEST(FabricLink, CarriesBurstsAcrossThreeSwitchesInOrder) {
  DaemonForTest daemon(row_of_switches(3, 2));
  const auto a = daemon.link(0, kRange);
  const auto b = daemon.link(1, kRange);
  EXPECT_TRUE(a->properties().lossless);
  EXPECT_FALSE(a->properties().checks_integrity);
  const Path path = InfinibandPath{.dlid = daemon.lid(1)};
  NextHop& hop = *a->next_hop(path, Qpn(kRange << kQpnRangeBits), {}).value();
  std::vector<Packet> packets;
  for (std::uint32_t i = 0; i < 16; ++i) {
    ASSERT_TRUE(a->reserve(hop.lane(), Reservation::of(1000)));
    packets.push_back(packet_of(daemon.lid(1), kRange, i, 1000));
  }
  ASSERT_EQ(send(*a, hop, path, packets), 0);
  Collector collector;
  receive_until(*b, collector, 16);
  for (std::uint32_t i = 0; i < 16; ++i) EXPECT_EQ(collector.numbers[i], i);
  EXPECT_TRUE(fabric::faults_when_empty(daemon.fabric->image()).empty());
}

TEST(FabricLink, WhatIsReservedAndNotSentGoesBack) {
  DaemonForTest daemon(row_of_switches(1, 2));
  const auto a = daemon.link(0, kRange);
  const auto b = daemon.link(1, kRange);
  constexpr Reservation kRoom = Reservation::of(4000);
  unsigned reserved = 0;
  while (a->reserve(0, kRoom)) ++reserved;
  EXPECT_GT(reserved, 20u);
  for (unsigned i = 0; i < reserved; ++i) a->release(0, kRoom);
  unsigned again = 0;
  while (a->reserve(0, kRoom)) ++again;
  EXPECT_EQ(again, reserved);
  a->release(0, {.packets = 0, .blocks = again * (kRoom.blocks - Reservation::of(64).blocks)});
  EXPECT_TRUE(a->reserve(0, kRoom)) << "shorter packets leave room for others";
}

TEST(FabricLink, RoomForSeveralPacketsIsAllThereOrNoneIsTaken) {
  DaemonForTest daemon(row_of_switches(1, 2), {.block_capacity = 150});
  const auto a = daemon.link(0, kRange);
  EXPECT_FALSE(a->reserve(0, Reservation::of(4000, 3)));
  EXPECT_TRUE(a->reserve(0, Reservation::of(4000, 2)));
  Collector of_sender;
  a->receive(of_sender, 0);
  EXPECT_EQ(of_sender.rooms, 0u) << "who asks for several asks again for one";
}

/// Threads of a program share its credits: one may wait for what another has reserved.
TEST(FabricLink, ARefusedSenderIsToldOfRoomThatAnotherGivesBack) {
  DaemonForTest daemon(row_of_switches(1, 2), {.block_capacity = 150});
  const auto a = daemon.link(0, kRange);
  ASSERT_TRUE(a->reserve(0, Reservation::of(4000, 2)));
  ASSERT_FALSE(a->reserve(0, Reservation::of(4000)));
  ASSERT_TRUE(a->begin_sleep());
  a->release(0, Reservation::of(4000));
  pollfd ready{.fd = a->descriptors()[0], .events = POLLIN, .revents = 0};
  ASSERT_EQ(poll(&ready, 1, kPatienceMs), 1);
  Collector of_sender;
  a->receive(of_sender, 0);
  EXPECT_EQ(of_sender.rooms, 1u);
  EXPECT_TRUE(a->reserve(0, Reservation::of(4000)));
}

TEST(FabricLink, ASenderWithoutCreditSleepsUntilThereIsRoom) {
  DaemonForTest daemon(row_of_switches(1, 2), {.block_capacity = 150});
  const auto a = daemon.link(0, kRange);
  const auto b = daemon.link(1, kRange);
  std::uint32_t sent = 0;
  while (send_one(*a, daemon, 1, sent, 4000)) ++sent;
  Collector of_sender;
  a->receive(of_sender, 0);
  ASSERT_TRUE(a->begin_sleep());
  EXPECT_EQ(of_sender.rooms, 0u);
  Collector collector;
  receive_until(*b, collector, sent);
  pollfd ready{.fd = a->descriptors()[0], .events = POLLIN, .revents = 0};
  ASSERT_EQ(poll(&ready, 1, kPatienceMs), 1);
  a->receive(of_sender, 0);
  EXPECT_EQ(of_sender.rooms, 1u);
  EXPECT_TRUE(send_one(*a, daemon, 1, sent, 4000));
}

TEST(FabricLink, MembersOfAGroupReceiveIt) {
  DaemonForTest daemon(row_of_switches(2, 3));
  constexpr Lid kGroup{0xc010};
  fabric::set_group(daemon.fabric->image(), kGroup,
                    {daemon.hosts[0], daemon.hosts[1], daemon.hosts[2]});
  const auto a = daemon.link(0, kRange);
  const auto b = daemon.link(1, kRange);
  const auto c = daemon.link(2, kRange);
  const Gid first{{0xff, 0x12}};
  const Gid second{{0xff, 0x13}};
  for (const Gid& gid : {first, second}) {
    for (auto* const link : {b.get(), c.get()}) ASSERT_TRUE(link->join({gid, kGroup}));
    c->leave({gid, kGroup});
  }
  b->leave({first, kGroup});  // The LID's other group stays.
  const Path path = InfinibandPath{.dlid = kGroup};
  NextHop& hop = *a->next_hop(path, Qpn(0xffffff), {}).value();
  ASSERT_TRUE(a->reserve(hop.lane(), Reservation::of(64)));
  ASSERT_EQ(send(*a, hop, path, {packet_of(kGroup, 1023, 5)}), 0);
  Collector of_b;
  Collector of_c;
  receive_until(*b, of_b, 1);
  c->receive(of_c, 0);
  EXPECT_TRUE(of_c.numbers.empty());
}

/// Each thread has a mover of its own, which ends with it.
TEST(FabricLink, ManyThreadsSendAndEnd) {
  DaemonForTest daemon(row_of_switches(2, 2), {.movers_max = 24});
  const auto a = daemon.link(0, kRange);
  const auto b = daemon.link(1, kRange);
  constexpr std::uint32_t kOfAThread = 200;
  Collector collector;
  std::size_t wanted = 0;
  for (unsigned round = 0; round < 8; ++round) {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (std::uint32_t number = 0; number < kOfAThread;) {
          if (send_one(*a, daemon, 1, number)) {
            ++number;
          } else {
            std::this_thread::yield();
          }
        }
      });
    }
    receive_until(*b, collector, wanted += 4 * kOfAThread);
  }
  EXPECT_TRUE(fabric::faults_when_empty(daemon.fabric->image()).empty());
}

/// Both sides answer what they get; a process that is killed leaves its host's end to the next.
TEST(FabricLink, TwoProcessesExchangePackets) {
  DaemonForTest daemon(row_of_switches(3, 2));
  constexpr std::uint32_t kCount = 2000;
  UniqueFd connection = daemon.connect();
  const pid_t child = fork();
  if (child == 0) {
    const auto link = daemon.attach(std::move(connection), 1, kRange);
    if (!link) _exit(1);
    Collector collector;
    for (std::uint32_t i = 0; i < kCount; ++i) {
      receive_until(**link, collector, i + 1);
      while (!send_one(**link, daemon, 0, collector.numbers[i] + 1)) {
        (*link)->receive(collector, 0);
      }
    }
    kill(getpid(), SIGKILL);
  }
  connection.reset();
  const auto link = daemon.link(0, kRange);
  Collector collector;
  const fabric::Image& image = daemon.fabric->image();
  const auto& steered = image.host_tables(image.node(daemon.hosts[1])).ports_by_qpn[kRange];
  while (steered == 0) std::this_thread::yield();  // The child is there.
  for (std::uint32_t i = 0; i < kCount; ++i) {
    ASSERT_TRUE(send_one(*link, daemon, 1, 2 * i));
    receive_until(*link, collector, i + 1);
    ASSERT_EQ(collector.numbers[i], 2 * i + 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  while (steered != 0) std::this_thread::yield();  // It is buried.
  const auto next = daemon.link(1, kRange);
  ASSERT_TRUE(send_one(*link, daemon, 1, 77));
  Collector of_next;
  receive_until(*next, of_next, 1);
  EXPECT_EQ(of_next.numbers[0], 77u);
}

TEST(FabricLink, RefusesPathsThatLeadNowhere) {
  DaemonForTest daemon(row_of_switches(1, 2));
  const auto link = daemon.link(0, kRange);
  EXPECT_EQ(link->next_hop(RoceV2Path{}, {}, {}).error().code, EINVAL);
  const fabric::Image& image = daemon.fabric->image();
  wire::SlToVlMappingTable lanes;
  lanes.lanes.fill(3);
  lanes.lanes[1] = 15;
  for (unsigned in = 0; in <= fabric::kHostPorts; ++in) {
    daemon.fabric->tables().set_lanes(daemon.hosts[0], in, fabric::kCablePort, lanes);
  }
  EXPECT_EQ(link->next_hop(InfinibandPath{.service_level = 1}, {}, {}).error().code, EHOSTUNREACH);
  EXPECT_EQ(link->next_hop(InfinibandPath{.service_level = 2}, {}, {}).value()->lane(), 3);
  EXPECT_EQ(image.end(0).state, fabric::EndRecord::kTaken);
}

TEST(OutgoingHeaders, AreThoseOfLrhAndBth) {
  const Packet packet = packet_of(Lid{9}, 5, 1);
  const auto headers = outgoing_headers(packet);
  ASSERT_TRUE(headers);
  EXPECT_EQ(headers->dlid, Lid{9});
  EXPECT_EQ(headers->destination, Qpn(5u << kQpnRangeBits | 7));
  EXPECT_EQ(headers->p_key, kDefaultPKey);
  EXPECT_FALSE(outgoing_headers(ByteSpan(packet).first(19)));
  EXPECT_FALSE(outgoing_headers({}));
}

}  // namespace
}  // namespace verbatim::link
