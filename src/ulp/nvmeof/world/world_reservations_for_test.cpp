#include <algorithm>

#include <fmt/format.h>

#include "ulp/nvmeof/reservations/reservations.h"
#include "ulp/nvmeof/world/world_for_test.h"

/// Reservations of the world's hosts. A host's command counts from when it has come; after the
/// answer to Preempt and Abort, nothing of hosts that are kept out reaches the disk.
namespace verbatim::ulp::nvmeof {
namespace {

constexpr std::uint32_t kWriteExclusive = 1 << 8, kPreemptAndAbort = 2;
std::uint64_t key_of(std::uint32_t host) { return 100 + host; }

struct Row {
  Opcode opcode{};
  bool preempts = false;
};
constexpr Row kRows[] = {{Opcode::reservation_register},      {Opcode::reservation_register},
                         {Opcode::reservation_acquire},       {Opcode::reservation_acquire, true},
                         {Opcode::reservation_acquire, true}, {Opcode::reservation_acquire, true},
                         {Opcode::reservation_release}};

}  // namespace

/// The keys are in its capsule, so it is carried out at once.
void World::send_reservation(Connection& connection) {
  const std::uint32_t host = connection.host;
  auto other = static_cast<std::uint32_t>((host + 1 + random_.below(kHosts - 2)) % (kHosts - 1));
  // Most often the one that may write.
  if (is_kept_out(host) && random_.chance(0.8)) other = *reserved_.holder;
  const auto [opcode, preempts] = kRows[random_.below(std::size(kRows))];
  const Reserved before = reserved_;
  const Status expected = reserve(opcode, preempts, host, other);
  if (before.holder != reserved_.holder) {
    // Those that may write again are checked with what the disk has until then.
    check_frozen();
    frozen_.clear();
    ++holders_;
  }
  const nvmeof::Command command{.opcode = opcode,
                                .id = CommandId{next_id(connection, {.is_reservation = true,
                                                                     .preempts = preempts,
                                                                     .expected = expected,
                                                                     .holders = holders_})},
                                .namespace_id = 1,
                                .data = {.kind = DataDescriptor::Kind::in_capsule, .bytes = 16}};
  std::vector<std::byte> capsule(nvmeof::Command::kSize + 16);
  encode(command, std::span(capsule).first<nvmeof::Command::kSize>());
  const bool enrolls = opcode == Opcode::reservation_register;
  store_le(&capsule[40], enrolls ? 0 : kWriteExclusive | (preempts ? kPreemptAndAbort : 0));
  store_le(&capsule[64], enrolls ? 0 : key_of(host));
  store_le(&capsule[72], enrolls ? key_of(host) : preempts ? key_of(other) : 0);
  send(connection, std::move(capsule));
  const Reserved there = reserved_there();
  // A controller that ends takes no commands.
  if (there == before) {
    reserved_ = before;
  } else if (there != reserved_) {
    violation(fmt::format("opcode {:#x} of host {} has another effect", raw(opcode), host));
  }
}

/// Base specification 1.4, section 8.8.
Status World::reserve(Opcode opcode, bool preempts, std::uint32_t host, std::uint32_t other) {
  auto& [registered, holder] = reserved_;
  if (opcode == Opcode::reservation_register) return registered.insert(host), Status::success;
  if (!registered.contains(host)) return Status::reservation_conflict;
  if (opcode == Opcode::reservation_release) {
    if (holder == host) holder.reset();
    return Status::success;
  }
  if (!preempts) {
    if (holder && holder != host) return Status::reservation_conflict;
    holder = host;
    return Status::success;
  }
  if (registered.erase(other) == 0) return Status::reservation_conflict;
  if (holder == other) holder = host;
  return Status::success;
}

World::Reserved World::reserved_there() const {
  Reserved found;
  const ReservationReport report = good_->find(1)->reservations->report();
  for (const ReservationReport::Entry& entry : report.entries) {
    const auto host = std::to_integer<std::uint32_t>(entry.host[0]) - 1;
    found.registered.insert(host);
    if (entry.holds) found.holder = host;
  }
  return found;
}

void World::on_reserved(const Connection&, const Command& command, Status status) {
  if (status != command.expected)
    violation(fmt::format("status {:#x} of a reservation: {:#x} is right", raw(status),
                          raw(command.expected)));
  if (!command.preempts || status != Status::success || command.holders != holders_) return;
  ++preemptions_;
  for (std::uint32_t host = 0; host + 1 < kHosts; ++host) {
    if (!is_kept_out(host)) continue;
    const std::size_t bytes = std::size_t{kQueuesMax + 1} * kSlots * kSlotBytes;
    const auto begin = disks_[0].begin() + static_cast<std::ptrdiff_t>(host * bytes);
    frozen_.try_emplace(host, begin, begin + static_cast<std::ptrdiff_t>(bytes));
  }
}

void World::check_frozen() {
  for (const auto& [host, bytes] : frozen_) {
    if (!std::equal(bytes.begin(), bytes.end(),
                    disks_[0].begin() + static_cast<std::ptrdiff_t>(host * bytes.size())))
      violation(fmt::format("host {} was kept out, and its bytes have changed", host));
  }
}

}  // namespace verbatim::ulp::nvmeof
