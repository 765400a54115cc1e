#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <sys/types.h>

#include "base/error.h"
#include "base/net/address.h"
#include "base/os/unique_fd.h"
#include "service/channel.h"
#include "service/loop.h"
#include "ulp/tcp/driver.h"

namespace verbatim::ulp::rpcrdma {

/// Debian's nfs-ganesha with its VFS back end, behind a doorkeeper (doorkeeper.h); both end with
/// this process. It serves one folder as /, versions 4.0 to 4.2, at 127.0.0.1 of a network of its
/// own, or of this process's where it may have none. An ordinary user's files are that user's:
/// `libverbatim-handles.so` stands in for the privilege that it would need.
class Ganesha final : public tcp::Connector {
 public:
  struct Options {
    std::string folder;
    std::string name;  // Of the daemon: its state has a folder for each.
  };
  /// Waits until it listens. ENOENT: it is not installed, or the folder is none.
  static Result<std::unique_ptr<Ganesha>> start(const Options& options, service::Loop& loop);
  ~Ganesha();
  Ganesha(const Ganesha&) = delete;
  Ganesha& operator=(const Ganesha&) = delete;

  const SocketAddress& address() const { return address_; }
  /// No other user reaches it.
  bool is_apart() const { return is_apart_; }
  void connect(const SocketAddress& to, Give give) override;
  /// How often it has ended by itself, and was started again.
  std::uint32_t restarts() const { return restarts_; }

 private:
  Ganesha(Options options, service::Loop& loop) : options_(std::move(options)), loop_(loop) {}
  Result<void> find();
  Result<void> write_configuration();
  Result<void> enter();
  Result<void> spawn();
  Result<void> watch();
  Result<void> wait_until_it_listens();
  bool listens();
  void on_answer();
  void on_end();
  std::string log_file() const { return state_ + "/log"; }

  const Options options_;
  service::Loop& loop_;
  std::string program_, library_, state_;
  SocketAddress address_;
  pid_t process_ = 0;  // The doorkeeper.
  UniqueFd ended_;     // Its pidfd.
  std::optional<service::Channel> door_;
  std::deque<Give> waiting_;  // For sockets, in order.
  bool is_apart_ = true;
  std::uint32_t restarts_ = 0;
  bool has_served_ = false;
};

}  // namespace verbatim::ulp::rpcrdma
