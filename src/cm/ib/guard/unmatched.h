#pragma once

#include "cm/messages.h"

/// Answers to messages that match no connection.
namespace verbatim::cm {

/// Where a message came from: its answer goes back there, with the same transaction id.
struct ReplyPath {
  const verbatim::Path& from;
  const SocketAddress& to;
  std::uint64_t transaction = 0;
};

SendMad answer_to(const ReplyPath& reply_path, const wire::CmMessage& message);
SendMad refuse_request(const ReplyPath& reply_path, const wire::CmReq& req, RejectReason reason);
SendMad refuse_reply(const ReplyPath& reply_path, const wire::CmRep& rep, RejectReason reason);
SendMad refuse_resolution(const ReplyPath& reply_path, const wire::CmSidrReq& request,
                          SidrStatus status);
SendMad confirm_disconnect(const ReplyPath& reply_path, const wire::CmDreq& dreq);

}  // namespace verbatim::cm
