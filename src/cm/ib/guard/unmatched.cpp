#include "cm/ib/guard/unmatched.h"

namespace verbatim::cm {

SendMad answer_to(const ReplyPath& reply_path, const wire::CmMessage& message) {
  SendMad mad{.source = reply_path.to, .destination = reply_path.from};
  encode(wire::CmMad{.transaction = reply_path.transaction, .message = message}, mad.bytes);
  return mad;
}

SendMad refuse_request(const ReplyPath& reply_path, const wire::CmReq& req, RejectReason reason) {
  return answer_to(
      reply_path,
      wire::CmRej{.remote_id = req.local_id, .rejected = wire::CmAbout::req, .reason = reason});
}

SendMad refuse_reply(const ReplyPath& reply_path, const wire::CmRep& rep, RejectReason reason) {
  return answer_to(reply_path, wire::CmRej{.local_id = rep.remote_id,
                                           .remote_id = rep.local_id,
                                           .rejected = wire::CmAbout::rep,
                                           .reason = reason});
}

SendMad refuse_resolution(const ReplyPath& reply_path, const wire::CmSidrReq& request,
                          SidrStatus status) {
  return answer_to(reply_path, wire::CmSidrRep{.request_id = request.request_id,
                                               .status = status,
                                               .service_id = request.service_id});
}

SendMad confirm_disconnect(const ReplyPath& reply_path, const wire::CmDreq& dreq) {
  return answer_to(reply_path,
                   wire::CmDrep{.local_id = dreq.remote_id, .remote_id = dreq.local_id});
}

}  // namespace verbatim::cm
