#include "offload/card/card.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/log.h"
#include "offload/card/burst.h"
#include "offload/card/rule_check.h"
#include "service/folder.h"

namespace verbatim::offload {
namespace {

constexpr service::Protocol kProtocol{VNIC_MAGIC, VNIC_VERSION};
/// Before it sleeps, the card looks at its rings for so long.
constexpr TimeNs kSpin = 20 * kMicrosecond;
/// Then it is the control socket's turn.
constexpr int kRoundsInATurn = 32;
/// A driver, others that get a word why not, and the clients of some busy functions.
constexpr std::size_t kClientsMax = 256;

std::uint64_t random_seed() {
  std::uint64_t seed = 0;
  return getrandom(&seed, sizeof seed, GRND_NONBLOCK) == sizeof seed ? seed : 1;
}

}  // namespace

Card::Card(service::Loop& loop, const CardOptions& options)
    : loop_(loop), options_(options), burst_(std::make_unique_for_overwrite<Burst>()) {}

Card::~Card() {
  loop_.remove(*this);
  if (clients_ != nullptr) unlink(options_.socket.c_str());
  if (is_kept_) service::Keeper::end(options_.keeper);
}

Result<std::unique_ptr<Card>> Card::create(service::Loop& loop, const CardOptions& options) {
  std::unique_ptr<Card> card(new Card(loop, options));
  for (const auto step :
       {&Card::open_ports, &Card::listen, &Card::watch, &Card::attach_kernel, &Card::keep_ports}) {
    if (auto done = (card.get()->*step)(); !done) return std::unexpected(done.error());
  }
  card->switch_.emplace(TableLimits{.rules = options.rules}, random_seed());
  loop.add(*card);
  return card;
}

std::string Card::port_name(std::size_t port) const {
  if (port == 0) return "up";
  return port > options_.functions ? "pf" : fmt::format("vf{}", port - 1);
}

Result<Tap> Card::open_tap(const std::string& name, std::vector<service::Kept>& kept) {
  const auto found = std::ranges::find(kept, name, &service::Kept::name);
  if (found != kept.end()) {
    if (auto adopted = Tap::adopt(std::move(found->fd), name)) return adopted;
  }
  return Tap::open(name);
}

Result<void> Card::open_ports() {
  const std::size_t last = options_.functions + (options_.is_dpu ? 1u : 0u);
  auto kept = service::Keeper::ask(options_.keeper);
  if (!kept) kept.emplace();  // No card was killed.
  for (std::size_t p = 0; p <= last; ++p) {
    const std::string name = options_.prefix + port_name(p);
    if (is_rings(p)) {
      ports_.push_back(Port{.end = RingFunction(name, options_.socket + name)});
      continue;
    }
    auto tap = open_tap(name, *kept);
    if (!tap) return std::unexpected(tap.error());
    ports_.push_back(Port{.end = std::move(*tap)});
  }
  return {};
}

Result<void> Card::keep_ports() {
  if (options_.keeper.empty()) return {};
  std::vector<std::pair<std::string, int>> descriptors;
  for (Port& port : ports_) {
    if (const Tap* const tap = port.tap()) descriptors.emplace_back(tap->name(), tap->fd());
  }
  auto started = service::Keeper::start(options_.keeper, descriptors);
  is_kept_ = started.has_value();
  return started;
}

Result<void> Card::listen() {
  doorbell_.reset(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!doorbell_) return refuse_errno("eventfd");
  auto listener = service::listen_at(options_.socket);
  if (!listener) return std::unexpected(listener.error());
  auto clients =
      service::Clients::create(loop_, std::move(*listener), kProtocol, {.clients = kClientsMax});
  if (!clients) return std::unexpected(clients.error());
  clients_ = std::move(*clients);
  clients_->on(VNIC_HELLO, [this](service::Client& client, const service::Incoming&) {
    return on_hello(client);
  });
  clients_->on(VNIC_MEMORY, [this](service::Client& client, const service::Incoming& message) {
    return on_memory(client, message);
  });
  clients_->on(VNIC_JOIN, [this](service::Client& client, const service::Incoming& message) {
    return on_join(client, message);
  });
  clients_->on_gone([this](const service::Client& client) { on_gone(client); });
  return {};
}

Result<void> Card::watch() {
  for (Port& port : ports_) {
    const Tap* const tap = port.tap();
    if (tap == nullptr) continue;
    auto watched = loop_.watch(tap->fd(), EPOLLIN, [this, &port](std::uint32_t, TimeNs) {
      port.is_ready = true;
      wake();
    });
    if (!watched) return watched;
  }
  return loop_.watch(doorbell_.get(), EPOLLIN, [this](std::uint32_t, TimeNs) {
    silence_doorbell();
    wake();
  });
}

/// Does not wait, whatever a client has made of the eventfd: it may have taken O_NONBLOCK away.
void Card::silence_doorbell() const {
  std::uint64_t rings = 0;
  const iovec into{&rings, sizeof rings};
  [[maybe_unused]] const auto size = preadv2(doorbell_.get(), &into, 1, -1, RWF_NOWAIT);
}

/// The kernel's driver is there from the start, and lives longer than the card.
Result<void> Card::attach_kernel() {
  if (options_.device.empty()) return {};
  auto device = KernelDevice::attach(options_.device, welcome());
  if (!device) return std::unexpected(device.error());
  kernel_.emplace(std::move(*device));
  UniqueFd file(fcntl(kernel_->fd(), F_DUPFD_CLOEXEC, 0));
  auto driver = AttachedDriver::map(std::move(file), kernel_->region_bytes(),
                                    static_cast<std::uint16_t>(ports_.size()));
  if (!driver) return std::unexpected(driver.error());
  if (auto added = (*driver)->memory().add(kernel_->memory(), kernel_->fd()); !added) return added;
  driver_ = std::move(*driver);
  return loop_.watch(kernel_->fd(), EPOLLIN, [this](std::uint32_t, TimeNs) {
    kernel_->silence_doorbell();
    wake();
  });
}

vnic_welcome Card::welcome() {
  vnic_welcome welcome{};
  welcome.ports = static_cast<std::uint32_t>(ports_.size());
  welcome.rules_max = options_.rules;
  welcome.mode = options_.is_dpu ? VNIC_MODE_DPU : VNIC_MODE_HOST;
  for (std::size_t p = 0; p < ports_.size(); ++p) {
    const auto mac = ports_[p].visit([](const auto& end) { return end.mac(); });
    std::memcpy(welcome.macs[p], mac.data(), mac.size());
  }
  return welcome;
}

Result<void> Card::on_hello(service::Client& client) {
  if (driver_ != nullptr) {
    return refuse(EBUSY, kernel_ ? std::string("the card has a driver already: the kernel's")
                                 : fmt::format("the card has a driver already: process {}",
                                               driver_client_->process()));
  }
  auto driver = AttachedDriver::create(static_cast<std::uint16_t>(ports_.size()), options_.rules);
  if (!driver) return std::unexpected(driver.error());
  driver_ = std::move(*driver);
  driver_client_ = &client;
  vnic_welcome answer = welcome();
  answer.region_bytes = driver_->region_bytes();
  const int files[] = {driver_->region_file(), doorbell_.get()};
  clients_->send(client, VNIC_WELCOME, std::as_bytes(std::span(&answer, 1)), files);
  for (Port& port : ports_) {
    if (const RingFunction* const rings = port.rings()) say_link(*rings);
  }
  log(LogLevel::info, "driver of process {} attached", client.process());
  wake();
  return {};
}

Result<void> Card::on_memory(service::Client& client, const service::Incoming& message) {
  FunctionMember* const member = member_of(client);
  if (&client != driver_client_ && member == nullptr) return refuse(EPERM, "say hello first");
  vnic_memory piece{};
  if (message.bytes.size() != sizeof piece || message.descriptors.size() != 1) {
    return refuse(EPROTO, "a piece of memory comes with one file");
  }
  std::memcpy(&piece, message.bytes.data(), sizeof piece);
  const int file = message.descriptors.front().get();
  const auto added =
      member != nullptr ? member->add_memory(piece, file) : driver_->memory().add(piece, file);
  if (!added) return added;
  clients_->send(client, VNIC_REGISTERED, {});
  return {};
}

void Card::on_gone(const service::Client& client) {
  if (&client == driver_client_) return on_driver_gone();
  leave_function(client);
}

void Card::on_driver_gone() {
  log(LogLevel::info, "driver of process {} has gone; its {} rules end", driver_client_->process(),
      switch_->table().size());
  driver_client_ = nullptr;
  driver_.reset();
  meters_ = Meters(VNIC_METERS_MAX);
  switch_.emplace(TableLimits{.rules = options_.rules}, random_seed());
}

/// Ends the connection of a driver that harms the card; the rest is on_gone's.
void Card::expel_driver() {
  log(LogLevel::warn, "process {} has cut off memory that it gave to the card: expelled",
      driver_client_->process());
  auto* const client = const_cast<service::Client*>(driver_client_);
  shutdown(client->channel().fd(), SHUT_RDWR);
}

void Card::wake() {
  if (sleeps_ && driver_ != nullptr) driver_->say_asleep(false);
  if (sleeps_) say_asleep_to_members(false);
  sleeps_ = false;
  idle_since_ = kNever;
}

void Card::try_to_sleep() {
  sleeps_ = true;
  if (driver_ != nullptr) driver_->say_asleep(true);
  say_asleep_to_members(true);
  // Before the last look at the cursors: wake_card orders its post and look the other way.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (members_have_work() || (driver_ != nullptr && driver_->has_work())) wake();
}

void Card::on_time(TimeNs now) {
  now_ = now;
  for (int round = 0; round < kRoundsInATurn; ++round) {
    if (work() != 0) {
      idle_since_ = kNever;
      continue;
    }
    if (idle_since_ == kNever) idle_since_ = now;
    if (elapsed(idle_since_, now) >= kSpin) try_to_sleep();
    break;
  }
  expel_cutters();
  if (driver_ == nullptr) return;
  for (std::uint16_t p = 0; p < port_count(); ++p) driver_->publish(p, ports_[p].counters);
  if (!kernel_ && driver_->memory().was_cut()) expel_driver();
}

/// Takes commands before frames: a rule decides what comes after it.
std::size_t Card::work() {
  std::size_t done = 0;
  std::size_t taken = 0;  // From the driver.
  if (driver_ != nullptr) {
    taken +=
        driver_->take_commands([this](const vnic_command& command) { return execute(command); });
  }
  for (std::uint16_t p = 0; p < port_count(); ++p) {
    if (ports_[p].is_ready) done += serve_port(p);
    if (ports_[p].rings() != nullptr) ports_[p].is_ready = true;  // Its clients need not ring.
    if (driver_ == nullptr) continue;
    vnic_port_counters& counters = ports_[p].counters;
    taken += driver_->take_frames(p, [&](ByteSpan frame) {
      ++counters.sent_packets;
      counters.sent_bytes += frame.size();
      output(p, frame, {}, {});
    });
  }
  wake_members();
  if (kernel_ && (taken != 0 || std::exchange(has_delivered_, false))) kernel_->interrupt();
  return done + taken;
}

int Card::execute(const vnic_command& command) {
  const vnic_rule& rule = command.rule;
  switch (command.operation) {
    case VNIC_INSERT: {
      auto checked = rule_of(rule, port_count());
      if (!checked) return -checked.error().code;
      const auto inserted = switch_->insert(std::move(*checked));
      return inserted ? 0 : -inserted.error().code;
    }
    case VNIC_ERASE:
      return switch_->erase(rule.id) ? 0 : -ENOENT;
    case VNIC_SET_METER:
      return set_meter(command.meter);
    case VNIC_CLEAR_METER:
      return meters_.clear(command.meter.id) ? 0 : -ENOENT;
    default:
      return rule.port < ports_.size() ? execute_on_port(command) : -EINVAL;
  }
}

int Card::execute_on_port(const vnic_command& command) {
  const vnic_rule& rule = command.rule;
  switch (command.operation) {
    case VNIC_START:
      driver_->start(rule.port);
      return 0;
    case VNIC_STOP:
      driver_->stop(rule.port);
      return 0;
    case VNIC_SET_MAC: {
      const std::span<const std::uint8_t, 6> mac(rule.actions[0].bytes, 6);
      return -ports_[rule.port].visit([&](auto& end) { return end.set_mac(mac); });
    }
    case VNIC_SET_LINK:
      return set_link(rule.port, rule.actions[0].value != 0);
    default:
      return -EOPNOTSUPP;
  }
}

int Card::set_meter(const vnic_meter& meter) {
  const auto profile = profile_of(meter);
  return profile && meters_.set(meter.id, *profile, now_) ? 0 : -EINVAL;
}

int Card::set_link(std::uint16_t port, bool is_up) {
  const int failed = ports_[port].visit([&](auto& end) { return end.set_carrier(is_up); });
  if (failed == 0) driver_->say_link(port, is_up);
  return -failed;
}

}  // namespace verbatim::offload
