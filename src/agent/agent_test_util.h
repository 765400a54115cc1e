#pragma once

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "agent/client/client.h"
#include "link/udp/udp.h"

/// Common parts of the agent's tests: a runtime folder, programs, and packets.
namespace verbatim::agent {

inline constexpr int kTestTimeoutMs = 10'000;

inline bool readable(int fd, int timeout_ms = kTestTimeoutMs) {
  pollfd waiting{fd, POLLIN, 0};
  return poll(&waiting, 1, timeout_ms) == 1;
}

/// Waits for the end of any process.
inline bool has_ended(pid_t pid) {
  const UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  return !process || readable(process.get());
}

/// A runtime folder for one test. At the end it stops all agents in it, waits for those that are
/// leaving by themselves, and expects that nothing is left.
class AgentTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string folder = testing::TempDir() + "verbatim-agent-XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    setenv("XDG_RUNTIME_DIR", folder_.c_str(), 1);
    setenv("VERBATIM_CONFIG", "/nonexistent", 1);  // No configuration file of this machine.
  }
  void TearDown() override {
    const auto nodes = list_nodes();
    for (const auto& name : nodes.value_or(std::vector<std::string>())) {
      if (const auto node = node_description(name)) end_agent(node->agent_pid, SIGTERM);
    }
    const TimeNs end = monotonic_now() + kTestTimeoutMs * kMillisecond;
    while (!files().empty() && monotonic_now() < end) usleep(1000);
    EXPECT_EQ(files(), std::vector<std::string>());
    std::filesystem::remove_all(folder_);
    unsetenv("XDG_RUNTIME_DIR");
  }

  static AgentOptions options(const std::string& node, std::string_view address = "") {
    return {.node = node,
            .addresses = parse_addresses(address).value(),
            .versions = {},
            .protocol = {},
            .device = {},
            .profile = {},
            // It is beside the test program.
            .agent_program =
                std::filesystem::read_symlink("/proc/self/exe").replace_filename("verbatimd")};
  }
  static std::unique_ptr<AgentClient> join(const std::string& node, std::string_view address = "") {
    auto client = AgentClient::join(options(node, address), {});
    EXPECT_TRUE(client) << client.error().text;
    return client ? std::move(*client) : nullptr;
  }
  static void end_agent(pid_t pid, int signal_number) {
    ASSERT_GT(pid, 1);
    kill(pid, signal_number);
    EXPECT_TRUE(has_ended(pid));
  }
  std::vector<std::string> files() const {
    std::vector<std::string> names;
    std::error_code gone;  // An agent that leaves removes them meanwhile.
    const std::filesystem::recursive_directory_iterator end;
    for (auto at = std::filesystem::recursive_directory_iterator(folder_, gone); at != end;
         at.increment(gone)) {
      names.push_back(at->path().string());
    }
    return names;
  }
  const std::string& folder() const { return folder_; }

 private:
  std::string folder_;
};

/// Lets a client notice that its agent has died, and rejoin another.
inline void rejoin(AgentClient& client) {
  while (client.connected() && readable(client.fd())) client.handle_event();
  while (!client.connected() && readable(client.fd())) client.handle_event();
  EXPECT_TRUE(client.connected());
}

/// A separate program: a forked process that runs `body` and sends a line of text.
class TestProgram {
 public:
  /// The body gets a function that sends text to the test, and then waits until the test lets it
  /// continue.
  using Tell = std::function<void(const std::string&)>;
  explicit TestProgram(const std::function<void(const Tell&)>& body) {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    pid_ = fork();
    if (pid_ == 0) {
      close(ends[0]);
      body([&](const std::string& text) {
        char go;
        if (send(ends[1], text.data(), text.size(), MSG_NOSIGNAL) < 0) _exit(1);
        if (recv(ends[1], &go, 1, 0) <= 0) _exit(1);
      });
      _exit(0);
    }
    close(ends[1]);
    channel_.reset(ends[0]);
  }
  TestProgram(TestProgram&& other) noexcept
      : pid_(std::exchange(other.pid_, 0)), channel_(std::move(other.channel_)) {}
  TestProgram& operator=(TestProgram&&) = delete;
  ~TestProgram() { kill_now(); }

  std::string told() {
    std::string text(256, '\0');
    if (!readable(channel_.get())) return "nothing";
    const auto length = recv(channel_.get(), text.data(), text.size(), 0);
    text.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
    return text;
  }
  void let_go() { EXPECT_EQ(send(channel_.get(), "g", 1, MSG_NOSIGNAL), 1); }
  void kill_now() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
  UniqueFd channel_;
};

/// Sends packets of which only the destination queue pair number matters.
class PacketSender {
 public:
  explicit PacketSender(const SocketAddress& from) : sender_(from, 1) {}

  void send(const SocketAddress& to, Qpn qpn, std::size_t segments = 1) {
    constexpr std::size_t kSize = 1024;
    std::vector<std::byte> bytes(segments * kSize);
    for (std::size_t i = 0; i < segments; ++i)
      store_be24(bytes.data() + i * kSize + 5, qpn.value());
    const auto* socket = sender_.socket_for(to, qpn).value();
    ASSERT_EQ(socket->send(to, bytes, kSize), 0);
  }

 private:
  link::UdpSender sender_;
};

/// Returns the queue pair numbers of the packets in a program's socket.
inline std::vector<std::uint32_t> received(int fd, int timeout_ms = 0) {
  std::vector<std::uint32_t> numbers;
  std::array<std::byte, 65'536> bytes;
  while (readable(fd, numbers.empty() ? timeout_ms : 0)) {
    const auto length = recv(fd, bytes.data(), bytes.size(), MSG_DONTWAIT);
    for (ssize_t i = 0; i + 1024 <= length; i += 1024) {
      numbers.push_back(load_be24(bytes.data() + i + 5));
    }
  }
  return numbers;
}

}  // namespace verbatim::agent
