#include "agent/server/server.h"

#include <algorithm>

#include <signal.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "agent/identity/view.h"
#include "base/log.h"

namespace verbatim::agent {
namespace {

/// An exiting agent holds the lock for some more milliseconds.
constexpr TimeNs kLockTimeout = 5 * kSecond;
/// How long an agent stays without any connection, so that consecutive commands use the same one.
constexpr TimeNs kGrace = 500 * kMillisecond;
constexpr TimeNs kRecoveryTime = 2 * kSecond;
constexpr TimeNs kRecoveryPoll = 20 * kMillisecond;
/// How often a program whose socket is full is told again.
constexpr TimeNs kAnnounceRetry = 100 * kMillisecond;
/// How long one may take to ask whom the agent has but a spare descriptor for.
constexpr TimeNs kSurplusTime = kSecond;

/// Each slot costs the agent, and the messages that it stores (which count, too), a descriptor per
/// address.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

Server::Server(Options options, service::RuntimeFolder folder, service::LockFile lock)
    : options_(std::move(options)),
      folder_(std::move(folder)),
      lock_(std::move(lock)),
      claims_(folder_, options_.node),
      slot_locks_(folder_.programs(options_.node)) {}

Server::~Server() { finish(); }

Result<std::unique_ptr<Server>> Server::create(Options options) {
  if (auto fitting = service::check_node_name(options.node); !fitting) {
    return std::unexpected(fitting.error());
  }
  raise_descriptor_limit();
  auto folder = service::RuntimeFolder::open();
  if (!folder) return std::unexpected(folder.error());
  auto lock = service::LockFile::take(folder->agent_lock(options.node), kLockTimeout);
  if (!lock && lock.error().code == EWOULDBLOCK) {
    return refuse(EEXIST, fmt::format("node '{}' has an agent already", options.node));
  }
  if (!lock) return std::unexpected(lock.error());

  std::unique_ptr<Server> server(
      new Server(std::move(options), std::move(*folder), std::move(*lock)));
  if (auto opened = server->open_own_fabric(); !opened) return std::unexpected(opened.error());
  if (server->slot_locks_.any_is_held()) {
    server->recovery_deadline_ = monotonic_now() + kRecoveryTime;
  } else if (auto begun = server->begin(); !begun) {
    return std::unexpected(begun.error());
  }
  if (auto listening = server->listen(); !listening) return std::unexpected(listening.error());
  return server;
}

Result<void> Server::listen() {
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigaddset(&ends, SIGINT);
  sigprocmask(SIG_BLOCK, &ends, nullptr);
  events_.reset(epoll_create1(EPOLL_CLOEXEC));
  signals_.reset(signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!events_ || !signals_) return refuse_errno("epoll");
  spares_.fill(signals_.get());
  auto listening = service::listen_at(folder_.socket(options_.node));
  if (!listening) return std::unexpected(listening.error());
  listening_ = std::move(*listening);
  idle_since_ = monotonic_now();
  if (auto watched = watch(signals_.get()); !watched) return watched;
  if (auto watched = watch_interfaces(); !watched) return watched;
  if (fabric_) {
    if (auto watched = watch(fabric_->fd()); !watched) return watched;
  }
  if (slots_) {
    if (auto opened = open_services(); !opened) return opened;
  }
  return watch(listening_.get());
}

Result<void> Server::watch(int fd) {
  epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
  if (epoll_ctl(events_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return refuse_errno("epoll_ctl");
  return {};
}

int Server::timeout_ms() const {
  TimeNs next = kNever;
  if (may_leave()) next = idle_since_ + kGrace;
  const TimeNs now = monotonic_now();
  if (recovering()) next = std::min(next, now + kRecoveryPoll);
  if (!port_is_announced_ || !links_are_announced_) next = std::min(next, now + kAnnounceRetry);
  next = std::min(next, pending_disconnects_.next_deadline());
  next = std::min(next, early_requests_.next_deadline());
  next = std::min(next, counters_deadline());
  next = std::min(next, resume_at_);
  for (const auto& [fd, deadline] : surplus_deadlines_) next = std::min(next, deadline);
  if (next == kNever) return -1;
  return next <= now ? 0 : static_cast<int>((next - now) / kMillisecond + 1);
}

void Server::run() {
  while (!stopping_) {
    std::array<epoll_event, 64> ready;
    const int count = epoll_wait(events_.get(), ready.data(), ready.size(), timeout_ms());
    for (int i = 0; i < count && !stopping_; ++i) {
      on_ready(ready[static_cast<std::size_t>(i)].data.fd);
    }
    closed_.clear();
    on_time();
  }
}

bool Server::is_in_use() const {
  const auto needs_node = [](const auto& entry) {
    return entry.second.program.has_value() || entry.second.keeps_node;
  };
  return options_.stays || capturer_ >= 0 || std::ranges::any_of(connections_, needs_node);
}

void Server::on_ready(int fd) {
  if (fd == signals_.get()) {
    stopping_ = true;
  } else if (fd == listening_.get()) {
    on_connection();
  } else if (interface_watch_ && fd == interface_watch_->fd()) {
    interface_watch_->drain();
    look_at_port();
  } else if (netlink_ && fd == netlink_->fd()) {
    netlink_->serve();
  } else if (fabric_ && fd == fabric_->fd()) {
    on_fabric_change();
  } else if (const auto process = connection_of_process_.find(fd);
             process != connection_of_process_.end()) {
    close_connection(process->second);
  } else if (const auto known = connections_.find(fd); known != connections_.end()) {
    on_message(fd);
  } else if (management_) {
    management_->receive();
  }
}

void Server::on_time() {
  if (recovering()) on_recovery_time();
  if (!port_is_announced_) announce_port();
  if (!links_are_announced_) announce_links();
  send_disconnects();
  serve_early_requests();
  look_at_counters();
  if (monotonic_now() >= resume_at_) resume_accepting();
  end_surplus();
  if (may_leave() && monotonic_now() >= idle_since_ + kGrace) {
    stopping_ = true;
  }
}

void Server::on_connection() {
  if (!closed_.empty()) return;  // In the next round their descriptors are free.
  bool is_surplus = false;
  UniqueFd fd = accept(is_surplus);
  if (!fd) return;
  ucred peer{};
  socklen_t length = sizeof peer;
  if (getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 || peer.uid != geteuid()) {
    return;  // The folder's mode already excludes others.
  }
  Connection connection{
      .fd = std::move(fd), .process = {}, .pid = peer.pid, .program = {}, .waiting = {}};
  if (!watch(connection.fd.get())) return;
  if (peer.pid > 0 && !is_surplus) {
    connection.process.reset(static_cast<int>(syscall(SYS_pidfd_open, peer.pid, 0)));
    is_surplus = !connection.process && (errno == EMFILE || errno == ENFILE);
  }
  if (connection.process && watch(connection.process.get())) {
    connection_of_process_[connection.process.get()] = connection.fd.get();
  }
  connection.is_surplus = is_surplus;
  const int key = connection.fd.get();
  if (is_surplus) surplus_deadlines_[key] = monotonic_now() + kSurplusTime;
  connections_.emplace(key, std::move(connection));
}

void Server::on_message(int fd) {
  programs_spoke_ = true;
  Connection& connection = connections_.at(fd);
  auto incoming = receive_from(connection);
  if (!incoming) {
    const int error = incoming.error().code;
    if (error == EMFILE) return refuse_with(fd, out_of_descriptors());
    if (error != EAGAIN) close_connection(fd);
    return;
  }
  if (recovering() && incoming->type() != MessageType::rejoin) {
    connection.waiting = std::move(*incoming);  // The latest one; a client sends one and waits.
    return;
  }
  serve(connection, std::move(*incoming));
}

void Server::close_connection(int fd) {
  const auto found = connections_.find(fd);
  if (found == connections_.end()) return;
  if (found->second.bindings >= 0) close_connection(found->second.bindings);
  const Connection& connection = found->second;
  const bool needed_node = connection.program || connection.keeps_node;
  if (connection.program && slots_) {
    const std::uint32_t slot = connection.program->slot;
    connection_of_slot_.erase(slot);
    ports_.release_all(static_cast<PortTable::ProgramId>(slot));
    pending_disconnects_.add(connection.program->arena(), monotonic_now());
    totals_of_the_gone_ += port_totals(connection.program->arena());
    faults_of_the_gone_ += fault_totals(connection.program->arena());
    slots_->release(slot);
  }
  if (const auto owner = connections_.find(connection.bindings_of); owner != connections_.end()) {
    owner->second.bindings = -1;
  }
  connection_of_process_.erase(connection.process.get());
  surplus_deadlines_.erase(fd);
  closed_.push_back(std::move(found->second));
  connections_.erase(found);
  if (fd == capturer_) end_capture();
  if (needed_node && !is_in_use()) links_.faults = {};  // Of programs that have all ended.
  idle_since_ = monotonic_now();
}

void Server::finish() {
  send_disconnects();  // An agent that gives way waits for no answers.
  if (listening_) unlink(folder_.socket(options_.node).c_str());
  listening_.reset();  // Clients that wait to be accepted see the end, and start the next agent.
  connections_.clear();
  netlink_.reset();
  remove_view(folder_.view(options_.node));
  slots_.reset();
  claims_.release();  // Who waits for them finds the addresses free.
  slot_locks_.remove_if_free();
  folder_.locks().remove_if_free();
  struct stat log_file{};
  const std::string log_path = folder_.log(options_.node);
  if (stat(log_path.c_str(), &log_file) == 0 && log_file.st_size == 0) unlink(log_path.c_str());
  lock_.remove();
  folder_.remove_if_empty();
}

}  // namespace verbatim::agent
