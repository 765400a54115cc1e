#include "adapter/queue_pair/core/core.h"

/// Tag matching: how a queue pair takes tagged receives, and finishes the rendezvous of messages
/// that match with a send queue that is the adapter's own.
namespace verbatim::adapter {

using transport::Operation;
using transport::Status;

bool QueuePairCore::take_tagged(const wire::Packet& packet) {
  const wire::OpcodeInfo& info = wire::info(packet.headers.bth.opcode);
  receives.tagged = {};
  if (info.verb != wire::Verb::send) return take_receive();
  TaggedMessage message = TaggedMessage::read(packet.payload);
  bool finishes = options.finishes_rendezvous();
  if (finishes && message.is_rendezvous()) {
    // The sender tries again when a READ can be posted: like every receiver that is not ready.
    if (state() == QpState::rtr || sends.room() < SendQueue::kRendezvousRequests) {
      return false;
    }
    finishes = attributes.max_rd_atomic > 0;
  }
  if (!options.shared_receive->take(message, finishes, receives.current)) return false;
  receives.source = options.shared_receive;
  receives.tagged = message;
  if (receives.tagged.kind == TaggedMessage::Kind::eager && !info.ends_message()) report_match();
  return true;
}

/// The message goes on; the program learns already that it has matched.
void QueuePairCore::report_match() {
  Completion completion{.wr_id = receives.current.wr_id,
                        .qpn = number.value(),
                        .source_qpn = attributes.dest_qpn.value()};
  receives.tagged.describe_match(completion);
  receives.tagged.match_reported = true;
  push(receive_cq(), completion, false);
}

void QueuePairCore::start_rendezvous() {
  const wire::Reth source = receives.tagged.source();
  sends.push({.wr_id = receives.current.wr_id,
              .request = {.operation = Operation::read,
                          .length = source.length,
                          .remote_address = source.address,
                          .remote_key = source.key},
              .segment_count = receives.current.segment_count},
             {receives.current.segments, receives.current.segment_count});
  receives.tagged.bytes[0] = static_cast<std::byte>(wire::TagHeader::Operation::finished);
  const Segment header{.address = reinterpret_cast<std::uint64_t>(receives.tagged.bytes.data()),
                       .length = static_cast<std::uint32_t>(receives.tagged.bytes.size())};
  sends.push({.request = {.operation = Operation::send, .fence = true, .length = header.length},
              .segment_count = 1,
              .inlined = true},
             {&header, 1});
}

void QueuePairCore::complete_rendezvous(transport::Slot slot, Status status) {
  const SendWqe& wqe = sends.wqe(slot);
  if (wqe.request.operation == Operation::read) {
    const bool good = status == Status::success;
    push(*options.shared_receive->options().cq,
         {.wr_id = wqe.wr_id,
          .status = status,
          .opcode = CompletionOpcode::tagged_receive,
          .byte_count = good ? static_cast<std::uint32_t>(wqe.request.length) : 0,
          .qpn = number.value(),
          .source_qpn = attributes.dest_qpn.value(),
          .flags = good ? kCompletionTagDataValid : 0},
         false);
  } else if (status != Status::success && status != Status::flushed) {
    raise(AsyncEventType::qp_fatal);  // No completion tells of it.
  }
  sends.pop();
}

}  // namespace verbatim::adapter
