#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>

#include <fcntl.h>
#include <fmt/format.h>
#include <getopt.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "base/os/scheduling.h"
#include "fabric/daemon/server.h"
#include "fabric/topology/file.h"

/// The daemon's program. `verbatim fabric up` starts it; nobody needs to.
namespace verbatim::fabric {
namespace {

constexpr std::string_view kHelp =
    R"(verbatim-fabricd: an InfiniBand fabric of switches and hosts

usage: verbatim-fabricd --topology FILE [--name NAME] [--manager COMMAND] [--rate link|unlimited]
                        [--ends-with PID]
  --topology FILE   nodes and links: what ibnetdiscover prints, or a net file of ibsim
  --name NAME       the fabric's name (default: default)
  --manager COMMAND the subnet manager to run on the first host of each subnet: none (default), or
                    opensm, also with options
  --rate NAME       of links: as the topology has it, or as fast as the machine (default: link)
  --ends-with PID   end when this process has ended
  --ready-fd N      close descriptor N when ready, or write into it why not
  --help, --version

Started by 'verbatim fabric up'; 'verbatim fabric down' or SIGTERM ends it.
)";

struct CommandLine {
  Server::Options options;
  std::string topology;
  std::optional<pid_t> owner;
  UniqueFd ready;
};

Result<CommandLine> parse(int argc, char** argv) {
  CommandLine line;
  line.options.name = protocol::kDefaultFabric;
  const std::array<option, 9> known{option{"topology", required_argument, nullptr, 't'},
                                    {"name", required_argument, nullptr, 'n'},
                                    {"manager", required_argument, nullptr, 'm'},
                                    {"rate", required_argument, nullptr, 'p'},
                                    {"ends-with", required_argument, nullptr, 'e'},
                                    {"ready-fd", required_argument, nullptr, 'r'},
                                    {"help", no_argument, nullptr, 'h'},
                                    {"version", no_argument, nullptr, 'v'},
                                    {}};
  for (int c; (c = getopt_long(argc, argv, "", known.data(), nullptr)) != -1;) {
    const std::string value = optarg != nullptr ? optarg : "";
    if (c == 't') {
      line.topology = value;
    } else if (c == 'n') {
      line.options.name = value;
    } else if (c == 'm') {
      auto manager = protocol::parse_manager_command(value);
      if (!manager) return std::unexpected(manager.error());
      line.options.manager = std::move(*manager);
    } else if (c == 'p' && (value == "link" || value == "unlimited")) {
      line.options.pace = value == "link" ? Keeper::Pace::by_link : Keeper::Pace::unlimited;
    } else if (c == 'e') {
      line.owner = std::atoi(optarg);
    } else if (c == 'r') {
      line.ready.reset(std::atoi(optarg));
      fcntl(line.ready.get(), F_SETFD, FD_CLOEXEC);
    } else if (c == 'h' || c == 'v') {
      if (c == 'h') fmt::print("{}", kHelp);
      if (c == 'v') fmt::print("verbatim-fabricd {}\n", VERBATIM_VERSION);
      std::exit(0);
    } else {
      return refuse(EINVAL, "see verbatim-fabricd --help");
    }
  }
  if (optind < argc) return refuse(EINVAL, fmt::format("unexpected '{}'", argv[optind]));
  if (line.topology.empty()) return refuse(EINVAL, "which topology? See --help");
  return line;
}

Result<Topology> read_file(const std::string& path) {
  auto reading = read_topology_file(path);
  if (!reading) return std::unexpected(reading.error());
  const std::string name = name_of_topology_file(path);
  for (const Fault& remark : reading->remarks) {
    log(LogLevel::warn, "{}: {}", name, text_of(remark));
  }
  if (reading->faults.empty()) return std::move(reading->topology);
  return refuse(EINVAL, fmt::format("{}: {}", name, text_of(reading->faults.front())));
}

int fail(const UniqueFd& ready, const Error& error) {
  if (ready) {
    [[maybe_unused]] const auto written = write(ready.get(), error.text.data(), error.text.size());
  } else {
    fmt::print(stderr, "verbatim-fabricd: {}\n", error.text);
  }
  return 1;
}

int run(int argc, char** argv) {
  auto line = parse(argc, argv);
  if (!line) return fail(UniqueFd(), line.error());
  std::error_code ignored;
  line->options.working_folder = std::filesystem::current_path(ignored);
  auto topology = read_file(line->topology);
  if (!topology) return fail(line->ready, topology.error());
  line->options.topology = std::move(*topology);
  if (line->owner) {
    line->options.owner.reset(static_cast<int>(syscall(SYS_pidfd_open, *line->owner, 0)));
    if (!line->options.owner) {
      return fail(line->ready, refuse_errno(fmt::format("process {}", *line->owner)).error());
    }
  }
  // It outlives whoever has started it, and keeps neither a pipe nor a folder in use.
  if (const UniqueFd null(open("/dev/null", O_RDONLY | O_CLOEXEC)); null) {
    dup2(null.get(), STDIN_FILENO);
  }
  if (chdir("/") != 0) log(LogLevel::warn, "chdir: {}", std::strerror(errno));
  signal(SIGHUP, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
  ask_for_short_slices();
  auto server = Server::create(std::move(line->options));
  if (!server) return fail(line->ready, server.error());
  line->ready.reset();
  (*server)->run();
  return 0;
}

}  // namespace
}  // namespace verbatim::fabric

int main(int argc, char** argv) { return verbatim::fabric::run(argc, argv); }
