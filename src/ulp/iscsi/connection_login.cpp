#include <fmt/format.h>

#include "ulp/iscsi/connection.h"

/// How a connection's login ends: refused, in a discovery session, or in a session, which may
/// replace one that is still there.
namespace verbatim::ulp::iscsi {

using storage::Output;

void Connection::on_login(const RequestHeader& header, ByteSpan data, Output& out) {
  Login::Answer answer = login_->on_request(header, data);
  connection_id_ = login_->connection_id();
  if (!answer.is_complete) return send_login(answer, out);
  last_answer_ = std::make_unique<Login::Answer>(std::move(answer));
  if (const Sessions::Session* const same = find_replaced()) {
    // Its commands must be over before this session's begin.
    same->connection->end("the initiator has logged in again");
    wakes_replaced_ = true;
    return;
  }
  complete_login(out);
}

const Sessions::Session* Connection::find_replaced() const {
  if (login_ == nullptr || login_->target() == nullptr) return nullptr;
  return setup_.sessions->find_same(login_->initiator(), login_->isid(), *login_->target());
}

void Connection::complete_login(Output& out) {
  constexpr std::uint16_t kDiscoveryTsih = 0xffff;
  const auto answer = std::exchange(last_answer_, nullptr);
  parameters_ = login_->parameters();
  std::uint16_t tsih = kDiscoveryTsih;
  if (!login_->is_still_admitted()) {
    answer->status = LoginStatus::forbidden;
    answer->words = fmt::format("{} is no longer admitted", login_->initiator());
    return send_login(*answer, out);
  }
  if (login_->target() != nullptr) {
    Sessions::Session* const session =
        sessions().begin(login_->initiator(), login_->isid(), login_->target(), *this);
    session_ = session;
    if (session != nullptr) session->alias = login_->alias();
    if (session == nullptr) {
      answer->status = LoginStatus::out_of_resources;
      answer->words = fmt::format("{}: there are {} sessions already", login_->initiator(),
                                  sessions().limits().sessions);
      return send_login(*answer, out);
    }
    tsih = session_->tsih();
    // A response's slot is taken until it has left, so there are twice as many.
    const auto tasks = static_cast<std::uint16_t>(2 * sessions().limits().window + kImmediateMax);
    full_ = std::make_unique<FullFeature>(*session, tasks, sessions().memory_of(*session));
  }
  answer->header.lun = login_->isid() << 16 | tsih;
  send_login(*answer, out);
  initiator_ = login_->initiator();
  login_.reset();
}

void Connection::send_login(Login::Answer& answer, Output& out) {
  const bool has_failed = answer.status != LoginStatus::success;
  if (has_failed) {
    answer.header.data_sn = std::uint32_t{static_cast<std::uint16_t>(answer.status)} << 16;
    answer.header.flags &= 0x0c;
    answer.header.data_bytes = 0;
    answer.text.clear();
  }
  number(answer.header, true);
  const Tag done = has_failed ? kCloseTag : kNoTag;
  if (is_discovery())
    answer_discovery(answer.header, answer.text, done, out);
  else
    send(answer.header, std::as_bytes(std::span(answer.text)), nullptr, done, out);
  if (has_failed) close_after_message("login refused: " + answer.words);
}

void Connection::answer_discovery(const ResponseHeader& header, std::string_view text, Tag done,
                                  Output& out) {
  held_ = Held{header, std::string(text), done, now_ + kDiscoveryPause};
  if (!setup_.is_iser) send_held(out);
}

void Connection::send_held(Output& out) {
  const auto held = std::exchange(held_, std::nullopt);
  send(held->header, std::as_bytes(std::span(held->text)), nullptr, held->done, out);
}

}  // namespace verbatim::ulp::iscsi
