#include "ulp/target/runner.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/overloaded.h"

namespace verbatim::ulp::target {

using storage::StoreStatus;

Runner::~Runner() = default;

void Runner::clear() {
  inbox_.answers.clear();
  waiting_.clear();
  ending_.clear();
  peers_.clear();
}

storage::UnitId Runner::add(backstore::Store& store) {
  units_.push_back({.store = &store});
  return storage::UnitId{static_cast<std::uint32_t>(units_.size() - 1)};
}

Runner::Peer* Runner::find(rdma::ConnectionId connection) {
  if (number_of(connection) >= peers_.size()) return nullptr;
  Peer* const peer = peers_[number_of(connection)].get();
  return peer != nullptr && peer->id == connection ? peer : nullptr;
}

namespace {

/// By the InfiniBand CM peers have no IP address.
std::string name_of(const Meeting& meeting) {
  return meeting.peer.empty() ? gid_text(meeting.peer_gid) : meeting.peer.text();
}

}  // namespace

void Runner::on_requested(const rdma::Requested& requested, TimeNs now) {
  const auto served = services_.find(requested.listener);
  if (served == services_.end()) return;  // Nobody listens there any more.
  const auto [service, carrier] = served->second;
  auto verdict = service->on_meeting(requested.meeting, now);
  if (const auto* const rejection = std::get_if<Rejection>(&verdict)) {
    note(name_of(requested.meeting), rejection->words);
    const PrivateData& data = rejection->private_data;
    return carrier->reject(requested.connection, {data.begin(), data.size()});
  }
  auto& accept = std::get<storage::Accept>(verdict);
  for (const storage::Session* const replaced : accept.replaces)
    disconnect(replaced, "the peer has connected again", now);
  const std::uint32_t number = number_of(requested.connection);
  if (number >= peers_.size()) peers_.resize(number + 1);
  auto& peer = peers_[number] = std::make_unique<Peer>(requested.connection);
  peer->name = name_of(requested.meeting);
  peer->service = service;
  peer->carrier = carrier;
  peer->session = std::move(accept.session);
  ++session_count_;
  next_ = std::min(next_, now);
  const PrivateData& data = accept.private_data;
  // If that fails, `on_end` follows and says why.
  static_cast<void>(
      carrier->accept(requested.connection, accept.sizes, {data.begin(), data.size()}));
}

ReceiveUse Runner::on_message(rdma::ConnectionId connection, const Message& message, TimeNs now,
                              WorkList&) {
  Peer* const peer = find(connection);
  if (peer == nullptr) return ReceiveUse::done;
  const ReceiveUse use = peer->session->on_message(message, now, out_);
  carry_out(*peer, now);
  return use;
}

void Runner::on_done(rdma::ConnectionId connection, Tag tag, CompletionStatus status, TimeNs now,
                     WorkList&) {
  Peer* const peer = find(connection);
  if (peer == nullptr) return;
  peer->session->on_done(tag, status, now, out_);
  carry_out(*peer, now);
}

void Runner::on_end(rdma::ConnectionId connection, const rdma::End& end, TimeNs now) {
  Peer* const peer = find(connection);
  if (peer == nullptr) return;  // It was rejected.
  if (!end.words.empty()) note(peer->name, end.words);
  peer->is_over = true;
  peer->session->on_end(now, out_);
  carry_out(*peer, now);
  if (std::string words = peer->session->take_refusal(); !words.empty())
    note(peer->name, std::move(words));
  end_others(*peer, now);
  ending_.push_back(std::move(peers_[number_of(connection)]));
  destroy_idle();
}

void Runner::end_others(const Peer& peer, TimeNs now) {
  for (const storage::Session* const other : peer.service->ends_with(*peer.session))
    disconnect(other, "the session that it belongs to is over", now);
}

void Runner::disconnect(const storage::Session* session, const char* words, TimeNs now) {
  for (const auto& peer : peers_) {
    if (peer != nullptr && peer->session.get() == session)
      peer->carrier->disconnect(peer->id, words, now);
  }
}

void Runner::destroy_idle() {
  std::erase_if(ending_, [this](const std::unique_ptr<Peer>& peer) {
    if (!peer->session->is_idle()) return false;
    peer->service->on_gone(*peer->session);
    --session_count_;
    return true;
  });
}

void Runner::carry_out(Peer& peer, TimeNs now) {
  carry_out_once(peer, now);
  serve_answers(now);
}

void Runner::carry_out_once(Peer& peer, TimeNs now) {
  for (;;) {
    for (const auto& request : out_.store) this->request(peer, request);
    if (!out_.work.empty()) peer.carrier->carry_out(peer.id, out_.work, now);
    const bool more = out_.more;
    out_.clear();
    if (!more) break;
    peer.session->resume(now, out_);
  }
  next_ = std::min(next_, std::max(peer.session->deadline(), now));
}

/// Each may cause more of them.
void Runner::serve_answers(TimeNs now) {
  for (std::size_t i = 0; i < inbox_.answers.size(); ++i) on_answer(Answer(inbox_.answers[i]), now);
  inbox_.answers.clear();
}

void Runner::on_answer(const Answer& answer, TimeNs now) {
  const Use* const use = uses_.find(answer.use);
  if (use == nullptr) return;
  const auto [peer, tag, unit] = *use;
  // Pages stay lent until they are given back.
  const bool is_over = !answer.has_pages || answer.status != StoreStatus::done;
  if (is_over) uses_.give_back(*uses_.find(answer.use));
  if (answer.has_pages) {
    peer->session->on_pages(tag, answer.status, answer.pages, now, out_);
  } else {
    peer->session->on_stored(tag, answer.status, now, out_);
  }
  carry_out_once(*peer, now);
  if (is_over && !waiting_.empty()) {
    const Waiting next = waiting_.front();
    waiting_.pop_front();
    request(*next.peer, next.request);
  }
}

/// The store knows a request by a tag of the runner's: those of sessions are alike.
void Runner::request(Peer& peer, const storage::StoreRequest& request) {
  if (const auto* const back = std::get_if<storage::GiveBack>(&request))
    return give_back(peer, back->tag);
  const auto [tag, unit] = std::visit(
      Overloaded{[](const storage::GiveBack&) { return std::pair(Tag{}, storage::UnitId{}); },
                 [](const auto& one) { return std::pair(one.tag, one.unit); }},
      request);
  const std::size_t index = raw(tag) & 0xffff;
  if (index >= peer.uses.size()) peer.uses.resize(index + 1);
  const Use* const loan = uses_.find(peer.uses[index]);
  const bool ends_loan = std::holds_alternative<storage::Put>(request) && loan != nullptr &&
                         loan->peer == &peer && loan->tag == tag;
  if (!ends_loan) {
    if (uses_.full()) return static_cast<void>(waiting_.push_back({&peer, request}));
    Use* const use = uses_.take();
    *use = {&peer, tag, unit};
    peer.uses[index] = uses_.tag_of(*use);
  }
  const Unit& at = units_.at(raw(unit));
  const Tag own = peer.uses[index];
  if (at.is_retired && !ends_loan)
    return inbox_.answers.push_back(
        {own, StoreStatus::gone, {}, std::holds_alternative<storage::Borrow>(request)});
  backstore::Store& store = *at.store;
  std::visit(Overloaded{[&](storage::Borrow one) { one.tag = own, store.borrow(one, inbox_); },
                        [&](storage::Put one) { one.tag = own, store.put(one, inbox_); },
                        [&](storage::Flush one) { one.tag = own, store.flush(one, inbox_); },
                        [&](storage::Clear one) { one.tag = own, store.clear(one, inbox_); },
                        [](const storage::GiveBack&) {}},
             request);
}

void Runner::give_back(Peer& peer, Tag tag) {
  const Tag own = peer.uses.at(raw(tag) & 0xffff);
  Use* const use = uses_.find(own);
  if (use == nullptr || use->peer != &peer || use->tag != tag) return;
  units_.at(raw(use->unit)).store->give_back(own);
  uses_.give_back(*use);
}

bool Runner::is_used(storage::UnitId unit) {
  bool found = false;
  uses_.for_each([&](const Use& use) { found |= use.unit == unit; });
  return found;
}

/// Looks at all sessions, but at most ten times a second: their deadlines move with each message.
void Runner::on_time(TimeNs now) {
  next_ = kNever;
  for (const auto& peer : peers_) {
    if (peer == nullptr) continue;
    if (peer->session->deadline() <= now) {
      peer->session->on_time(now, out_);
      carry_out(*peer, now);
    }
    if (const TimeNs next = peer->session->deadline(); next != kNever)
      next_ = std::min(next_, std::max(next, now + kTimeStep));
  }
}

void Runner::note(std::string peer, std::string words) {
  log(LogLevel::info, "{}: {}", peer, words);
  ++incident_count_;
  incidents_.push_back({std::move(peer), std::move(words)});
  if (incidents_.size() > kIncidentsMax) incidents_.pop_front();
}

}  // namespace verbatim::ulp::target
