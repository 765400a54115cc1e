#include "mad/rmpp/rmpp_engine.h"

#include <algorithm>

#include <fmt/format.h>

namespace verbatim::mad {
namespace {

using wire::MadHeader;
using wire::RmppHeader;
using wire::RmppStatus;
using wire::RmppType;

bool is_response(wire::MadMethod method) { return (static_cast<unsigned>(method) & 0x80u) != 0; }

}  // namespace

bool RmppEngine::is_rmpp(wire::MadSpan mad) {
  const auto header = wire::decode_mad_header(mad);
  return header && wire::rmpp_header_bytes(header->management_class) &&
         wire::decode_rmpp_header(mad).is_active;
}

Result<void> RmppEngine::send(const RmppPeer& to, ByteSpan message, const RmppPatience& patience) {
  MadBytes headers{};
  std::copy_n(message.begin(), std::min(message.size(), headers.size()), headers.begin());
  const auto header = wire::decode_mad_header(headers);
  const auto header_bytes =
      header ? wire::rmpp_header_bytes(header->management_class) : std::nullopt;
  if (!header_bytes || message.size() < *header_bytes) {
    return refuse(EINVAL, fmt::format("a message of {} bytes is none of RMPP", message.size()));
  }
  const RmppKey key = rmpp_key(*header, to);
  if (outgoing_.contains(key)) {
    return refuse(EBUSY, fmt::format("transaction {:#x} is being sent", key.transaction));
  }
  if (outgoing_.size() >= kTransfersMax) {
    return refuse(ENOBUFS, fmt::format("{} messages are being sent", outgoing_.size()));
  }
  // The peer of a request of several segments has said how many it takes of the answer.
  RmppKey request = key;
  request.method = opposite(key.method);
  const auto asked = incoming_.find(request);
  const std::uint32_t window = asked == incoming_.end() ? 1 : asked->second.receiver.reply_window;
  const auto [out, added] = outgoing_.emplace(
      key, Outgoing{to, headers, RmppSender(message, *header_bytes, patience, window)});
  make_ready(out);
  return {};
}

void RmppEngine::on_packet(const RmppPeer& from, wire::MadSpan mad, TimeNs now) {
  const auto header = wire::decode_mad_header(mad);
  if (!header || !wire::rmpp_header_bytes(header->management_class)) return;
  const RmppHeader rmpp = wire::decode_rmpp_header(mad);
  if (!rmpp.is_active) return;
  if (rmpp.version != RmppHeader::kVersion) {
    return refuse_packet(from, *header, mad, RmppStatus::unsupported_version);
  }
  switch (rmpp.type) {
    case RmppType::data:
      return on_data(from, *header, rmpp, mad, now);
    case RmppType::ack:
      return on_ack(from, *header, rmpp, mad);
    case RmppType::stop:
    case RmppType::abort:
      return on_end(from, *header, rmpp.status);
  }
  refuse_packet(from, *header, mad, RmppStatus::bad_type);
}

void RmppEngine::on_data(const RmppPeer& from, const MadHeader& header, const RmppHeader& rmpp,
                         wire::MadSpan mad, TimeNs now) {
  if (rmpp.status != RmppStatus::normal) {
    return refuse_packet(from, header, mad, RmppStatus::bad_status);
  }
  if (rmpp.segment == 0 || (rmpp.segment == 1) != rmpp.is_first) {
    return refuse_packet(from, header, mad, RmppStatus::bad_segment_number);
  }
  const RmppKey key = rmpp_key(header, from);
  auto in = incoming_.find(key);
  if (in == incoming_.end()) {
    if (rmpp.segment != 1) return;
    if (incoming_.size() - complete_.size() >= kTransfersMax) return stop(from, mad);
    const auto header_bytes = *wire::rmpp_header_bytes(header.management_class);
    in = incoming_.emplace(key, Incoming{from, {}, RmppReceiver(header_bytes, now)}).first;
    std::ranges::copy(mad, in->second.headers.begin());
  }
  RmppReceiver& receiver = in->second.receiver;
  const auto verdict = receiver.on_data(rmpp, mad, now);
  switch (verdict) {
    case RmppReceiver::Verdict::drop:
      break;
    case RmppReceiver::Verdict::too_long:
      stop(from, mad);
      return forget(in);
    case RmppReceiver::Verdict::complete:
      messages_.push_back({from, receiver.take()});
      if (complete_.size() >= kRememberedMax) forget(incoming_.find(complete_.begin()->second));
      complete_.emplace(receiver.deadline(), key);
      [[fallthrough]];
    case RmppReceiver::Verdict::acknowledge:
      acknowledge(in->second);
  }
  schedule({key, false}, in->second.deadline, receiver.deadline());
}

void RmppEngine::on_ack(const RmppPeer& from, const MadHeader& header, const RmppHeader& rmpp,
                        wire::MadSpan mad) {
  RmppKey key = rmpp_key(header, from);
  if (rmpp.segment == 0) {
    // Double-sided: the peer that has sent a request is ready for its answer.
    const auto in = incoming_.find(key);
    if (in != incoming_.end() && in->second.receiver.is_complete()) {
      in->second.receiver.reply_window = std::max<std::uint32_t>(rmpp.length, 1);
    }
  }
  key.method = opposite(key.method);
  const auto out = outgoing_.find(key);
  if (out == outgoing_.end()) return;
  RmppSender& sender = out->second.sender;
  const auto acknowledged = rmpp.status == RmppStatus::normal
                                ? sender.on_ack(rmpp.segment, rmpp.length)
                                : std::unexpected(RmppStatus::bad_status);
  if (!acknowledged) {
    speak(from, mad, {.type = RmppType::abort, .status = acknowledged.error()}, Turn::yes);
    return finish(out, acknowledged.error());
  }
  if (*acknowledged) return finish(out, RmppStatus::normal);
  schedule({key, true}, out->second.deadline, sender.deadline());
  if (sender.may_send()) make_ready(out);
}

/// STOP or ABORT, of a receiver of our data or of a sender of data to us.
void RmppEngine::on_end(const RmppPeer& from, const MadHeader& header, RmppStatus status) {
  RmppKey key = rmpp_key(header, from);
  const auto in = incoming_.find(key);
  if (in != incoming_.end() && !in->second.receiver.is_complete()) forget(in);
  key.method = opposite(key.method);
  const auto out = outgoing_.find(key);
  if (out == outgoing_.end()) return;
  finish(out, status == RmppStatus::normal ? RmppStatus::bad_status : status);
}

void RmppEngine::acknowledge(const Incoming& incoming) {
  speak(incoming.peer, incoming.headers,
        {.type = RmppType::ack,
         .segment = incoming.receiver.segment(),
         .length = incoming.receiver.window()},
        Turn::yes);
}

void RmppEngine::stop(const RmppPeer& from, wire::MadSpan mad) {
  speak(from, mad, {.type = RmppType::stop, .status = RmppStatus::no_resources}, Turn::yes);
}

/// A packet that cannot be: whatever it is about ends, and the peer is told.
void RmppEngine::refuse_packet(const RmppPeer& from, const MadHeader& header, wire::MadSpan mad,
                               RmppStatus status) {
  on_end(from, header, status);
  speak(from, mad, {.type = RmppType::abort, .status = status}, Turn::yes);
}

/// Headers alone. Who receives data speaks with the opposite method.
void RmppEngine::speak(const RmppPeer& to, wire::MadSpan headers, RmppHeader rmpp, Turn turn) {
  if (packets_.size() >= kPacketsMax) return;  // As if it were lost.
  RmppPacket& packet = packets_.emplace_back(RmppPacket{.peer = to});
  auto header = *wire::decode_mad_header(headers);
  const auto bytes = *wire::rmpp_header_bytes(header.management_class);
  std::copy_n(headers.begin(), bytes, packet.mad.begin());
  if (turn == Turn::yes) header.method = opposite(header.method);
  encode(header, std::span(packet.mad).first<MadHeader::kSize>());
  rmpp.is_active = true;
  encode(rmpp, std::span(packet.mad));
}

void RmppEngine::make_ready(Out out) {
  if (out->second.is_ready) return;
  out->second.is_ready = true;
  ready_.push_back(out->first);
}

std::optional<RmppPacket> RmppEngine::take_packet(TimeNs now) {
  if (!packets_.empty()) {
    RmppPacket packet = packets_.front();
    packets_.pop_front();
    return packet;
  }
  while (!ready_.empty()) {
    const auto out = outgoing_.find(ready_.front());
    ready_.pop_front();
    if (out == outgoing_.end()) continue;
    out->second.is_ready = false;
    RmppSender& sender = out->second.sender;
    if (!sender.may_send()) continue;
    const RmppPacket packet{.peer = out->second.peer, .mad = sender.next_segment(now)};
    schedule({out->first, true}, out->second.deadline, sender.deadline());
    if (sender.may_send()) make_ready(out);
    return packet;
  }
  return std::nullopt;
}

std::optional<RmppEngine::Message> RmppEngine::take_message() {
  if (messages_.empty()) return std::nullopt;
  Message message = std::move(messages_.front());
  messages_.pop_front();
  return message;
}

std::optional<RmppEngine::Finished> RmppEngine::take_finished() {
  if (finished_.empty()) return std::nullopt;
  const Finished finished = finished_.front();
  finished_.pop_front();
  return finished;
}

void RmppEngine::finish(Out out, RmppStatus status) {
  finished_.push_back({out->first.transaction, status});
  // Double-sided: the answer to a request may begin.
  if (status == RmppStatus::normal && !is_response(out->first.method)) {
    speak(out->second.peer, out->second.headers, {.type = RmppType::ack, .segment = 0, .length = 1},
          Turn::no);
  }
  schedule({out->first, true}, out->second.deadline, kNever);
  outgoing_.erase(out);
}

void RmppEngine::forget(In in) {
  complete_.erase({in->second.receiver.deadline(), in->first});
  schedule({in->first, false}, in->second.deadline, kNever);
  incoming_.erase(in);
}

void RmppEngine::schedule(const Transfer& transfer, TimeNs& deadline, TimeNs next) {
  if (deadline == next) return;
  if (deadline != kNever) deadlines_.erase({deadline, transfer});
  if (next != kNever) deadlines_.emplace(next, transfer);
  deadline = next;
}

void RmppEngine::on_time(TimeNs now) {
  while (deadline() <= now) {
    const auto [key, is_outgoing] = deadlines_.begin()->second;
    if (is_outgoing) {
      retry(outgoing_.find(key), now);
    } else {
      const auto in = incoming_.find(key);
      if (!in->second.receiver.is_complete()) {
        speak(in->second.peer, in->second.headers,
              {.type = RmppType::abort, .status = RmppStatus::total_time_exceeded}, Turn::yes);
      }
      forget(in);
    }
  }
}

void RmppEngine::retry(Out out, TimeNs now) {
  Outgoing& outgoing = out->second;
  if (!outgoing.sender.on_timeout(now)) {
    speak(outgoing.peer, outgoing.headers,
          {.type = RmppType::abort, .status = RmppStatus::too_many_retries}, Turn::no);
    return finish(out, RmppStatus::too_many_retries);
  }
  schedule({out->first, true}, outgoing.deadline, outgoing.sender.deadline());
  make_ready(out);
}

}  // namespace verbatim::mad
