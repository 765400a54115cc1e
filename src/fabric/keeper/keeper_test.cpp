#include "fabric/keeper/keeper.h"

#include <array>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fabric/data/fabric_for_test.h"
#include "fabric/keeper/management_packet.h"

namespace verbatim::fabric {
namespace {

constexpr int kPatienceMs = 20'000;
constexpr std::uint32_t kRange = 3;
constexpr Qpn kNumber{kRange << kQpnRangeBits};

/// A keeper with a program on each of two hosts, which the test's thread plays, too. Routes are
/// there, ports are active.
class KeeperTest : public testing::Test {
 protected:
  void begin(Keeper::Pace pace, LinkSpeed speed = LinkSpeed::edr) {
    Builder builder({LinkWidth::x1, speed}, 0);
    const std::uint32_t first = builder.add_numbered(NodeKind::switch_node, 'S', 36);
    for (unsigned i = 0; i < 2; ++i) {
      builder.connect(first, builder.add_numbered(NodeKind::adapter, 'H', 1));
    }
    topology = builder.take();
    folder = mkdtemp(name.data());
    keeper = std::move(Keeper::create(topology, pace).value());
    ASSERT_TRUE(keeper->open(folder));
    program = std::move(SharedFabric::attach(keeper->image()).value());
    doorbells = std::move(Doorbells::open(folder).value());
    program->set_doorbells(
        [](void* context, std::uint32_t end) { static_cast<Doorbells*>(context)->ring(end); },
        &doorbells);
    mover = std::move(program->join().value());
    set_routes(image());
    for (NodeIndex node = 1; node < image().hub(); ++node) {
      for (unsigned port = 1; port <= image().node(node).ports; ++port) {
        program->tables().set_port_state(node, port, wire::PortState::active);
      }
    }
    for (std::uint32_t host = 1; host <= 2; ++host) {
      const std::uint32_t end = keeper->attach({host, 1}, kRange).value();
      ends.push_back(std::make_unique<End>(image(), end));
    }
  }
  void TearDown() override {
    mover.reset();
    if (!folder.empty()) std::filesystem::remove_all(folder);
  }

  const Image& image() const { return program->image(); }
  Lid lid(std::uint32_t host) const { return lid_of(image().station_of({1 + host, 1})); }
  bool send(Mark mark, std::uint32_t bytes = 64) {
    return post_mark(*ends[0], lid(1), 0, mark, bytes, kNumber);
  }
  std::size_t receive() {
    return ends[1]->receive(mover->walker(), 0, [](const IncomingPacket&) {});
  }
  /// The daemon's loop: once. Returns false if nothing woke it.
  bool turn(int wait_ms) {
    const bool may_sleep = keeper->begin_sleep();
    std::array<pollfd, 2> ready{pollfd{.fd = keeper->bell(), .events = POLLIN, .revents = 0},
                                pollfd{.fd = keeper->timer(), .events = POLLIN, .revents = 0}};
    const int count = poll(ready.data(), ready.size(), may_sleep ? wait_ms : 0);
    if (ready[0].revents != 0) keeper->on_bell();
    keeper->serve(monotonic_now());
    return !may_sleep || count != 0;
  }
  void sleep_until_idle() {
    while (turn(0)) {
    }
  }

  std::array<char, 32> name{"/tmp/verbatim-keeper.XXXXXX"};
  std::string folder;
  Topology topology;
  std::unique_ptr<Keeper> keeper;
  std::unique_ptr<SharedFabric> program;
  Doorbells doorbells;
  std::unique_ptr<Mover> mover;
  std::vector<std::unique_ptr<End>> ends;
};

TEST_F(KeeperTest, AnIdleFabricDoesNotWakeIt) {
  begin(Keeper::Pace::by_link);
  sleep_until_idle();
  EXPECT_FALSE(turn(0));
  // Nor do packets that wait for nothing.
  ASSERT_TRUE(send({}));
  ASSERT_TRUE(keeper->begin_sleep());
  ends[0]->push(mover->walker());
  EXPECT_EQ(receive(), 1u);
  EXPECT_FALSE(turn(0));
}

TEST_F(KeeperTest, ServesPacedLinksWhileNoProgramRuns) {
  begin(Keeper::Pace::by_link, LinkSpeed::sdr);  // 4 ns a byte.
  sleep_until_idle();
  ASSERT_TRUE(keeper->begin_sleep());
  unsigned sent = 0;
  while (sent < 20 && send({.number = sent}, 4000)) ++sent;
  ends[0]->push(mover->walker());  // The first ones leave; then the program is idle.
  ASSERT_GT(sent, 10u);
  std::size_t received = 0;
  while (received < sent) {
    ASSERT_TRUE(turn(kPatienceMs)) << received << " of " << sent;
    received += receive();
  }
  EXPECT_FALSE(turn(0) && turn(0) && turn(0)) << "there is nothing left to do";
}

TEST_F(KeeperTest, LooksSeldomWhileProgramsServeTimedLinksAndSoonWhenOneSleeps) {
  begin(Keeper::Pace::by_link, LinkSpeed::sdr);
  const Header& header = image().header();
  const auto send_some = [&] {
    unsigned sent = 0;
    while (sent < 10 && send({.number = sent}, 4000)) ++sent;
    ends[0]->push(mover->walker());
    return sent;
  };
  sleep_until_idle();
  const unsigned sent = send_some();
  ASSERT_TRUE(keeper->begin_sleep());
  for (std::size_t received = 0; received < sent; received += receive()) {
    mover->walker().run_due(monotonic_now());
  }
  keeper->serve(header.keeper_due);  // In vain.
  send_some();
  while (!keeper->begin_sleep()) keeper->serve(0);
  EXPECT_EQ(header.keeper_due - header.earliest, kKeeperPatienceMax);
  EXPECT_TRUE(ends[0]->awaits_keeper());
  mover->walker().tell_keeper();
  keeper->on_bell();
  keeper->serve(0);
  while (!keeper->begin_sleep()) keeper->serve(0);
  EXPECT_EQ(header.keeper_due - header.earliest, kKeeperPatience);
  EXPECT_FALSE(ends[0]->awaits_keeper());
}

/// As srp_daemon asks the subnet administrator by a queue pair of its own.
TEST_F(KeeperTest, AProgramsQueuePairTalksToQueuePair1OfAnotherHost) {
  begin(Keeper::Pace::by_link);
  const ManagementDatagram question{.path = {.dlid = lid(1), .slid = lid(0)},
                                    .source_qp = kNumber,
                                    .destination_qp = wire::kManagementQpn,
                                    .qkey = raw(wire::kManagementQKey),
                                    .mad = {std::byte{1}}};
  const ManagementPacket packet = packet_of(question);
  const std::array<ByteSpan, 1> pieces{packet.bytes()};
  ASSERT_TRUE(ends[0]->reserve(0, static_cast<std::uint32_t>(packet.size)));
  ends[0]->post({.pieces = pieces, .dlid = lid(1), .destination = wire::kManagementQpn});
  ends[0]->push(mover->walker());
  sleep_until_idle();
  const auto arrived = keeper->take_datagrams();
  ASSERT_EQ(arrived.size(), 1u);
  EXPECT_EQ(arrived[0].port, (PortPlace{2, 1}));
  EXPECT_EQ(arrived[0].datagram, question);
  EXPECT_TRUE(keeper->take_datagrams().empty());

  ManagementDatagram answer = question;
  std::swap(answer.path.dlid, answer.path.slid);
  std::swap(answer.source_qp, answer.destination_qp);
  for (unsigned i = 0; i < 1000; ++i) {  // More than there are slots: they come back.
    keeper->hand_over({1, 1}, answer);
    std::vector<ManagementDatagram> got;
    ends[0]->receive(mover->walker(), 0, [&](const IncomingPacket& one) {
      got.push_back(datagram_of(one.bytes).value());
    });
    ASSERT_EQ(got, std::vector{answer});
    sleep_until_idle();
  }
  EXPECT_TRUE(faults_when_empty(image()).empty());
}

TEST_F(KeeperTest, DrainsWhatComesToQueuePairs0And1) {
  begin(Keeper::Pace::unlimited);
  for (unsigned i = 0; i < 5000; ++i) {
    if (post_mark(*ends[0], lid(1), 0, {}, 300, Qpn(1))) continue;
    ends[0]->push(mover->walker());
    keeper->serve(monotonic_now());
  }
  ends[0]->push(mover->walker());
  while (!keeper->begin_sleep()) keeper->serve(monotonic_now());
  keeper->serve(monotonic_now());
  EXPECT_TRUE(faults_when_empty(image()).empty());
}

TEST_F(KeeperTest, AProgramThatDiedLeavesItsEndToOthers) {
  begin(Keeper::Pace::unlimited);
  const PortPlace host{1, 1};
  EXPECT_EQ(keeper->attach(host, kRange).error().code, EADDRINUSE);
  const std::uint32_t end = keeper->attach(host, kRange + 1).value();
  const pid_t child = fork();
  if (child == 0) {
    const auto own = std::move(SharedFabric::attach(keeper->image()).value());
    const auto own_mover = std::move(own->join().value());
    End own_end(own->image(), end);
    post_mark(own_end, lid(1), 0, {.flow = 1}, 64, kNumber);
    own_end.push(own_mover->walker());
    post_mark(own_end, lid(1), 0, {.flow = 2}, 64, kNumber);  // Is not handed over.
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  keeper->bury(end);
  EXPECT_EQ(receive(), 1u);
  EXPECT_EQ(keeper->attach(host, kRange + 1).value(), end);
  EXPECT_TRUE(faults_when_empty(image()).empty());
}

TEST_F(KeeperTest, RefusesWhatIsNoHostsPortNorAGroup) {
  begin(Keeper::Pace::unlimited);
  EXPECT_EQ(keeper->attach({0, 1}, 0).error().code, EINVAL) << "a switch";
  EXPECT_EQ(keeper->attach({1, 2}, 0).error().code, EINVAL);
  EXPECT_EQ(keeper->attach({99, 1}, 0).error().code, EINVAL);
  EXPECT_EQ(keeper->attach({1, 1}, kQpnRanges).error().code, EINVAL);
  EXPECT_EQ(keeper->set_member(ends[0]->index(), Lid{5}, true).error().code, EINVAL);
  EXPECT_EQ(keeper->set_member(ends[0]->index(), Lid{0xffff}, true).error().code, EINVAL);
  EXPECT_TRUE(keeper->set_member(ends[0]->index(), Lid{0xc001}, true));
}

TEST_F(KeeperTest, PerformanceAgentsSeeItsCounts) {
  begin(Keeper::Pace::unlimited);
  ASSERT_TRUE(send({}, 400));
  ends[0]->push(mover->walker());
  mad::PortCounterValues sender;
  keeper->add_counters({1, 1}, sender);
  EXPECT_EQ(sender.transmit_packets, 1u);
  EXPECT_EQ(sender.transmit_data, 100u);
  EXPECT_EQ(sender.level_transmit_data[0], 100u);
  mad::PortCounterValues of_switch{.receive_packets = 7};
  keeper->add_counters({0, 1}, of_switch);
  EXPECT_EQ(of_switch.receive_packets, 8u) << "added to what management has counted";
  EXPECT_EQ(of_switch.lane_receive_packets[0], 1u);
  EXPECT_EQ(of_switch.lane_receive_data[0], 100u);
  mad::PortCounterValues nothing;
  keeper->add_counters({0, 0}, nothing);
  keeper->add_counters({77, 1}, nothing);
  EXPECT_EQ(nothing.receive_packets + nothing.transmit_packets, 0u);
}

}  // namespace
}  // namespace verbatim::fabric
