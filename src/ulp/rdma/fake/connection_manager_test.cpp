#include "ulp/rdma/connection_manager.h"

#include <memory>

#include <gtest/gtest.h>

#include "ulp/rdma/fake/fake_adapter_for_test.h"
#include "ulp/rdma/shared_receives.h"

namespace verbatim::ulp::rdma {
namespace {

const SocketAddress kServer = SocketAddress::ipv4({10, 0, 0, 1}, 4420);

struct ManagerTest : testing::Test {
  void SetUp() override {
    device = *Device::open("");
    completions = *Completions::create(*device, 16);
    receives = *SharedReceives::create(*device, *completions, 4, 64);
    manager = *ConnectionManager::create(*device, *completions, receives->queue(),
                                         {.connections_max = 2});
  }
  void TearDown() override {
    manager.reset();
    receives.reset();
    completions.reset();
    device.reset();
    EXPECT_EQ(fake.objects_left(), "");
    EXPECT_EQ(fake.violations(), std::vector<std::string>{});
  }
  /// The event that must be the next.
  template <typename Event>
  Event next() {
    for (int i = 0; i < 100; ++i) {
      if (const auto event = manager->take(now)) {
        EXPECT_TRUE(std::holds_alternative<Event>(*event)) << event->index();
        return std::get<Event>(*event);
      }
      fake.step();
    }
    ADD_FAILURE() << "no event";
    return {};
  }
  FakeId& last_id() { return *fake.ids.back(); }

  FakeAdapter fake{1, {}};
  TimeNs now = kSecond;
  std::unique_ptr<Device> device;
  std::unique_ptr<Completions> completions;
  std::unique_ptr<SharedReceives> receives;
  std::unique_ptr<ConnectionManager> manager;
};

TEST_F(ManagerTest, ReadsAreTheLeastOfBothSidesAndTheDevice) {
  ASSERT_TRUE(manager->listen(IpService{kServer}, 8));
  struct Row {
    std::uint8_t peer_initiator, peer_responder, wish, initiator, responder;
  };
  // The device has 16 each. The peer's words as the event says them.
  for (const Row& row : {Row{4, 0, 16, 4, 0}, Row{128, 1, 8, 8, 1}, Row{128, 128, 64, 16, 16}}) {
    ASSERT_TRUE(fake.request(row.peer_initiator, row.peer_responder));
    const auto asked = next<Requested>();
    EXPECT_EQ(asked.meeting.reads.initiator, row.peer_initiator);
    ASSERT_TRUE(manager->accept(asked.connection, {.reads_in_flight = row.wish}, {}));
    EXPECT_EQ(fake.last_parameters.initiator_depth, row.initiator);
    EXPECT_EQ(fake.last_parameters.responder_resources, row.responder);
    EXPECT_EQ(next<Established>().reads.initiator, row.initiator);
    manager->disconnect(asked.connection, now);
    next<Disconnected>();
    manager->release(asked.connection);
  }
}

TEST_F(ManagerTest, AConnectingSideTakesWhatThePeerGrants) {
  const auto connection =
      manager->connect(IpService{kServer}, {.reads = {.initiator = 8, .responder = 2}});
  const auto established = next<Established>();  // The fake's peer says 4 and 4.
  EXPECT_EQ(established.connection, *connection);
  EXPECT_EQ(established.reads.initiator, 4);
  EXPECT_EQ(established.reads.responder, 2);
}

TEST_F(ManagerTest, ARequestThatNobodyAnswersIsRejected) {
  ASSERT_TRUE(manager->listen(IpService{kServer}, 8));
  fake.request();
  const auto asked = next<Requested>();
  EXPECT_EQ(manager->deadline(), now + 30 * kSecond);
  now = manager->deadline();
  manager->on_time(now);
  EXPECT_EQ(next<Disconnected>().connection, asked.connection);
  EXPECT_EQ(manager->accept(asked.connection, {}, {}).error().code, ENOTCONN);
  EXPECT_EQ(manager->deadline(), kNever);
}

TEST_F(ManagerTest, MoreThanTheLimitAreRejectedAndOthersGoOn) {
  ASSERT_TRUE(manager->listen(IpService{kServer}, 8));
  for (int i = 0; i < 3; ++i) fake.request();
  next<Requested>(), next<Requested>();
  EXPECT_FALSE(manager->take(now));
  EXPECT_EQ(fake.ids.size(), 3u);  // The listener and two.
  EXPECT_EQ(manager->connect(IpService{kServer}, {}).error().code, ENOSPC);
}

TEST_F(ManagerTest, ARejectionSaysWhyWithThePeersData) {
  fake.faults.not_connected = 0;
  const auto connection = manager->connect(IpService{kServer}, {});
  while (!manager->queue_pair(*connection)) {
    fake.step();
    EXPECT_FALSE(manager->take(now));
  }
  last_id().coming = {RDMA_CM_EVENT_REJECTED};
  EXPECT_EQ(next<Rejected>().reason, 28);
  manager->release(*connection);
}

TEST_F(ManagerTest, APeerThatDoesNotAnswerTheEndHoldsNothing) {
  const auto connection = manager->connect(IpService{kServer}, {});
  next<Established>();
  fake.faults.event_lost = 1000;
  manager->disconnect(*connection, now);
  EXPECT_FALSE(manager->take(now));
  now = manager->deadline();
  manager->on_time(now);
  EXPECT_FALSE(next<Disconnected>().words.empty());
  manager->release(*connection);
  EXPECT_EQ(manager->count(), 0u);
}

TEST_F(ManagerTest, ANumberUsedAgainIsAnotherConnection) {
  const auto first = manager->connect(IpService{kServer}, {});
  manager->disconnect(*first, now);
  next<Disconnected>();
  manager->release(*first);
  const auto second = manager->connect(IpService{kServer}, {});
  EXPECT_EQ(number_of(*first), number_of(*second));
  EXPECT_NE(*first, *second);
  manager->disconnect(*first, now);  // Nothing.
  EXPECT_EQ(next<Established>().connection, *second);
}

}  // namespace
}  // namespace verbatim::ulp::rdma
