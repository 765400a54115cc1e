#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <fcntl.h>
#include <getopt.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "agent/client/start_agent.h"
#include "agent/protocol/protocol.h"
#include "agent/server/server.h"
#include "base/log.h"
#include "base/os/scheduling.h"

/// The agent's executable. Programs start it by themselves; users need not.
namespace verbatim::agent {
namespace {

constexpr std::string_view kHelp =
    R"(verbatimd: the agent of a Verbatim node

It is started by the first program of a node and leaves half a second after the last.

usage: verbatimd [--node NAME] [--address IP[,IP...]] [--protocol NAME] [--roce VERSION[,VERSION]]
                 [--device NAME] [--profile NAME] [--fabric NAME] [--host NAME]
                 [--function SOCKET/VF] [--stay]
  --node NAME       the node (default: local)
  --address IP,...  its addresses (default: those of the first network interface for node 'local',
                    else an address of the loopback interface that follows from the name)
  --protocol NAME   what its adapter speaks: roce (default) or iwarp, over TCP
  --roce v1,v2      versions of its GIDs, that of its connection manager first (default: v2); v1, Ethernet
                    frames, needs CAP_NET_RAW
  --device NAME     the name of its device, or a rule such as NAME_GUID (default: verbatim0)
  --profile NAME    the device whose limits it has (default: verbatim)
  --host NAME       the host of an InfiniBand fabric that it is: no address of its own then
  --fabric NAME     the fabric of the host (default: default)
  --function SOCKET/VF  the function of a card that is its interface: needs --address
  --stay            serve until a signal comes, also without programs: for systemd
  --ready-fd N      close descriptor N when ready; log into the runtime folder
  --help, --version

What no option says is as the file verbatim.d/NODE.conf in ~/.config or /etc says: see 'verbatim config'.
)";

struct CommandLine {
  Server::Options options;
  UniqueFd ready;
};

/// Options that are keys of a node's file, too: `getopt_long` gives 256 and the index.
constexpr std::array<const char*, 8> kSettings{"address", "protocol", "roce", "device",
                                               "profile", "fabric",   "host", "function"};
constexpr int kFirstSetting = 256;

Result<CommandLine> parse(int argc, char** argv) {
  CommandLine line;
  std::vector<option> known{{"node", required_argument, nullptr, 'n'},
                            {"ready-fd", required_argument, nullptr, 'r'},
                            {"stay", no_argument, nullptr, 's'},
                            {"help", no_argument, nullptr, 'h'},
                            {"version", no_argument, nullptr, 'v'}};
  for (int i = 0; i < static_cast<int>(kSettings.size()); ++i) {
    known.push_back({kSettings[i], required_argument, nullptr, kFirstSetting + i});
  }
  known.push_back({});
  for (int c; (c = getopt_long(argc, argv, "", known.data(), nullptr)) != -1;) {
    if (c == 'n') {
      line.options.node = optarg;
    } else if (c >= kFirstSetting) {
      const std::string key = kSettings[static_cast<std::size_t>(c - kFirstSetting)];
      line.options.given.push_back({key, optarg, "--" + key});
    } else if (c == 's') {
      line.options.stays = true;
    } else if (c == 'r') {
      line.ready.reset(std::atoi(optarg));
      fcntl(line.ready.get(), F_SETFD, FD_CLOEXEC);
    } else if (c == 'h' || c == 'v') {
      if (c == 'h') fmt::print("{}", kHelp);
      if (c == 'v') fmt::print("verbatimd {}\n", VERBATIM_VERSION);
      std::exit(0);
    } else {
      return refuse(EINVAL, "see verbatimd --help");
    }
  }
  if (optind < argc) return refuse(EINVAL, fmt::format("unexpected '{}'", argv[optind]));
  return line;
}

void log_into_folder(const std::string& node) {
  const auto folder = service::RuntimeFolder::open();
  if (!folder) return;
  constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW;
  const UniqueFd file(open(folder->log(node).c_str(), kFlags, 0600));
  if (!file) return;
  dup2(file.get(), STDOUT_FILENO);
  dup2(file.get(), STDERR_FILENO);
}

int fail(const UniqueFd& ready, const Error& error) {
  if (!ready) {
    fmt::print(stderr, "verbatimd: {}\n", error.text);
    return 1;
  }
  StartFailure failure;
  failure.code = error.code;
  put_text(failure.text, error.text);
  // If this fails, the process that started the agent has ended.
  [[maybe_unused]] const auto written = write(ready.get(), &failure, sizeof failure);
  return 1;
}

/// Tells systemd (sd_notify(3)) that programs may connect. Does nothing without systemd.
void notify_ready() {
  const char* const path = secure_getenv("NOTIFY_SOCKET");
  sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
  if (path == nullptr || std::strlen(path) >= sizeof address.sun_path) return;
  std::strncpy(address.sun_path, path, sizeof address.sun_path - 1);
  if (address.sun_path[0] == '@') address.sun_path[0] = '\0';  // An abstract address.
  const UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket) return log(LogLevel::warn, "cannot tell systemd: {}", std::strerror(errno));
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + std::strlen(path));
  constexpr std::string_view kReady = "READY=1";
  const auto sent = sendto(socket.get(), kReady.data(), kReady.size(), MSG_NOSIGNAL,
                           reinterpret_cast<const sockaddr*>(&address), size);
  if (sent < 0) log(LogLevel::warn, "cannot tell systemd: {}", std::strerror(errno));
}

int run(int argc, char** argv) {
  auto line = parse(argc, argv);
  if (!line) return fail(UniqueFd(), line.error());
  // The end of a terminal or of a program must not end the agent.
  signal(SIGHUP, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
  ask_for_short_slices();
  auto server = Server::create(line->options);
  if (!server) return fail(line->ready, server.error());
  if (line->ready) log_into_folder(line->options.node);
  line->ready.reset();
  notify_ready();
  (*server)->run();
  return 0;
}

}  // namespace
}  // namespace verbatim::agent

int main(int argc, char** argv) { return verbatim::agent::run(argc, argv); }
