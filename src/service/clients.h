#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include <sys/types.h>

#include "base/error.h"
#include "base/os/unique_fd.h"
#include "service/channel.h"
#include "service/loop.h"

namespace verbatim::service {

/// The type of a refusal, in every protocol: an errno value (4 bytes) and why, in words.
inline constexpr std::uint16_t kRefusal = 0xffff;
std::vector<std::byte> refusal_bytes(const Error& error);
/// Turns a refusal into the error that it says; passes on any other message.
Result<Incoming> unless_refused(Incoming incoming);
/// A process that has connected.
class Client {
 public:
  Client(UniqueFd fd, Protocol protocol, pid_t process)
      : channel_(std::move(fd), protocol), process_(process) {}
  Channel& channel() { return channel_; }
  pid_t process() const { return process_; }  // 0: in another process namespace.

 private:
  Channel channel_;
  pid_t process_;
};

/// Those who are connected to a daemon, all of its own user. Each request is answered by the
/// handler of its type; what a handler refuses, nonsense, and newcomers for whom there is no room
/// get a refusal in words. A client whose process has ended, or that does not read, is closed.
class Clients final : private Source {
 public:
  struct Limits {
    std::size_t clients = 256;
    std::size_t messages_in_a_turn = 64;  // Of one client; then it is the others' turn.
  };
  /// An error is sent to the client as a refusal.
  using Handler = std::function<Result<void>(Client& client, const Incoming& request)>;
  using OnGone = std::function<void(const Client& client)>;

  /// `listener`: a SOCK_SEQPACKET socket. Both references outlive this object.
  static Result<std::unique_ptr<Clients>> create(Loop& loop, UniqueFd listener, Protocol protocol,
                                                 const Limits& limits);
  ~Clients();
  Clients(const Clients&) = delete;
  Clients& operator=(const Clients&) = delete;

  void on(std::uint16_t type, Handler handler) { handlers_[type] = std::move(handler); }
  void on_gone(OnGone on_gone) { on_gone_ = std::move(on_gone); }
  /// Sends, now or when the client reads; closes one that does not.
  void send(Client& client, std::uint16_t type, ByteSpan bytes,
            std::span<const int> descriptors = {});
  std::size_t count() const { return members_.size(); }
  std::uint64_t refused() const { return refused_; }

 private:
  struct Member {
    std::unique_ptr<Client> client;
    UniqueFd process;        // Readable when it has ended.
    bool has_ended = false;  // Destroyed when the turn is over: a handler may hold references.
  };
  Clients(Loop& loop, UniqueFd listener, Protocol protocol, const Limits& limits);
  TimeNs deadline() const override { return has_ended_ ? 0 : accept_again_at_; }
  void on_time(TimeNs now) override;

  void accept_all();
  bool accept_one();
  void turn_away(UniqueFd newcomer, const Error& why);
  void on_few_descriptors();
  Result<void> admit(UniqueFd newcomer, pid_t process);
  void on_ready(int fd, std::uint32_t events);
  bool serve_one(Member& member);
  void end(Member& member);

  Loop& loop_;
  const UniqueFd listener_;
  const Protocol protocol_;
  const Limits limits_;
  std::map<std::uint16_t, Handler> handlers_;
  OnGone on_gone_;
  std::map<int, Member> members_;
  UniqueFd spare_;  // Given up to tell a newcomer that there are no descriptors.
  TimeNs accept_again_at_ = kNever;
  bool has_ended_ = false;  // A member has.
  std::uint64_t refused_ = 0;
};

}  // namespace verbatim::service
