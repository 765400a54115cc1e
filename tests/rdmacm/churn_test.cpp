#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include <malloc.h>

#include "test_util.h"

/// Many connections, one generation after the other, must leave nothing behind.
namespace rdmacm_test {
namespace {

constexpr int kGenerations = 100;
constexpr int kConnections = 100;  // At the same time.

/// One connection with both ends in this process.
struct Connection {
  explicit Connection(std::uint16_t port) : client(port) {}
  Client client;
  Id server;
};

/// On a busy machine, the first connections leave TimeWait before the last have ended.
bool hears_of_end(const Channel& channel) {
  Event event = channel.next();
  while (event && event->event == RDMA_CM_EVENT_TIMEWAIT_EXIT) event = channel.next();
  return event && event->event == RDMA_CM_EVENT_DISCONNECTED;
}

/// Connects kConnections clients to the listener, and ends all of them.
void live_and_die(Listener& listener) {
  std::vector<std::unique_ptr<Connection>> connections;
  for (int i = 0; i < kConnections; ++i) {
    connections.push_back(std::make_unique<Connection>(listener.port()));
    ASSERT_EQ(connections.back()->client.connect(), 0);
  }
  for (const auto& connection : connections) {
    const Event request = listener.channel.expect(RDMA_CM_EVENT_CONNECT_REQUEST);
    ASSERT_TRUE(request);
    connection->server.reset(request->id);
    make_queue_pair(request->id);
    rdma_conn_param wanted = parameters();
    ASSERT_EQ(rdma_accept(request->id, &wanted), 0) << std::strerror(errno);
  }
  for (const auto& connection : connections) {
    ASSERT_TRUE(connection->client.channel.expect(RDMA_CM_EVENT_ESTABLISHED));
    ASSERT_TRUE(listener.channel.expect(RDMA_CM_EVENT_ESTABLISHED));
  }
  for (const auto& connection : connections) {
    ASSERT_EQ(rdma_disconnect(connection->client.id.get()), 0);
  }
  for (const auto& connection : connections) {
    ASSERT_TRUE(hears_of_end(listener.channel));
    ASSERT_TRUE(hears_of_end(connection->client.channel));
    ASSERT_EQ(rdma_disconnect(connection->server.get()), 0);
  }
}

/// Returns the output of `command`.
std::string output_of(const std::string& command) {
  std::string output;
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return output;
  std::array<char, 4096> part;
  while (const auto count = fread(part.data(), 1, part.size(), pipe)) {
    output.append(part.data(), count);
  }
  pclose(pipe);
  return output;
}

/// Returns the status of this process's node from `verbatim status`.
std::string node_status() { return output_of(VERBATIM_COMMAND " status --json"); }

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

std::size_t open_descriptors(const std::string& pid) {
  using Folder = std::filesystem::directory_iterator;
  return static_cast<std::size_t>(std::distance(Folder("/proc/" + pid + "/fd"), Folder()));
}

std::size_t resident_kib(const std::string& pid) {
  std::ifstream status("/proc/" + pid + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::stoul(line.substr(6));
  }
  return 0;
}

/// What connections could leave behind in this process and in its agent.
struct Footprint {
  Footprint() {
    const std::string status = node_status();
    const std::string label = "\"agent_pid\": ";
    const std::string agent =
        std::to_string(std::stoul(status.substr(status.find(label) + label.size())));
    agent_descriptors = open_descriptors(agent);
    agent_kib = resident_kib(agent);
    bound_ports = count(status, "\"listens\"");
    queue_pairs = count(status, "\"qpn\"");
  }
  // Zero under sanitizers, which check for leaks themselves.
  std::size_t bytes = mallinfo2().uordblks;
  std::size_t descriptors = open_descriptors("self");
  std::size_t agent_descriptors = 0;
  std::size_t agent_kib = 0;
  std::size_t bound_ports = 0;
  std::size_t queue_pairs = 0;
};

/// Returns true if no more is there than before. The agent closes the connection of `verbatim
/// status` in its own time.
bool is_within(const Footprint& after, const Footprint& before) {
  constexpr std::size_t kSlackBytes = 128 << 10;
  constexpr std::size_t kSlackKib = 512;
#ifdef __SANITIZE_ADDRESS__
  constexpr bool kKeepsFreed = true;  // For a while, in order to find later uses of it.
#else
  constexpr bool kKeepsFreed = false;
#endif
  return after.bytes <= before.bytes + kSlackBytes && after.descriptors == before.descriptors &&
         after.agent_descriptors <= before.agent_descriptors &&
         (kKeepsFreed || after.agent_kib <= before.agent_kib + kSlackKib) &&
         after.bound_ports == before.bound_ports && after.queue_pairs == before.queue_pairs;
}

TEST(Churn, TenThousandConnectionsLeaveNothing) {
  constexpr auto kTimeWaitMax = std::chrono::seconds(20);
  Listener listener(RDMA_PS_TCP, kConnections);
  live_and_die(listener);
  const Footprint before;
  ASSERT_EQ(before.bound_ports, 1u);  // The listener's.
  ASSERT_EQ(before.queue_pairs, 0u);
  for (int i = 0; i < kGenerations && !HasFatalFailure(); ++i) live_and_die(listener);
  const auto end = std::chrono::steady_clock::now() + kTimeWaitMax;
  Footprint after;
  while (!is_within(after, before) && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    after = Footprint();
  }
  EXPECT_TRUE(is_within(after, before))
      << "bytes " << before.bytes << " " << after.bytes << ", descriptors " << before.descriptors
      << " " << after.descriptors << "; the agent's descriptors " << before.agent_descriptors << " "
      << after.agent_descriptors << ", KiB " << before.agent_kib << " " << after.agent_kib
      << ", ports " << after.bound_ports << ", queue pairs " << after.queue_pairs;
}

}  // namespace
}  // namespace rdmacm_test
