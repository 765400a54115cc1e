#include "ulp/nvmeof/portal.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace verbatim::ulp::nvmeof {
namespace {

constexpr std::uint8_t kWaitsForEver = 7;  // RNR retry.
constexpr std::uint32_t kReadsMax = 16;
/// A send queue has memory for all of its requests and their slices, so an idle host's is short:
/// the driver keeps what does not fit, and what has more slices takes several requests. With the
/// driver's own request it is a power of two, to which adapters round.
constexpr std::uint32_t kSlices = 2, kSendsMin = 31;

std::string words_of(QueueRejection why, const QueueRequest& request, const Meeting& meeting,
                     const Limits& limits) {
  const std::uint32_t entries = request.queue_id == 0 ? kAdminEntries : limits.queue_entries;
  switch (why) {
    case QueueRejection::format:
      return fmt::format("the host's private data has format {}, we know 0", request.format);
    case QueueRejection::queue_id:
      return fmt::format("the host wants queue {}, we have {}", request.queue_id, limits.io_queues);
    case QueueRejection::commands:
      return fmt::format("the host wants {} entries in queue {}, we have 2 to {}", request.commands,
                         request.queue_id, entries);
    case QueueRejection::receives:
      return fmt::format("the host has {} receives for queue {} of {} entries", request.receives,
                         request.queue_id, request.commands);
    case QueueRejection::reads_as_responder:
      return fmt::format("the host allows {} READs at a time, we need 1", meeting.reads.initiator);
    case QueueRejection::no_resources:
      return fmt::format("the host does not wait for receives, and all are granted");
    default:
      return "the host's private data is shorter than 32 bytes";
  }
}

}  // namespace

storage::Verdict Portal::on_meeting(const Meeting& meeting, TimeNs) {
  const ByteSpan bytes(meeting.private_data.begin(), meeting.private_data.size());
  const auto request = decode_queue_request(bytes);
  const QueueRejection why = request ? refusal(*request, meeting) : QueueRejection::length;
  if (why != QueueRejection::none) {
    return Rejection{encode(why),
                     words_of(why, request.value_or(QueueRequest{}), meeting, target_.limits())};
  }
  const SocketAddress& at = meeting.own.empty() ? at_ : meeting.own;
  auto connection = std::make_unique<QueueConnection>(target_, *request, at);
  const bool is_strict = meeting.is_iwarp || meeting.rnr_retry_count != kWaitsForEver;
  queues_.push_back({connection.get(), is_strict ? request->commands : 0});
  return storage::Accept{
      .session = std::move(connection),
      .private_data = encode_queue_reply(static_cast<std::uint16_t>(request->commands)),
      .sizes = {.sends = std::max<std::uint32_t>(request->commands - 1, kSendsMin),
                .receives = request->commands,
                .receive_bytes = target_.limits().capsule_bytes,
                .send_slices = kSlices,
                .inline_bytes = Completion::kSize,
                .reads_in_flight = kReadsMax},
      .replaces = {}};
}

QueueRejection Portal::refusal(const QueueRequest& request, const Meeting& meeting) const {
  const Limits& limits = target_.limits();
  if (request.format != 0) return QueueRejection::format;
  if (request.queue_id > limits.io_queues) return QueueRejection::queue_id;
  const std::uint32_t entries = request.queue_id == 0 ? kAdminEntries : limits.queue_entries;
  if (request.commands < 2 || request.commands > entries) return QueueRejection::commands;
  if (request.receives == 0) return QueueRejection::receives;
  if (meeting.reads.initiator == 0) return QueueRejection::reads_as_responder;
  const bool is_strict = meeting.is_iwarp || meeting.rnr_retry_count != kWaitsForEver;
  if (is_strict && receives_of_strict() + request.commands > receives_)
    return QueueRejection::no_resources;
  return QueueRejection::none;
}

std::uint32_t Portal::receives_of_strict() const {
  std::uint32_t receives = 0;
  for (const Queue& queue : queues_) receives += queue.receives;
  return receives;
}

/// With the admin queue all queues of its controller end (1.1, section 2.2).
std::vector<storage::Session*> Portal::ends_with(const storage::Session& session) {
  const auto& ended = static_cast<const QueueConnection&>(session);
  std::vector<storage::Session*> others;
  if (ended.queue_id() != 0 || ended.controller() == nullptr) return others;
  for (const Queue& queue : queues_) {
    if (queue.connection != &ended && queue.connection->controller() == ended.controller())
      others.push_back(queue.connection);
  }
  return others;
}

void Portal::on_gone(const storage::Session& session) {
  std::erase_if(queues_, [&](const Queue& queue) { return queue.connection == &session; });
}

}  // namespace verbatim::ulp::nvmeof
