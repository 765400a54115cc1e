#include <array>
#include <cstdlib>
#include <string_view>

#include <fcntl.h>
#include <getopt.h>
#include <signal.h>

#include "agent/protocol.h"
#include "agent/server.h"
#include "agent/start_agent.h"
#include "base/log.h"

/// The agent's program. Programs start it by themselves; nobody needs to.
namespace verbatim::agent {
namespace {

constexpr std::string_view kHelp =
    R"(verbatimd: the agent of a Verbatim node

It is started by the first program of a node and leaves half a second after the last.

usage: verbatimd [--node NAME] [--address IP[,IP...]] [--protocol NAME] [--roce VERSION[,VERSION]]
  --node NAME       the node (default: local)
  --address IP,...  its addresses (default: those of the first network interface for node 'local',
                    else an address of the loopback interface that follows from the name)
  --protocol NAME   what its adapter speaks: roce (default) or iwarp, over TCP
  --roce v1,v2      versions of its GIDs, that of its connection manager first (default: v2); v1, Ethernet
                    frames, needs CAP_NET_RAW
  --ready-fd N      close descriptor N when ready; log into the runtime folder
  --help, --version
)";

struct CommandLine {
  Server::Options options;
  UniqueFd ready;
};

Result<CommandLine> parse(int argc, char** argv) {
  CommandLine line;
  constexpr std::array<option, 8> kOptions{{{"node", required_argument, nullptr, 'n'},
                                            {"address", required_argument, nullptr, 'a'},
                                            {"protocol", required_argument, nullptr, 'p'},
                                            {"roce", required_argument, nullptr, 'o'},
                                            {"ready-fd", required_argument, nullptr, 'r'},
                                            {"help", no_argument, nullptr, 'h'},
                                            {"version", no_argument, nullptr, 'v'},
                                            {}}};
  for (int c; (c = getopt_long(argc, argv, "", kOptions.data(), nullptr)) != -1;) {
    if (c == 'n') {
      line.options.node = optarg;
    } else if (c == 'a') {
      auto addresses = parse_addresses(optarg);
      if (!addresses) return std::unexpected(addresses.error());
      line.options.addresses = std::move(*addresses);
    } else if (c == 'o') {
      auto versions = parse_roce_versions(optarg);
      if (!versions) return std::unexpected(versions.error());
      line.options.versions = std::move(*versions);
    } else if (c == 'p') {
      const auto protocol = parse_wire_protocol(optarg);
      if (!protocol) return std::unexpected(protocol.error());
      line.options.protocol = *protocol;
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
  const auto folder = RuntimeFolder::open();
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
  // Whoever started us is gone where this fails: nobody is left to be told.
  [[maybe_unused]] const auto written = write(ready.get(), &failure, sizeof failure);
  return 1;
}

int run(int argc, char** argv) {
  auto line = parse(argc, argv);
  if (!line) return fail(UniqueFd(), line.error());
  // A terminal or a program that ends is no reason to end.
  signal(SIGHUP, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
  auto server = Server::create(line->options);
  if (!server) return fail(line->ready, server.error());
  if (line->ready) log_into_folder(line->options.node);
  line->ready.reset();
  (*server)->run();
  return 0;
}

}  // namespace
}  // namespace verbatim::agent

int main(int argc, char** argv) { return verbatim::agent::run(argc, argv); }
