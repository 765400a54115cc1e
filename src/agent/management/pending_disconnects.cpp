#include "agent/management/pending_disconnects.h"

#include <algorithm>
#include <optional>

#include "agent/protocol/arena_header.h"

namespace verbatim::agent {
namespace {

using arena::ConnectionRecord;

wire::CmMad message_for(const ConnectionRecord& record) {
  const auto local = static_cast<wire::CommunicationId>(record.local_id);
  const auto remote = static_cast<wire::CommunicationId>(record.remote_id);
  // The agent chooses transaction ids: replies are matched by communication id.
  const std::uint64_t transaction = std::uint64_t{record.local_id} << 32 | record.remote_id;
  if (record.state == ConnectionRecord::kEstablished) {
    return {
        transaction,
        wire::CmDreq{.local_id = local, .remote_id = remote, .remote_qpn = Qpn(record.remote_qpn)}};
  }
  return {
      transaction,
      wire::CmRej{.local_id = local,
                  .remote_id = remote,
                  .rejected = record.has_sent_reply != 0 ? wire::CmAbout::rep : wire::CmAbout::req,
                  .reason = record.has_sent_reply != 0 ? wire::RejectReason::consumer
                                                       : wire::RejectReason::timeout}};
}

}  // namespace

void PendingDisconnects::add(int arena_fd, TimeNs now) {
  const auto header = read_arena_header(arena_fd);
  if (header == nullptr) return;
  const std::uint32_t count = std::min(header->connection_count.load(), arena::kConnectionsMax);
  for (std::uint32_t i = 0; i < count; ++i) {
    ConnectionRecord record;
    const std::uint64_t offset = header->connections.value + i * sizeof record;
    if (!read_objects(arena_fd, offset, std::span(&record, 1))) return;
    const auto state = record.state.load(std::memory_order_relaxed);
    if (state != ConnectionRecord::kConnecting && state != ConnectionRecord::kEstablished) continue;
    const auto path = arena::path_of(record.path);
    if (!path) continue;
    waiting_.push_back({.mad = message_for(record),
                        .address = record.address,
                        .path = *path,
                        .due = now,
                        .times_left = state == ConnectionRecord::kEstablished ? kTimes : 1});
  }
}

void PendingDisconnects::on_mad(const Path& source, wire::MadSpan mad) {
  if (waiting_.empty()) return;
  const auto decoded = wire::decode_cm(mad);
  const auto* reply = decoded ? std::get_if<wire::CmDrep>(&decoded->message) : nullptr;
  if (reply == nullptr) return;
  std::erase_if(waiting_, [&](const Message& message) {
    const auto* request = std::get_if<wire::CmDreq>(&message.mad.message);
    return request != nullptr && request->local_id == reply->remote_id &&
           request->remote_id == reply->local_id && same_source(source, message.path);
  });
}

TimeNs PendingDisconnects::next_deadline() const {
  TimeNs earliest = kNever;
  for (const Message& message : waiting_) earliest = std::min(earliest, message.due);
  return earliest;
}

}  // namespace verbatim::agent
