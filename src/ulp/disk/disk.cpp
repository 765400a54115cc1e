#include "ulp/disk/disk.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fmt/format.h>

namespace verbatim::ulp::disk {

using storage::Channel;

namespace {

constexpr std::size_t index_of(Channel channel) { return static_cast<std::size_t>(channel); }

}  // namespace

Disk::Disk(Settings settings, Outside& outside)
    : settings_(std::move(settings)),
      outside_(outside),
      pieces_(static_cast<std::uint32_t>(settings_.buffers.size())) {
  for (std::uint32_t i = 0; i < settings_.buffers.size(); ++i) free_buffers_.push_back(i);
  again_.reserve(settings_.buffers.size());
}

void Disk::begin(TimeNs now) {
  lost_at_ = now;
  begin_session(now);
}

void Disk::begin_session(TimeNs now) {
  next_login_ = kNever;
  is_known_ = false;
  session_ = settings_.new_session();
  session_->begin(now, out_);
  carry_out(now);
}

void Disk::ask(Ask& ask, TimeNs now) {
  if (const auto answer = answer_at_once(ask)) {
    ask.error = *answer;
    return finish(ask);
  }
  asks_.push_back(&ask);
  pump(now);
}

std::optional<int> Disk::answer_at_once(const Ask& ask) const {
  if (is_given_up_ || is_ending_ || !facts_) return EIO;
  if (ask.kind == Ask::Kind::flush) return {};
  if (ask.offset > facts_->bytes || ask.bytes > facts_->bytes - ask.offset ||
      (ask.offset | ask.bytes) % facts_->block_bytes != 0)
    return EINVAL;
  const bool has_data = ask.kind == Ask::Kind::read || ask.kind == Ask::Kind::write;
  if (!has_data && facts_->clear_bytes_max == 0) return EOPNOTSUPP;
  if (ask.bytes == 0) return 0;
  return {};
}

void Disk::end(TimeNs now) {
  if (std::exchange(is_ending_, true)) return;
  next_login_ = kNever;
  if (session_ == nullptr) return fail_all();
  bool is_busy = false;
  pieces_.for_each([&](const Piece& piece) { is_busy = is_busy || piece.is_sent; });
  if (is_busy || !is_there()) return disconnect_all();
  session_->log_out(now, out_);
  carry_out(now);
}

void Disk::on_established(Channel channel, ByteSpan private_data, TimeNs now) {
  if (session_ == nullptr) return;
  session_->on_established(channel, private_data, now, out_);
  carry_out(now);
}

ReceiveUse Disk::on_message(Channel channel, const Message& message, TimeNs now) {
  if (session_ == nullptr) return ReceiveUse::done;
  const ReceiveUse use = session_->on_message(channel, message, now, out_);
  carry_out(now);
  return use;
}

void Disk::on_done(Channel channel, Tag tag, CompletionStatus status, TimeNs now) {
  if (session_ == nullptr) return;
  session_->on_done(channel, tag, status, now, out_);
  carry_out(now);
}

void Disk::on_rejected(Channel channel, int reason, ByteSpan private_data, TimeNs now) {
  if (session_ == nullptr) return;
  const storage::Failure why = session_->on_rejected(channel, reason, private_data);
  has_failed_ = has_failed_ || (why.is_final && !facts_);
  on_end(channel, why.words, now);
}

/// The session is over when all its connections are.
void Disk::on_end(Channel channel, const std::string& words, TimeNs now) {
  if (session_ == nullptr || !std::exchange(is_open_[index_of(channel)], false)) return;
  if (const storage::Failure* const why = session_->failure()) {
    words_ = why->words;
    has_failed_ = has_failed_ || (why->is_final && !facts_);
  } else {
    words_ = !words.empty() ? words
             : is_known_    ? "the target has disconnected"
                            : "the target has disconnected during the login: is the secret right?";
  }
  if (std::ranges::find(is_open_, true) != is_open_.end()) return disconnect_all();
  lose(now);
}

void Disk::disconnect_all() {
  for (std::size_t i = 0; i < is_open_.size(); ++i) {
    if (is_open_[i]) outside_.disconnect(Channel{static_cast<std::uint8_t>(i)});
  }
}

void Disk::lose(TimeNs now) {
  const bool was_there = std::exchange(is_known_, false);
  session_.reset();
  pieces_.for_each([this](Piece& piece) {
    if (std::exchange(piece.is_sent, false)) again_.push_back(pieces_.tag_of(piece));
  });
  if (is_ending_) return fail_all();
  if (was_there) {
    lost_at_ = now;
    outside_.tell(fmt::format("the target is lost, and waited for: {}", words_));
  }
  next_login_ = was_there ? now : now + kBetween;
  if (!facts_ && elapsed(lost_at_, now) >= settings_.first_patience) has_failed_ = true;
  if (has_failed_) next_login_ = kNever;
}

TimeNs Disk::deadline() const {
  TimeNs first = next_login_;
  if (session_ != nullptr) first = std::min(first, session_->deadline());
  if (facts_ && !is_known_ && !is_given_up_ && !is_ending_)
    first = std::min(first, lost_at_ + settings_.patience);
  if (!is_known_) return first;
  for (const Tag tag : again_) {
    // What waits for the target's window is sent after an input; a busy target has a time.
    if (const Piece* const piece = const_cast<Slots<Piece>&>(pieces_).find(tag);
        piece->not_before != 0)
      first = std::min(first, piece->not_before);
  }
  return first;
}

void Disk::on_time(TimeNs now) {
  if (next_login_ <= now) begin_session(now);
  if (session_ != nullptr && session_->deadline() <= now) {
    session_->on_time(now, out_);
    carry_out(now);
  }
  if (facts_ && !is_known_ && !is_given_up_ && !is_ending_ &&
      elapsed(lost_at_, now) >= settings_.patience) {
    is_given_up_ = true;
    outside_.tell(fmt::format("the target has been away for {} s: requests fail until it is back",
                              settings_.patience / kSecond));
    fail_all();
  }
  pump(now);
}

void Disk::carry_out(TimeNs now) {
  carry_out_once(now);
  check_facts(now);
  pump(now);
}

void Disk::carry_out_once(TimeNs now) {
  for (;;) {
    for (const storage::ConnectRequest& request : out_.connect) {
      is_open_[index_of(request.channel)] = true;
      outside_.connect(request);
    }
    for (std::size_t i = 0; i < out_.work.size(); ++i) {
      const auto& work = out_.work[i];
      if (!work.empty())
        outside_.carry_out(Channel{static_cast<std::uint8_t>(i)}, {work.begin(), work.size()});
    }
    for (const storage::DiskAnswer& answer : out_.answers) on_answer(answer, now);
    const bool more = out_.more;
    out_.clear();
    if (!more) return;
    session_->resume(now, out_);
  }
}

/// A disk that was lost and comes back as another one is not served.
void Disk::check_facts(TimeNs) {
  if (is_known_ || !is_there()) return;
  const storage::DiskFacts& found = *session_->facts();
  if (!facts_) {
    facts_ = found;
    facts_->transfer_bytes_max =
        std::min(found.transfer_bytes_max, settings_.buffers.front().bytes()) / found.block_bytes *
        found.block_bytes;
  } else if (found.bytes < facts_->bytes || found.block_bytes != facts_->block_bytes) {
    words_ = fmt::format("the disk has {} bytes in blocks of {} now: it had {} in blocks of {}",
                         found.bytes, found.block_bytes, facts_->bytes, facts_->block_bytes);
    return disconnect_all();
  } else {
    outside_.tell("the target is back");
  }
  is_known_ = true;
  is_given_up_ = false;
  words_.clear();
  ++sessions_;
}

void Disk::pump(TimeNs now) {
  while (is_known_ && session_ != nullptr && !is_ending_ && (send_again(now) || send_next(now))) {
  }
}

bool Disk::send_again(TimeNs now) {
  for (auto tag = again_.begin(); tag != again_.end(); ++tag) {
    Piece& piece = *pieces_.find(*tag);
    if (piece.not_before > now) continue;
    piece.not_before = 0;
    // Before it is sent: its answer may be here at once.
    const Tag sent = *tag;
    again_.erase(tag);
    if (send(piece, now)) return true;
    again_.insert(again_.begin(), sent);
    return false;
  }
  return false;
}

bool Disk::send_next(TimeNs now) {
  if (asks_.empty() || pieces_.full()) return false;
  Ask& ask = *asks_.front();
  const bool has_data = ask.kind == Ask::Kind::read || ask.kind == Ask::Kind::write;
  Piece& piece = *pieces_.take();
  piece.ask = &ask;
  piece.offset = ask.offset + ask.begun;
  piece.bytes = std::min<std::uint64_t>(
      ask.bytes - ask.begun, has_data ? facts_->transfer_bytes_max : facts_->clear_bytes_max);
  piece.buffer = free_buffers_.back();
  free_buffers_.pop_back();
  if (ask.kind == Ask::Kind::write && ask.registered == nullptr)
    std::memcpy(settings_.buffers[piece.buffer].data(), ask.data + ask.begun, piece.bytes);
  ask.begun += piece.bytes;
  ++ask.open;
  if (ask.begun == ask.bytes) asks_.pop_front();
  if (send(piece, now)) return true;
  again_.insert(again_.begin(), pieces_.tag_of(piece));
  return false;
}

/// Its buffer, or its part of what the user has registered.
storage::PeerMemory Disk::memory_of(const Piece& piece) const {
  const Ask& ask = *piece.ask;
  storage::PeerMemory memory =
      ask.registered == nullptr ? settings_.buffers[piece.buffer] : *ask.registered;
  if (ask.registered != nullptr) memory.here.data += piece.offset - ask.offset;
  memory.here.bytes = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(settings_.buffers.front().bytes(), piece.bytes));
  return memory;
}

bool Disk::send(Piece& piece, TimeNs now) {
  piece.is_sent = true;
  const bool is_taken = session_->on_request({.kind = piece.ask->kind,
                                              .offset = piece.offset,
                                              .bytes = piece.bytes,
                                              .memory = memory_of(piece),
                                              .is_stable = piece.ask->is_stable,
                                              .may_discard = piece.ask->may_discard,
                                              .user = pieces_.tag_of(piece)},
                                             now, out_);
  if (!is_taken) piece.is_sent = false;
  carry_out_once(now);
  return is_taken;
}

void Disk::on_answer(const storage::DiskAnswer& answer, TimeNs now) {
  Piece* const piece = pieces_.find(answer.user);
  if (piece == nullptr) return;
  if (answer.error != EAGAIN) return finish(*piece, answer.error);
  if (piece->busy_since == kNever) piece->busy_since = now;
  if (elapsed(piece->busy_since, now) >= settings_.patience) return finish(*piece, EIO);
  piece->is_sent = false;
  piece->not_before = now + kBusy;
  again_.push_back(answer.user);
}

void Disk::finish(Piece& piece, int error) {
  Ask& ask = *piece.ask;
  if (error == 0 && ask.kind == Ask::Kind::read && ask.registered == nullptr)
    std::memcpy(ask.data + (piece.offset - ask.offset), settings_.buffers[piece.buffer].data(),
                piece.bytes);
  if (ask.error == 0) ask.error = error;
  free_buffers_.push_back(piece.buffer);
  pieces_.give_back(piece);
  // The rest of what has failed is not begun.
  if (ask.error != 0) std::erase(asks_, &ask);
  if (--ask.open == 0 && (ask.error != 0 || ask.begun == ask.bytes)) finish(ask);
}

void Disk::finish(Ask& ask) {
  ++answered_;
  outside_.on_answered(ask);
}

/// Nothing is sent.
void Disk::fail_all() {
  again_.clear();
  pieces_.for_each([this](Piece& piece) { finish(piece, EIO); });
  for (Ask* const ask : std::exchange(asks_, {})) {
    ask->error = EIO;
    finish(*ask);
  }
}

}  // namespace verbatim::ulp::disk
