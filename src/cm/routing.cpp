#include "cm/routing.h"

#include "cm/compose.h"
#include "cm/stray.h"

namespace verbatim::cm {
namespace {

Route to_connection(wire::CommunicationId id) { return {.slot = slot_of(raw(id))}; }

Route route(const wire::CmReq& req) {
  return {.service = req.service_id, .ends = ends_of(req.service_id, req.private_data, {})};
}
Route route(const wire::CmSidrReq& request) {
  return {.service = request.service_id,
          .datagram = true,
          .ends = ends_of(request.service_id, request.private_data, {})};
}
Route route(const wire::CmSidrRep& reply) { return to_connection(reply.request_id); }
template <typename Message>
Route route(const Message& message) {
  return to_connection(message.remote_id);
}

std::optional<SendMad> refusal(const Way& way, const wire::CmReq& req) {
  return refuse_request(way, req, RejectReason::invalid_service_id);
}
std::optional<SendMad> refusal(const Way& way, const wire::CmRep& rep) {
  return refuse_reply(way, rep, RejectReason::invalid_communication_id);
}
std::optional<SendMad> refusal(const Way& way, const wire::CmSidrReq& request) {
  return refuse_resolution(way, request, SidrStatus::service_not_supported);
}
std::optional<SendMad> refusal(const Way& way, const wire::CmDreq& dreq) {
  return confirm_disconnect(way, dreq);
}
template <typename Message>
std::optional<SendMad> refusal(const Way&, const Message&) {
  return std::nullopt;
}

}  // namespace

std::expected<Route, wire::WireError> route_of(ByteSpan mad) {
  const auto decoded = wire::decode_cm(mad);
  if (!decoded) return std::unexpected(decoded.error());
  return std::visit([](const auto& message) { return route(message); }, decoded->message);
}

std::optional<SendMad> answer_for_nobody(ByteSpan mad, const SocketAddress& from,
                                         const SocketAddress& to) {
  const auto decoded = wire::decode_cm(mad);
  if (!decoded) return std::nullopt;
  const Way way{from, to, decoded->transaction};
  return std::visit([&way](const auto& message) { return refusal(way, message); },
                    decoded->message);
}

std::optional<SendMad> answer_to_other_version(ByteSpan mad, const SocketAddress& from,
                                               const SocketAddress& to) {
  const auto decoded = wire::decode_cm(mad);
  const auto* const req = decoded ? std::get_if<wire::CmReq>(&decoded->message) : nullptr;
  if (req == nullptr) return std::nullopt;
  return refuse_request({from, to, decoded->transaction}, *req, RejectReason::primary_gid);
}

}  // namespace verbatim::cm
