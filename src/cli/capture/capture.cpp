#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/capture/output.h"
#include "cli/capture/session.h"
#include "cli/capture/signals.h"
#include "cli/command.h"
#include "cli/fabric/host.h"
#include "cli/help.h"
#include "cli/program.h"
#include "cli/text/quantity.h"

namespace verbatim::cli {
namespace {

constexpr const char* kExamples =
    "Captured are all programs of the node that run, and those that start meanwhile;\n"
    "with a command after '--', until it ends, else until Ctrl-C. No root is needed.\n"
    "\n"
    "Packets are as on the wire, with their ICRC. What fault injection did to one is\n"
    "in its comment. A program never waits: packets that find no room are counted.\n"
    "On the direct path, between programs of one machine, there are no packets: use\n"
    "'--path wire'. iWARP is the kernel's TCP: use tcpdump.\n"
    "On a host of a fabric (--host), packets are InfiniBand's, LRH to VCRC; the direct\n"
    "path is between its own programs.\n"
    "\n"
    "Examples:\n"
    "  verbatim capture -w a.pcapng --node a\n"
    "  verbatim capture -w - --node a | tshark -r -\n"
    "  verbatim capture -w a.pcapng --for 10s --node a\n"
    "  verbatim capture -w a.pcapng --node a --path wire -- ib_write_bw\n"
    "  verbatim capture -w a.pcapng --host H1 -- ib_write_bw";

struct Wishes {
  NodeChoice node;
  HostChoice host;
  std::string path;
  std::optional<std::string> duration;
};

int fail(const StartFailure& failure) {
  fmt::print(stderr, "verbatim capture: {}\n", failure.text);
  return failure.exit_status;
}
int fail(const Error& error) {
  return fail(StartFailure{error.code == EINVAL ? kExitUsage : kExitFailure, error.text});
}

/// A program that the capture has started, or none.
class Child {
 public:
  Child() = default;
  /// What it prints does not mix with packets on standard output.
  static Result<Child> start(const std::string& path, std::vector<std::string> words,
                             const Signals& signals, bool has_stdout) {
    const pid_t pid = fork();
    if (pid < 0) return refuse_errno("fork");
    if (pid > 0) return Child(pid, UniqueFd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))));
    signals.restore();
    if (!has_stdout) dup2(STDERR_FILENO, STDOUT_FILENO);
    const StartFailure failure = become_program(path, std::move(words));
    fmt::print(stderr, "verbatim capture: {}\n", failure.text);
    _exit(failure.exit_status);
  }

  bool is_there() const { return pid_ != 0; }
  /// Readable when it has ended; -1 if there is none.
  int fd() const { return fd_.get(); }
  void pass_on(int signal) const { kill(pid_, signal); }
  /// Waits for its end. Returns its exit status as shells tell it.
  int wait() const {
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  Child(pid_t pid, UniqueFd fd) : pid_(pid), fd_(std::move(fd)) {}
  pid_t pid_ = 0;
  UniqueFd fd_;
};

/// Captures until a signal comes, or until the program has ended. Ctrl-C reaches a program by
/// itself; other signals are passed on to it.
Result<void> capture(Session& session, Signals& signals, TimeNs deadline, const Child& child) {
  for (;;) {
    if (auto ran = session.run(signals.fd(), child.fd(), deadline); !ran) return ran;
    const int signal = signals.next();
    if (signal == 0) return {};
    if (!child.is_there()) return {};
    if (signal != SIGINT) child.pass_on(signal);
  }
}

void print_summary(const Session& session) {
  const auto& totals = session.totals();
  fmt::print(stderr, "verbatim capture: {}, {}, of {}, in {}\n", counted(totals.packets, "packet"),
             bytes_text(totals.bytes), counted(totals.programs, "program"),
             session.output().name());
  if (totals.hit != 0) {
    fmt::print(stderr, "verbatim capture: {} of them hit by faults, which their comments tell\n",
               totals.hit);
  }
  if (totals.lost != 0) {
    fmt::print(stderr, "verbatim capture: {} lost: they came faster than they were written\n",
               counted(totals.lost, "packet"));
  }
}

/// Returns the exit status.
int capture_to_end(Session& session, Signals& signals, TimeNs deadline, const Child& child) {
  auto captured = capture(session, signals, deadline, child);
  if (captured) captured = session.finish(signals.fd());
  int status = 0;
  // EPIPE: the reader of a pipe has ended, such as `head`.
  if (!captured && captured.error().code != EPIPE) status = fail(captured.error());
  print_summary(session);
  session.close();
  if (!child.is_there()) return status;
  const int child_status = child.wait();
  return child_status != 0 ? child_status : status;
}

int run(const Wishes& wishes, const std::vector<std::string>& command) {
  TimeNs deadline = kNever;
  if (wishes.duration) {
    const auto duration = parse_duration(*wishes.duration);
    if (!duration) return fail(duration.error());
    deadline = monotonic_now() + *duration;
  }
  std::string path;
  if (command.empty()) {
    if (auto set = set_environment(wishes.node); !set) return fail(set.error());
  } else {
    auto prepared = prepare_program(wishes.node, command);
    if (!prepared) return fail(prepared.error());
    path = std::move(*prepared);
  }
  if (auto entered = enter_host(wishes.host); !entered) return fail(entered.error());
  const auto options = agent::AgentOptions::from_environment();
  if (!options) return fail(options.error());
  auto signals = Signals::take();
  if (!signals) return fail(signals.error());
  auto session = Session::open(*options, wishes.path);
  if (!session) return fail(session.error());
  if (command.empty()) {
    fmt::print(stderr, "verbatim capture: node '{}'; Ctrl-C ends it\n", options->node);
    return capture_to_end(*session, *signals, deadline, {});
  }
  const auto child = Child::start(path, command, *signals, wishes.path != "-");
  if (!child) return fail(child.error());
  return capture_to_end(*session, *signals, deadline, *child);
}

}  // namespace

void add_capture(CLI::App& app, const std::vector<std::string>& command, int& exit_status) {
  auto* capture = app.add_subcommand("capture", "Write a node's packets into a file for Wireshark");
  auto wishes = std::make_shared<Wishes>();  // Lives as long as the callback that reads it.
  capture->add_option("-w,--write", wishes->path, "The pcapng file, or - for standard output")
      ->type_name("FILE")
      ->required();
  capture->add_option("--for", wishes->duration, "End it after this time: 500ms, 10s, 5min")
      ->type_name("TIME");
  add_node_options(*capture, wishes->node);
  add_host_options(*capture, wishes->host);
  capture->prefix_command();
  capture->footer(kExamples);
  capture->callback([capture, wishes, &command, &exit_status] {
    const auto words = command_line_of(*capture, command);
    if (!words) fmt::print(stderr, "{}", words.error().text);
    exit_status = words ? run(*wishes, *words) : kExitUsage;
  });
}

}  // namespace verbatim::cli
