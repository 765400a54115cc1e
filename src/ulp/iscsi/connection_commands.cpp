#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/overloaded.h"
#include "ulp/iscsi/connection.h"

/// SCSI commands, their data, and their management, between initiator and task set.
namespace verbatim::ulp::iscsi {

using scsi::Management;
using scsi::ManagementResult;
using storage::Output;

namespace {

scsi::TaskAttribute attribute_of(const RequestHeader& header) {
  switch (header.flags & 7) {
    case 2:
      return scsi::TaskAttribute::ordered;
    case 3:
      return scsi::TaskAttribute::head_of_queue;
    default:
      return scsi::TaskAttribute::simple;
  }
}

enum class Function : std::uint8_t {
  abort_task = 1,
  abort_task_set = 2,
  clear_task_set = 4,
  unit_reset = 5,
  warm_reset = 6,
  cold_reset = 7,
  task_reassign = 8,
};
enum class Managed : std::uint8_t {
  complete = 0,
  no_task = 1,
  no_unit = 2,
  no_reassign = 4,
  not_supported = 5,
  rejected = 255,
};

Managed managed_of(ManagementResult result) {
  switch (result) {
    case ManagementResult::complete:
      return Managed::complete;
    case ManagementResult::no_task:
      return Managed::no_task;
    case ManagementResult::no_unit:
      return Managed::no_unit;
    case ManagementResult::rejected:
      break;
  }
  return Managed::rejected;
}

ResponseHeader managed_header(std::uint32_t task_tag, Managed result) {
  return {.opcode = Opcode::task_management_response,
          .response = static_cast<std::uint8_t>(result),
          .task_tag = task_tag};
}

/// O and U, and how many bytes.
void set_residual(std::int64_t residual, ResponseHeader& header) {
  if (residual == 0) return;
  header.flags |= residual > 0 ? kOverflow : kUnderflow;
  header.residual = static_cast<std::uint32_t>(residual > 0 ? residual : -residual);
}

}  // namespace

Command* Connection::find_command(std::uint32_t task_tag) {
  return full_ == nullptr ? nullptr : full_->tags.find(task_tag);
}

/// Whether data may come with a command, or after it without an R2T (RFC 7143, 13.10 and 13.11).
bool Connection::may_come_unasked(const RequestHeader& header, std::size_t bytes) const {
  if (bytes > 0 && (!header.has(kWrites) || parameters_.immediate_data == 0)) return false;
  if (!header.has(kFinal) && (!header.has(kWrites) || !parameters_.may_send_unsolicited()))
    return false;
  return bytes <= std::min(parameters_.first_burst, header.expected_bytes());
}

void Connection::on_command(const RequestHeader& header, ByteSpan data,
                            const RemoteBuffers& buffers, Output& out) {
  if (header.more_bytes > 0 || (header.has(kReads) && header.has(kWrites)))
    return reject(RejectReason::command_not_supported, header, out);
  if (!may_come_unasked(header, data.size()))
    return close(fmt::format("{} bytes of data with a command of {}: ImmediateData={}, "
                             "InitialR2T={}, FirstBurstLength={}",
                             data.size(), header.expected_bytes(),
                             parameters_.immediate_data != 0 ? "Yes" : "No",
                             parameters_.initial_r2t != 0 ? "Yes" : "No", parameters_.first_burst),
                 out);
  if (find_command(header.task_tag) != nullptr)
    return reject(RejectReason::task_in_progress, header, out);
  Command* const command = full_->commands.take();
  if (command == nullptr) return refuse_command(header, scsi::Status::task_set_full, out);
  command->task_tag = header.task_tag;
  command->cmd_sn = header.cmd_sn;
  command->lun = header.lun;
  command->expected_bytes = header.expected_bytes();
  command->reads_data = header.has(kReads);
  command->buffers = buffers;
  command->is_unsolicited_over = header.has(kFinal);
  command->unsolicited_have = static_cast<std::uint32_t>(data.size());
  command->unsolicited_bytes = header.has(kFinal)
                                   ? command->unsolicited_have
                                   : std::min(parameters_.first_burst, header.expected_bytes());
  if (command->unsolicited_bytes > 0) {
    command->stash = sessions().take_stash();
    if (command->stash == nullptr) {
      full_->commands.give_back(*command);
      return refuse_command(header, scsi::Status::busy, out);
    }
    std::memcpy(command->stash, data.data(), data.size());
  }
  ++full_->open;
  const std::uint32_t expected = command->expected_bytes;
  const bool has_begun = full_->tasks.begin({.tag = raw(tag_of(*command)),
                                             .lun = header.lun,
                                             .cdb = header.cdb,
                                             .attribute = attribute_of(header),
                                             .data_out_bytes = header.has(kWrites) ? expected : 0,
                                             .data_in_bytes = header.has(kReads) ? expected : 0},
                                            sessions().task_output());
  if (has_begun) return full_->tags.add(*command);
  --full_->open;
  give_back(*command);
  refuse_command(header, scsi::Status::task_set_full, out);
}

void Connection::refuse_command(const RequestHeader& header, scsi::Status status, Output& out) {
  ResponseHeader answer{.opcode = Opcode::scsi_response,
                        .status = static_cast<std::uint8_t>(status),
                        .task_tag = header.task_tag};
  number(answer, true);
  send(answer, {}, nullptr, kNoTag, out);
}

/// Data that no R2T has asked for. Of a command that is over, it is dropped.
void Connection::on_data_out(const RequestHeader& header, ByteSpan data, Output& out) {
  if (header.transfer_tag() != kNoTag32) return;  // Its command is over.
  Command* const command = find_command(header.task_tag);
  if (command == nullptr) return;
  const std::uint32_t left = command->unsolicited_bytes - command->unsolicited_have;
  if (command->is_unsolicited_over || header.buffer_offset() != command->unsolicited_have ||
      data.size() > left)
    return close(fmt::format("{} bytes of unsolicited data at {}: {} at {} are expected",
                             data.size(), header.buffer_offset(),
                             command->is_unsolicited_over ? 0 : left, command->unsolicited_have),
                 out);
  std::memcpy(command->stash + command->unsolicited_have, data.data(), data.size());
  command->unsolicited_have += static_cast<std::uint32_t>(data.size());
  command->is_unsolicited_over = header.has(kFinal);
  advance_fetch(*command, out);
}

void Connection::advance_fetch(Command& command, Output& out) {
  if (!command.is_fetching || command.is_moving || !command.is_unsolicited_over) return;
  if (command.fetch_offset < command.unsolicited_have) {
    const std::uint32_t end = std::min(command.unsolicited_have, command.fetch_end);
    command.into.fill({command.stash + command.fetch_offset, end - command.fetch_offset});
    command.fetch_offset = end;
  }
  if (command.fetch_offset == command.fetch_end) return moved(command);
  command.is_moving = true;
  solicit(command, out);
}

void Connection::moved(Command& command) {
  command.is_fetching = command.is_moving = false;
  full_->moved.push_back(command.task);
}

void Connection::fetch_failed(Command& command) {
  command.is_fetching = command.is_moving = false;
  full_->failed.push_back(command.task);
}

void Connection::on_management(const RequestHeader& header, Output& out) {
  Managing one{.request = ++full_->managed, .task_tag = header.task_tag, .left = 1};
  switch (Function{header.low_flags()}) {
    case Function::abort_task: {
      const Command* const command = find_command(header.referenced_task());
      if (command == nullptr) break;
      return manage(one, Management::abort_task, command->lun, raw(tag_of(*command)));
    }
    case Function::abort_task_set:
      return manage(one, Management::abort_task_set, header.lun, 0);
    case Function::clear_task_set:
      return manage(one, Management::clear_task_set, header.lun, 0);
    case Function::unit_reset:
      return manage(one, Management::unit_reset, header.lun, 0);
    case Function::cold_reset:
      one.closes = true;
      [[fallthrough]];
    case Function::warm_reset:
      one.left = static_cast<std::uint32_t>(session_->units.luns().size());
      full_->managing.push_back(one);
      for (const scsi::Lun lun : session_->units.luns())
        full_->tasks.manage(Management::unit_reset, one.request, lun, 0, now_,
                            sessions().task_output());
      return;
    case Function::task_reassign:
      break;
  }
  Managed result = Managed::not_supported;
  if (Function{header.low_flags()} == Function::abort_task) result = Managed::no_task;
  if (Function{header.low_flags()} == Function::task_reassign) result = Managed::no_reassign;
  ResponseHeader answer = managed_header(header.task_tag, result);
  number(answer, true);
  send(answer, {}, nullptr, kNoTag, out);
}

void Connection::manage(const Managing& one, Management what, std::uint64_t lun,
                        std::uint64_t task) {
  full_->managing.push_back(one);
  full_->tasks.manage(what, one.request, lun, task, now_, sessions().task_output());
}

void Connection::on_managed(const scsi::Managed& managed, Output& out) {
  const auto one = std::ranges::find(full_->managing, managed.request, &Managing::request);
  if (one == full_->managing.end()) return;
  if (managed.result != ManagementResult::complete) one->result = managed.result;
  if (--one->left > 0) return;
  ResponseHeader answer = managed_header(one->task_tag, managed_of(one->result));
  const bool closes = one->closes;
  full_->managing.erase(one);
  number(answer, true);
  send(answer, {}, nullptr, closes ? kCloseTag : kNoTag, out);
  if (closes) close_after_message("the initiator has reset the target");
}

void Connection::respond(const scsi::Respond& respond, Output& out) {
  Command* const command = full_->commands.find(Tag{static_cast<std::uint32_t>(respond.request)});
  if (command == nullptr) return;
  --full_->open;
  full_->tags.remove(*command);
  command->task = respond.task;
  ResponseHeader answer{.opcode = Opcode::scsi_response,
                        .status = static_cast<std::uint8_t>(respond.status),
                        .task_tag = command->task_tag,
                        .data_sn = command->sent_sn};
  set_residual(command->reads_data ? respond.residual.in : respond.residual.out, answer);
  std::array<std::byte, 2 + scsi::SenseBytes::capacity()> data{};
  if (!respond.sense.empty()) {
    store_be(data.data(), static_cast<std::uint16_t>(respond.sense.size()));
    std::ranges::copy(respond.sense, &data[2]);
    answer.data_bytes = static_cast<std::uint32_t>(2 + respond.sense.size());
  }
  number(answer, true);
  send(answer, std::span(data).first(answer.data_bytes), command, tag_of(*command), out);
}

void Connection::give_back(Command& command) {
  sessions().give_back_stash(command.stash);
  full_->commands.give_back(command);
}

void Connection::act(const scsi::Action& action, Output& out) {
  const auto command_of = [this](Tag task) -> Command* {
    const auto request = full_->tasks.request_of(task);
    if (!request) return nullptr;
    Command* const command = full_->commands.find(Tag{static_cast<std::uint32_t>(*request)});
    if (command != nullptr) command->task = task;
    return command;
  };
  std::visit(Overloaded{
                 [&](const scsi::Fetch& one) {
                   Command* const command = command_of(one.task);
                   if (command == nullptr) return;
                   command->is_fetching = true;
                   command->fetch_offset = one.data_offset;
                   command->fetch_end =
                       one.data_offset + static_cast<std::uint32_t>(ulp::bytes_of(one.into));
                   command->into = SliceCursor(one.into);
                   advance_fetch(*command, out);
                 },
                 [&](const scsi::Deliver& one) {
                   if (Command* const command = command_of(one.task))
                     deliver(*command, one.from, out);
                 },
                 [&](const scsi::Respond& one) { respond(one, out); },
                 [&](const scsi::Cancel& one) {
                   Command* const command = command_of(one.task);
                   if (command == nullptr || !command->is_fetching) return;
                   if (!command->is_moving || stop_fetch(*command)) fetch_failed(*command);
                 },
                 [&](const scsi::Drop& one) {
                   const Tag tag{static_cast<std::uint32_t>(one.request)};
                   if (Command* const command = full_->commands.find(tag)) {
                     --full_->open;
                     full_->tags.remove(*command);
                     give_back(*command);
                   }
                 },
                 [&](const scsi::Managed& one) { on_managed(one, out); },
             },
             action);
}

/// Carries out what the task set has put out, and tells it what has come of that. Returns false if
/// `out` has no room for all of it.
bool Connection::carry_out_tasks(TimeNs, Output& out) {
  if (full_ == nullptr) return true;
  scsi::TaskOutput& from = sessions().task_output();
  for (;;) {
    if (!is_over_ && !continue_delivery(out)) return false;
    for (; store_at_ < from.store.size(); ++store_at_) {
      if (!out.has_room()) return false;
      out.store.push(from.store[store_at_]);
    }
    while (action_at_ < from.actions.size()) {
      if (!has_room(out)) return false;
      act(from.actions[action_at_++], out);
      if (!is_over_ && !continue_delivery(out)) return false;
    }
    const bool more = from.more;
    from.clear();
    store_at_ = action_at_ = 0;
    if (more) {
      full_->tasks.resume(from);
    } else if (!full_->moved.empty()) {
      const Tag task = full_->moved.back();
      full_->moved.pop_back();
      full_->tasks.on_fetched(task, true, from);
    } else if (!full_->failed.empty()) {
      const Tag task = full_->failed.back();
      full_->failed.pop_back();
      full_->tasks.on_fetched(task, false, from);
    } else {
      return true;
    }
  }
}

}  // namespace verbatim::ulp::iscsi
