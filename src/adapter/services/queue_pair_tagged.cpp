#include "adapter/adapter.h"
#include "adapter/queue_pair/queue_pair.h"

/// Queue pairs with a tag matching queue: take tagged receives, and finish the rendezvous of
/// matching messages.
namespace verbatim::adapter {

using transport::Operation;
using transport::Status;

/// Takes a receive request into `current_receive_`, and the kind of the message into `tagged_`.
bool QueuePair::take_tagged(const wire::Packet& packet) {
  const wire::OpcodeInfo& info = wire::info(packet.headers.bth.opcode);
  tagged_ = {};
  if (info.verb != wire::Verb::send) return take_receive();
  TaggedMessage message = TaggedMessage::read(packet.payload);
  bool finishes = options_.finishes_rendezvous();
  if (finishes && message.is_rendezvous()) {
    // The sender retries until a READ can be posted, as with every receiver that is not ready
    // (RNR).
    if (state() == QpState::rtr || send_queue_.room() < SendQueue::kRendezvousRequests) {
      return false;
    }
    finishes = attributes_.max_rd_atomic > 0;
  }
  if (!options_.shared_receive->take(message, finishes, current_receive_)) return false;
  receive_source_ = options_.shared_receive;
  tagged_ = message;
  if (tagged_.kind == TaggedMessage::Kind::eager && !info.ends_message()) report_match();
  return true;
}

void QueuePair::report_match() {
  Completion completion{.wr_id = current_receive_.wr_id,
                        .qpn = number_.value(),
                        .source_qpn = attributes_.dest_qpn.value()};
  tagged_.describe_match(completion);
  tagged_.match_reported = true;
  push(receive_cq(), completion, false);
}

/// READs the peer's data into the matching receive, then tells the peer, with its own header, that
/// its buffer is free.
void QueuePair::start_rendezvous() {
  const wire::Reth source = tagged_.source();
  send_queue_.push({.wr_id = current_receive_.wr_id,
                    .request = {.operation = Operation::read,
                                .length = source.length,
                                .remote_address = source.address,
                                .remote_key = source.key},
                    .segment_count = current_receive_.segment_count},
                   {current_receive_.segments, current_receive_.segment_count});
  tagged_.bytes[0] = static_cast<std::byte>(wire::TagHeader::Operation::finished);
  const Segment header{.address = reinterpret_cast<std::uint64_t>(tagged_.bytes.data()),
                       .length = static_cast<std::uint32_t>(tagged_.bytes.size())};
  send_queue_.push(
      {.request = {.operation = Operation::send, .fence = true, .length = header.length},
       .segment_count = 1,
       .inlined = true},
      {&header, 1});
}

void QueuePair::complete_rendezvous(transport::Slot slot, Status status) {
  const SendWqe& wqe = send_queue_.wqe(slot);
  if (wqe.request.operation == Operation::read) {
    const bool good = status == Status::success;
    push(*options_.shared_receive->options().cq,
         {.wr_id = wqe.wr_id,
          .status = status,
          .opcode = CompletionOpcode::tagged_receive,
          .byte_count = good ? static_cast<std::uint32_t>(wqe.request.length) : 0,
          .qpn = number_.value(),
          .source_qpn = attributes_.dest_qpn.value(),
          .flags = good ? kCompletionTagDataValid : 0},
         false);
  } else if (status != Status::success && status != Status::flushed) {
    raise(AsyncEventType::qp_fatal);  // No completion reports it.
  }
  send_queue_.pop();
}

PdNumber QueuePair::send_pd() const {
  return options_.finishes_rendezvous() ? options_.shared_receive->options().pd : options_.pd;
}

}  // namespace verbatim::adapter
