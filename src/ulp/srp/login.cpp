// A login that is asked for, and the channel that it becomes.
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "ulp/srp/channel.h"
#include "ulp/srp/port.h"

namespace verbatim::ulp::srp {

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
  storage::Accept accept{.sizes = {.sends = 256,
                                   .receives = limits_.requests + Channel::kAnswers,
                                   .receive_bytes = limits_.request_bytes}};
  LoginResponse response{.request_limit = limits_.requests,
                         .tag = request->tag,
                         .request_bytes = limits_.request_bytes,
                         .response_bytes = request->request_bytes};
  Session* session = find_session(*request);
  if ((request->flags & kActionMask) == kAnotherChannel) {
    response.flags |= kChannelsKept;
  } else if (session != nullptr) {
    response.flags |= kChannelsEnded;
    session->is_replaced = true;
    accept.replaces.assign(session->channels.begin(), session->channels.end());
    session = nullptr;
  }
  if (session == nullptr) session = begin_session(*request);
  const bool sends_data = (request->flags & kImmediateData) != 0;
  if (sends_data) response.flags |= kImmediateData;
  const std::uint32_t place = free_places_.back();
  free_places_.pop_back();
  accept.session = std::make_unique<Channel>(Channel::Setup{
      .service = this,
      .session = session,
      .place = place,
      .memory = memory_.subspan(std::size_t{place} * kPiecesPerChannel, kPiecesPerChannel),
      .immediate_offset = sends_data ? request->immediate_offset : std::uint16_t{0}});
  accept.private_data = to_private_data(encode(response));
  return accept;
}

}  // namespace verbatim::ulp::srp
