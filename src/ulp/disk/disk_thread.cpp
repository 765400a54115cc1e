#include "ulp/disk/disk_thread.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log.h"

namespace verbatim::ulp::disk {

using storage::Channel;

namespace {

constexpr std::uint32_t kBuffers = 64, kBufferBytes = 256 << 10;
constexpr std::uint32_t kReceives = 256, kReceiveBytes = 76 + 8192;
constexpr std::uint32_t kHeaderBytes = 2048;
constexpr TimeNs kEndPatience = 2 * kSecond;

}  // namespace

Result<std::unique_ptr<DiskThread>> DiskThread::start(DiskSettings settings) {
  std::unique_ptr<DiskThread> disk(new DiskThread(std::move(settings)));
  disk->wake_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!disk->wake_) return refuse_errno("eventfd");
  std::promise<Result<void>> promise;
  auto began = promise.get_future();
  // Signals are the program's.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  disk->thread_ = std::thread(&DiskThread::run, disk.get(), std::move(promise));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (auto result = began.get(); !result) return std::unexpected(result.error());
  return disk;
}

DiskThread::~DiskThread() {
  {
    const std::lock_guard lock(mutex_);
    should_stop_ = true;
  }
  eventfd_write(wake_.get(), 1);
  if (thread_.joinable()) thread_.join();
}

int DiskThread::ask(Ask& ask) {
  bool is_first = false;
  {
    const std::lock_guard lock(mutex_);
    if (should_stop_) return ESHUTDOWN;
    is_first = mail_.empty();
    mail_.push_back(&ask);
  }
  if (is_first) eventfd_write(wake_.get(), 1);
  ask.is_answered.wait(false);
  return ask.error;
}

void DiskThread::run(std::promise<Result<void>> began) {
  auto opened = open();
  if (opened) opened = log_in();
  if (opened) opened = serve_machines();
  const bool is_there = opened.has_value();
  began.set_value(std::move(opened));
  while (is_there && !loop_->should_stop()) loop_->turn();
  stop_all();
}

Result<void> DiskThread::open() {
  auto loop = service::Loop::create();
  if (!loop) return std::unexpected(loop.error());
  loop_ = std::move(*loop);
  if (!settings_.name.empty()) {
    auto control = service::Control::open({"disk", settings_.name}, *loop_);
    if (!control) return std::unexpected(control.error());
    control_ = std::move(*control);
    control_->on("status", [this](const nlohmann::json&) { return status(); });
    control_->on("stop", [](const nlohmann::json&) {
      kill(getpid(), SIGTERM);  // The program ends in order.
      return nlohmann::json{{"process", getpid()}};
    });
  }
  connections_.resize(settings_.targets.size());
  auto driver = rdma::Driver::create(*this, {.connections_max = 16,
                                             .receives = kReceives,
                                             .receive_bytes = kReceiveBytes,
                                             .header_bytes = kHeaderBytes});
  if (!driver) return std::unexpected(driver.error());
  driver_ = std::move(*driver);
  if (auto made = open_memory(); !made) return made;
  if (auto attached = driver_->attach(*loop_); !attached) return attached;
  loop_->add(*this);
  return loop_->watch(wake_.get(), EPOLLIN, [this](std::uint32_t, TimeNs) { take_mail(); });
}

OwnSide DiskThread::own_side(storage::PeerMemory scratch) const {
  scratch.here.bytes = storage::kScratchBytes;
  OwnSide own{.scratch = scratch};
  const auto gids = driver_->device().port().gids;
  if (gids.empty()) return own;
  const ByteSpan gid = std::as_bytes(std::span(gids.front().bytes));
  own.guid = load_be<std::uint64_t>(&gid[8]);
  return own;
}

/// The last buffers are for the engines' own data, one a path.
Result<void> DiskThread::open_memory() {
  auto pool = rdma::BufferPool::create(
      driver_->device(), kBuffers + static_cast<std::uint32_t>(settings_.targets.size()),
      kBufferBytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
  if (!pool) return std::unexpected(pool.error());
  pool_ = std::move(*pool);
  const auto memory = [this](std::uint32_t i) {
    return storage::PeerMemory{pool_->at(i), pool_->region().remote_key()};
  };
  Disk::Settings settings{.new_sessions = {}, .buffers = {}, .patience = settings_.patience};
  for (std::uint32_t i = 0; i < settings_.targets.size(); ++i)
    settings.new_sessions.push_back(
        [&target = settings_.targets[i], own = own_side(memory(kBuffers + i))] {
          return target.begin(own);
        });
  for (std::uint32_t i = 0; i < kBuffers; ++i) settings.buffers.push_back(memory(i));
  disk_ = std::make_unique<Disk>(std::move(settings), *this);
  return {};
}

Result<void> DiskThread::log_in() {
  disk_->begin(loop_->now());
  while (disk_->facts() == nullptr && disk_->refusal() == nullptr) loop_->turn();
  if (disk_->facts() == nullptr)
    return refuse(EIO, fmt::format("{}: {}", settings_.url, *disk_->refusal()));
  return {};
}

Result<void> DiskThread::serve_machines() {
  facts_ = *disk_->facts();
  facts_.is_read_only = facts_.is_read_only || settings_.is_read_only;
  if (settings_.vhost_user.empty()) return {};
  auto server = vhost::Server::open(settings_.vhost_user, *loop_, facts_,
                                    [this](Ask& ask) { disk_->ask(ask, loop_->now()); });
  if (!server) return std::unexpected(server.error());
  vhost_ = std::move(*server);
  return {};
}

void DiskThread::stop_all() {
  if (vhost_ != nullptr) vhost_->stop();
  if (driver_ != nullptr && disk_ != nullptr) {
    take_mail();
    disk_->end(loop_->now());
    const TimeNs until = loop_->now() + kEndPatience;
    while (!disk_->is_over() && loop_->now() < until) loop_->turn(until);
    driver_->disconnect_all(loop_->now());
    while (driver_->connection_count() > 0 && loop_->now() < until + kEndPatience)
      loop_->turn(until + kEndPatience);
  }
  disk_.reset();
  vhost_.reset();
  pool_.reset();
  driver_.reset();
  control_.reset();
}

void DiskThread::take_mail() {
  eventfd_t count;
  eventfd_read(wake_.get(), &count);
  std::deque<Ask*> mail;
  {
    const std::lock_guard lock(mutex_);
    mail.swap(mail_);
    if (should_stop_) loop_->stop();
  }
  for (Ask* const ask : mail) disk_->ask(*ask, loop_->now());
}

nlohmann::json DiskThread::status() const {
  const storage::DiskFacts* const facts = disk_ == nullptr ? nullptr : disk_->facts();
  nlohmann::json status{
      {"kind", "disk"},       {"name", settings_.name},
      {"process", getpid()},  {"url", settings_.url},
      {"uri", settings_.uri}, {"is_there", disk_ != nullptr && disk_->is_there()}};
  if (disk_ == nullptr) return status;
  status.update({{"words", disk_->words()},
                 {"sessions", disk_->sessions()},
                 {"answered", disk_->answered()},
                 {"open", disk_->open()}});
  if (facts != nullptr) {
    status.update({{"bytes", facts->bytes},
                   {"block_bytes", facts->block_bytes},
                   {"is_read_only", facts->is_read_only},
                   {"disk", facts->name}});
  }
  for (std::uint32_t i = 0; i < settings_.targets.size(); ++i)
    status["paths"].push_back(path_status(i));
  return status;
}

nlohmann::json DiskThread::path_status(std::uint32_t path) const {
  constexpr const char* kStates[] = {"optimized", "non-optimized", "inaccessible"};
  const Disk::PathFacts facts = disk_->path_facts(path);
  return {{"url", settings_.targets[path].url},
          {"is_there", facts.is_there},
          {"state", kStates[static_cast<std::size_t>(facts.state)]},
          {"words", facts.words}};
}

TimeNs DiskThread::deadline() const {
  return not_connected_.empty() ? disk_->deadline() : loop_->now();
}

void DiskThread::on_time(TimeNs now) {
  for (const NotConnected& one : std::exchange(not_connected_, {}))
    disk_->on_end(one.at, one.words, now);
  if (disk_->deadline() <= now) disk_->on_time(now);
}

std::optional<PathChannel> DiskThread::find(rdma::ConnectionId connection) const {
  for (std::uint32_t path = 0; path < connections_.size(); ++path) {
    for (std::uint8_t i = 0; i < storage::kChannelsMax; ++i)
      if (connections_[path][i] == connection) return PathChannel{path, Channel{i}};
  }
  return {};
}

void DiskThread::on_established(const rdma::Established& established, TimeNs now, WorkList&) {
  const auto at = find(established.connection);
  const PrivateData& data = established.private_data;
  if (at) disk_->on_established(*at, {data.begin(), data.size()}, now);
}

ReceiveUse DiskThread::on_message(rdma::ConnectionId connection, const Message& message, TimeNs now,
                                  WorkList&) {
  const auto at = find(connection);
  return at ? disk_->on_message(*at, message, now) : ReceiveUse::done;
}

void DiskThread::on_done(rdma::ConnectionId connection, Tag tag, CompletionStatus status,
                         TimeNs now, WorkList&) {
  if (const auto at = find(connection)) disk_->on_done(*at, tag, status, now);
}

void DiskThread::on_end(rdma::ConnectionId connection, const rdma::End& end, TimeNs now) {
  const auto at = find(connection);
  if (!at) return;
  connection_at(*at).reset();
  if (!end.rejected) return disk_->on_end(*at, end.words, now);
  const PrivateData& data = end.rejected->private_data;
  disk_->on_rejected(*at, end.rejected->reason, {data.begin(), data.size()}, now);
}

void DiskThread::connect(std::uint32_t path, const storage::ConnectRequest& request) {
  const PathChannel at{path, request.channel};
  const auto connection =
      driver_->connect(settings_.targets[path].place,
                       {.sizes = request.sizes, .private_data = request.private_data});
  if (connection) {
    connection_at(at) = *connection;
  } else {
    not_connected_.push_back({at, connection.error().text});
  }
}

void DiskThread::carry_out(PathChannel at, std::span<const Work> work) {
  if (const auto& connection = connection_at(at))
    driver_->carry_out(*connection, work, loop_->now());
}

void DiskThread::disconnect(PathChannel at) {
  if (const auto& connection = connection_at(at))
    driver_->disconnect(*connection, "", loop_->now());
}

void DiskThread::on_answered(Ask& ask) {
  Ask::User* const user = ask.user;
  ask.is_answered = true;
  if (user != nullptr) return user->on_answered();
  ask.is_answered.notify_one();
}

void DiskThread::tell(const std::string& line) {
  log(LogLevel::warn, "{}: {}", settings_.url, line);
}

}  // namespace verbatim::ulp::disk
