#include "ulp/srp/service.h"

#include <fmt/format.h>

#include "ulp/srp/channel.h"

namespace verbatim::ulp::srp {

/// In the order in which Linux's target looks.
Service::Refusal Service::refusal_of(const LoginRequest& request, const Meeting& meeting) {
  using enum RejectReason;
  constexpr std::uint32_t kRequestMin = 64;
  if (request.request_bytes > ports_.limits().request_bytes || request.request_bytes < kRequestMin)
    return {request_too_long,
            fmt::format("messages of {} bytes: {} to {} are taken", request.request_bytes,
                        kRequestMin, ports_.limits().request_bytes)};
  const std::shared_ptr<const Port> port = ports_.find(request.target);
  if (port == nullptr)
    return {wrong_target_port,
            fmt::format("there is no port {}; {}", text_of(request.target),
                        ports_.ports().empty() ? "there is none"
                                               : "one is " + text_of(ports_.ports()[0]->id()))};
  if (!port->is_enabled())
    return {no_resources, fmt::format("port {} is not enabled", text_of(request.target))};
  if ((request.formats & (kDirectFormat | kIndirectFormat)) == 0)
    return {formats, fmt::format("descriptors of formats {:#x}: {:#x} are known", request.formats,
                                 kDirectFormat | kIndirectFormat)};
  if (port->units_of(request.initiator, meeting.peer) == nullptr)
    return {channel_limit, fmt::format("port {} does not admit initiator {}",
                                       text_of(request.target), text_of(request.initiator))};
  const int action = request.flags & kActionMask;
  if (action > kAnotherChannel)
    return {no_multichannel, fmt::format("multichannel action {}: 0 and 1 are known", action)};
  const Ports::Session* const session = ports_.find_session(request.initiator, request.target);
  if (action == kAnotherChannel && session != nullptr &&
      session->channels.size() >= ports_.limits().channels_per_session)
    return {channel_limit, fmt::format("initiator {} has {} channels: that many may be",
                                       text_of(request.initiator), session->channels.size())};
  if (!ports_.has_place())
    return {no_resources,
            fmt::format("there are {} channels: that many may be", ports_.limits().channels)};
  if (meeting.reads.initiator == 0)
    return {unable_to_establish,
            "the initiator allows no RDMA READ: its responder resources are 0"};
  return {};
}

storage::Verdict Service::on_meeting(const Meeting& meeting, TimeNs) {
  const ByteSpan data{meeting.private_data.begin(), meeting.private_data.size()};
  // Services of the InfiniBand CM have no IP addresses.
  const auto form = meeting.own.empty() ? LoginForm::infiniband_cm : LoginForm::rdma_cm;
  const auto request = decode_login(data, form);
  if (!request) return Rejection{{}, fmt::format("{} bytes that are no SRP login", data.size())};
  if (const Refusal refusal = refusal_of(*request, meeting); !refusal.words.empty())
    return Rejection{
        to_private_data(encode(LoginReject{.reason = refusal.reason, .tag = request->tag})),
        fmt::format("{} (reason {:#x})", refusal.words, raw(refusal.reason))};
  // A send queue has memory for all of its requests and their slices, so an idle channel's is
  // short: the driver keeps what does not fit. With its own request it is a power of two.
  storage::Accept accept{.sizes = {.sends = ports_.limits().requests - 1u,
                                   .receives = ports_.limits().requests + Channel::kAnswers,
                                   .receive_bytes = ports_.limits().request_bytes,
                                   .send_slices = 2}};
  LoginResponse response{.request_limit = ports_.limits().requests,
                         .tag = request->tag,
                         .request_bytes = ports_.limits().request_bytes,
                         .response_bytes = request->request_bytes};
  Ports::Session* session = ports_.find_session(request->initiator, request->target);
  if ((request->flags & kActionMask) == kAnotherChannel) {
    response.flags |= kChannelsKept;
  } else if (session != nullptr) {
    response.flags |= kChannelsEnded;
    session->is_replaced = true;
    accept.replaces.assign(session->channels.begin(), session->channels.end());
    session = nullptr;
  }
  if (session == nullptr)
    session = ports_.begin_session(request->initiator, meeting.peer, ports_.find(request->target));
  const bool sends_data = (request->flags & kImmediateData) != 0;
  if (sends_data) response.flags |= kImmediateData;
  const std::uint32_t place = ports_.take_place();
  accept.session = std::make_unique<Channel>(Channel::Setup{
      .ports = &ports_,
      .session = session,
      .place = place,
      .memory = ports_.memory_of(place),
      .immediate_offset = sends_data ? request->immediate_offset : std::uint16_t{0}});
  accept.private_data = to_private_data(encode(response));
  return accept;
}

}  // namespace verbatim::ulp::srp
