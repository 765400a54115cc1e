#pragma once

#include "cm/messages.h"

/// Answers to messages that belong to no connection.
namespace verbatim::cm {

/// How a message came: its answer goes back the same way with the same transaction id.
struct Way {
  const SocketAddress& from;
  const SocketAddress& to;
  std::uint64_t transaction = 0;
};

SendMad answer_to(const Way& way, const wire::CmMessage& message);
SendMad refuse_request(const Way& way, const wire::CmReq& req, RejectReason reason);
SendMad refuse_reply(const Way& way, const wire::CmRep& rep, RejectReason reason);
SendMad refuse_resolution(const Way& way, const wire::CmSidrReq& request, SidrStatus status);
SendMad confirm_disconnect(const Way& way, const wire::CmDreq& dreq);

}  // namespace verbatim::cm
