#include <algorithm>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "ulp/nvmeof/host/initiator.h"

/// The I/O queue: a disk's requests as commands.
namespace verbatim::ulp::nvmeof {

using storage::Channel;
using storage::InitiatorOutput;
using Kind = storage::DiskRequest::Kind;

namespace {

constexpr Channel kIo{1};
constexpr CommandId kPassedId{3};
constexpr std::uint32_t kAccessNotice = 1u << 11;  // Of OAES.

struct ErrorRow {
  Status status{};
  int error = 0;
};
constexpr ErrorRow kErrors[] = {
    {Status::success, 0},
    {Status::invalid_opcode, EOPNOTSUPP},
    {Status::invalid_field, EINVAL},
    {Status{0x007}, EAGAIN},  // Aborted.
    {Status{0x020}, EROFS},   // Write protected.
    {Status::lba_out_of_range, EINVAL},
    {Status::capacity_exceeded, ENOSPC},
    {Status{0x082}, EAGAIN},  // The namespace is not ready.
    // Another path is taken, or this one again.
    {Status{0x300}, EAGAIN},  // Internal path error.
    {Status::access_persistent_loss, EAGAIN},
    {Status::access_inaccessible, EAGAIN},
    {Status::access_transition, EAGAIN},
};

Opcode opcode_of(Kind kind) {
  switch (kind) {
    case Kind::read:
      return Opcode::read;
    case Kind::flush:
      return Opcode::flush;
    case Kind::write_zeroes:
      return Opcode::write_zeroes;
    case Kind::write:
    case Kind::discard:
      break;
  }
  return Opcode::write;
}

}  // namespace

int error_of(Status status) {
  const auto row = std::ranges::find(kErrors, status, &ErrorRow::status);
  return row == std::end(kErrors) ? EIO : row->error;
}

void Initiator::on_io(const Completion& completion, InitiatorOutput& out) {
  if (step_ == Step::io_connect) {
    if (completion.status != Status::success)
      return close("I/O queue: " + words_of_connect(completion.status), false, out);
    step_ = Step::serving;
    facts_ = known_;
    if ((found_.notices & kAccessNotice) != 0 && access_group_ != 0) wait_for_event(out);
    return;
  }
  if (completion.command == kPassedId && !settings_.has_disk && std::exchange(is_passing_, false))
    return static_cast<void>(passed_answer_ = completion);
  if (io_.empty()) return close("an answer on a queue that is not connected", false, out);
  const std::uint16_t index = raw(completion.command) % entries_;
  Entry& entry = io_[index];
  if (!entry.is_taken || entry.id != completion.command)
    return close(fmt::format("the target answers command {}, which is not under way",
                             raw(completion.command)),
                 false, out);
  entry.is_taken = false;
  free_.push_back(index);
  if (completion.status != Status::success) on_refused_access(completion.status);
  out.answers.push({entry.user, error_of(completion.status)});
}

Initiator::Entry* Initiator::take_entry(TimeNs now) {
  if (free_.empty()) return nullptr;
  const std::uint16_t index = free_.back();
  free_.pop_back();
  Entry& entry = io_[index];
  // Another one than before, so that a late answer finds nothing.
  rounds_ = static_cast<std::uint16_t>((rounds_ + 1) % (65536 / entries_));
  entry = {.id = CommandId{static_cast<std::uint16_t>(rounds_ * entries_ + index)},
           .is_taken = true,
           .sent_at = now};
  return &entry;
}

bool Initiator::on_request(const storage::DiskRequest& request, TimeNs now, InitiatorOutput& out) {
  arena_.clear();
  if (step_ != Step::serving || is_closing_) return false;
  Entry* const entry = take_entry(now);
  if (entry == nullptr) return false;
  entry->user = request.user;
  if (request.kind == Kind::discard) {
    send_discard(*entry, request, out);
  } else {
    send_io(*entry, request, out);
  }
  return true;
}

void Initiator::send_io(Entry& entry, const storage::DiskRequest& request, InitiatorOutput& out) {
  Command command{.opcode = opcode_of(request.kind),
                  .id = entry.id,
                  .namespace_id = settings_.namespace_id,
                  .first_block = request.offset / known_.block_bytes,
                  .blocks = static_cast<std::uint32_t>(request.bytes / known_.block_bytes)};
  const auto bytes = static_cast<std::uint32_t>(request.bytes);
  if (request.kind == Kind::flush) {
    command.blocks = 1;  // It has none, which cannot be said.
  } else if (request.kind == Kind::write_zeroes) {
    command.deallocates = request.may_discard;
  } else {
    command.force_unit_access = request.is_stable;
    command.data = {.kind = DataDescriptor::Kind::keyed,
                    .address = request.memory.address(),
                    .bytes = bytes,
                    .key = request.memory.remote_key};
  }
  constexpr std::uint32_t kInCapsuleMax = 4096;
  const bool is_in_capsule =
      request.kind == Kind::write &&
      bytes <= std::min<std::uint64_t>(kInCapsuleMax, found_.capsule_bytes - Command::kSize);
  if (is_in_capsule) {
    command.data = {.kind = DataDescriptor::Kind::in_capsule, .bytes = bytes};
    entry.payload = {request.memory.data(), bytes, request.memory.here.local_key};
  }
  std::array<std::byte, Command::kSize> capsule{};
  encode(command, capsule);
  Send send{.header = add_to_arena(capsule)};
  if (is_in_capsule) send.payload = {&entry.payload, 1};
  out.on(kIo).push(send);
}

/// Dataset Management with one range in the capsule (base specification 1.4, section 6.7).
void Initiator::send_discard(const Entry& entry, const storage::DiskRequest& request,
                             InitiatorOutput& out) {
  constexpr AdminOpcode kDatasetManagement{0x09};
  constexpr std::uint32_t kDeallocate = 4, kRangeBytes = 16;
  AdminCommand command{.opcode = kDatasetManagement,
                       .id = entry.id,
                       .namespace_id = settings_.namespace_id,
                       .data = {.kind = DataDescriptor::Kind::in_capsule, .bytes = kRangeBytes}};
  command.dwords[1] = kDeallocate;  // Dword 10 says one range, as 0.
  std::array<std::byte, AdminCommand::kSize + kRangeBytes> capsule{};
  encode(command, std::span(capsule).first<AdminCommand::kSize>());
  store_le(&capsule[AdminCommand::kSize + 4],
           static_cast<std::uint32_t>(request.bytes / known_.block_bytes));
  store_le(&capsule[AdminCommand::kSize + 8], request.offset / known_.block_bytes);
  out.on(kIo).push(Send{.header = add_to_arena(capsule)});
}

}  // namespace verbatim::ulp::nvmeof
