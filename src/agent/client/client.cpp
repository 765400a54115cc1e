#include "agent/client/client.h"

#include <algorithm>

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>

#include "agent/client/agent_request.h"
#include "agent/protocol/protocol.h"
#include "base/log.h"
#include "base/os/thread.h"
#include "base/time.h"

namespace verbatim::agent {
namespace {

constexpr TimeNs kFirstPause = 100 * kMillisecond;
constexpr TimeNs kLongestPause = 5 * kSecond;
constexpr int kMessagesMax = 64;

std::array<char, 64> program_name() {
  std::array<char, 64> name{};
  prctl(PR_GET_NAME, name.data());  // Of the calling thread, usually the program's first.
  if (const int comm = open("/proc/self/comm", O_RDONLY | O_CLOEXEC); comm >= 0) {
    const ssize_t length = read(comm, name.data(), name.size() - 1);
    close(comm);
    if (length > 0) name[static_cast<std::size_t>(length) - 1] = '\0';  // Removes the line end.
  }
  return name;
}

struct Membership {
  UniqueFd connection;
  Welcome welcome;
  std::vector<UniqueFd> descriptors;
};

/// Returns those that exist, in the order of the messages.
std::vector<int> numbers(const SharedFiles& files) {
  if (files.arena < 0) return {};
  if (files.memory < 0 || files.doorbell < 0) return {files.arena};
  return {files.arena, files.memory, files.doorbell};
}

Result<Membership> say_hello(UniqueFd connection, const AgentOptions& options,
                             const SharedFiles& files) {
  Hello hello;
  hello.program_name = program_name();
  const auto wanted = wanted_node(options);
  if (!wanted) return std::unexpected(wanted.error());
  hello.wanted = *wanted;
  auto answered = ask<Welcome>(connection.get(), hello, numbers(files));
  if (!answered) return std::unexpected(answered.error());
  return Membership{std::move(connection), answered->message, std::move(answered->descriptors)};
}

LinkSettings settings_of(const LinkOrders& orders) {
  return {.capture = orders.capture, .faults = get_text(orders.faults)};
}

/// Leaves the addresses that come first, and their GIDs: both are added at the end.
void keep_first(Node& node, std::size_t addresses) {
  const auto gids = std::exchange(node.gids, {});
  for (const GidEntry& entry : gids) {
    if (node.index_of(entry.address) < addresses) node.gids.push(entry);
  }
  node.addresses.truncate(addresses);
}

/// Returns true for errors that another attempt to rejoin would meet again.
bool is_final(const Error& error) {
  constexpr std::array kFinal{ESTALE, EPROTO, EPROTONOSUPPORT, EINVAL};
  return std::ranges::find(kFinal, error.code) != kFinal.end();
}

}  // namespace

Result<std::unique_ptr<AgentClient>> AgentClient::join(const AgentOptions& options,
                                                       const SharedFiles& files) {
  auto membership = with_agent(options, [&](UniqueFd connection) {
    return say_hello(std::move(connection), options, files);
  });
  if (!membership) return std::unexpected(membership.error());
  const Welcome& welcome = membership->welcome;
  auto node = arena::checked(welcome.node);
  if (!node) return std::unexpected(node.error());
  auto& descriptors = membership->descriptors;
  if (descriptors.size() != Welcome::kFixedDescriptors + node->socket_count()) {
    return refuse(EPROTO, "a welcome without all descriptors");
  }

  std::unique_ptr<AgentClient> client(new AgentClient);
  client->options_ = options;
  client->node_ = *node;
  client->slot_ = welcome.slot;
  client->since_seconds_ = welcome.since_seconds;
  client->links_ = settings_of(welcome.links);
  client->store_in_ = std::move(descriptors[0]);
  client->store_out_ = std::move(descriptors[1]);
  client->slot_lock_ = std::move(descriptors[2]);
  client->sockets_.reserve(kAddressesMax);
  std::move(descriptors.begin() + Welcome::kFixedDescriptors, descriptors.end(),
            std::back_inserter(client->sockets_));
  for (const int file : numbers(files)) {
    client->files_.emplace_back(fcntl(file, F_DUPFD_CLOEXEC, 0));
    if (!client->files_.back()) return refuse_errno("no descriptor to keep for the next agent");
  }
  client->connection_ = std::move(membership->connection);
  if (auto prepared = client->prepare_events(); !prepared) {
    return std::unexpected(prepared.error());
  }
  return client;
}

AgentClient::~AgentClient() {
  if (rejoining_.joinable()) {
    eventfd_write(stop_.get(), 1);
    rejoining_.join();
  }
}

Result<void> AgentClient::prepare_events() {
  events_.reset(epoll_create1(EPOLL_CLOEXEC));
  stop_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!events_ || !stop_) return refuse_errno("no descriptor to watch the agent");
  auto timer_fd = TimerFd::create();
  if (!timer_fd) return std::unexpected(timer_fd.error());
  rejoined_ = std::move(*timer_fd);
  if (auto watched = watch(rejoined_.fd()); !watched) return watched;
  connected_.store(true, std::memory_order_release);
  bindings_.attach(connection_.get());
  return watch(connection_.get());
}

Result<void> AgentClient::watch(int fd) {
  epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
  if (epoll_ctl(events_.get(), EPOLL_CTL_ADD, fd, &event) != 0) return refuse_errno("epoll_ctl");
  return {};
}

void AgentClient::handle_event() {
  std::array<epoll_event, 2> ready;
  const int count = epoll_wait(events_.get(), ready.data(), ready.size(), 0);
  for (int i = 0; i < count; ++i) {
    if (ready[static_cast<std::size_t>(i)].data.fd == rejoined_.fd()) {
      const bool has_thread = rejoining_.joinable();
      if (has_thread) rejoining_.join();
      rejoined_.clear();
      if (!has_thread) {  // None could be started.
        start_rejoining();
        continue;
      }
      if (!new_connection_) continue;  // It has given up, and said so.
      {
        const std::lock_guard guard(events_lock_);
        connection_ = std::move(new_connection_);
      }
      connected_.store(true, std::memory_order_release);
      bindings_.attach(connection_.get());
      if (auto watched = watch(connection_.get()); !watched) {
        log(LogLevel::warn, "cannot watch the agent of node '{}': {}", node_.name,
            watched.error().text);
      }
    } else {
      // Bounded, because the caller has other descriptors to serve.
      for (int messages = 0; messages < kMessagesMax && read_message(); ++messages) {
      }
    }
  }
}

bool AgentClient::read_message() {
  auto message = receive(connection_.get(), MSG_DONTWAIT);
  if (message) {
    on_message(*message);
    return true;
  }
  if (message.error().code == EAGAIN) return false;
  if (message.error().code == EMFILE) {
    log(LogLevel::warn, "news of node '{}' are lost, such as an address that it has got: {}",
        node_.name, message.error().text);
    return true;
  }
  bindings_.detach();
  epoll_ctl(events_.get(), EPOLL_CTL_DEL, connection_.get(), nullptr);
  {
    const std::lock_guard guard(events_lock_);
    connection_.reset();
  }
  connected_.store(false, std::memory_order_release);
  start_rejoining();
  if (!rejoining_.joinable()) {  // Once, because further attempts need no log line.
    log(LogLevel::warn,
        "node '{}' has no agent, connections go on without it: no thread can be started now, "
        "which would find another",
        node_.name);
  }
  return false;
}

void AgentClient::on_message(Incoming& message) {
  const std::lock_guard guard(events_lock_);
  if (const auto mad = message.as<MadMessage>()) {
    if (!agent_events_.on_mad || mad->address >= node_.addresses.size()) return;
    const auto source = arena::path_of(mad->source);
    if (!source) return log(LogLevel::warn, "a datagram from nowhere: {}", source.error().text);
    agent_events_.on_mad({.source = *source,
                          .destination = node_.addresses[mad->address],
                          .source_qpn = Qpn(mad->source_qpn),
                          .pkey_index = mad->pkey_index,
                          .bytes = mad->bytes});
  } else if (message.type() == MessageType::description) {
    if (const auto done = on_description(message); !done) {
      log(LogLevel::warn, "the agent of node '{}': {}", node_.name, done.error().text);
    }
  } else if (const auto order = message.as<LinkOrder>()) {
    links_ = settings_of(order->links);
    follow_links();
  } else if (const auto refusal = message.as<Refusal>()) {
    log(LogLevel::warn, "the agent of node '{}': {}", node_.name, get_text(refusal->text));
  }
}

void AgentClient::set_events(AgentEvents events) {
  const std::lock_guard guard(events_lock_);
  agent_events_ = std::move(events);
  if (agent_events_.on_port_changed) agent_events_.on_port_changed(node_.network, node_);
}

void AgentClient::set_port_listener(PortListener listener) {
  const std::lock_guard guard(events_lock_);
  port_listener_ = std::move(listener);
  port_listener_(node_, socket_numbers());
}

void AgentClient::set_link_listener(LinkListener listener) {
  const std::lock_guard guard(events_lock_);
  link_listener_ = std::move(listener);
  follow_links();
}

/// With events_lock_ held. Offers the ring while a capture goes on, or says why there is none.
void AgentClient::follow_links() {
  if (!link_listener_) return;
  const auto ring = link_listener_(links_);
  if (links_.capture == 0) return;
  CaptureOffer offer;
  offer.capture = links_.capture;
  if (!ring) put_text(offer.failure, ring.error().text);
  const auto sent =
      send(connection_.get(), offer, ring ? std::span(&*ring, 1) : std::span<const int>());
  if (!sent) log(LogLevel::debug, "captured packets are not offered: {}", sent.error().text);
}

Node AgentClient::node() const {
  const std::lock_guard guard(node_lock_);
  return node_;
}

std::vector<int> AgentClient::sockets() const {
  const std::lock_guard guard(node_lock_);
  return socket_numbers();
}

std::vector<int> AgentClient::socket_numbers() const {
  std::vector<int> numbers;
  for (const UniqueFd& socket : sockets_) numbers.push_back(socket.get());
  return numbers;
}

/// Requires events_lock_. Takes the sockets of addresses that are new to this program.
Result<void> AgentClient::on_description(Incoming& message) {
  const auto description = message.as<Description>();
  if (!description) return std::unexpected(description.error());
  auto now = arena::checked(description->node);
  if (!now) return std::unexpected(now.error());
  if (now->socket_count() != sockets_.size() + message.descriptors.size()) {
    // Those of an earlier message were lost, for want of descriptors: the program does without.
    message.descriptors.clear();
    keep_first(*now, sockets_.size());
  }
  const bool is_known = message.descriptors.empty() && now->network == node_.network;
  const NetworkState before = node_.network;
  {
    const std::lock_guard guard(node_lock_);
    std::ranges::move(message.descriptors, std::back_inserter(sockets_));
    node_ = *now;
  }
  if (is_known) return {};
  if (port_listener_) port_listener_(node_, socket_numbers());
  if (agent_events_.on_port_changed) agent_events_.on_port_changed(before, node_);
  return {};
}

/// Without a thread, tries again a second later.
void AgentClient::start_rejoining() {
  auto thread = start_thread("verbatim-rejoin", [this] { rejoin_until_done(); });
  if (thread) {
    rejoining_ = std::move(*thread);
    return;
  }
  log(LogLevel::debug, "rejoining node '{}': {}", node_.name, thread.error().text);
  rejoined_.set(monotonic_now() + kSecond);
}

void AgentClient::rejoin_until_done() {
  Rejoin rejoin;
  rejoin.slot = slot_;
  rejoin.since_seconds = since_seconds_;
  rejoin.address_count = static_cast<std::uint32_t>(sockets_.size());  // None is added meanwhile.
  rejoin.program_name = program_name();
  {
    const std::lock_guard guard(events_lock_);
    put_text(rejoin.faults, links_.faults);
  }
  std::vector<int> descriptors{store_in_.get(), store_out_.get()};
  for (const UniqueFd& file : files_) descriptors.push_back(file.get());

  pollfd stop{stop_.get(), POLLIN, 0};
  for (TimeNs pause = kFirstPause;; pause = std::min(pause * 2, kLongestPause)) {
    auto connection = with_agent(options_, [&](UniqueFd fresh) -> Result<UniqueFd> {
      auto answered = ask<Rejoined>(fresh.get(), rejoin, descriptors);
      if (!answered) return std::unexpected(answered.error());
      return fresh;
    });
    if (connection) {
      new_connection_ = std::move(*connection);
      break;
    }
    // Once: the program continues, and the user finds the cause in the log.
    if (pause == kFirstPause || is_final(connection.error())) {
      log(LogLevel::warn, "node '{}' has no agent, connections go on without it: {}", node_.name,
          connection.error().text);
    }
    if (is_final(connection.error())) break;
    if (poll(&stop, 1, static_cast<int>(pause / kMillisecond)) > 0) return;
  }
  rejoined_.set(monotonic_now());
}

void AgentClient::close_in_child() {
  // The thread does not exist here; forgotten, so that no destructor waits for it.
  std::construct_at(&rejoining_);
  for (UniqueFd* fd :
       {&store_in_, &store_out_, &slot_lock_, &connection_, &events_, &stop_, &new_connection_}) {
    fd->reset();
  }
  rejoined_ = {};
  for (auto& socket : sockets_) socket.reset();
  for (auto& file : files_) file.reset();
  bindings_.close_in_child();
  connected_.store(false, std::memory_order_release);
}

}  // namespace verbatim::agent
