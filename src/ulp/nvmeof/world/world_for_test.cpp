#include "ulp/nvmeof/world/world_for_test.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/overloaded.h"

namespace verbatim::ulp::nvmeof {

namespace {

constexpr std::uint32_t kBlockBytes = 512;
const char* const kNqns[] = {"nqn.2026-01.test:good", "nqn.2026-01.test:hostile"};

}  // namespace

World::World(std::uint64_t seed, const Options& options)
    : random_(seed),
      options_(options),
      target_(Limits{.io_queues = kQueuesMax, .queue_entries = options.entries}),
      portal_(target_, *SocketAddress::parse("10.0.0.1", 4420), 1024) {
  const std::size_t bytes = std::size_t{kHosts} * (kQueuesMax + 1) * kSlots * kSlotBytes;
  for (std::uint32_t unit = 1; unit <= 2; ++unit) {
    disks_.emplace_back(bytes);
    auto subsystem = Subsystem::create(kNqns[unit - 1]);
    subsystem->admit_any_host();
    static_cast<void>(subsystem->add(1, {.unit = storage::UnitId{unit},
                                         .blocks = bytes / kBlockBytes,
                                         .can_reserve = options.reserve > 0}));
    Subsystem* const added = *target_.add(std::move(*subsystem));
    if (unit == 1) good_ = added;
  }
  for (std::uint32_t i = 0; i < kHosts; ++i) {
    hosts_.push_back({.name = fmt::format("nqn.2026-01.test:host{}", i)});
    hosts_.back().memory.resize((kQueuesMax + 1) * kSlots * kSlotBytes);
  }
}

void World::run(int steps) {
  for (int i = 0; i < steps && violations_.empty(); ++i) step();
}

World::Connection* World::any(bool also_over) {
  if (connections_.empty()) return nullptr;
  Connection* const one = connections_[random_.below(connections_.size())].get();
  return one->is_over && !also_over ? nullptr : one;
}

void World::step() {
  now_ += random_.below(20 * kMillisecond);
  Connection* const one = any(false);
  const auto choice = random_.below(100);
  if (one != nullptr && random_.chance(options_.cut)) return cut(*one);
  if (random_.chance(options_.vanish)) hosts_[random_.below(kHosts)].is_gone = true;
  if (choice < 10) {
    open_connection();
  } else if (choice < 40 && one != nullptr) {
    host_acts(*one);
  } else if (choice < 70 && one != nullptr) {
    do_work(*one);
  } else if (choice < 95) {
    answer_store();
  } else if (one != nullptr && one->session->deadline() <= now_) {
    one->session->on_time(now_, out_);
    carry_out(*one);
  }
  bury();
}

/// The next queue of a host: the admin queue, then those of I/O.
void World::open_connection() {
  const auto host = static_cast<std::uint32_t>(random_.below(kHosts));
  std::uint16_t queue = 0;
  for (const auto& other : connections_) {
    if (other->host == host && other->step == 0) return;  // One at a time.
    if (other->host == host) queue = std::max<std::uint16_t>(queue, other->queue + 1);
  }
  if (hosts_[host].is_gone || queue > kQueuesMax) return;
  if (queue > 0 && hosts_[host].controller == 0) return;
  const std::uint32_t entries = queue == 0 ? kAdminEntries : options_.entries;
  Meeting meeting{.reads = {.initiator = 16, .responder = 16}};
  meeting.private_data = encode(QueueRequest{
      .queue_id = queue, .receives = static_cast<std::uint16_t>(entries), .commands = entries});
  auto verdict = portal_.on_meeting(meeting, now_);
  if (std::holds_alternative<Rejection>(verdict)) return violation("a good host was rejected");
  auto& connection = *connections_.emplace_back(std::make_unique<Connection>());
  connection.host = host;
  connection.queue = queue;
  connection.entries = entries;
  connection.session = std::move(std::get<storage::Accept>(verdict).session);
}

void World::host_acts(Connection& connection) {
  if (hosts_[connection.host].is_gone) return;
  const bool is_hostile = connection.host == kHosts - 1;
  if (is_hostile && random_.chance(options_.hostile)) return send_noise(connection);
  if (connection.commands.size() + 1 >= std::min(connection.entries, kSlots)) return;
  if (connection.step < 2) return set_up(connection);
  return connection.queue == 0 ? send_admin(connection) : send_io(connection);
}

std::uint16_t World::next_id(Connection& connection, const Command& command) {
  do {
    ++connection.last_id;
  } while (connection.commands.contains(connection.last_id));
  connection.commands[connection.last_id] = command;
  return connection.last_id;
}

/// Connect, and then the admin queue enables the controller.
void World::set_up(Connection& connection) {
  if (!connection.commands.empty()) return;
  Host& host = hosts_[connection.host];
  AdminCommand command{.id = CommandId{next_id(connection, {})}};
  std::vector<std::byte> capsule(AdminCommand::kSize);
  if (connection.step == 0) {
    ConnectData data{
        .host_id = {std::byte(connection.host + 1)},
        .controller_id = connection.queue == 0 ? ConnectData::kAnyController : host.controller,
        .subsystem = kNqns[connection.host == kHosts - 1 ? 1 : 0],
        .host = host.name};
    put_connect(
        {.queue_id = connection.queue, .commands = connection.entries, .keep_alive_ms = 5000},
        command);
    const bool is_in_capsule = connection.queue > 0;
    const auto kind =
        is_in_capsule ? DataDescriptor::Kind::in_capsule : DataDescriptor::Kind::keyed;
    command.data = {.kind = kind, .bytes = ConnectData::kSize};
    std::array<std::byte, ConnectData::kSize> bytes;
    encode(data, bytes);
    if (is_in_capsule) capsule.insert(capsule.end(), bytes.begin(), bytes.end());
    if (!is_in_capsule) std::ranges::copy(bytes, host.memory.begin());
  } else {
    put_property(FabricsType::property_set, {Property::configuration, false, 0x460001}, command);
  }
  encode(command, std::span(capsule).first<AdminCommand::kSize>());
  send(connection, std::move(capsule));
}

std::size_t World::region(const Connection& connection, std::uint32_t slot) const {
  return ((std::size_t{connection.host} * (kQueuesMax + 1) + connection.queue) * kSlots + slot) *
         kSlotBytes;
}

void World::send_io(Connection& connection) {
  const bool is_hostile = connection.host == kHosts - 1;
  if (options_.reserve > 0 && !is_hostile && random_.chance(options_.reserve))
    return send_reservation(connection);
  const auto slot = static_cast<std::uint32_t>(random_.below(kSlots));
  for (const auto& [id, other] : connection.commands) {
    if (other.is_io && other.slot == slot) return;
  }
  const bool is_write = random_.chance(0.5);
  const auto pattern = static_cast<std::uint8_t>(random_.below(255) + 1);
  const std::size_t at = region(connection, slot);
  const std::size_t in_host = (std::size_t{connection.queue} * kSlots + slot) * kSlotBytes;
  nvmeof::Command command{
      .opcode = is_write ? Opcode::write : Opcode::read,
      .id = CommandId{next_id(connection, {.is_write = is_write,
                                           .is_io = true,
                                           .slot = slot,
                                           .pattern = pattern,
                                           .is_kept_out = is_write && is_kept_out(connection.host),
                                           .holders = holders_})},
      .namespace_id = 1,
      .data = {.kind = DataDescriptor::Kind::keyed,
               .address = in_host,
               .bytes = kSlotBytes,
               .key = MemoryKey{1},
               .invalidates = random_.chance(0.5)},
      .first_block = at / kBlockBytes,
      .blocks = kSlotBytes / kBlockBytes};
  std::vector<std::byte> capsule(nvmeof::Command::kSize);
  auto& memory = hosts_[connection.host].memory;
  if (is_write && random_.chance(0.5)) {
    command.data = {.kind = DataDescriptor::Kind::in_capsule, .bytes = kSlotBytes};
    capsule.resize(capsule.size() + kSlotBytes, std::byte{pattern});
  }
  std::fill_n(memory.begin() + static_cast<std::ptrdiff_t>(in_host), kSlotBytes,
              is_write ? std::byte{pattern} : std::byte{});
  if (is_write && connection.host != kHosts - 1)
    known_.erase(at);  // Old or new, until it is answered.
  encode(command, std::span(capsule).first<nvmeof::Command::kSize>());
  send(connection, std::move(capsule));
}

void World::send_admin(Connection& connection) {
  AdminCommand command{.opcode = AdminOpcode::keep_alive, .id = CommandId{next_id(connection, {})}};
  const auto choice = random_.below(3);
  if (choice == 1) {
    command.opcode = AdminOpcode::identify;
    command.namespace_id = 1;
    command.dwords[0] = static_cast<std::uint32_t>(random_.below(4));
    command.data = {.kind = DataDescriptor::Kind::keyed, .bytes = kIdentifyBytes};
  } else if (choice == 2) {
    put_log_request({LogPage::effects, random_.below(4) * 512, 1024}, command);
    command.data = {.kind = DataDescriptor::Kind::keyed, .bytes = 1024};
  }
  std::vector<std::byte> capsule(AdminCommand::kSize);
  encode(command, std::span(capsule).first<AdminCommand::kSize>());
  send(connection, std::move(capsule));
}

/// Any bytes, or a command of I/O with any bytes in it.
void World::send_noise(Connection& connection) {
  std::vector<std::byte> capsule(random_.below(600));
  for (std::byte& byte : capsule) byte = static_cast<std::byte>(random_.next());
  if (capsule.size() > 1 && random_.chance(0.9)) {
    capsule[0] = static_cast<std::byte>(random_.below(16));
    capsule[1] = std::byte{0x40};
  }
  if (capsule.size() > 8 && random_.chance(0.5)) {
    capsule[4] = std::byte{1};
    std::fill_n(capsule.begin() + 5, 3, std::byte{});
  }
  if (capsule.size() >= 64 && random_.chance(0.5)) {
    capsule[39] = std::byte{random_.chance(0.5) ? std::uint8_t{0x40} : std::uint8_t{0x01}};
    std::fill_n(capsule.begin() + 33, 15, std::byte{});
  }
  send(connection, std::move(capsule));
}

void World::send(Connection& connection, std::vector<std::byte> capsule) {
  auto& receive = connection.receives.emplace_back(std::move(capsule));
  const auto id = static_cast<std::uint32_t>(connection.receives.size() - 1);
  const Slice memory{receive.data(), static_cast<std::uint32_t>(receive.size()), MemoryKey{2}};
  const auto use =
      connection.session->on_message({.receive = ReceiveId{id}, .memory = memory}, now_, out_);
  if (use == ReceiveUse::kept) connection.kept.insert(id);
  carry_out(connection);
}

/// What the session has put out; the store and the adapter do it later.
void World::carry_out(Connection& connection) {
  for (;;) {
    collect(connection);
    const bool more = out_.more;
    out_.clear();
    if (!more) return;
    connection.session->resume(now_, out_);
  }
}

void World::collect(Connection& connection) {
  for (const auto& request : out_.store) {
    if (const auto* const back = std::get_if<storage::GiveBack>(&request)) {
      end_loan(connection, back->tag);
    } else {
      asked_.push_back({&connection, request});
    }
  }
  for (Work work : out_.work) {
    if (const auto* const again = std::get_if<PostAgain>(&work)) {
      if (connection.kept.erase(raw(again->receive)) == 0) violation("a receive is posted twice");
      continue;
    }
    if (connection.is_over) continue;
    if (auto* const send = std::get_if<Send>(&work)) {
      auto& copy = connection.headers.emplace_back(send->header.begin(), send->header.end());
      send->header = copy;
    }
    connection.works.push_back(work);
  }
}

void World::do_work(Connection& connection) {
  if (connection.works.empty()) return;
  const Work work = connection.works.front();
  connection.works.pop_front();
  do_one(connection, work);
}

void World::do_one(Connection& connection, const Work& work) {
  std::visit(
      Overloaded{
          [&](const Send& send) {
            receive(connection, send.header);
            if (send.done == kNoTag) return;
            connection.session->on_done(send.done, CompletionStatus::success, now_, out_);
            carry_out(connection);
          },
          [&](const Write& write) { move(connection, write.from, write.to, true, write.done); },
          [&](const Read& read) { move(connection, read.into, read.from, false, read.done); },
          [](const PostAgain&) {}, [&](const Disconnect&) { cut(connection); }},
      work);
}

/// As the adapters would: memory that the host has not registered ends the connection.
void World::move(Connection& connection, std::span<const Slice> slices, const RemoteRange& range,
                 bool to_host, Tag done) {
  auto& memory = hosts_[connection.host].memory;
  const std::uint64_t bytes = bytes_of(slices);
  if (bytes != range.bytes) return violation("pages and range have different sizes");
  if (range.address > memory.size() || bytes > memory.size() - range.address)
    return cut(connection);
  auto at = memory.begin() + static_cast<std::ptrdiff_t>(range.address);
  for (const Slice& slice : slices) {
    if (to_host) std::copy_n(slice.data, slice.bytes, at);
    if (!to_host) std::copy_n(at, slice.bytes, slice.data);
    at += slice.bytes;
  }
  if (done == kNoTag) return;
  connection.session->on_done(done, CompletionStatus::success, now_, out_);
  carry_out(connection);
}

void World::receive(Connection& connection, ByteSpan response) {
  const auto completion = decode_completion(response);
  const auto found = connection.commands.find(raw(completion->command));
  const bool is_hostile = connection.host == kHosts - 1;
  if (found == connection.commands.end()) {
    if (!is_hostile) violation("an answer to what was not asked, or twice");
    return;
  }
  const Command command = found->second;
  connection.commands.erase(found);
  const bool is_done = completion->status == Status::success;
  if (connection.step < 2 && is_done) {
    if (connection.step == 0 && connection.queue == 0)
      hosts_[connection.host].controller = static_cast<std::uint16_t>(completion->result);
    connection.step = connection.queue > 0 ? 2 : connection.step + 1;
  }
  if (is_hostile) return;
  if (command.is_reservation) return on_reserved(connection, command, completion->status);
  if (command.is_kept_out && is_done) violation("a host that is kept out has written");
  const bool may_conflict =
      command.is_kept_out || (command.is_write && command.holders != holders_);
  if (completion->status == Status::reservation_conflict && may_conflict)
    return static_cast<void>(++refused_writes_);
  if (!is_done && command.is_io && options_.store_error == 0)
    violation(fmt::format("status {:#x}", raw(completion->status)));
  if (!is_done || !command.is_io) return;
  if (command.is_write) known_[region(connection, command.slot)] = command.pattern, ++writes_;
  if (!command.is_write) check_read(connection, command), ++reads_;
}

void World::check_read(const Connection& connection, const Command& command) {
  const auto known = known_.find(region(connection, command.slot));
  if (known == known_.end()) return;
  const auto& memory = hosts_[connection.host].memory;
  const std::size_t at = (std::size_t{connection.queue} * kSlots + command.slot) * kSlotBytes;
  const auto bytes = std::span(memory).subspan(at, kSlotBytes);
  if (std::ranges::count(bytes, std::byte{known->second}) != kSlotBytes)
    violation("a read has other bytes than were written");
}

}  // namespace verbatim::ulp::nvmeof
