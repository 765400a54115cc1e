#include "ulp/nvmeof/queue_connection.h"

#include <algorithm>
#include <utility>

namespace verbatim::ulp::nvmeof {

using storage::Output;
using storage::StoreStatus;
using Kind = DataDescriptor::Kind;

namespace {

/// What a command of a group in this state is answered (base specification 1.4, section 8.20.3).
Status status_of(AccessState state) {
  switch (state) {
    case AccessState::inaccessible:
      return Status::access_inaccessible;
    case AccessState::persistent_loss:
      return Status::access_persistent_loss;
    case AccessState::change:
      return Status::access_transition;
    default:
      return Status::success;
  }
}

}  // namespace

QueueConnection::QueueConnection(Target& target, const QueueRequest& request,
                                 const SocketAddress& at)
    : target_(target), request_(request), at_(at) {
  if (request.queue_id == 0) {
    admin_ = std::make_unique<AdminQueue>(request.commands, target);
  } else {
    const auto entries = static_cast<std::uint16_t>(request.commands);
    io_ = std::make_unique<IoQueue>(QueueOptions{.id = request.queue_id, .entries = entries},
                                    static_cast<Namespaces&>(*this));
  }
}

QueueConnection::~QueueConnection() {
  if (controller_ != nullptr) target_.disconnect(*controller_, request_.queue_id);
}

storage::Session& QueueConnection::queue() {
  return admin_ != nullptr ? static_cast<storage::Session&>(*admin_) : *io_;
}
const storage::Session& QueueConnection::queue() const {
  return admin_ != nullptr ? static_cast<const storage::Session&>(*admin_) : *io_;
}

std::optional<Namespace> QueueConnection::find(std::uint32_t id) const {
  if (controller_ == nullptr || !controller_->is_ready()) return std::nullopt;
  const Subsystem& subsystem = *controller_->subsystem();
  auto space = subsystem.find(id);
  if (space && subsystem.tells_access())
    space->access = status_of(Subsystem::state_of(subsystem.access_at(at_), space->group));
  return space;
}

void QueueConnection::tell(std::uint32_t id, std::span<const ReservationNotice> notices) {
  target_.tell(*controller_->subsystem(), id, notices);
}

bool QueueConnection::log(const ErrorEntry& error) {
  controller_->errors.add(error);
  return true;
}

ReceiveUse QueueConnection::on_message(const Message& message, TimeNs now, Output& out) {
  if (state_ == State::connected) return queue().on_message(message, now, out);
  begin_connect(message, now, out);
  return ReceiveUse::done;
}

/// Before Connect has succeeded, nothing else is answered with more than a refusal (1.1, 3.3).
void QueueConnection::begin_connect(const Message& message, TimeNs now, Output& out) {
  const auto command = decode_admin_command(message.bytes());
  if (!command || state_ != State::waiting) {
    out.work.push(Disconnect{command ? "a command while Connect is under way"
                                     : "a capsule that is shorter than a command"});
    return;
  }
  head_ = static_cast<std::uint16_t>((head_ + 1) % request_.commands);
  command_ = *command;
  const bool is_connect =
      command->opcode == AdminOpcode::fabrics && fabrics_type(*command) == FabricsType::connect;
  if (!is_connect) return answer(Status::command_sequence_error, 0, out);
  const DataDescriptor& data = command->data;
  if (!command->is_well_formed) return answer(Status::invalid_field, 0, out);
  if (data.kind == Kind::unknown || data.kind == Kind::none)
    return answer(Status::descriptor_type_invalid, 0, out);
  if (data.bytes != ConnectData::kSize) return answer(Status::data_length_invalid, 0, out);
  if (data.kind == Kind::keyed) {
    state_ = State::borrowing;
    out.store.push(
        storage::Borrow{kConnectTag, kScratch, 0, ConnectData::kSize, storage::Access::write});
    return;
  }
  const ByteSpan behind = message.bytes().subspan(AdminCommand::kSize);
  if (data.address > behind.size() || data.bytes > behind.size() - data.address)
    return answer(Status::sgl_offset_invalid, 0, out);
  connect(behind.subspan(data.address, data.bytes), now, out);
}

void QueueConnection::on_pages(Tag tag, StoreStatus status, std::span<const Slice> pages,
                               TimeNs now, Output& out) {
  if (state_ == State::connected) return queue().on_pages(tag, status, pages, now, out);
  if (state_ != State::borrowing) return;
  state_ = State::waiting;
  if (status == StoreStatus::done) pages_ = pages;
  if (has_ended_) return give_back(out);
  if (status != StoreStatus::done) return answer(Status::internal_error, 0, out);
  state_ = State::reading;
  const DataDescriptor& data = command_.data;
  out.work.push(Read{pages, {data.address, data.bytes, data.key}, kConnectTag});
}

void QueueConnection::on_done(Tag tag, CompletionStatus status, TimeNs now, Output& out) {
  if (state_ == State::connected) return queue().on_done(tag, status, now, out);
  if (state_ != State::reading || status != CompletionStatus::success) return;
  state_ = State::waiting;
  std::array<std::byte, ConnectData::kSize> data{};
  std::size_t at = 0;
  for (const Slice& page : pages_) {
    std::copy_n(page.data, page.bytes, data.begin() + static_cast<std::ptrdiff_t>(at));
    at += page.bytes;
  }
  give_back(out);
  connect(data, now, out);
}

void QueueConnection::on_stored(Tag tag, StoreStatus status, TimeNs now, Output& out) {
  if (state_ == State::connected) queue().on_stored(tag, status, now, out);
}

void QueueConnection::connect(ByteSpan bytes, TimeNs now, Output& out) {
  const auto data = decode_connect_data(bytes);
  const ConnectCommand wanted = connect_of(command_);
  if (!data || wanted.queue_id != request_.queue_id || wanted.commands != request_.commands) {
    refusal_ = fmt::format("Connect wants queue {} with {} entries, its connection {} with {}",
                           wanted.queue_id, wanted.commands, request_.queue_id, request_.commands);
    return answer(Status::connect_invalid_parameters, ConnectCommand::kQueueIdAt, out);
  }
  const auto connected = target_.connect(wanted, *data, at_);
  if (!connected) {
    refusal_ = connected.error().words;
    return answer(connected.error().status, connected.error().result, out);
  }
  controller_ = *connected;
  state_ = State::connected;
  if (admin_ != nullptr) admin_->begin(*controller_, at_, head_, now);
  if (io_ != nullptr) io_->set_head(head_);
  answer(Status::success, controller_->id(), out);
}

void QueueConnection::answer(Status status, std::uint32_t result, Output& out) {
  encode(Completion{.result = result,
                    .queue_head = head_,
                    .queue_id = request_.queue_id,
                    .command = command_.id,
                    .status = status,
                    .do_not_retry = status != Status::success},
         response_);
  const DataDescriptor& data = command_.data;
  out.work.push(Send{.header = response_,
                     .invalidate = data.invalidates ? std::optional(data.key) : std::nullopt});
}

void QueueConnection::give_back(Output& out) {
  if (!pages_.empty()) out.store.push(storage::GiveBack{kConnectTag});
  pages_ = {};
}

void QueueConnection::on_time(TimeNs now, Output& out) {
  if (must_end()) {
    has_ended_ = true;
    return static_cast<void>(
        out.work.push(Disconnect{"the host may not have the subsystem any more"}));
  }
  if (state_ == State::connected) return queue().on_time(now, out);
  if (has_ended_) return;
  if (gives_up_ == 0) gives_up_ = now + kConnectPatience;
  if (now < gives_up_) return;
  gives_up_ = kNever;
  out.work.push(Disconnect{"the host has a connection, and sends no Connect"});
}

bool QueueConnection::must_end() const {
  return !has_ended_ && controller_ != nullptr && controller_->must_end();
}

TimeNs QueueConnection::deadline() const {
  if (must_end()) return 0;
  if (state_ == State::connected) return queue().deadline();
  return has_ended_ ? kNever : gives_up_;
}

void QueueConnection::resume(TimeNs now, Output& out) {
  if (state_ == State::connected) queue().resume(now, out);
}

void QueueConnection::on_end(TimeNs now, Output& out) {
  has_ended_ = true;
  if (state_ == State::connected) return queue().on_end(now, out);
  if (state_ == State::reading) state_ = State::waiting;
  if (state_ == State::waiting) give_back(out);
}

bool QueueConnection::is_idle() const {
  if (state_ == State::connected) return queue().is_idle();
  return has_ended_ && state_ == State::waiting;
}

}  // namespace verbatim::ulp::nvmeof
