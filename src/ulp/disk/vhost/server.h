#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>

#include "base/os/unique_fd.h"
#include "service/loop.h"
#include "ulp/disk/vhost/device.h"

namespace verbatim::ulp::disk::vhost {

/// Serves a disk at a Unix socket to one frontend at a time, in the thread of its loop. A frontend
/// that has gone may come again.
class Server final : private service::Source, private Outside {
 public:
  using AskDisk = std::function<void(Ask& ask)>;
  /// The socket's mode is 0600. A socket there that nobody serves is replaced; EADDRINUSE: another
  /// has it. `facts` must live as long.
  static Result<std::unique_ptr<Server>> open(const std::string& path, service::Loop& loop,
                                              const storage::DiskFacts& facts, AskDisk ask);
  /// What was asked for is answered, or never will be.
  ~Server();

  /// Takes no more requests.
  void stop();

 private:
  Server(std::string path, service::Loop& loop, const storage::DiskFacts& facts, AskDisk ask)
      : path_(std::move(path)), loop_(loop), ask_(std::move(ask)), device_(facts, *this) {}
  Result<void> listen();
  void accept_next();
  void on_readable();
  Result<bool> receive();
  Result<bool> take_message();
  Result<void> reply(const Bytes& bytes);
  void after_message();
  void give_up(const std::string& why);

  TimeNs deadline() const override;
  void on_time(TimeNs now) override;

  void ask(Ask& ask) override { ask_(ask); }
  Result<void> watch_kick(int fd) override;
  void unwatch_kick(int fd) override { loop_.unwatch(fd); }
  void tell(const std::string& line) override;

  const std::string path_;
  service::Loop& loop_;
  const AskDisk ask_;
  Device device_;
  UniqueFd listener_, connection_;
  bool is_listening_ = false;  // Nobody is connected, and nothing is under way.
  bool is_reading_ = false;    // The connection.
  // The message that is being received, and what lies beside it.
  std::array<std::byte, kMessageBytesMax> message_{};
  std::size_t have_ = 0;
  std::array<UniqueFd, kRegionsMax> descriptors_{};
  std::size_t descriptor_count_ = 0;
};

}  // namespace verbatim::ulp::disk::vhost
