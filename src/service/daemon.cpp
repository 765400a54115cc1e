#include "service/daemon.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <getopt.h>
#include <nlohmann/json.hpp>
#include <sys/epoll.h>
#include <sys/syscall.h>

#include "base/log.h"
#include "service/readiness.h"

namespace verbatim::service {
namespace {

constexpr TimeNs kStopPatience = 2 * kSecond;
constexpr int kFirstSetting = 256;

std::string help_of(const DaemonKind& kind) {
  std::string text =
      fmt::format("{}: {}\n\nusage: {} [OPTION]...\n", kind.program, kind.summary, kind.program);
  const auto row = [&text](const std::string& option, const std::string& help) {
    text += fmt::format("  {:<20}  {}\n", option, help);
  };
  for (const Setting& setting : kind.settings) {
    std::string help = setting.help;
    if (*setting.variable != '\0') help += fmt::format(" ({})", setting.variable);
    row(fmt::format("--{} {}", setting.name, setting.value_name), help);
  }
  row("--name NAME", "which one, if several run (default: default)");
  row("--ends-with PID", "end when this process has ended");
  row("--log FILE", "write log lines into this file, with the time");
  row("--ready-fd N", "write into descriptor N whether it serves, or why not");
  row("--help, --version", "");
  if (!kind.settings.empty()) {
    text += fmt::format(
        "\nA setting's value may stand in verbatim.d/{}/NAME.conf, too, of ~/.config "
        "or /etc,\nas a line 'name = value' with '_' for '-'.\n",
        kind.kind);
  }
  return text;
}

}  // namespace

struct Daemon::CommandLine {
  std::string name = "default";
  SaidSettings said;
  std::string log;
  pid_t owner = 0;
  Readiness ready;
};

/// Reads on after a wrong option: whoever waits for readiness is told.
Result<void> Daemon::parse(const DaemonKind& kind, int argc, char** argv, CommandLine& line) {
  bool is_wrong = false;
  std::vector<option> known{
      {"name", required_argument, nullptr, 'n'}, {"ends-with", required_argument, nullptr, 'e'},
      {"log", required_argument, nullptr, 'l'},  {"ready-fd", required_argument, nullptr, 'r'},
      {"help", no_argument, nullptr, 'h'},       {"version", no_argument, nullptr, 'v'}};
  for (std::size_t i = 0; i < kind.settings.size(); ++i) {
    known.push_back(
        {kind.settings[i].name, required_argument, nullptr, kFirstSetting + static_cast<int>(i)});
  }
  known.push_back({});
  for (int c; (c = getopt_long(argc, argv, "", known.data(), nullptr)) != -1;) {
    if (c >= kFirstSetting) {
      line.said.emplace_back(kind.settings[static_cast<std::size_t>(c - kFirstSetting)].name,
                             optarg);
    } else if (c == 'n') {
      line.name = optarg;
    } else if (c == 'l') {
      line.log = optarg;
    } else if (c == 'e') {
      line.owner = std::atoi(optarg);
    } else if (c == 'r') {
      line.ready = Readiness(UniqueFd(std::atoi(optarg)));
    } else if (c == 'h' || c == 'v') {
      if (c == 'h') fmt::print("{}", help_of(kind));
      if (c == 'v') fmt::print("{} {}\n", kind.program, VERBATIM_VERSION);
      std::exit(0);
    } else {
      is_wrong = true;
    }
  }
  if (is_wrong) return refuse(EINVAL, fmt::format("see {} --help", kind.program));
  if (optind < argc) return refuse(EINVAL, fmt::format("unexpected '{}'", argv[optind]));
  if (auto fits = check_node_name(line.name); !fits) return fits;
  return fill_settings(kind.kind, line.name, kind.settings, line.said);
}

Result<void> Daemon::open(const DaemonKind& kind, const CommandLine& line) {
  kind_ = kind.kind;
  name_ = line.name;
  began_ = monotonic_now();
  if (!line.log.empty()) {
    if (auto logs = log_into(line.log); !logs) return logs;
  }
  auto loop = Loop::create();
  if (!loop) return std::unexpected(loop.error());
  loop_ = std::move(*loop);
  if (auto signals = loop_->watch_signals(); !signals) return signals;
  if (line.owner != 0) {
    if (auto watched = watch_owner(line.owner); !watched) return watched;
  }
  auto control = Control::open({kind_, name_}, *loop_);
  if (!control) return std::unexpected(control.error());
  control_ = std::move(*control);
  control_->on("status", [this](const nlohmann::json&) { return status(); });
  control_->on("stop", [this](const nlohmann::json&) {
    loop_->stop();
    return nlohmann::json{{"process", getpid()}};
  });
  return {};
}

Result<void> Daemon::watch_owner(int process) {
  owner_.reset(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
  if (!owner_) return refuse_errno(fmt::format("process {}", process));
  return loop_->watch(owner_.get(), EPOLLIN, [this](std::uint32_t, TimeNs) { loop_->stop(); });
}

void Daemon::on_stop(std::function<void()> begin, std::function<bool()> is_done) {
  begin_to_stop_ = std::move(begin);
  is_done_ = std::move(is_done);
}

void Daemon::serve() {
  loop_->run();
  if (!begin_to_stop_) return;
  begin_to_stop_();
  const TimeNs until = loop_->now() + kStopPatience;
  while (!is_done_() && loop_->now() < until) loop_->turn(until);
}

nlohmann::json Daemon::status() const {
  nlohmann::json all{{"kind", kind_},
                     {"name", name_},
                     {"process", getpid()},
                     {"seconds", elapsed(began_, monotonic_now()) / kSecond}};
  if (status_) all.update(status_());
  return all;
}

int run_daemon(const DaemonKind& kind, int argc, char** argv,
               const std::function<Result<void>(Daemon&)>& set_up) {
  Daemon::CommandLine line;
  const auto fail = [&](const Error& error) {
    if (!line.ready.fail(error)) fmt::print(stderr, "{}: {}\n", kind.program, error.text);
    return 1;
  };
  if (auto parsed = Daemon::parse(kind, argc, argv, line); !parsed) return fail(parsed.error());
  signal(SIGHUP, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
  // Its loop outlives what `set_up` makes, which is the caller's.
  static Daemon daemon;
  if (auto opened = daemon.open(kind, line); !opened) return fail(opened.error());
  if (auto made = set_up(daemon); !made) return fail(made.error());
  // It keeps no folder of its caller's in use.
  if (chdir("/") != 0) log(LogLevel::warn, "chdir: {}", std::strerror(errno));
  log(LogLevel::info, "{} serves", ServiceName{daemon.kind_, daemon.name_}.text());
  line.ready.tell();
  daemon.serve();
  return 0;
}

}  // namespace verbatim::service
