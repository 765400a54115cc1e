#include "ulp/nvmeof/admin_queue.h"

#include <algorithm>

namespace verbatim::ulp::nvmeof {

using storage::Output;
using storage::StoreStatus;
using Kind = DataDescriptor::Kind;

namespace {

enum class Feature : std::uint8_t {
  write_cache = 0x06,
  queue_count = 0x07,
  async_events = 0x0b,
  keep_alive = 0x0f,
  host_id = 0x81,
  reservation_mask = 0x82,
  reservation_persistence = 0x83,
};
constexpr std::uint32_t kAllSpaces = 0xffffffff;
constexpr std::uint64_t kNotAborted = 1;

}  // namespace

/// What else there is in section 5 is optional, and refused.
const AdminQueue::Row AdminQueue::kRows[] = {
    {AdminOpcode::fabrics, &AdminQueue::fabrics},
    {AdminOpcode::identify, &AdminQueue::identify},
    {AdminOpcode::get_log_page, &AdminQueue::get_log_page},
    {AdminOpcode::set_features, &AdminQueue::set_features},
    {AdminOpcode::get_features, &AdminQueue::get_features},
    {AdminOpcode::abort, &AdminQueue::abort},
    {AdminOpcode::keep_alive, &AdminQueue::keep_alive},
};

void AdminQueue::begin(Controller& controller, const SocketAddress& at, std::uint16_t head,
                       TimeNs now) {
  controller_ = &controller;
  at_ = at;
  head_ = head;
  silent_until_ = controller.patience() == kNever ? kNever : now + controller.patience();
}

ReceiveUse AdminQueue::on_message(const Message& message, TimeNs now, Output& out) {
  const auto command = decode_admin_command(message.bytes());
  Request* const request = command && unanswered_ < entries_ ? requests_.take() : nullptr;
  if (request == nullptr) {
    out.work.push(Disconnect{command ? "more commands than the admin queue has entries"
                                     : "a capsule that is shorter than a command"});
    return ReceiveUse::done;
  }
  ++unanswered_;
  head_ = static_cast<std::uint16_t>((head_ + 1) % entries_);
  request->command = *command;
  const bool is_allowed = command->opcode == AdminOpcode::fabrics || controller_->is_ready();
  if (!command->is_well_formed) {
    answer(*request, Status::invalid_field, 0, out);
  } else if (!is_allowed) {
    answer(*request, Status::command_sequence_error, 0, out);
  } else if (command->opcode == AdminOpcode::async_event_request) {
    wait_for_event(*request, out);
  } else {
    const Outcome outcome = serve(*command);
    if (outcome.bytes > 0) {
      lend(*request, outcome.bytes, out);
    } else {
      answer(*request, outcome.status, outcome.result, out);
    }
  }
  // Any command of the host's says that it lives.
  const TimeNs patience = controller_->patience();
  silent_until_ = patience == kNever ? kNever : now + patience;
  return ReceiveUse::done;
}

AdminQueue::Outcome AdminQueue::serve(const AdminCommand& command) {
  const auto row = std::ranges::find(kRows, command.opcode, &Row::opcode);
  if (row == std::end(kRows)) return {Status::invalid_opcode};
  return (this->*row->serve)(command);
}

void AdminQueue::wait_for_event(Request& request, Output& out) {
  if (events_ == kEventsMax) return answer(request, Status::async_event_limit_exceeded, 0, out);
  ++events_;
  request.step = Step::waiting;
  if (has_notice()) tell_notice(out);
}

bool AdminQueue::has_notice() const {
  return events_ > 0 && controller_->notices.any(controller_->event_mask);
}

void AdminQueue::tell_notice(Output& out) {
  Request* waiting = nullptr;
  requests_.for_each([&](Request& request) {
    if (request.step == Step::waiting && waiting == nullptr) waiting = &request;
  });
  if (waiting == nullptr) return;
  --events_;
  answer(*waiting, Status::success, controller_->notices.take(controller_->event_mask), out);
}

TimeNs AdminQueue::deadline() const {
  if (has_ended_) return kNever;
  return controller_ != nullptr && has_notice() ? 0 : silent_until_;
}

AdminQueue::Outcome AdminQueue::fabrics(const AdminCommand& command) {
  const PropertyAccess access = property_of(command);
  switch (fabrics_type(command)) {
    case FabricsType::connect:
      return {Status::command_sequence_error};
    case FabricsType::property_get: {
      const auto value = controller_->property(access.property);
      const bool is_8_bytes = access.property == Property::capabilities;
      if (!value || is_8_bytes != access.is_8_bytes) return {Status::invalid_field};
      return {.result = *value};
    }
    case FabricsType::property_set:
      if (access.is_8_bytes || !controller_->set_property(access.property, access.value))
        return {Status::invalid_field};
      return {};
  }
  return {Status::invalid_opcode};
}

AdminQueue::Outcome AdminQueue::identify(const AdminCommand& command) {
  const auto kind = static_cast<IdentifyKind>(command.dword(10) & 0xff);
  const std::uint32_t id = command.namespace_id;
  const Subsystem* const subsystem = controller_->subsystem();
  const Outcome page{.bytes = kIdentifyBytes};
  if (kind == IdentifyKind::controller) return page;
  if (subsystem == nullptr) return {Status::invalid_field};
  const bool is_nvm = command.dword(11) >> 24 == 0;  // The command set, where the kind has one.
  switch (kind) {
    case IdentifyKind::active_spaces:
      return id >= kAllSpaces - 1 ? Outcome{Status::invalid_namespace} : page;
    case IdentifyKind::space:  // Zeros, where there might be one.
      return id == 0 || id > Subsystem::kNamespacesMax ? Outcome{Status::invalid_namespace} : page;
    case IdentifyKind::space_descriptors:
      return subsystem->find(id) ? page : Outcome{Status::invalid_namespace};
    case IdentifyKind::space_of_command_set:
      if (!is_nvm) return {Status::invalid_field};
      return subsystem->find(id) ? page : Outcome{Status::invalid_namespace};
    case IdentifyKind::controller_of_command_set:
      return is_nvm ? page : Outcome{Status::invalid_field};
    default:
      return {Status::invalid_field};
  }
}

AdminQueue::Outcome AdminQueue::get_log_page(const AdminCommand& command) {
  const LogRequest request = log_request_of(command);
  const bool is_discovery = request.page == LogPage::discovery;
  if (is_discovery != controller_->is_discovery()) return {Status::invalid_log_page};
  switch (request.page) {
    case LogPage::errors:
    case LogPage::firmware:
    case LogPage::changed_spaces:
    case LogPage::effects:
    case LogPage::discovery:
      break;
    case LogPage::health: {
      const std::uint32_t id = command.namespace_id;
      const bool is_of_all = id == 0 || id == kAllSpaces;
      if (!is_of_all && !controller_->subsystem()->find(id)) return {Status::invalid_namespace};
      break;
    }
    case LogPage::reservations:
      if (!controller_->subsystem()->has_reservations()) return {Status::invalid_log_page};
      break;
    case LogPage::access_states:
      if (!controller_->subsystem()->tells_access()) return {Status::invalid_log_page};
      break;
    default:
      return {Status::invalid_log_page};
  }
  if (request.offset % 4 != 0 || request.bytes > kDataMax) return {Status::invalid_field};
  return {.bytes = request.bytes};
}

AdminQueue::Outcome AdminQueue::set_features(const AdminCommand& command) {
  const std::uint32_t value = command.dword(11);
  switch (static_cast<Feature>(command.dword(10) & 0xff)) {
    case Feature::queue_count: {
      if (controller_->is_discovery()) return {Status::invalid_field};
      if ((value & 0xffff) == 0xffff || value >> 16 == 0xffff) return {Status::invalid_field};
      const std::uint32_t most = controller_->limits().io_queues - 1u;
      return {.result = most << 16 | most};
    }
    case Feature::async_events:
      controller_->event_mask = value;
      return {};
    case Feature::keep_alive:
      controller_->set_keep_alive_ms(value);
      return {};
    case Feature::host_id:  // It is Connect's (1.1, 5.2.1).
      return {Status::command_sequence_error};
    case Feature::reservation_mask:
      return set_reservation_mask(command);
    case Feature::reservation_persistence:
      return set_reservations_last(command);
    default:
      return {Status::invalid_field};
  }
}

Reservations* AdminQueue::reservations_of(std::uint32_t space) const {
  const Subsystem* const subsystem = controller_->subsystem();
  const auto found = subsystem == nullptr ? std::nullopt : subsystem->find(space);
  return found ? found->reservations : nullptr;
}

/// Section 5.21.1.25: bits 1 to 3, of a namespace or of all.
AdminQueue::Outcome AdminQueue::set_reservation_mask(const AdminCommand& command) {
  constexpr std::uint32_t kEvents = 0x0e;
  const std::uint32_t id = command.namespace_id, mask = command.dword(11);
  if ((mask & ~kEvents) != 0 || controller_->is_discovery()) return {Status::invalid_field};
  if (id != kAllSpaces) {
    if (!controller_->subsystem()->find(id)) return {Status::invalid_namespace};
    if (reservations_of(id) == nullptr) return {Status::invalid_field};
    controller_->reservation_masks[id] = mask;
  } else {
    for (const auto& [each, space] : controller_->subsystem()->ids_after(0))
      if (space.reservations != nullptr) controller_->reservation_masks[each] = mask;
  }
  return {.result = mask};
}

/// Section 5.21.1.26.
AdminQueue::Outcome AdminQueue::set_reservations_last(const AdminCommand& command) {
  const std::uint32_t id = command.namespace_id;
  const bool lasts = (command.dword(11) & 1) != 0;
  if (controller_->is_discovery()) return {Status::invalid_field};
  if (id != kAllSpaces) {
    if (!controller_->subsystem()->find(id)) return {Status::invalid_namespace};
    Reservations* const one = reservations_of(id);
    return {one == nullptr ? Status::invalid_field : one->set_lasts(lasts)};
  }
  Status status = Status::success;
  for (const auto& [each, space] : controller_->subsystem()->ids_after(0)) {
    const auto set =
        space.reservations == nullptr ? Status::success : space.reservations->set_lasts(lasts);
    if (set != Status::success) status = set;
  }
  return {status};
}

AdminQueue::Outcome AdminQueue::get_reservation_feature(const AdminCommand& command) const {
  const std::uint32_t id = command.namespace_id;
  if (controller_->is_discovery()) return {Status::invalid_field};
  if (!controller_->subsystem()->find(id)) return {Status::invalid_namespace};
  const Reservations* const one = reservations_of(id);
  if (one == nullptr) return {Status::invalid_field};
  const auto feature = static_cast<Feature>(command.dword(10) & 0xff);
  if (feature == Feature::reservation_persistence) return {.result = one->lasts() ? 1u : 0u};
  const auto mask = controller_->reservation_masks.find(id);
  return {.result = mask == controller_->reservation_masks.end() ? 0 : mask->second};
}

AdminQueue::Outcome AdminQueue::get_features(const AdminCommand& command) {
  switch (static_cast<Feature>(command.dword(10) & 0xff)) {
    case Feature::write_cache:  // It cannot be disabled, as VWC of Linux's target.
      return {.result = 1};
    case Feature::queue_count: {
      const std::uint32_t most = controller_->limits().io_queues - 1u;
      return {.result = most << 16 | most};
    }
    case Feature::async_events:
      return {.result = controller_->event_mask};
    case Feature::keep_alive:
      return {.result = controller_->keep_alive_ms()};
    case Feature::host_id:  // 128 bits; Linux and we know no other.
      if ((command.dword(11) & 1) == 0) return {Status::invalid_field};
      return {.bytes = sizeof(ConnectData::host_id)};
    case Feature::reservation_mask:
    case Feature::reservation_persistence:
      return get_reservation_feature(command);
    default:
      return {Status::invalid_field};
  }
}

/// Best effort (5.1): what is under way is answered soon.
AdminQueue::Outcome AdminQueue::abort(const AdminCommand&) { return {.result = kNotAborted}; }

AdminQueue::Outcome AdminQueue::keep_alive(const AdminCommand&) { return {}; }

void AdminQueue::lend(Request& request, std::uint64_t bytes, Output& out) {
  const DataDescriptor& data = request.command.data;
  if (data.kind == Kind::unknown || data.kind == Kind::in_capsule)
    return answer(request, Status::descriptor_type_invalid, 0, out);
  if (data.bytes != bytes) return answer(request, Status::data_length_invalid, 0, out);
  request.step = Step::borrowing;
  out.store.push(storage::Borrow{requests_.tag_of(request), kScratch, 0,
                                 static_cast<std::uint32_t>(bytes), storage::Access::write});
}

void AdminQueue::on_pages(Tag tag, StoreStatus status, std::span<const Slice> pages, TimeNs,
                          Output& out) {
  Request* const request = requests_.find(tag);
  if (request == nullptr) return;
  if (status == StoreStatus::done) request->pages = pages;
  if (has_ended_) return finish(*request, out);
  if (status != StoreStatus::done) return answer(*request, Status::internal_error, 0, out);
  fill(request->command, pages);
  if (request->command.opcode == AdminOpcode::get_log_page) {
    const LogRequest log = log_request_of(request->command);
    if (!log.keeps_event) controller_->notices.on_read(log.page);
  }
  const DataDescriptor& data = request->command.data;
  out.work.push(Write{pages, {data.address, data.bytes, data.key}});
  answer(*request, Status::success, 0, out);
}

void AdminQueue::on_done(Tag tag, CompletionStatus, TimeNs, Output& out) {
  Request* const request = requests_.find(tag);
  if (request != nullptr && request->step == Step::answering) finish(*request, out);
}

void AdminQueue::on_time(TimeNs now, Output& out) {
  if (has_ended_) return;
  if (has_notice()) tell_notice(out);
  if (now < silent_until_) return;
  silent_until_ = kNever;
  out.work.push(Disconnect{"the host has not kept its controller alive"});
}

void AdminQueue::answer(Request& request, Status status, std::uint64_t result, Output& out) {
  request.step = Step::answering;
  const bool is_error = status != Status::success;
  if (is_error)
    controller_->errors.add(
        {.command = request.command.id, .status = status, .space = request.command.namespace_id});
  encode(Completion{.result = result,
                    .queue_head = head_,
                    .queue_id = 0,
                    .command = request.command.id,
                    .status = status,
                    .do_not_retry = is_error,
                    .has_more = is_error},
         request.response);
  const DataDescriptor& data = request.command.data;
  const bool holds_pages = !request.pages.empty();
  out.work.push(Send{.header = request.response,
                     .invalidate = data.invalidates ? std::optional(data.key) : std::nullopt,
                     .done = holds_pages ? requests_.tag_of(request) : kNoTag});
  --unanswered_;
  if (!holds_pages) finish(request, out);
}

void AdminQueue::finish(Request& request, Output& out) {
  if (!request.pages.empty()) out.store.push(storage::GiveBack{requests_.tag_of(request)});
  requests_.give_back(request);
}

void AdminQueue::on_end(TimeNs now, Output& out) {
  has_ended_ = true;
  resume(now, out);
}

void AdminQueue::resume(TimeNs, Output& out) {
  requests_.for_each([&](Request& request) {
    if (request.step == Step::borrowing) return;
    if (!out.has_room()) return static_cast<void>(out.more = true);
    finish(request, out);
  });
}

}  // namespace verbatim::ulp::nvmeof
