#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "base/error.h"
#include "base/os/unique_fd.h"
#include "service/control.h"
#include "service/loop.h"
#include "service/settings.h"

/// What every daemon is made of. A new one is its engine, a table of options and a function that
/// sets it up (tests/service/echo_daemon.cpp).
namespace verbatim::service {

struct DaemonKind {
  const char* program = "";  // "verbatim-ulpd echo"
  const char* kind = "";     // "echo"
  const char* summary = "";
  std::span<const Setting> settings;
};

/// A daemon that runs: its loop, its control socket, and what of it `verbatim status` shows.
class Daemon {
 public:
  Loop& loop() { return *loop_; }
  Control& control() { return *control_; }
  const std::string& name() const { return name_; }
  /// What {"ask":"status"} answers besides kind, name, process and time of the start.
  void on_status(std::function<nlohmann::json()> status) { status_ = std::move(status); }
  /// Called when the daemon is told to stop. It serves on until `is_done` says that it is idle, two
  /// seconds at most.
  void on_stop(std::function<void()> begin, std::function<bool()> is_done);

 private:
  friend int run_daemon(const DaemonKind&, int, char**,
                        const std::function<Result<void>(Daemon&)>&);
  struct CommandLine;
  static Result<void> parse(const DaemonKind& kind, int argc, char** argv, CommandLine& line);
  Result<void> open(const DaemonKind& kind, const CommandLine& line);
  Result<void> watch_owner(int process);
  void serve();
  nlohmann::json status() const;

  std::string kind_, name_;
  std::unique_ptr<Loop> loop_;
  std::unique_ptr<Control> control_;
  UniqueFd owner_;
  TimeNs began_ = 0;
  std::function<nlohmann::json()> status_;
  std::function<void()> begin_to_stop_;
  std::function<bool()> is_done_;
};

/// The main function of a daemon. Reads options; opens the control socket; calls `set_up`, whose
/// objects live until it has ended; says that it is ready; serves until SIGTERM, {"ask":"stop"}, or
/// the end of its owner. Returns the exit status. Options that every daemon has: --name, --log,
/// --ends-with PID, --ready-fd N, --help, --version.
int run_daemon(const DaemonKind& kind, int argc, char** argv,
               const std::function<Result<void>(Daemon&)>& set_up);

}  // namespace verbatim::service
