#include "cm/ib/routing.h"

#include "cm/ib/compose.h"
#include "cm/ib/guard/unmatched.h"

namespace verbatim::cm {
namespace {

Route to_connection(wire::CommunicationId id) { return {.slot = slot_of(raw(id))}; }

Route route(const wire::CmReq& req) {
  return {.service = req.service_id, .ends = endpoints_of(req.service_id, req.private_data, {})};
}
Route route(const wire::CmSidrReq& request) {
  return {.service = request.service_id,
          .datagram = true,
          .ends = endpoints_of(request.service_id, request.private_data, {})};
}
Route route(const wire::CmSidrRep& reply) { return to_connection(reply.request_id); }
template <typename Message>
Route route(const Message& message) {
  return to_connection(message.remote_id);
}

std::optional<SendMad> refusal(const ReplyPath& reply_path, const wire::CmReq& req) {
  return refuse_request(reply_path, req, RejectReason::invalid_service_id);
}
std::optional<SendMad> refusal(const ReplyPath& reply_path, const wire::CmRep& rep) {
  return refuse_reply(reply_path, rep, RejectReason::invalid_communication_id);
}
std::optional<SendMad> refusal(const ReplyPath& reply_path, const wire::CmSidrReq& request) {
  return refuse_resolution(reply_path, request, SidrStatus::service_not_supported);
}
std::optional<SendMad> refusal(const ReplyPath& reply_path, const wire::CmDreq& dreq) {
  return confirm_disconnect(reply_path, dreq);
}
template <typename Message>
std::optional<SendMad> refusal(const ReplyPath&, const Message&) {
  return std::nullopt;
}

}  // namespace

std::expected<Route, wire::WireError> route_of(ByteSpan mad) {
  const auto decoded = wire::decode_cm(mad);
  if (!decoded) return std::unexpected(decoded.error());
  return std::visit([](const auto& message) { return route(message); }, decoded->message);
}

std::optional<SendMad> answer_unmatched(ByteSpan mad, const verbatim::Path& from,
                                        const SocketAddress& to) {
  const auto decoded = wire::decode_cm(mad);
  if (!decoded) return std::nullopt;
  const ReplyPath reply_path{from, to, decoded->transaction};
  return std::visit([&reply_path](const auto& message) { return refusal(reply_path, message); },
                    decoded->message);
}

std::optional<SendMad> answer_to_other_version(ByteSpan mad, const verbatim::Path& from,
                                               const SocketAddress& to) {
  const auto decoded = wire::decode_cm(mad);
  const auto* const req = decoded ? std::get_if<wire::CmReq>(&decoded->message) : nullptr;
  if (req == nullptr) return std::nullopt;
  return refuse_request({from, to, decoded->transaction}, *req, RejectReason::primary_gid);
}

}  // namespace verbatim::cm
