#include "ulp/srp/channel.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

/// Messages, credits, and the end of a channel.
namespace verbatim::ulp::srp {

using storage::Output;

namespace {

/// Commands that are answered, but whose response has not left yet.
constexpr std::uint16_t kAnsweredMax = 16;

std::uint16_t slots_of(const Channel::Setup& setup) {
  return static_cast<std::uint16_t>(setup.ports->limits().requests + kAnsweredMax);
}

}  // namespace

Channel::Channel(const Setup& setup)
    : setup_(setup),
      requests_(slots_of(setup)),
      tasks_(setup.session->nexus, setup.session->port->port(), setup.session->units,
             slots_of(setup), setup.memory.first(1)),
      limit_(setup.ports->limits().requests),
      granted_(limit_) {
  fetched_.reserve(slots_of(setup));
  failed_.reserve(slots_of(setup));
  setup_.session->channels.push_back(this);
}

Channel::~Channel() { setup_.ports->end(*setup_.session, *this, setup_.place); }

ReceiveUse Channel::on_message(const Message& message, TimeNs now, Output& out) {
  setup_.ports->clear_messages();
  now_ = now;
  const bool is_deaf = is_closing_ || setup_.session->is_replaced;
  const ReceiveUse use = is_deaf ? ReceiveUse::done : on_request(message, out);
  pump(out);
  return use;
}

ReceiveUse Channel::on_request(const Message& message, Output& out) {
  const ByteSpan bytes = message.bytes();
  const auto tag = tag_of(bytes);
  if (!tag) {
    close(fmt::format("a message of {} bytes: the shortest has {}", bytes.size(), kTagEnd), out);
    return ReceiveUse::done;
  }
  switch (const Opcode opcode = *opcode_of(bytes)) {
    case Opcode::command:
      return on_command(message, out);
    case Opcode::task_management:
      if (!take_credit(out)) break;
      if (const auto wanted = decode_management(bytes)) {
        on_management(*wanted, out);
      } else {
        close(fmt::format("task management of {} bytes: it has {}", bytes.size(),
                          TaskManagement::kSize),
              out);
      }
      break;
    case Opcode::credit_response:
      if (!asks_for_credits_ || *tag != credit_tag_) {
        close(fmt::format("SRP_CRED_RSP {} answers nothing", *tag), out);
        break;
      }
      asks_for_credits_ = false;
      break;
    case Opcode::initiator_logout:
      is_closing_ = true;
      out.work.push(Disconnect{""});
      break;
    default:
      close(fmt::format("a message of type {:#04x} is no initiator's, or answers nothing",
                        raw(opcode)),
            out);
  }
  return ReceiveUse::done;
}

void Channel::on_done(Tag tag, CompletionStatus status, TimeNs now, Output& out) {
  setup_.ports->clear_messages();
  now_ = now;
  // What the initiator wrote before it logged in again must not come behind what it writes now.
  const bool is_whole = status == CompletionStatus::success && !setup_.session->is_replaced;
  if (tag == kCloseTag) {
    out.work.push(Disconnect{words_.c_str()});
    ends_at_ = kNever;
  } else if (tag == kTableTag) {
    on_table(is_whole, out);
  } else if (Request* const request = requests_.find(tag)) {
    if (request->is_fetching) {
      request->is_fetching = false;
      (is_whole ? fetched_ : failed_).push_back(request->task);
    } else if (request->is_answered) {
      tasks_.on_done(request->task, setup_.ports->task_output());
      requests_.give_back(*request);
    }
  }
  pump(out);
}

void Channel::on_pages(Tag tag, storage::StoreStatus status, std::span<const Slice> pages,
                       TimeNs now, Output& out) {
  setup_.ports->clear_messages();
  now_ = now;
  tasks_.on_pages(tag, status, pages, setup_.ports->task_output());
  pump(out);
}

void Channel::on_stored(Tag tag, storage::StoreStatus status, TimeNs now, Output& out) {
  setup_.ports->clear_messages();
  now_ = now;
  tasks_.on_stored(tag, status, setup_.ports->task_output());
  pump(out);
}

void Channel::on_time(TimeNs now, Output& out) {
  setup_.ports->clear_messages();
  now_ = now;
  if (setup_.session->ends_because != nullptr) close(setup_.session->ends_because, out);
  if (is_closing_ && now >= ends_at_) {
    out.work.push(Disconnect{words_.c_str()});
    ends_at_ = kNever;
  }
  if (!is_over_) tasks_.on_time(now, setup_.ports->task_output());
  pump(out);
}

TimeNs Channel::deadline() const {
  if (is_over_) return kNever;
  const bool ends = setup_.session->ends_because != nullptr && !is_closing_;
  return ends ? 0 : std::min(ends_at_, tasks_.deadline());
}

void Channel::resume(TimeNs now, Output& out) {
  setup_.ports->clear_messages();
  now_ = now;
  pump(out);
}

void Channel::on_end(TimeNs now, Output& out) {
  setup_.ports->clear_messages();
  now_ = now;
  is_over_ = is_closing_ = true;
  move_ = {};
  tasks_.on_end(setup_.ports->task_output());
  pump(out);
}

bool Channel::take_credit(Output& out) {
  if (granted_ == 0) {
    close(fmt::format("more requests than the {} that were granted", limit_), out);
    return false;
  }
  --granted_;
  ++open_;
  return true;
}

std::int32_t Channel::give_credits() {
  const std::uint32_t had = granted_;
  granted_ = std::max(granted_, limit_ - std::min(limit_, open_));
  return static_cast<std::int32_t>(granted_ - had);
}

void Channel::set_request_limit(std::uint16_t limit) {
  limit_ = std::clamp<std::uint32_t>(limit, 2, setup_.ports->limits().requests);
}

/// When no response that is to come can give them.
void Channel::ask_for_credits(Output& out) {
  if (is_closing_ || asks_for_credits_ || open_ > 0 || granted_ >= limit_) return;
  asks_for_credits_ = true;
  const auto delta = static_cast<std::uint32_t>(give_credits());
  send(encode_request(Opcode::credit_request, delta, ++credit_tag_), false, kNoTag, out);
}

void Channel::send(const ResponseBytes& message, bool is_solicited, Tag done, Output& out) {
  out.work.push(
      Send{.header = setup_.ports->add_message(message), .solicited = is_solicited, .done = done});
}

/// The request is over: what it took of the credits goes back with this.
void Channel::send_response(Response response, std::uint8_t notification, Tag done, Output& out) {
  --open_;
  response.request_limit = give_credits();
  const bool is_good = response.status == raw(scsi::Status::good);
  response.is_solicited = (notification & (is_good ? kNotifySuccess : kNotifyFailure)) != 0;
  send(encode(response), response.is_solicited, done, out);
}

void Channel::close(std::string words, Output& out) {
  if (is_closing_) return;
  is_closing_ = true;
  words_ = std::move(words);
  ends_at_ = now_ + kLastTime;
  constexpr std::uint32_t kNoReason = 0;
  send(encode_request(Opcode::target_logout, kNoReason, 0), false, kCloseTag, out);
}

void Channel::note(std::string words) {
  if (refusal_.empty()) refusal_ = std::move(words);
}

}  // namespace verbatim::ulp::srp
