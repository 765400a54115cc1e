#pragma once

#include <cstdint>
#include <memory>

#include "adapter/queue_pair/core/core.h"
#include "adapter/queue_pair/core/direct_end.h"
#include "adapter/services/service.h"
#include "adapter/services/stream/stream_connection.h"
#include "adapter/services/stream/stream_start.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/time.h"
#include "base/types.h"
#include "transport/effects.h"
#include "transport/work.h"

namespace verbatim::transport::iwarp {
struct TaggedAddress;
}

namespace verbatim::adapter::services {

/// RC over iWARP: an endpoint of RDMAP, and its TCP connection. On the direct path requests do not
/// come to the endpoint; the connection stays for the end.
class Stream {
 public:
  Stream(QueuePairCore& core, DirectEnd& direct) : core_(core), direct_(direct) {}
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  /// From INIT to RTS. What TcpStream::adopt and StreamSource::add say.
  Result<void> start(StreamStart start);
  /// Takes what has come; `to_the_end`, also an end that stands right behind it. Returns false if
  /// nothing can come.
  bool receive(TimeNs now, bool to_the_end);
  /// The end of a call that has received: sends what is no pass's matter beside the direct path.
  void transmit_after_receive();
  bool is_due(TimeNs now) const;
  void note_post(TimeNs now) {
    if (connection_ != nullptr) connection_->posted_at = now;
  }

  void enter(QpState from, QpState to, std::uint32_t changed);
  void transmit(TimeNs now);
  static bool on_timer(TimeNs) { return false; }
  void send_last(bool orderly);
  void flush();
  void reset();
  static TimeNs deadline() { return kNever; }  // `start` and `Turn` arm the timer themselves.
  bool may_gather() const;
  bool is_on_wire() const {
    return !direct_.is_open() || (connection_ != nullptr && connection_->is_polled);
  }

 private:
  class Turn;

  void configure();
  void transmit_segments();
  void refuse_request(transport::Slot slot, transport::Status status);
  void drain_requester();
  void drain_responder(transport::ResponderEffects& effects);
  // Which path it takes: stream_path.cpp.
  void begin_path_negotiation();
  void finish_path_negotiation(ByteSpan first_segment = {});
  void on_path_segment(ByteSpan segment);
  void stop_polling();
  transport::iwarp::TaggedAddress offer_direct_path();
  std::unique_ptr<DirectLink> link_to_invitee();
  std::unique_ptr<DirectLink> link_to_inviter(ByteSpan first_segment);

  QueuePairCore& core_;
  DirectEnd& direct_;
  std::unique_ptr<StreamConnection> connection_;  // Null before `start`.
  transport::RequesterEffects effects_;           // Of the requester.
};

}  // namespace verbatim::adapter::services
