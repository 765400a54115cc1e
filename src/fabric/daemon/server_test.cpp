#include "fabric/daemon/server.h"

#include <cstdlib>
#include <filesystem>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "fabric/topology/read.h"

namespace verbatim::fabric {
namespace {

constexpr std::string_view kTwoHosts = R"(
Switch 4 "S"
[1] "H1"[1]
[2] "H2"[1]

Hca 1 "H1"
[1] "S"[1]

Hca 1 "H2"
[1] "S"[2]
)";

protocol::HostName host(std::string_view name) {
  protocol::HostName text;
  protocol::put_text(text, name);
  return text;
}

/// A daemon in a thread, with a runtime folder of its own.
class FabricServer : public testing::Test {
 protected:
  void SetUp() override {
    std::string folder = testing::TempDir() + "fabric-server-XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    setenv("XDG_RUNTIME_DIR", folder.c_str(), 1);
    auto created = Server::create({.name = "test", .topology = read_topology(kTwoHosts).topology});
    ASSERT_TRUE(created) << created.error().text;
    server_ = std::move(*created);
    daemon_ = std::thread([this] { server_->run(); });
  }
  void TearDown() override {
    if (daemon_.joinable()) {
      EXPECT_TRUE(protocol::send(connect().get(), protocol::StopRequest{}));
      daemon_.join();
    }
    server_.reset();
    std::filesystem::remove_all(folder_);
  }
  static UniqueFd connect() {
    auto connection = protocol::FabricFolder::of("test")->connect();
    EXPECT_TRUE(connection) << connection.error().text;
    return std::move(*connection);
  }

 private:
  std::string folder_;
  std::unique_ptr<Server> server_;
  std::thread daemon_;
};

TEST_F(FabricServer, WatcherIsToldOfEachChange) {
  const UniqueFd connection = connect();
  auto facts = protocol::ask<protocol::HostDescription>(connection.get(),
                                                        protocol::WatchHost{.host = host("H1")});
  ASSERT_TRUE(facts) << facts.error().text;
  constexpr std::uint8_t kInitialize = 2;  // Of PortState, when the link has trained.
  while (facts && facts->ports[0].state != kInitialize) {
    facts = protocol::await<protocol::HostDescription>(connection.get());
  }
  ASSERT_TRUE(facts) << facts.error().text;
  EXPECT_EQ(facts->ports[0].physical_state, 5);
  EXPECT_EQ(facts->ports[0].width, 2);
}

TEST_F(FabricServer, ConnectionWatchesOneHost) {
  const UniqueFd connection = connect();
  EXPECT_EQ(protocol::ask<protocol::HostDescription>(connection.get(),
                                                     protocol::WatchHost{.host = host("H9")})
                .error()
                .code,
            ENODEV);
  const protocol::WatchHost wanted{.host = host("H2")};
  const auto facts = protocol::ask<protocol::HostDescription>(connection.get(), wanted);
  ASSERT_TRUE(facts) << facts.error().text;
  auto again = protocol::ask<protocol::HostDescription>(connection.get(), wanted);
  while (again) again = protocol::await<protocol::HostDescription>(connection.get());
  EXPECT_EQ(again.error().code, EPROTO);
}

TEST_F(FabricServer, AddressLeadsToTheGidOfItsHost) {
  const UniqueFd connection = connect();
  const auto facts = protocol::ask<protocol::HostDescription>(
      connection.get(), protocol::HostRequest{.host = host("H2")});
  ASSERT_TRUE(facts) << facts.error().text;
  const auto found = protocol::ask<protocol::HostGid>(
      connection.get(), protocol::GidRequest{.address = facts->address});
  ASSERT_TRUE(found) << found.error().text;
  EXPECT_EQ(load_be<std::uint64_t>(std::as_bytes(std::span(found->gid)).data() + 8),
            facts->ports[0].guid);
  const auto nobodys = protocol::ask<protocol::HostGid>(
      connection.get(), protocol::GidRequest{.address = {127, 0, 0, 1}});
  EXPECT_EQ(nobodys.error().code, EHOSTUNREACH);
}

std::uint32_t capabilities_of(std::string_view name) {
  auto connection = protocol::FabricFolder::of("test")->connect();
  const auto facts = protocol::ask<protocol::HostDescription>(
      connection->get(), protocol::HostRequest{.host = host(name)});
  return facts ? facts->ports[0].capabilities : 0;
}

/// As a target; srp_daemon registers an agent that takes no requests.
TEST_F(FabricServer, PortShowsItsAgentOfDeviceManagement) {
  constexpr std::uint32_t kBit = wire::port_capability::kDeviceManagement;
  constexpr std::uint64_t kGet = 1 << 1;
  protocol::RegisterAgent agent{.management_class = raw(wire::MadClass::device_management),
                                .class_version = 1};
  UniqueFd port = connect();
  const auto open = protocol::ask<protocol::Opened>(
      port.get(), protocol::OpenPort{.host = host("H1"), .port = 1});
  ASSERT_TRUE(open) << open.error().text;
  ASSERT_TRUE(protocol::ask_beside<protocol::Registered>(port.get(), agent));
  EXPECT_EQ(capabilities_of("H1") & kBit, 0u);
  agent.methods = {kGet, 0};
  const auto target = protocol::ask_beside<protocol::Registered>(port.get(), agent);
  ASSERT_TRUE(target) << target.error().text;
  EXPECT_EQ(capabilities_of("H1") & kBit, kBit);
  EXPECT_EQ(capabilities_of("H2") & kBit, 0u);
  ASSERT_TRUE(protocol::ask_beside<protocol::Done>(
      port.get(), protocol::UnregisterAgent{.agent = target->agent}));
  EXPECT_EQ(capabilities_of("H1") & kBit, 0u);
  ASSERT_TRUE(protocol::ask_beside<protocol::Registered>(port.get(), agent));
  EXPECT_EQ(capabilities_of("H1") & kBit, kBit);
  port.reset();
  while ((capabilities_of("H1") & kBit) != 0) std::this_thread::yield();
}

/// All descriptors that the process may have, until it goes.
class NoDescriptors {
 public:
  NoDescriptors() {
    getrlimit(RLIMIT_NOFILE, &before_);
    constexpr rlim_t kEnough = 256;
    const rlimit few{.rlim_cur = kEnough, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_NOFILE, &few);
    while (all_.empty() || all_.back()) all_.emplace_back(fcntl(0, F_DUPFD_CLOEXEC, 0));
  }
  ~NoDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit before_{};
  std::vector<UniqueFd> all_;
};

TimeNs processor_time() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return used.tv_sec * kSecond + used.tv_nsec;
}

TEST_F(FabricServer, WithoutADescriptorForNewcomersItSleepsAndTakesThemLater) {
  const UniqueFd newcomer(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  sockaddr_un at{.sun_family = AF_UNIX, .sun_path = {}};
  protocol::FabricFolder::of("test")->socket().copy(at.sun_path, sizeof at.sun_path - 1);
  {
    const NoDescriptors none;
    ASSERT_EQ(::connect(newcomer.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
    const TimeNs before = processor_time();
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    EXPECT_LT(processor_time() - before, 100 * kMillisecond);
  }
  const auto facts = protocol::ask<protocol::HostDescription>(
      newcomer.get(), protocol::HostRequest{.host = host("H2")});
  EXPECT_TRUE(facts) << facts.error().text;
}

}  // namespace
}  // namespace verbatim::fabric
