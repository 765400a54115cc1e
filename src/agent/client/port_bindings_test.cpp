#include "agent/client/port_bindings.h"

#include <atomic>
#include <optional>
#include <thread>

#include <nlohmann/json.hpp>

#include "agent/agent_test_util.h"
#include "agent/management/socket_port.h"
#include "agent/protocol/protocol.h"
#include "wire/mad/cm_message.h"

/// Ports and management datagrams between programs and the agent.
namespace verbatim::agent {
namespace {

constexpr std::uint16_t kPort = 7471;
const auto kService = wire::service_id_of(PortSpace::tcp, kPort);

PortBinding binding(std::uint64_t handle, std::string_view address, std::uint16_t port = kPort) {
  return {.handle = handle,
          .port_space = PortSpace::tcp,
          .address = SocketAddress::parse(address, port).value()};
}

UniqueFd bound_socket(const SocketAddress& address) {
  UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(bind(fd.get(), address.data(), address.size()), 0);
  return fd;
}

wire::CommunicationId id_in(std::uint32_t slot) {
  return static_cast<wire::CommunicationId>(slot << 22 | 5);
}

/// A peer at another loopback address, without a node: its messages sent and received.
class Peer {
 public:
  explicit Peer(std::string_view address)
      : address_(SocketAddress::parse(address, kRocePort).value()),
        socket_(bound_socket(address_)),
        sender_(address_, 1) {}
  void send(const SocketAddress& to, const wire::CmMad& mad) {
    std::array<std::byte, wire::kMadBytes> bytes{};
    wire::encode(mad, bytes);
    const auto* socket = sender_.socket_for(to, wire::kManagementQpn).value();
    const auto packet =
        wire::encode_management_packet(wire::flow_of(socket->local(), to), Psn(1), bytes);
    ASSERT_EQ(socket->send(to, packet.bytes(), packet.bytes().size()), 0);
  }
  /// Returns the message that arrives in time; its ICRC is not checked.
  std::optional<wire::CmMessage> heard() {
    std::array<std::byte, wire::kManagementPacketBytes> packet{};
    if (!readable(socket_.get())) return std::nullopt;
    if (recv(socket_.get(), packet.data(), packet.size(), 0) < 0) return std::nullopt;
    const auto mad = wire::decode_cm(
        std::span(packet).subspan(wire::Bth::kSize + wire::Deth::kSize, wire::kMadBytes));
    if (!mad) return std::nullopt;
    return mad->message;
  }
  /// Waits until the node's agent has handled earlier messages: sends one for a slot without a
  /// program, whose answer from the node comes after them.
  bool is_served_by(const SocketAddress& node) {
    send(node, {9, wire::CmDreq{.remote_id = id_in(kSlotsMax - 1)}});
    const auto answer = heard();
    return answer && std::holds_alternative<wire::CmDrep>(*answer);
  }

 private:
  SocketAddress address_;
  UniqueFd socket_;
  link::UdpSender sender_;
};

class PortBindingsTest : public AgentTest {};

TEST_F(PortBindingsTest, TheNextAgentKeepsWhatTheDeadOneGranted) {
  const auto a = join("n", "127.78.9.1");
  const auto b = join("n");
  ASSERT_TRUE(a && b);
  ASSERT_TRUE(a->bindings().bind(binding(1, "127.78.9.1")));
  ASSERT_TRUE(a->bindings().listen(1));
  EXPECT_EQ(b->bindings().bind(binding(1, "127.78.9.1")).error().code, EADDRINUSE);
  end_agent(a->node().agent_pid, SIGKILL);
  rejoin(*a);
  rejoin(*b);
  EXPECT_EQ(b->bindings().bind(binding(1, "127.78.9.1")).error().code, EADDRINUSE);
  a->bindings().release(1);
  EXPECT_EQ(b->bindings().bind(binding(1, "127.78.9.1")), kPort);
}

TEST_F(PortBindingsTest, TheNextAgentKeepsServicesThatAreNoPort) {
  const auto a = join("n", "127.78.9.14");
  const auto b = join("n");
  ASSERT_TRUE(a && b);
  PortBinding srp = binding(1, "127.78.9.14", 0);
  srp.services = ServiceRange::of(ServiceId{0x0200'0000'0010'0000}, ~std::uint64_t{0xff});
  EXPECT_EQ(a->bindings().bind(srp), 0);  // No port.
  end_agent(a->node().agent_pid, SIGKILL);
  rejoin(*a);
  rejoin(*b);
  srp.services = ServiceRange::of(ServiceId{0x0200'0000'0010'0055});
  EXPECT_EQ(b->bindings().bind(srp).error().code, EADDRINUSE);
  a->bindings().release(1);
  EXPECT_EQ(b->bindings().bind(srp), 0);
}

TEST_F(PortBindingsTest, APortIsFreeForOthersAsSoonAsItIsReleased) {
  constexpr std::uint64_t kMany = 100;
  const auto a = join("n", "127.78.9.6");
  const auto b = join("n");
  ASSERT_TRUE(a && b);
  for (std::uint64_t i = 0; i < kMany; ++i) {
    ASSERT_TRUE(
        a->bindings().bind(binding(i, "127.78.9.6", static_cast<std::uint16_t>(kPort + i))));
  }
  const auto agent = a->node().agent_pid;
  kill(agent, SIGSTOP);  // Delays its answers.
  std::thread waker([agent] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    kill(agent, SIGCONT);
  });
  for (std::uint64_t i = 0; i < kMany; ++i) a->bindings().release(i);
  EXPECT_TRUE(b->bindings().bind(binding(1, "127.78.9.6", kPort + kMany - 1)));
  waker.join();
}

struct Asked {
  BindingOperation operation;
  std::uint64_t handle;
  bool operator==(const Asked&) const = default;
};

/// An agent that answers no request until it is started, and then all, with port 1000 and the
/// handle.
class LateAgent {
 public:
  LateAgent() {
    std::array<int, 2> ends{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
    connection_.reset(ends[0]);
    own_.reset(ends[1]);
  }
  int connection() const { return connection_.get(); }
  void start() {
    thread_ = std::thread([this] { run(); });
  }
  const std::vector<Asked>& stop() {
    stops_ = true;
    thread_.join();
    return asked_;
  }

 private:
  void run() {
    while (!stops_) {
      while (auto opened = receive(own_.get(), MSG_DONTWAIT)) {
        channels_.push_back(std::move(opened->descriptors.at(0)));
      }
      for (const UniqueFd& channel : channels_) answer(channel.get());
      std::this_thread::yield();
    }
  }
  void answer(int channel) {
    while (const auto incoming = receive(channel, MSG_DONTWAIT)) {
      const auto request = incoming->as<BindingRequest>().value();
      asked_.push_back({request.operation, request.handle});
      BindingAnswer answer;
      answer.port = static_cast<std::uint16_t>(1000 + request.handle);
      static_cast<void>(send(channel, answer));  // The program may have timed out.
    }
  }

  UniqueFd connection_;
  UniqueFd own_;
  std::vector<UniqueFd> channels_;
  std::vector<Asked> asked_;
  std::atomic<bool> stops_ = false;
  std::thread thread_;
};

TEST(PortBindings, AnAnswerThatComesTooLateIsNoOtherRequests) {
  LateAgent agent;
  PortBindings bindings(std::chrono::milliseconds(50));
  bindings.attach(agent.connection());
  EXPECT_EQ(bindings.bind(binding(1, "127.0.0.1")).error().code, ETIMEDOUT);
  agent.start();
  auto port = bindings.bind(binding(2, "127.0.0.1"));
  while (!port && port.error().code == ETIMEDOUT) port = bindings.bind(binding(2, "127.0.0.1"));
  const auto& asked = agent.stop();
  EXPECT_EQ(port, 1002);
  ASSERT_GE(asked.size(), 3u);
  EXPECT_EQ(asked[0], (Asked{BindingOperation::bind, 1}));
  EXPECT_EQ(asked[1], (Asked{BindingOperation::release, 1})) << "nobody knows of it";
  EXPECT_EQ(asked.back(), (Asked{BindingOperation::bind, 2}));
}

TEST_F(PortBindingsTest, AListenerGetsRequestsAndAProgramItsReplies) {
  const auto program = join("n", "127.78.9.2");
  ASSERT_TRUE(program);
  std::vector<wire::CmMad> received;
  program->set_events({.on_mad =
                           [&](const ReceivedMad& mad) {
                             EXPECT_EQ(path_text(mad.source), "127.78.9.3:4791");
                             EXPECT_EQ(mad.destination.ip_text(), "127.78.9.2");
                             received.push_back(wire::decode_cm(mad.bytes).value());
                           },
                       .on_port_changed = {}});
  ASSERT_TRUE(program->bindings().bind(binding(1, "127.78.9.2")));
  ASSERT_TRUE(program->bindings().listen(1));
  const wire::CmMad request{7, wire::CmReq{.service_id = kService}};
  const wire::CmMad reply{8, wire::CmRep{.remote_id = id_in(program->slot())}};
  Peer peer("127.78.9.3");
  peer.send(program->node().addresses[0], request);
  peer.send(program->node().addresses[0], reply);
  while (received.size() < 2 && readable(program->fd())) program->handle_event();
  EXPECT_EQ(received, (std::vector{request, reply}));
}

/// Returns how many datagrams for programs the agent has dropped, after it has handled all earlier
/// ones.
std::uint64_t dropped(const std::string& node) {
  return nlohmann::json::parse(request_status(node).value())["programs"][0]["datagrams_dropped"];
}

TEST_F(PortBindingsTest, AFloodOfRequestsLeavesRoomForWhatConcernsConnections) {
  const auto program = join("n", "127.78.9.6");
  ASSERT_TRUE(program);
  std::optional<wire::CmMad> last;
  program->set_events(
      {.on_mad = [&](const ReceivedMad& mad) { last = wire::decode_cm(mad.bytes).value(); },
       .on_port_changed = {}});
  ASSERT_TRUE(program->bindings().bind(binding(1, "127.78.9.6")));
  ASSERT_TRUE(program->bindings().listen(1));
  const SocketAddress node = program->node().addresses[0];
  const wire::CmMad request{7, wire::CmReq{.service_id = kService}};
  const wire::CmMad goodbye{8, wire::CmDreq{.remote_id = id_in(program->slot())}};
  Peer peer("127.78.9.7");
  while (dropped("n") == 0) {
    for (int i = 0; i < 100; ++i) peer.send(node, request);
  }
  peer.send(node, goodbye);
  for (int turns = 0; turns < 3; ++turns) dropped("n");
  while (last != goodbye && readable(program->fd())) program->handle_event();
  EXPECT_EQ(last, goodbye);
}

/// More than fits in the socket of a program without the right to a larger buffer; with the right
/// (as root), more than its share for sources that send many.
TEST_F(PortBindingsTest, AFloodOfEarlyRequestsLeavesRoomForWhatConcernsConnections) {
  const auto program = join("n", "127.78.9.8");
  ASSERT_TRUE(program);
  std::optional<wire::CmMad> last;
  program->set_events(
      {.on_mad = [&](const ReceivedMad& mad) { last = wire::decode_cm(mad.bytes).value(); },
       .on_port_changed = {}});
  // Requests wait longer for a port that had a listener.
  ASSERT_TRUE(program->bindings().bind(binding(1, "127.78.9.8")));
  ASSERT_TRUE(program->bindings().listen(1));
  program->bindings().release(1);
  const SocketAddress node = program->node().addresses[0];
  for (int source = 1; source <= 12; ++source) {
    Peer peer(fmt::format("127.78.10.{}", source));
    for (int i = 0; i < 60; ++i) peer.send(node, {7, wire::CmReq{.service_id = kService}});
    ASSERT_TRUE(peer.is_served_by(node));
  }
  EXPECT_EQ(dropped("n"), 0u);
  ASSERT_TRUE(program->bindings().bind(binding(2, "127.78.9.8")));
  ASSERT_TRUE(program->bindings().listen(2));
  EXPECT_GT(dropped("n"), 0u);
  const wire::CmMad goodbye{8, wire::CmDreq{.remote_id = id_in(program->slot())}};
  Peer peer("127.78.9.9");
  peer.send(node, goodbye);
  ASSERT_TRUE(peer.is_served_by(node));
  while (last != goodbye && readable(program->fd(), 0)) program->handle_event();
  EXPECT_EQ(last, goodbye);
}

TEST_F(PortBindingsTest, AFloodFromOneSourceLeavesRoomForRequestsOfOthers) {
  const auto program = join("n", "127.78.9.10");
  ASSERT_TRUE(program);
  std::optional<wire::CmMad> last;
  program->set_events(
      {.on_mad = [&](const ReceivedMad& mad) { last = wire::decode_cm(mad.bytes).value(); },
       .on_port_changed = {}});
  ASSERT_TRUE(program->bindings().bind(binding(1, "127.78.9.10")));
  ASSERT_TRUE(program->bindings().listen(1));
  const SocketAddress node = program->node().addresses[0];
  Peer flood("127.78.9.11");
  while (dropped("n") == 0) {
    for (int i = 0; i < 300; ++i) flood.send(node, {7, wire::CmReq{.service_id = kService}});
  }
  const wire::CmMad request{8, wire::CmReq{.service_id = kService}};
  Peer peer("127.78.9.12");
  peer.send(node, request);
  ASSERT_TRUE(peer.is_served_by(node));
  while (last != request && readable(program->fd(), 0)) program->handle_event();
  EXPECT_EQ(last, request);
}

TEST_F(PortBindingsTest, WhatIsForAProgramThatHasNotRejoinedYetIsNotRefused) {
  const auto late = join("n", "127.78.9.15"), other = join("n");
  ASSERT_TRUE(late && other);
  ASSERT_TRUE(late->bindings().bind(binding(1, "127.78.9.15")));
  ASSERT_TRUE(late->bindings().listen(1));
  end_agent(late->node().agent_pid, SIGKILL);
  rejoin(*other);
  const SocketAddress node = other->node().addresses[0];
  const wire::CmMad request{7, wire::CmReq{.service_id = kService}};
  const wire::CmMad reply{8, wire::CmRep{.local_id = id_in(3), .remote_id = id_in(late->slot())}};
  Peer peer("127.78.9.16");
  peer.send(node, request);
  peer.send(node, reply);
  EXPECT_TRUE(peer.is_served_by(node)) << "what came before was answered";
  std::vector<wire::CmMad> received;
  late->set_events(
      {.on_mad =
           [&](const ReceivedMad& mad) { received.push_back(wire::decode_cm(mad.bytes).value()); },
       .on_port_changed = {}});
  rejoin(*late);
  peer.send(node, reply);
  while (received.size() < 2 && readable(late->fd())) late->handle_event();
  EXPECT_EQ(received, (std::vector{request, reply}));
}

TEST_F(PortBindingsTest, WhatIsForNobodyIsAnswered) {
  const auto program = join("n", "127.78.9.4");
  ASSERT_TRUE(program);
  const SocketAddress node = program->node().addresses[0];
  Peer peer("127.78.9.5");
  peer.send(node, {1, wire::CmReq{.local_id = id_in(3), .service_id = kService}});
  const auto rejected = peer.heard();
  ASSERT_TRUE(rejected && std::holds_alternative<wire::CmRej>(*rejected));
  EXPECT_EQ(std::get<wire::CmRej>(*rejected).reason, wire::RejectReason::invalid_service_id);
  EXPECT_EQ(std::get<wire::CmRej>(*rejected).remote_id, id_in(3));
  peer.send(node, {2, wire::CmDreq{.local_id = id_in(3), .remote_id = id_in(9)}});
  const auto confirmed = peer.heard();
  ASSERT_TRUE(confirmed && std::holds_alternative<wire::CmDrep>(*confirmed));
}

}  // namespace
}  // namespace verbatim::agent
