#include "fabric/daemon/server.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/log.h"
#include "fabric/daemon/hosts/host_facts.h"
#include "fabric/topology/subnets/subnet_plan.h"

namespace verbatim::fabric {
namespace {

/// So long a subnet manager has to end by itself: then it is killed.
constexpr TimeNs kManagerPatience = 2 * kSecond;
/// Of one connection; then it is the others' turn.
constexpr int kMessagesPerTurn = 64;
/// How long newcomers wait if the daemon has no descriptor for them.
constexpr TimeNs kAcceptPause = 100 * kMillisecond;
constexpr std::uint64_t kSeed = 1;

Result<UniqueFd> watch_signals() {
  sigset_t ends;
  sigemptyset(&ends);
  for (const int number : {SIGTERM, SIGINT}) sigaddset(&ends, number);
  sigprocmask(SIG_BLOCK, &ends, nullptr);
  UniqueFd fd(signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) return refuse_errno("signalfd");
  return fd;
}

/// Becomes readable when the file is removed or renamed.
Result<UniqueFd> watch_file(const std::string& path) {
  UniqueFd fd(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
  if (!fd ||
      inotify_add_watch(fd.get(), path.c_str(), IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF) < 0) {
    return refuse_errno("cannot watch " + path);
  }
  return fd;
}

bool is_of_this_user(int socket) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.uid == geteuid();
}

std::uint64_t random_id() {
  std::uint64_t id = 0;
  // It cannot fail: the kernel's generator is ready long before any user has a program.
  VERBATIM_ASSERT(getrandom(&id, sizeof id, 0) == sizeof id);
  return id;
}

}  // namespace

Result<std::unique_ptr<Server>> Server::create(Options options) {
  auto folder = protocol::FabricFolder::own(options.name);
  if (!folder) return std::unexpected(folder.error());
  if (auto made = folder->make(); !made) return std::unexpected(made.error());
  auto keeper = Keeper::create(options.topology, options.pace);
  if (!keeper) return std::unexpected(keeper.error());
  std::unique_ptr<Server> server(
      new Server(std::move(options), std::move(*folder), std::move(*keeper)));
  if (auto opened = server->open(); !opened) return std::unexpected(opened.error());
  return server;
}

Server::Server(Options options, protocol::FabricFolder folder, std::unique_ptr<Keeper> keeper)
    : options_(std::move(options)),
      id_(random_id()),
      addresses_(options_.name, options_.topology),
      folder_(std::move(folder)),
      keeper_(std::move(keeper)),
      net_(options_.topology, *this, kSeed,
           [this](std::uint32_t node) { return keeper_->make_tables(node); }) {
  net_.set_data_counters(*keeper_);
}

Server::~Server() {
  if (lock_.fd() < 0) return;  // Another one has the folder.
  folder_.remove();
}

Result<void> Server::open() {
  auto lock = service::LockFile::take(folder_.lock(), 0);
  if (!lock && lock.error().code == EWOULDBLOCK) {
    return refuse(EEXIST, fmt::format("fabric '{0}' runs already: 'verbatim fabric down --name "
                                      "{0}' ends it",
                                      options_.name));
  }
  if (!lock) return std::unexpected(lock.error());
  lock_ = std::move(*lock);
  folder_.remove();  // What a killed daemon has left.
  auto again = service::LockFile::take(folder_.lock(), 0);
  if (!again) return std::unexpected(again.error());
  lock_ = std::move(*again);
  epoll_.reset(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return refuse_errno("epoll");
  auto signals = watch_signals();
  if (!signals) return std::unexpected(signals.error());
  signals_ = std::move(*signals);
  auto files = IssmFiles::create();
  if (!files) return std::unexpected(files.error());
  issm_files_ = std::move(*files);
  auto descriptions = DescriptionFiles::create();
  if (!descriptions) return std::unexpected(descriptions.error());
  description_files_ = std::move(*descriptions);
  if (auto opened = keeper_->open(folder_.path()); !opened) return opened;
  auto listener = service::listen_at(folder_.socket());
  if (!listener) return std::unexpected(listener.error());
  listener_ = std::move(*listener);
  auto socket_watch = watch_file(folder_.socket());
  if (!socket_watch) return std::unexpected(socket_watch.error());
  socket_watch_ = std::move(*socket_watch);
  for (const int fd : {signals_.get(), issm_files_->fd(), description_files_->fd(), listener_.get(),
                       socket_watch_.get(), keeper_->bell(), keeper_->timer()}) {
    if (auto watched = watch(fd, EPOLLIN); !watched) return watched;
  }
  if (options_.owner) {
    if (auto watched = watch(options_.owner.get(), EPOLLIN); !watched) return watched;
  }
  return options_.manager.runs ? start_managers() : Result<void>();
}

Result<void> Server::start_managers() {
  const std::vector<SubnetPlan> subnets = plan_subnets(options_.topology);
  if (subnets.empty()) {
    return refuse(EINVAL, "a subnet manager needs a host with a cable: there is none");
  }
  for (const SubnetPlan& subnet : subnets) {
    const wire::NodeInfo info = net_.node_info(subnet.manager);
    auto manager = SubnetManager::start({.fabric = options_.name,
                                         .host_guid = info.node_guid,
                                         .port_guid = info.port_guid,
                                         .folder = folder_.manager(managers_.size())},
                                        subnet, options_.manager.options, options_.working_folder);
    if (!manager) return std::unexpected(manager.error());
    managers_.push_back(std::move(*manager));
    if (auto watched = watch(managers_.back().fd(), EPOLLIN); !watched) return watched;
  }
  return {};
}

bool Server::has_managers() const { return std::ranges::any_of(managers_, &SubnetManager::runs); }

Result<void> Server::watch(int fd, std::uint32_t events) const {
  epoll_event event{.events = events, .data = {.fd = fd}};
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return refuse_errno("epoll");
  return {};
}

void Server::run() {
  while (!is_stopping_ || has_managers()) {
    const TimeNs due = deadline();
    const TimeNs now = monotonic_now();
    const int wait_ms = due == kNever ? -1
                        : due <= now  ? 0
                                      : static_cast<int>((due - now) / kMillisecond + 1);
    std::array<epoll_event, 64> ready;
    const bool may_sleep = keeper_->begin_sleep() & trunks_.begin_sleep();
    const int count = epoll_wait(epoll_.get(), ready.data(), ready.size(), may_sleep ? wait_ms : 0);
    keeper_->serve(fabric_now());
    take_from_programs(monotonic_now());
    for (int i = 0; i < count; ++i) serve(ready[static_cast<std::size_t>(i)].data.fd);
    closed_.clear();
    trunks_.receive(monotonic_now());
    on_time(monotonic_now());
    trunks_.send(monotonic_now());
  }
}

void Server::serve(int fd) {
  if (fd == listener_.get()) {
    accept_all();
  } else if (fd == keeper_->bell()) {
    keeper_->on_bell();
  } else if (fd == issm_files_->fd()) {
    on_issm_changes();
  } else if (fd == description_files_->fd()) {
    on_description_changes();
  } else if (fd == signals_.get()) {
    signalfd_siginfo info;
    while (read(fd, &info, sizeof info) > 0) begin_to_stop();
  } else if (fd == socket_watch_.get()) {
    std::array<char, 4096> events;
    while (read(fd, events.data(), events.size()) > 0) {
    }
    if (access(folder_.socket().c_str(), F_OK) != 0) begin_to_stop();
  } else if (fd == options_.owner.get()) {
    begin_to_stop();
  } else if (const auto manager = std::ranges::find(managers_, fd, &SubnetManager::fd);
             manager != managers_.end()) {
    on_manager_end(*manager);
  } else if (const auto ended = connections_of_processes_.find(fd);
             ended != connections_of_processes_.end()) {
    close_connection(ended->second);
  } else if (trunks_.note_ready(fd)) {
    return;
  } else if (connections_.contains(fd)) {
    serve_connection(fd);
  }
}

void Server::accept_all() {
  for (;;) {
    UniqueFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd && errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) pause_accepting(errno);
    if (!fd) return;
    has_said_that_it_is_full_ = false;
    if (!is_of_this_user(fd.get()) || !watch(fd.get(), EPOLLIN)) continue;
    const int key = fd.get();
    connections_.emplace(key, Connection{.fd = std::move(fd)});
  }
}

/// The listening socket stays readable, so the daemon could not sleep.
void Server::pause_accepting(int error) {
  if (!std::exchange(has_said_that_it_is_full_, true)) {
    log(LogLevel::warn, "fabric '{}' takes no more programs for now: {} (ulimit -n)", options_.name,
        std::strerror(error));
  }
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, listener_.get(), nullptr);
  accept_again_at_ = monotonic_now() + kAcceptPause;
}

/// Takes what has come; closes the connection at its end or where it says nonsense.
void Server::serve_connection(int fd) {
  Connection& connection = connections_.at(fd);
  flush(connection);
  for (int taken = 0; taken < kMessagesPerTurn; ++taken) {
    const auto incoming = receiver_.receive(fd, MSG_DONTWAIT);
    if (!incoming && incoming.error().code == EAGAIN) break;
    if (!incoming) return close_connection(fd);
    auto served = on_message(connection, *incoming);
    if (served) continue;
    protocol::Refusal refusal;
    refusal.code = served.error().code;
    protocol::put_text(refusal.text, served.error().text);
    if (connection.port) {
      log(LogLevel::warn, "an open port is closed: {}", served.error().text);
      return close_connection(fd);
    }
    (void)protocol::send(fd, refusal, -1, MSG_DONTWAIT);
  }
  carry_out(monotonic_now());
}

void Server::close_connection(int fd) {
  auto node = connections_.extract(fd);
  if (node.mapped().end != 0) {
    connections_of_processes_.erase(node.mapped().process.get());
    keeper_->bury(node.mapped().end);
  }
  end_captures(node.mapped());
  std::erase_if(watchers_, [fd](const auto& watcher) { return watcher.second == fd; });
  if (const auto port = node.mapped().port) {
    const FileId file{static_cast<std::uint32_t>(fd)};
    agents_of(*port).close(file);
    if (groups_.contains(*port)) {
      groups_of(*port).close(file, identifiers(net_, *port), monotonic_now());
    }
    carry_out(monotonic_now());
  }
  closed_.push_back(std::move(node.mapped()));
}

void Server::on_issm_changes() {
  for (const auto& change : issm_files_->take_changes()) {
    net_.set_capability(change.port, wire::port_capability::kIsSm, change.is_open, monotonic_now());
  }
  carry_out(monotonic_now());
}

void Server::on_description_changes() {
  for (const auto& change : description_files_->take_changes()) {
    net_.set_node_description(change.host, change.description, monotonic_now());
  }
  carry_out(monotonic_now());
}

void Server::on_manager_end(SubnetManager& manager) {
  manager.take_exit_status();
  if (is_stopping_) return;
  log(LogLevel::error, "a subnet manager has ended with status {}: see {}", manager.exit_status(),
      manager.log());
}

TimeNs Server::deadline() const {
  TimeNs first = std::min({net_.deadline(), changes_due_, counters_due_, accept_again_at_,
                           kill_managers_at_, trunks_.deadline()});
  for (const auto& [port, due] : deadlines_) first = std::min(first, due);
  return first;
}

void Server::on_time(TimeNs now) {
  for (const PortPlace port : keeper_->take_integrity_errors(now)) {
    net_.on_link_integrity_error(port, now);
  }
  if (net_.deadline() <= now) net_.on_time(now);
  for (const auto& [port, due] : deadlines_) {
    if (due > now) continue;
    agents_of(port).on_time(identifiers(net_, port), now);
    if (groups_.contains(port)) groups_of(port).on_time(identifiers(net_, port), now);
  }
  if (changes_due_ <= now) tell_changed_hosts();
  if (counters_due_ <= now) show_counters(now);
  if (accept_again_at_ <= now) {
    accept_again_at_ = watch(listener_.get(), EPOLLIN) ? kNever : now + kAcceptPause;
  }
  carry_out(now);
  if (kill_managers_at_ <= now) {
    kill_managers_at_ = kNever;
    stop_managers(/*with_patience=*/false);
  }
}

/// The subnet managers end first, while their ports still answer.
void Server::begin_to_stop() {
  if (std::exchange(is_stopping_, true)) return;
  stop_managers(/*with_patience=*/true);
  kill_managers_at_ = monotonic_now() + kManagerPatience;
}

void Server::stop_managers(bool with_patience) const {
  for (const SubnetManager& manager : managers_) {
    if (manager.runs()) manager.stop(with_patience);
  }
}

}  // namespace verbatim::fabric
