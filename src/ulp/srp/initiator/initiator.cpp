#include "ulp/srp/initiator/initiator.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "base/assert.h"

/// Login, messages of the target, task management, and the session's end.
namespace verbatim::ulp::srp {
namespace {

using storage::Channel;
using storage::Failure;

/// Tags of task management have this bit; commands have those of their slots.
constexpr std::uint64_t kManagementTag = std::uint64_t{1} << 32;
constexpr int kNoListener = 8;  // IBA 12.6.7.2.

struct RejectRow {
  RejectReason reason{};
  const char* words = "";
  bool is_final = false;
};
constexpr RejectRow kRejects[] = {
    {RejectReason::unable_to_establish, "it cannot make the connection", false},
    {RejectReason::no_resources, "it has no room, or its port is not enabled", false},
    {RejectReason::request_too_long, "it does not take messages of this length", true},
    {RejectReason::wrong_target_port, "it has no port of this identifier", true},
    {RejectReason::formats, "it does not know these descriptors", true},
    {RejectReason::no_multichannel, "it has no sessions of several channels", true},
    {RejectReason::channel_limit, "it does not admit this initiator, or has too many channels",
     true},
};

}  // namespace

Initiator::Initiator(const InitiatorSettings& settings, const storage::PeerMemory& scratch)
    : settings_(settings), scratch_(scratch), requests_(settings.requests) {
  if (settings_.lists_units) probe_ = scsi::DiskProbe::of_units();
  VERBATIM_ASSERT(scratch_.bytes() >= storage::kScratchBytes);
  std::fill_n(scratch_.data(), storage::kScratchBytes, std::byte{});
}

void Initiator::begin(TimeNs, Output& out) {
  const LoginRequest login{
      .request_bytes = settings_.request_bytes,
      .formats = settings_.formats,
      .flags = static_cast<std::uint8_t>(kImmediateData | (settings_.joins ? kAnotherChannel : 0)),
      .immediate_offset = kImmediateAt,
      .initiator = settings_.initiator,
      .target = settings_.target};
  const auto bytes = encode(login, settings_.form);
  const std::size_t size = settings_.form == LoginForm::rdma_cm ? 56 : bytes.size();
  constexpr std::uint32_t kManagement = 8;  // Task management, and answers to the target.
  out.connect.push({.channel = Channel{},
                    .private_data = to_private_data(ByteSpan(bytes).first(size)),
                    .sizes = {.sends = settings_.requests + kManagement,
                              .receives = settings_.requests + kManagement,
                              .receive_bytes = kResponseBytes,
                              .send_slices = 2}});
}

void Initiator::on_established(Channel, ByteSpan private_data, TimeNs now, Output& out) {
  messages_.clear();
  const auto login = decode_login_response(private_data);
  if (!login)
    return end(
        fmt::format("the target answers {} bytes that are no SRP login", private_data.size()), true,
        out);
  login_ = *login;
  constexpr std::uint32_t kRequestMin = 64;
  if (login_.request_limit < 2 || login_.request_bytes < kRequestMin ||
      (login_.formats & settings_.formats) == 0)
    return end(fmt::format("the target grants {} requests of {} bytes with descriptors {:#x}: at "
                           "least 2, {} and one of {:#x} are needed",
                           login_.request_limit, login_.request_bytes, login_.formats, kRequestMin,
                           settings_.formats),
               true, out);
  credits_ += login_.request_limit;
  is_established_ = true;
  ask_unit(now, out);
}

Failure Initiator::on_rejected(Channel, int reason, ByteSpan private_data) {
  const auto reject = decode_login_reject(private_data);
  if (!reject) {  // By the connection manager. Over iWARP the reason is an errno value.
    const bool has_listener = reason != kNoListener && std::abs(reason) != ECONNREFUSED;
    const char* const why = has_listener ? "" : ": nobody listens there";
    return {fmt::format("the connection was rejected (reason {}{})", reason, why), false};
  }
  const auto row = std::ranges::find(kRejects, reject->reason, &RejectRow::reason);
  const bool is_known = row != std::end(kRejects);
  return {
      fmt::format("the target rejects the login of {} to {}, {} bytes a message: {} (reason "
                  "{:#x})",
                  text_of(settings_.initiator), text_of(settings_.target), settings_.request_bytes,
                  is_known ? row->words : "it does not say why", raw(reject->reason)),
      is_known && row->is_final};
}

ReceiveUse Initiator::on_message(Channel, const Message& message, TimeNs now, Output& out) {
  messages_.clear();
  if (is_over_) return ReceiveUse::done;
  const ByteSpan bytes = message.bytes();
  const auto opcode = opcode_of(bytes);
  if (!opcode || bytes.size() < kTagEnd) {
    end(fmt::format("the target sends {} bytes: the shortest message has {}", bytes.size(),
                    kTagEnd),
        false, out);
    return ReceiveUse::done;
  }
  if (*opcode == Opcode::response) {
    if (const auto response = decode_response(bytes)) {
      on_response(*response, now, out);
    } else {
      end(fmt::format("a response of {} bytes says that it has more", bytes.size()), false, out);
    }
  } else {
    on_target_request(bytes, *opcode, out);
  }
  pump(now, out);
  return ReceiveUse::done;
}

void Initiator::on_target_request(ByteSpan message, Opcode opcode, Output& out) {
  const auto number = load_be<std::uint32_t>(&message[4]);
  const bool asks = opcode == Opcode::credit_request || opcode == Opcode::event_request;
  if (asks) {
    credits_ += static_cast<std::int32_t>(number);
    send(encode_answer(
             opcode == Opcode::credit_request ? Opcode::credit_response : Opcode::event_response,
             *tag_of(message)),
         out);
  } else if (opcode == Opcode::target_logout) {
    end(fmt::format("the target ends the session (SRP_T_LOGOUT, reason {:#x})", number), false,
        out);
  } else {
    end(fmt::format("a message of type {:#04x} is no target's", raw(opcode)), false, out);
  }
}

void Initiator::on_response(const Response& response, TimeNs now, Output& out) {
  credits_ += response.request_limit;
  if (managing_ && response.tag == managing_->tag) {
    --in_flight_;
    return on_managed(response.code, now, out);
  }
  // A late answer of what was aborted finds nothing.
  if (response.tag >= kManagementTag) return;
  Request* const request = requests_.find(Tag{static_cast<std::uint32_t>(response.tag)});
  if (request == nullptr || !request->is_sent || request->answer) return;
  --in_flight_;
  on_answer(*request, response, now, out);
}

void Initiator::on_done(Channel, Tag tag, CompletionStatus, TimeNs now, Output& out) {
  messages_.clear();
  Request* const request = requests_.find(tag);
  if (request == nullptr) return;
  request->is_leaving = false;
  if (request->answer) finish(*request, *request->answer, out);
  pump(now, out);
}

void Initiator::send(ByteSpan message, Output& out) {
  auto& kept = messages_.push({});
  std::ranges::copy(message, kept.begin());
  out.on(Channel{}).push(Send{.header = ByteSpan(kept).first(message.size())});
}

void Initiator::manage(Function function, Tag task, TimeNs now, Output& out) {
  if (credits_ < 1) return end("the target answers no command, and grants no more", false, out);
  managing_ = {.function = function,
               .task = task,
               .tag = kManagementTag | ++managed_,
               .due = now + kManagementPatience};
  --credits_;
  ++in_flight_;
  send(encode(TaskManagement{
           .tag = managing_->tag, .lun = settings_.lun, .function = function, .task = raw(task)}),
       out);
}

/// What was aborted is sent again: whether the target had begun it does not matter to a disk.
void Initiator::on_managed(const std::optional<ResponseCode>& code, TimeNs now, Output& out) {
  const Managing ended = *std::exchange(managing_, std::nullopt);
  if (code != ResponseCode::complete) {
    if (ended.function == Function::abort_task)
      return manage(Function::unit_reset, kNoTag, now, out);
    return end(fmt::format("the target resets no unit (response {})", code ? raw(*code) : -1),
               false, out);
  }
  if (ended.function == Function::unit_reset) return repeat_all();
  Request* const request = requests_.find(ended.task);
  if (request != nullptr && request->is_sent && !request->answer) repeat(*request);
}

TimeNs Initiator::deadline() const {
  if (is_over_) return kNever;
  const TimeNs access = facts_ ? probe_.access().deadline(in_flight_ > 0) : kNever;
  return std::min({look_, access, managing_ ? managing_->due : kNever});
}

void Initiator::on_time(TimeNs now, Output& out) {
  messages_.clear();
  if (is_over_) return;
  if (managing_ && managing_->due <= now) {
    if (managing_->function == Function::unit_reset)
      return end("the target answers no task management", false, out);
    --in_flight_;
    manage(Function::unit_reset, kNoTag, now, out);
  } else if (!managing_ && look_ <= now) {
    on_late(now, out);
  }
  pump(now, out);
}

/// Looks at all commands; the first that is late is aborted.
void Initiator::on_late(TimeNs now, Output& out) {
  look_ = kNever;
  const Request* late = nullptr;
  requests_.for_each([&](const Request& request) {
    if (!request.is_sent || request.answer) return;
    if (request.due > now) {
      look_ = std::min(look_, request.due);
    } else if (late == nullptr || request.due < late->due) {
      late = &request;
    }
  });
  if (late == nullptr) return;
  look_ = std::min(look_, now + kManagementPatience);  // There may be more of them.
  manage(Function::abort_task, requests_.tag_of(*late), now, out);
}

void Initiator::resume(TimeNs now, Output& out) {
  messages_.clear();
  pump(now, out);
}

void Initiator::log_out(TimeNs, Output& out) {
  if (is_over_) return;
  is_over_ = true;
  out.on(Channel{}).push(Disconnect{""});
}

void Initiator::end(std::string words, bool is_final, Output& out) {
  if (is_over_) return;
  is_over_ = true;
  failure_ = {std::move(words), is_final};
  out.on(Channel{}).push(Disconnect{failure_->words.c_str()});
}

}  // namespace verbatim::ulp::srp
