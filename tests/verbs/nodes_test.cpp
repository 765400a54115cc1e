#include "test_util.h"

/// Two nodes of one machine: separate processes with separate agents.
namespace verbs_test {
namespace {

TEST(Nodes, HaveGidsOfTheirOwnAndReachEachOtherByBoth) {
  for (const std::uint8_t index : kGidIndexes) {
    OtherNode other([index](const Pipe& pipe) {
      const OpenDevice host;
      const Endpoint end(host);
      end.connect(pipe.exchange(end.address()), {.gid_index = index});
      ASSERT_EQ(end.receive(1, 0, 1000), 0);
      pipe.send(true);
      const ibv_wc received = end.wait();
      ASSERT_OK(received);
      EXPECT_EQ(difference(end.memory().first(1000), 1), std::nullopt);
      ASSERT_EQ(end.post(IBV_WR_SEND, 2, 0, 1000), 0);
      ASSERT_OK(end.wait());
      pipe.receive<bool>();
    });
    const OpenDevice host;
    const Endpoint end(host);
    const Address peer = other.pipe().exchange(end.address());
    EXPECT_NE(std::memcmp(&peer.gids[index], host.gid(index).raw, sizeof(ibv_gid)), 0);
    end.connect(peer, {.gid_index = index});
    fill(end.memory().first(1000), 1);
    ASSERT_EQ(end.receive(3, 2000, 1000), 0);
    ASSERT_TRUE(other.pipe().receive<bool>());
    ASSERT_EQ(end.post(IBV_WR_SEND, 1, 0, 1000), 0);
    ASSERT_OK(end.wait());
    ASSERT_OK(end.wait());
    EXPECT_EQ(difference(end.memory().subspan(2000, 1000), 1), std::nullopt);
    other.pipe().send(true);
  }
}

TEST(Nodes, OneSidedOperationsNeedNothingOfThePeersProgram) {
  OtherNode other([](const Pipe& pipe) {
    const OpenDevice host;
    const Endpoint end(host, {.memory_bytes = 1 << 20});
    fill(end.memory().first(1 << 19), 3);
    end.connect(pipe.exchange(end.address()));
    pipe.send(true);
    pipe.receive<bool>();  // Sleeps here: its background thread answers.
    EXPECT_EQ(difference(end.memory().subspan(1 << 19), 4), std::nullopt);
  });
  const OpenDevice host;
  const Endpoint end(host, {.memory_bytes = 1 << 20});
  const Address peer = other.pipe().exchange(end.address());
  end.connect(peer);
  fill(end.memory().subspan(1 << 19), 4);
  ASSERT_TRUE(other.pipe().receive<bool>());
  ASSERT_EQ(end.post(IBV_WR_RDMA_READ, 1, 0, 1 << 19, to(peer)), 0);
  ASSERT_EQ(end.post(IBV_WR_RDMA_WRITE, 2, 1 << 19, 1 << 19, to(peer, 1 << 19)), 0);
  ASSERT_OK(end.wait());
  ASSERT_OK(end.wait());
  EXPECT_EQ(difference(end.memory().first(1 << 19), 3), std::nullopt);
  other.pipe().send(true);
}

TEST(Nodes, AKilledPeerExhaustsTheRetries) {
  OtherNode other([](const Pipe& pipe) {
    const OpenDevice host;
    const Endpoint end(host);
    end.connect(pipe.exchange(end.address()));
    pipe.send(true);
    pipe.receive<bool>();  // Does not arrive.
  });
  const OpenDevice host;
  const Endpoint end(host);
  const Address peer = other.pipe().exchange(end.address());
  end.connect(peer, {.timeout = 10, .retry_count = 2});
  ASSERT_TRUE(other.pipe().receive<bool>());
  other.kill();
  ASSERT_EQ(end.post(IBV_WR_RDMA_WRITE, 1, 0, 8, to(peer)), 0);
  EXPECT_EQ(end.wait().status, IBV_WC_RETRY_EXC_ERR);
}

TEST(Fork, AChildOpensTheDeviceAnew) {
  const Pair
      pair;  // Opened before the fork: the child has another node, and the parent's continues.
  {
    OtherNode other([](const Pipe&) {
      const Pair own;
      ASSERT_EQ(own.b.receive(1, 0, 8), 0);
      ASSERT_EQ(own.a.post(IBV_WR_SEND, 2, 0, 8), 0);
      ASSERT_OK(own.b.wait());
    });
  }
  ASSERT_EQ(pair.b.receive(1, 0, 8), 0);
  ASSERT_EQ(pair.a.post(IBV_WR_SEND, 2, 0, 8), 0);
  ASSERT_OK(pair.b.wait());
  ASSERT_OK(pair.a.wait());
}

}  // namespace
}  // namespace verbs_test
