#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "agent/server/server.h"

/// The agent at its limit of descriptors: members keep their descriptors and get what they request,
/// new clients are refused with a text.
namespace verbatim::agent {
namespace {

/// How long accepting pauses if not even a spare descriptor is left.
constexpr TimeNs kPause = 100 * kMillisecond;

bool is_shortage(int error) { return error == EMFILE || error == ENFILE; }

MessageType next_type(int fd) {
  Header header{.magic = 0};
  const ssize_t length = recv(fd, &header, sizeof header, MSG_PEEK | MSG_DONTWAIT);
  const bool is_ours = length == sizeof header && header.magic == Header::kMagic;
  return is_ours ? header.type : MessageType{};
}

}  // namespace

/// Sets `is_surplus` if it used a spare descriptor.
UniqueFd Server::accept(bool& is_surplus) {
  constexpr int kFlags = SOCK_CLOEXEC | SOCK_NONBLOCK;
  UniqueFd fd(accept4(listening_.get(), nullptr, nullptr, kFlags));
  if (fd || !is_shortage(errno)) return fd;
  is_surplus = true;
  spares_.let_go();
  fd.reset(accept4(listening_.get(), nullptr, nullptr, kFlags));
  if (!fd && is_shortage(errno)) pause_accepting();
  spares_.fill(signals_.get());
  return fd;
}

/// The listening socket stays readable, so the agent could not sleep.
void Server::pause_accepting() {
  epoll_ctl(events_.get(), EPOLL_CTL_DEL, listening_.get(), nullptr);
  resume_at_ = monotonic_now() + kPause;
}

/// Who has come meanwhile is still to be taken: an agent without connections leaves no sooner than
/// as if they had just come.
void Server::resume_accepting() {
  idle_since_ = monotonic_now();
  resume_at_ = watch(listening_.get()) ? kNever : monotonic_now() + kPause;
}

/// Receives a member's message with its descriptors, which need free numbers: that reserved for its
/// `bindings`, and the spare ones. EMFILE if these are not enough; then the message is lost.
Result<Incoming> Server::receive_from(Connection& connection) {
  const int fd = connection.fd.get();
  const bool is_member = connection.program.has_value();
  if (!is_member && next_type(fd) != MessageType::rejoin) return receive(fd, MSG_DONTWAIT);
  connection.room.reset();
  spares_.let_go();
  auto incoming = receive(fd, MSG_DONTWAIT);
  spares_.fill(signals_.get());
  if (is_member) leave_room(connection);
  return incoming;
}

/// Reserves a descriptor for the socket over which the program will request ports.
void Server::leave_room(Connection& connection) {
  if (connection.bindings >= 0) return connection.room.reset();
  if (!connection.room) connection.room.reset(fcntl(signals_.get(), F_DUPFD_CLOEXEC, 0));
}

/// Closes those without a request. Those that have rejoined stay; those whose request waits get an
/// answer, and are closed after it.
void Server::end_surplus() {
  if (surplus_deadlines_.empty()) return;
  std::vector<int> late;
  std::erase_if(surplus_deadlines_, [&, now = monotonic_now()](const auto& entry) {
    const Connection& connection = connections_.at(entry.first);
    const bool stays = connection.program || connection.waiting;
    if (!stays && entry.second <= now) late.push_back(entry.first);
    return stays;
  });
  for (const int fd : late) close_connection(fd);
  closed_.clear();
}

Error Server::out_of_descriptors() const {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return {EMFILE,
          fmt::format("node '{}' takes no more: its agent may have {} descriptors (ulimit -n), "
                      "and {} programs use them; give the node's first program a higher limit, "
                      "or use another node",
                      options_.node, limit.rlim_cur, connection_of_slot_.size())};
}

Result<void> Server::check_room_for_program(Connection& connection) {
  if (!connection.is_surplus && spares_.fill(signals_.get())) {
    leave_room(connection);
    if (connection.room) return {};
  }
  return std::unexpected(out_of_descriptors());
}

void Server::refuse_with(int fd, const Error& error) {
  Refusal refusal;
  refusal.code = error.code;
  put_text(refusal.text, error.text);
  if (!send(fd, refusal, {}, MSG_DONTWAIT)) close_connection(fd);
}

}  // namespace verbatim::agent
