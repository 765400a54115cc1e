#include "ulp/lnet/self_test_server.h"

#include <cerrno>

namespace verbatim::ulp::lnet {

void SelfTestServer::on_request(Nid from, const TestMessage& request, TimeNs now) {
  TestMessage answer(answer_to(request.kind()));
  switch (request.kind()) {
    case TestKind::bulk: {
      const BulkRequest bulk = request.bulk();
      const bool is_kind = bulk.kind == BulkKind::read || bulk.kind == BulkKind::write;
      if (!is_kind || bulk.bytes == 0 || bulk.bytes > Buffers::kBytes)
        return answer_bulk({from, bulk}, EINVAL, now);
      if (waiting_.size() >= kWaitingMax) return answer_bulk({from, bulk}, ENOMEM, now);
      waiting_.push_back({from, bulk});
      return on_time(now);
    }
    case TestKind::ping:
      ++counters_.pings;
      answer.set_answer_ping(request.ping_number());
      break;
    default:
      on_framework(request, answer, now);
  }
  node_.put(from, kAnswerPortal, request.answer_bits(), answer.bytes(), now);
}

/// Returns the status: of a session that is ours, or of another one.
std::uint32_t SelfTestServer::enter(const TestSession& id, TimeNs now) {
  if (!session_ || session_->id != id) return session_ ? EBUSY : ESRCH;
  session_->ends = now + kSessionSeconds * kSecond;
  return 0;
}

void SelfTestServer::on_framework(const TestMessage& request, TestMessage& answer, TimeNs now) {
  const TestSession id = request.session();
  switch (request.kind()) {
    case TestKind::make_session:
      if (!session_) session_ = {id, now};
      [[fallthrough]];
    case TestKind::join:
      answer.set_status(enter(id, now));
      answer.set_timeout(kSessionSeconds);
      break;
    case TestKind::end_session:
      answer.set_status(enter(id, now));
      if (answer.status() == 0) session_.reset();
      answer.set_answer_session(id);
      return;
    case TestKind::debug:
      answer.set_timeout(session_ ? kSessionSeconds : 0);
      break;
    case TestKind::test:
      answer.set_status(request.is_for_client() ? EOPNOTSUPP : enter(id, now));
      break;
    case TestKind::statistics:
      answer.set_status(enter(id, now));
      if (answer.status() == 0) answer.set_statistics(statistics(now));
      break;
    case TestKind::batch:  // Of clients: there is none to run, stop or ask.
      answer.set_status(enter(id, now));
      break;
    default:
      answer.set_status(EPROTO);
  }
  if (session_) answer.set_answer_session(session_->id);
}

TestStatistics SelfTestServer::statistics(TimeNs now) const {
  const auto low = [](std::uint64_t count) { return static_cast<std::uint32_t>(count); };
  const auto& [sent, received, forwarded, dropped] = node_.counters();
  return {.session_ms = low((now - session_->began) / kMillisecond),
          .bulk_errors = low(counters_.errors),
          .requests = low(counters_.pings + counters_.reads + counters_.writes),
          .fetched_bytes = counters_.fetched_bytes,
          .sent_bytes = counters_.sent_bytes,
          .messages = {low(sent.messages), low(received.messages), low(forwarded.messages),
                       low(dropped.messages), sent.bytes, received.bytes, forwarded.bytes,
                       dropped.bytes}};
}

void SelfTestServer::on_time(TimeNs now) {
  if (session_ && now >= session_->ends) session_.reset();
  while (!waiting_.empty() && node_.buffers().free_count() > 0) {
    const Waiting bulk = waiting_.front();
    waiting_.pop_front();
    begin(bulk, now);
  }
}

TimeNs SelfTestServer::deadline() const {
  if (!waiting_.empty() && node_.buffers().free_count() > 0) return 0;
  return session_ ? session_->ends : kNever;
}

void SelfTestServer::begin(const Waiting& bulk, TimeNs now) {
  const BulkRequest& request = bulk.request;
  const auto buffer = node_.buffers().take();
  if (request.kind == BulkKind::read) {
    ++counters_.reads;
    counters_.sent_bytes += request.bytes;
    fill_bulk(request.check, {buffer->memory.data, request.bytes});
    const bool is_sent =
        node_.put(bulk.from, kAnswerPortal, request.bulk_bits, *buffer, request.bytes, now);
    return answer_bulk(bulk, is_sent ? 0 : EIO, now);
  }
  ++counters_.writes;
  counters_.fetched_bytes += request.bytes;
  node_.get(
      bulk.from, kAnswerPortal, request.bulk_bits, request.bytes, *buffer,
      [this, bulk](ByteSpan bytes, const std::string& words, TimeNs at) {
        const bool is_right = words.empty() && bytes.size() == bulk.request.bytes &&
                              is_bulk_right(bulk.request.check, bytes);
        answer_bulk(bulk, is_right ? 0 : words.empty() ? EBADMSG : EIO, at);
      },
      now);
}

void SelfTestServer::answer_bulk(const Waiting& bulk, std::uint32_t status, TimeNs now) {
  if (status != 0) ++counters_.errors;
  TestMessage answer(answer_to(TestKind::bulk));
  answer.set_status(status);
  node_.put(bulk.from, kAnswerPortal, bulk.request.answer_bits, answer.bytes(), now);
}

}  // namespace verbatim::ulp::lnet
