#include "cm/stray.h"

namespace verbatim::cm {

SendMad answer_to(const Way& way, const wire::CmMessage& message) {
  SendMad mad{.source = way.to, .destination = way.from};
  encode(wire::CmMad{.transaction = way.transaction, .message = message}, mad.bytes);
  return mad;
}

SendMad refuse_request(const Way& way, const wire::CmReq& req, RejectReason reason) {
  return answer_to(
      way,
      wire::CmRej{.remote_id = req.local_id, .rejected = wire::CmAbout::req, .reason = reason});
}

SendMad refuse_reply(const Way& way, const wire::CmRep& rep, RejectReason reason) {
  return answer_to(way, wire::CmRej{.local_id = rep.remote_id,
                                    .remote_id = rep.local_id,
                                    .rejected = wire::CmAbout::rep,
                                    .reason = reason});
}

SendMad refuse_resolution(const Way& way, const wire::CmSidrReq& request, SidrStatus status) {
  return answer_to(way, wire::CmSidrRep{.request_id = request.request_id,
                                        .status = status,
                                        .service_id = request.service_id});
}

SendMad confirm_disconnect(const Way& way, const wire::CmDreq& dreq) {
  return answer_to(way, wire::CmDrep{.local_id = dreq.remote_id, .remote_id = dreq.local_id});
}

}  // namespace verbatim::cm
