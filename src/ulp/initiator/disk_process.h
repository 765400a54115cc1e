#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <sys/types.h>

#include "base/error.h"
#include "base/os/unique_fd.h"
#include "service/loop.h"

namespace verbatim::ulp::initiator {

/// A disk of a target as a process of its own, `verbatim disk URL`, which `verbatim disk list`
/// shows with its NBD socket. It outlives the program that has caused it, and ends with us.
class DiskProcess {
 public:
  struct Options {
    std::string url;
    std::string name;
    std::vector<std::string> more{};  // Options of `verbatim disk`.
  };
  /// `on_change`: it serves, or has ended; must not destroy it. The loop outlives it.
  static Result<std::unique_ptr<DiskProcess>> start(service::Loop& loop, const Options& options,
                                                    std::function<void()> on_change);
  ~DiskProcess();
  DiskProcess(const DiskProcess&) = delete;
  DiskProcess& operator=(const DiskProcess&) = delete;

  /// Logs out and ends; `on_change` follows.
  void stop();
  /// It serves, or never will.
  bool is_settled() const { return is_serving_ || is_over_; }
  bool is_over() const { return is_over_; }
  /// Its last line: why it has ended.
  const std::string& words() const { return words_; }

 private:
  DiskProcess(service::Loop& loop, std::function<void()> on_change)
      : loop_(loop), on_change_(std::move(on_change)) {}
  Result<void> spawn(std::vector<std::string> words);
  void on_output();
  void on_line(const std::string& line);
  void on_end();

  service::Loop& loop_;
  const std::function<void()> on_change_;
  UniqueFd output_, process_;
  pid_t id_ = 0;
  std::string line_, words_;
  bool is_serving_ = false, is_over_ = false;
};

}  // namespace verbatim::ulp::initiator
