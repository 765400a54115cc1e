#include "service/clients.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "base/log.h"

namespace verbatim::service {
namespace {

/// How long newcomers wait while this process has no descriptor at all.
constexpr TimeNs kAcceptPause = 100 * kMillisecond;

UniqueFd open_spare() { return UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC)); }

}  // namespace

std::vector<std::byte> refusal_bytes(const Error& error) {
  constexpr std::size_t kTextMax = 4096;
  const std::int32_t code = error.code;
  const std::string text = error.text.substr(0, kTextMax);
  std::vector<std::byte> bytes(sizeof code + text.size());
  std::memcpy(bytes.data(), &code, sizeof code);
  std::memcpy(bytes.data() + sizeof code, text.data(), text.size());
  return bytes;
}

Result<Incoming> unless_refused(Incoming incoming) {
  std::int32_t code = EPROTO;
  if (incoming.type != kRefusal) return incoming;
  if (incoming.bytes.size() < sizeof code) return refuse(EPROTO, "a refusal without a reason");
  std::memcpy(&code, incoming.bytes.data(), sizeof code);
  const auto* const text = reinterpret_cast<const char*>(incoming.bytes.data()) + sizeof code;
  return refuse(code, std::string(text, incoming.bytes.size() - sizeof code));
}

Result<std::unique_ptr<Clients>> Clients::create(Loop& loop, UniqueFd listener, Protocol protocol,
                                                 const Limits& limits) {
  std::unique_ptr<Clients> clients(new Clients(loop, std::move(listener), protocol, limits));
  auto watched = loop.watch(clients->listener_.get(), EPOLLIN,
                            [all = clients.get()](std::uint32_t, TimeNs) { all->accept_all(); });
  if (!watched) return std::unexpected(watched.error());
  return clients;
}

Clients::Clients(Loop& loop, UniqueFd listener, Protocol protocol, const Limits& limits)
    : loop_(loop),
      listener_(std::move(listener)),
      protocol_(protocol),
      limits_(limits),
      spare_(open_spare()) {
  loop_.add(*this);
}

Clients::~Clients() {
  loop_.remove(*this);
  loop_.unwatch(listener_.get());
  for (auto& [fd, member] : members_) end(member);
}

void Clients::accept_all() {
  for (std::size_t i = 0; i < limits_.messages_in_a_turn && accept_one(); ++i) {
  }
}

/// Returns false if nobody waits, or the process has no descriptor for those who do.
bool Clients::accept_one() {
  UniqueFd newcomer(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!newcomer) {
    if (errno == EMFILE || errno == ENFILE) on_few_descriptors();
    return errno == EINTR || errno == ECONNABORTED;
  }
  ucred peer{};
  socklen_t length = sizeof peer;
  if (getsockopt(newcomer.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0) return true;
  if (peer.uid != geteuid()) {
    turn_away(std::move(newcomer), {EPERM, fmt::format("this is user {}'s", geteuid())});
  } else if (members_.size() >= limits_.clients) {
    turn_away(std::move(newcomer),
              {EAGAIN, fmt::format("{} are connected already: try later", members_.size())});
  } else if (auto admitted = admit(std::move(newcomer), peer.pid); !admitted) {
    log(LogLevel::warn, "a client is turned away: {}", admitted.error().text);
  }
  return true;
}

void Clients::turn_away(UniqueFd newcomer, const Error& why) {
  ++refused_;
  // A newcomer's socket has room for it.
  static_cast<void>(Channel(std::move(newcomer), protocol_).send(kRefusal, refusal_bytes(why)));
}

/// The spare descriptor serves to say so, to one after the other.
void Clients::on_few_descriptors() {
  spare_.reset();
  UniqueFd newcomer(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (newcomer) {
    turn_away(std::move(newcomer),
              {EMFILE, "the daemon has no descriptor left: raise its limit (ulimit -n)"});
  }
  spare_ = open_spare();
  loop_.change(listener_.get(), 0);
  accept_again_at_ = loop_.now() + kAcceptPause;
}

void Clients::on_time(TimeNs now) {
  has_ended_ = false;
  for (auto at = members_.begin(); at != members_.end();) {
    const auto one = at++;
    if (!one->second.has_ended) continue;
    const auto gone = members_.extract(one);
    if (on_gone_) on_gone_(*gone.mapped().client);
  }
  if (accept_again_at_ > now) return;
  accept_again_at_ = kNever;
  loop_.change(listener_.get(), EPOLLIN);
}

Result<void> Clients::admit(UniqueFd newcomer, pid_t process) {
  const int fd = newcomer.get();
  Member member{.client = std::make_unique<Client>(std::move(newcomer), protocol_, process)};
  if (process > 0) member.process.reset(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
  auto watched =
      loop_.watch(fd, EPOLLIN, [this, fd](std::uint32_t events, TimeNs) { on_ready(fd, events); });
  if (!watched) return watched;
  Member& added = members_.insert_or_assign(fd, std::move(member)).first->second;
  if (!added.process) return {};
  auto both = loop_.watch(added.process.get(), EPOLLIN,
                          [this, fd](std::uint32_t, TimeNs) { end(members_.at(fd)); });
  if (!both) end(added);
  return both;
}

void Clients::on_ready(int fd, std::uint32_t events) {
  Member& member = members_.at(fd);
  Channel& channel = member.client->channel();
  if ((events & EPOLLOUT) != 0) {
    if (!channel.flush()) end(member);
    if (!member.has_ended && !channel.wants_to_send()) loop_.change(fd, EPOLLIN);
  }
  if ((events & ~std::uint32_t{EPOLLOUT}) != 0) {
    for (std::size_t i = 0; i < limits_.messages_in_a_turn && !member.has_ended; ++i) {
      if (!serve_one(member)) break;
    }
  }
}

/// Returns false if there is no further message.
bool Clients::serve_one(Member& member) {
  Client& client = *member.client;
  const auto incoming = client.channel().receive(MSG_DONTWAIT);
  if (!incoming && incoming.error().code == EAGAIN) return false;
  if (!incoming) {
    if (incoming.error().code != ECONNRESET) {
      send(client, kRefusal, refusal_bytes(incoming.error()));
    }
    end(member);
    return false;
  }
  const auto handler = handlers_.find(incoming->type);
  const Result<void> served =
      handler == handlers_.end()
          ? refuse(EPROTO, fmt::format("no request has type {}", incoming->type))
          : handler->second(client, *incoming);
  if (!served) send(client, kRefusal, refusal_bytes(served.error()));
  return true;
}

void Clients::send(Client& client, std::uint16_t type, ByteSpan bytes,
                   std::span<const int> descriptors) {
  Channel& channel = client.channel();
  Member& member = members_.at(channel.fd());
  if (member.has_ended) return;
  if (auto sent = channel.send(type, bytes, descriptors); !sent) {
    log(LogLevel::info, "process {}: {}", client.process(), sent.error().text);
    end(member);
  } else if (channel.wants_to_send()) {
    loop_.change(channel.fd(), EPOLLIN | EPOLLOUT);
  }
}

void Clients::end(Member& member) {
  if (std::exchange(member.has_ended, true)) return;
  has_ended_ = true;
  loop_.unwatch(member.client->channel().fd());
  if (member.process) loop_.unwatch(member.process.get());
}

}  // namespace verbatim::service
