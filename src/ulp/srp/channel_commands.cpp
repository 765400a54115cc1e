#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "ulp/srp/channel.h"

/// Commands from their message to the task set, and their management.
namespace verbatim::ulp::srp {

using scsi::Management;
using scsi::ManagementResult;
using storage::Output;

namespace {

scsi::TaskAttribute attribute_of(const Command& command) {
  switch (command.attribute) {
    case 1:
      return scsi::TaskAttribute::head_of_queue;
    case 2:
      return scsi::TaskAttribute::ordered;
    default:
      return scsi::TaskAttribute::simple;
  }
}

std::optional<Management> management_of(Function function) {
  switch (function) {
    case Function::abort_task:
      return Management::abort_task;
    case Function::abort_task_set:
      return Management::abort_task_set;
    case Function::clear_task_set:
      return Management::clear_task_set;
    case Function::unit_reset:
      return Management::unit_reset;
    case Function::clear_auto_contingent_allegiance:
      break;
  }
  return std::nullopt;
}

/// A task that is over need not be aborted (SAM-5, 7.2).
ResponseCode code_of(ManagementResult result) {
  const bool is_over = result == ManagementResult::complete || result == ManagementResult::no_task;
  return is_over ? ResponseCode::complete : ResponseCode::failed;
}

std::string words_of(const BufferFault& fault) {
  return fmt::format("a command whose buffers do not fit: {} {}, {} expected", fault.said,
                     fault.what, fault.bound);
}

bool needs_table(const Command& command) {
  return command.out.needs_table() || command.in.needs_table();
}

}  // namespace

ReceiveUse Channel::on_command(const Message& message, Output& out) {
  if (!take_credit(out)) return ReceiveUse::done;
  BufferFault fault;
  const auto command = decode_command(message.bytes(), setup_.immediate_offset, fault);
  if (!command) {
    close(fmt::format("a command of {} bytes: the shortest has {}", message.memory.bytes,
                      Command::kSize),
          out);
    return ReceiveUse::done;
  }
  if (fault.what == nullptr && command->out.needs_table() && command->in.needs_table())
    fault = {"tables that are not in the message", 2, 1};
  if (fault.what != nullptr) {
    // Not BUSY, as Linux's target says, which the initiator would repeat for ever.
    note(words_of(fault));
    refuse(*command, scsi::Status::check_condition, out);
    return ReceiveUse::done;
  }
  Request* const request = requests_.take();
  if (request == nullptr) {
    refuse(*command, scsi::Status::task_set_full, out);
    return ReceiveUse::done;
  }
  request->command = *command;
  request->receive = message.receive;
  if (waiting_.empty() && can_start(*request)) {
    start(*request, out);
  } else {
    waiting_.push_back(requests_.tag_of(*request));
  }
  return ReceiveUse::kept;
}

void Channel::refuse(const Command& command, scsi::Status status, Output& out) {
  scsi::SenseBytes sense;
  if (status == scsi::Status::check_condition)
    sense = scsi::encode(scsi::illegal_request(scsi::SenseCode::invalid_field_in_information_unit),
                         scsi::SenseFormat::fixed);
  send_response({.tag = command.tag, .status = raw(status), .sense = {sense.begin(), sense.size()}},
                command.notification, kNoTag, out);
}

bool Channel::can_start(const Request& request) const {
  return !reads_table_ && (table_owner_ == kNoTag || !needs_table(request.command));
}

/// The task set takes requests in the order in which they came; a second one with a table waits
/// until the first is over. Returns whether one waits no more.
bool Channel::start_waiting(Output& out) {
  bool has_begun = false;
  while (!waiting_.empty() && out.has_room() && setup_.ports->task_output().has_room()) {
    Request& request = *requests_.find(waiting_.front());
    if (!request.is_aborted && !can_start(request)) break;
    waiting_.pop_front();
    has_begun = true;
    if (request.is_aborted) {
      drop(request, out);
    } else {
      start(request, out);
    }
  }
  return has_begun;
}

/// It ends without an answer.
void Channel::drop(Request& request, Output& out) {
  --open_;
  give_receive(request, out);
  requests_.give_back(request);
}

void Channel::start(Request& request, Output& out) {
  if (!needs_table(request.command)) return begin(request, out);
  const Slice& piece = setup_.memory[1];
  Buffer& buffer = request.command.out.needs_table() ? request.command.out : request.command.in;
  buffer.ranges = {piece.data, buffer.table.bytes};
  request.parts.assign(1, {piece.data, buffer.table.bytes, piece.local_key});
  reads_table_ = true;
  table_owner_ = requests_.tag_of(request);
  out.work.push(Read{request.parts, buffer.table, kTableTag});
}

void Channel::on_table(bool is_whole, Output& out) {
  reads_table_ = false;
  Request* const request = requests_.find(table_owner_);
  if (request == nullptr || is_over_) return;
  BufferFault fault = check_ranges(request->command.out);
  if (fault.what == nullptr) fault = check_ranges(request->command.in);
  if (!is_whole) fault = {"bytes of a table of descriptors can be read", 0, 1};
  if (fault.what == nullptr) {
    begin(*request, out);
  } else {
    note(words_of(fault));
    give_receive(*request, out);
    refuse(request->command, scsi::Status::check_condition, out);
    requests_.give_back(*request);
  }
  const auto held = std::exchange(held_management_, {});
  for (const TaskManagement& wanted : held) on_management(wanted, out);
}

void Channel::begin(Request& request, Output& out) {
  const Command& command = request.command;
  request.has_begun = tasks_.begin({.tag = raw(requests_.tag_of(request)),
                                    .lun = command.lun,
                                    .cdb = command.cdb,
                                    .attribute = attribute_of(command),
                                    .data_out_bytes = command.out.bytes,
                                    .data_in_bytes = command.in.bytes},
                                   setup_.ports->task_output());
  if (request.has_begun) return;
  give_receive(request, out);
  refuse(command, scsi::Status::task_set_full, out);
  requests_.give_back(request);
}

/// Its message is not looked at any more.
void Channel::give_receive(Request& request, Output& out) {
  if (table_owner_ == requests_.tag_of(request)) table_owner_ = kNoTag;
  if (!is_over_) out.work.push(PostAgain{request.receive});
}

Channel::Request* Channel::request_of(Tag task) {
  const auto tag = tasks_.request_of(task);
  if (!tag) return nullptr;
  Request* const request = requests_.find(Tag{static_cast<std::uint32_t>(*tag)});
  if (request != nullptr) request->task = task;
  return request;
}

void Channel::answer_management(std::uint64_t tag, ResponseCode code, Output& out) {
  send_response({.tag = tag, .code = code}, 0, kNoTag, out);
}

void Channel::on_management(const TaskManagement& wanted, Output& out) {
  const auto what = management_of(wanted.function);
  // Tasks of other channels are not this one's to end.
  const bool is_known =
      what && (*what != Management::abort_task_set || setup_.session->channels.size() == 1);
  if (!is_known) return answer_management(wanted.tag, ResponseCode::not_supported, out);
  if (managing_.full() || (reads_table_ && held_management_.full()))
    return answer_management(wanted.tag, ResponseCode::failed, out);
  // The initiator's table is being read: nothing that is ended may be touched later.
  if (reads_table_) return static_cast<void>(held_management_.push(wanted));
  const bool was_waiting = abort_waiting(wanted);
  std::uint64_t task = 0;
  if (*what == Management::abort_task) {
    requests_.for_each([&](const Request& one) {
      if (one.has_begun && !one.is_answered && one.command.tag == wanted.task)
        task = raw(requests_.tag_of(one));
    });
    if (task == 0 || was_waiting) return answer_management(wanted.tag, ResponseCode::complete, out);
  }
  managing_.push({++managed_, wanted.tag});
  tasks_.manage(*what, managed_, wanted.lun, task, now_, setup_.ports->task_output());
}

/// Those that the task set does not know of yet.
bool Channel::abort_waiting(const TaskManagement& wanted) {
  bool has_aborted = false;
  for (const Tag tag : waiting_) {
    Request& request = *requests_.find(tag);
    const bool is_meant =
        wanted.function != Function::abort_task || request.command.tag == wanted.task;
    if (request.command.lun != wanted.lun || !is_meant) continue;
    request.is_aborted = has_aborted = true;
  }
  return has_aborted;
}

void Channel::on_managed(const scsi::Managed& managed, Output& out) {
  const auto one = std::ranges::find(managing_, managed.request, &Managing::request);
  if (one == managing_.end()) return;
  const std::uint64_t tag = one->tag;
  *one = managing_.back();
  managing_.pop();
  answer_management(tag, code_of(managed.result), out);
}

}  // namespace verbatim::ulp::srp
