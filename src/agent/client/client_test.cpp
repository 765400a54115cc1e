#include "agent/client/client.h"

#include <algorithm>
#include <set>

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "agent/agent_test_util.h"
#include "agent/protocol/protocol.h"
#include "service/folder.h"

namespace verbatim::agent {
namespace {

using Numbers = std::vector<std::uint32_t>;

class Agent : public AgentTest {
 protected:
  /// Checks that packets for each client's slot reach only that client.
  static void expect_steering(const std::vector<AgentClient*>& clients, std::size_t segments = 1) {
    PacketSender sender(clients[0]->node().addresses[0]);
    for (const auto* client : clients) {
      EXPECT_TRUE(link::UdpSocket::adopt(client->sockets()[0])->merges());
      sender.send(client->node().addresses[0], qpn_of(client->slot(), 7), segments);
    }
    for (const auto* client : clients) {
      const Numbers expected(segments, qpn_of(client->slot(), 7).value());
      EXPECT_EQ(received(client->sockets()[0], kTestTimeoutMs), expected)
          << "slot " << client->slot();
    }
    for (const auto* client : clients) EXPECT_TRUE(received(client->sockets()[0]).empty());
  }
};

TEST_F(Agent, TellsTheNode) {
  const auto client = join("a", "127.78.0.1");
  const Node node = client->node();
  EXPECT_EQ(node.name, "a");
  EXPECT_EQ(node.interface, "lo");
  EXPECT_EQ(active_mtu(node.network.interface_mtu_bytes), Mtu::k4096);
  ASSERT_EQ(node.addresses.size(), 1u);
  EXPECT_EQ(node.addresses[0].text(), "127.78.0.1:4791");
  ASSERT_EQ(node.gids.size(), 2u);
  EXPECT_EQ(mac_text(node.mac), "02:00:7f:4e:00:01");
  EXPECT_EQ(gid_text(node.gids[0].gid), "fe80::7fff:fe4e:1");
  EXPECT_EQ(gid_text(node.gids[1].gid), "::ffff:127.78.0.1");
  EXPECT_EQ(client->slot(), 1u);
  EXPECT_EQ(client->sockets().size(), 1u);
  EXPECT_TRUE(client->connected());
}

TEST_F(Agent, TellsThePortFromTheStartAndAfterRejoining) {
  const auto client = join("a", "127.78.0.1,127.78.0.2");
  std::vector<NetworkState> heard;
  client->set_port_listener(
      [&](const Node& now, const std::vector<int>&) { heard.push_back(now.network); });
  const NetworkState well = client->node().network;
  EXPECT_EQ(well.addresses, 0b11u);
  EXPECT_EQ(heard, std::vector{well});
  end_agent(client->node().agent_pid, SIGKILL);
  rejoin(*client);
  while (readable(client->fd(), 200)) client->handle_event();
  EXPECT_EQ(client->node().network, well);
  EXPECT_EQ(heard, std::vector{well});  // Nothing has changed.
}

TEST_F(Agent, ANamedNodeHasAnAddressOfItsOwn) {
  const auto a = join("first"), b = join("second");
  EXPECT_TRUE(a->node().addresses[0].is_loopback());
  EXPECT_FALSE(same_ip(a->node().addresses[0], b->node().addresses[0]));
}

TEST_F(Agent, SteersPacketsToTheProgramOfTheirSlot) {
  const auto a = join("a", "127.78.0.1"), b = join("a"), c = join("a");
  EXPECT_EQ((std::set{a->slot(), b->slot(), c->slot()}), (std::set{1u, 2u, 3u}));
  expect_steering({a.get(), b.get(), c.get()});
}

TEST_F(Agent, SteersSegmentedDatagrams) {
  const auto a = join("a", "127.78.0.1"), b = join("a");
  expect_steering({a.get(), b.get()}, 40);
}

TEST_F(Agent, SteersBeyondTheFirstSockets) {
  std::vector<std::unique_ptr<AgentClient>> owners;
  std::vector<AgentClient*> clients;
  for (int i = 0; i < 20; ++i) {
    owners.push_back(join("a", "127.78.0.1"));
    clients.push_back(owners.back().get());
  }
  expect_steering(clients);
}

TEST_F(Agent, EachAddressHasItsGroup) {
  const auto a = join("a", "127.78.0.1,127.78.0.11"), b = join("a");
  ASSERT_EQ(b->sockets().size(), 2u);
  PacketSender sender(b->node().addresses[1]);
  sender.send(b->node().addresses[1], qpn_of(b->slot(), 1));
  EXPECT_EQ(received(b->sockets()[1], kTestTimeoutMs), Numbers{qpn_of(b->slot(), 1).value()});
  EXPECT_TRUE(received(b->sockets()[0]).empty());
}

TEST_F(Agent, TwoNodesOfOneMachineReachEachOther) {
  const auto a = join("a", "127.78.0.1"), b = join("b", "127.78.0.2");
  EXPECT_NE(a->node().guid, b->node().guid);
  PacketSender from_a(a->node().addresses[0]), from_b(b->node().addresses[0]);
  from_a.send(b->node().addresses[0], qpn_of(b->slot(), 1));
  from_b.send(a->node().addresses[0], qpn_of(a->slot(), 2));
  EXPECT_EQ(received(b->sockets()[0], kTestTimeoutMs), Numbers{qpn_of(1, 1).value()});
  EXPECT_EQ(received(a->sockets()[0], kTestTimeoutMs), Numbers{qpn_of(1, 2).value()});
  EXPECT_EQ(list_nodes().value(), (std::vector<std::string>{"a", "b"}));
}

TEST_F(Agent, AnAddressBelongsToOneNode) {
  const auto a = join("a", "127.78.0.1");
  const auto b = AgentClient::join(options("b", "127.78.0.1"), {});
  ASSERT_FALSE(b);
  EXPECT_EQ(b.error().code, EADDRINUSE);
  EXPECT_EQ(b.error().text, "127.78.0.1 is already the address of node 'a'");
}

TEST_F(Agent, APortThatAnotherProgramHasIsRefused) {
  const auto address = SocketAddress::parse("127.78.0.5", kRocePort).value();
  const UniqueFd stranger(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(bind(stranger.get(), address.data(), address.size()), 0);
  const auto client = AgentClient::join(options("a", "127.78.0.5"), {});
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().code, EADDRINUSE);
  EXPECT_TRUE(client.error().text.contains("127.78.0.5")) << client.error().text;
}

TEST_F(Agent, ARunningNodeKeepsItsAddresses) {
  const auto a = join("a", "127.78.0.1");
  EXPECT_TRUE(AgentClient::join(options("a", "127.78.0.1"), {}));
  const auto other = AgentClient::join(options("a", "127.78.0.3"), {});
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, EEXIST);
  EXPECT_EQ(other.error().text,
            "node 'a' runs already, with the address 127.78.0.1 (asked for: 127.78.0.3)");
}

TEST_F(Agent, AnAddressOfNoInterfaceIsRefused) {
  const auto client = AgentClient::join(options("a", "198.51.100.1"), {});
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().code, EADDRNOTAVAIL);
}

TEST_F(Agent, AMissingProgramIsNamed) {
  AgentOptions wanted = options("a");
  wanted.agent_program = "/nowhere/verbatimd";
  const auto client = AgentClient::join(wanted, {});
  ASSERT_FALSE(client);
  EXPECT_EQ(client.error().code, ENOENT);
  EXPECT_NE(client.error().text.find("/nowhere/verbatimd"), std::string::npos);
}

TEST_F(Agent, LeavesAfterTheLastProgram) {
  auto client = join("a", "127.78.0.1");
  const pid_t agent = client->node().agent_pid;
  client.reset();
  EXPECT_TRUE(has_ended(agent));
  EXPECT_TRUE(files().empty());
}

TEST_F(Agent, CommandsDoNotNeedASlot) {
  const auto started = start_node(options("a", "127.78.0.1"));
  ASSERT_TRUE(started) << started.error().text;
  EXPECT_EQ(node_description("a")->addresses, started->addresses);
  EXPECT_EQ(join("a")->slot(), 1u);
  EXPECT_EQ(node_description("nobody").error().code, ENOENT);
  EXPECT_EQ(request_status("nobody").error().code, ENOENT);
}

TEST_F(Agent, TwentyProgramsThatStartAtOnceShareOneAgent) {
  std::vector<TestProgram> programs;
  for (int i = 0; i < 20; ++i) {
    programs.emplace_back([&](const TestProgram::Tell& tell) {
      const auto client = AgentClient::join(options("a", "127.78.0.1"), {});
      tell(client ? fmt::format("{} {}", (*client)->node().agent_pid, (*client)->slot())
                  : client.error().text);
    });
  }
  std::set<std::string> agents, slots;
  for (auto& program : programs) {
    const std::string told = program.told();
    agents.insert(told.substr(0, told.find(' ')));
    slots.insert(told.substr(told.find(' ') + 1));
  }
  EXPECT_EQ(agents.size(), 1u) << *agents.begin();
  EXPECT_EQ(slots.size(), 20u);
}

TEST_F(Agent, JoiningWhileTheAgentLeavesFindsTheNext) {
  for (int round = 0; round < 20; ++round) {
    auto client = join("a", "127.78.0.1");
    ASSERT_NE(client, nullptr);
    const pid_t agent = client->node().agent_pid;
    client.reset();
    kill(agent, SIGTERM);  // It has not ended when the next round begins.
  }
  const pid_t last = start_node(options("a", "127.78.0.1"))->agent_pid;
  end_agent(last, SIGTERM);
}

TEST_F(Agent, IsNoChildAndHasNoneOfTheProgramsDescriptors) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);  // Without O_CLOEXEC.
  const auto client = join("a", "127.78.0.1");
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG | __WALL), -1);
  EXPECT_EQ(errno, ECHILD);
  close(ends[1]);
  char byte;
  ASSERT_TRUE(readable(ends[0]));
  EXPECT_EQ(read(ends[0], &byte, 1), 0);
  close(ends[0]);
}

TEST_F(Agent, TakesNoHarmFromStrangeMessages) {
  const auto client = join("a", "127.78.0.1");
  std::string path;
  for (const auto& file : files()) {
    if (file.ends_with("/a.sock")) path = file;
  }
  auto connection = service::connect_to(path);
  ASSERT_TRUE(connection);
  const std::vector<std::byte> noise(300, std::byte{0x5a});
  ASSERT_TRUE(send_bytes(connection->get(), noise, {}, 0));
  EXPECT_EQ(receive(connection->get())->as<Refusal>()->code, EPROTO);

  Hello too_many;
  too_many.wanted.address_count = 1000;
  ASSERT_TRUE(send(connection->get(), too_many));
  EXPECT_EQ(receive(connection->get())->as<Refusal>()->code, EPROTO);

  Rejoin thief;
  thief.slot = client->slot();
  ASSERT_TRUE(send(connection->get(), thief));
  EXPECT_EQ(receive(connection->get())->as<Refusal>()->code, EPROTO);
  const std::array<int, 2> no_store{STDIN_FILENO, STDIN_FILENO};
  ASSERT_TRUE(send(connection->get(), thief, no_store));
  EXPECT_EQ(receive(connection->get())->as<Refusal>()->code, ESTALE);

  DescriptionRequest later_release;
  later_release.header.version = kProtocolVersion + 1;
  ASSERT_TRUE(send(connection->get(), later_release));
  EXPECT_EQ(receive(connection->get())->as<Refusal>()->code, EPROTONOSUPPORT);
  EXPECT_EQ(node_description("a")->agent_pid, client->node().agent_pid);
}

/// A program with a separate file for each shared one.
struct Sharing {
  UniqueFd arena{memfd_create("arena", MFD_CLOEXEC)};
  UniqueFd memory{memfd_create("memory", MFD_CLOEXEC)};
  UniqueFd doorbell{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  SharedFiles files() const { return {arena.get(), memory.get(), doorbell.get()}; }

  static bool is_same(const UniqueFd& a, const UniqueFd& b) {
    struct stat one{};
    struct stat other{};
    return fstat(a.get(), &one) == 0 && fstat(b.get(), &other) == 0 && one.st_ino == other.st_ino;
  }
  void expect_at_peer(const AgentClient& client) const {
    const auto peer = request_peer(client.node().addresses[0], client.slot());
    ASSERT_TRUE(peer) << peer.error().text;
    EXPECT_TRUE(is_same(peer->arena, arena));
    EXPECT_TRUE(is_same(peer->memory, memory));
    ASSERT_EQ(eventfd_write(peer->doorbell.get(), 1), 0);
    eventfd_t rung = 0;
    EXPECT_EQ(eventfd_read(doorbell.get(), &rung), 0);
  }
};

TEST_F(Agent, HandsOutWhatAProgramSharesAlsoAfterItsDeath) {
  const Sharing sharing;
  const auto client = AgentClient::join(options("a", "127.78.0.1"), sharing.files());
  ASSERT_TRUE(client) << client.error().text;
  sharing.expect_at_peer(**client);
  end_agent((*client)->node().agent_pid, SIGKILL);
  rejoin(**client);
  sharing.expect_at_peer(**client);
}

TEST_F(Agent, HasNoPeerWhereThereIsNone) {
  const auto client = join("a", "127.78.0.1");
  const SocketAddress own = client->node().addresses[0];
  EXPECT_EQ(request_peer(own, client->slot()).error().code, EOPNOTSUPP);
  EXPECT_EQ(request_peer(own, client->slot() + 1).error().code, ENOENT);
  EXPECT_EQ(request_peer(parse_addresses("127.78.0.9")->at(0), 1).error().code, ENOENT);
}

}  // namespace
}  // namespace verbatim::agent
