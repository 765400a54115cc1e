#include "ulp/disk/disk.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace verbatim::ulp::disk {

Disk::Disk(Settings settings, Outside& outside)
    : settings_(std::move(settings)),
      outside_(outside),
      pieces_(static_cast<std::uint32_t>(settings_.buffers.size())) {
  for (std::uint32_t i = 0; i < settings_.buffers.size(); ++i) free_buffers_.push_back(i);
  again_.reserve(settings_.buffers.size());
  for (std::uint32_t i = 0; i < settings_.new_sessions.size(); ++i) paths_.push_back({.number = i});
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

void Disk::pump(TimeNs now) {
  while (was_there_ && !is_ending_ && (send_again(now) || send_next(now))) {
  }
}

bool Disk::send_again(TimeNs now) {
  for (auto tag = again_.begin(); tag != again_.end(); ++tag) {
    Piece& piece = *pieces_.find(*tag);
    if (piece.not_before > now || must_wait(piece, now)) continue;
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
  const bool waits = must_wait(piece, now);
  if (!waits && send(piece, now)) return true;
  again_.insert(again_.begin(), pieces_.tag_of(piece));
  return waits;  // The next one need not.
}

/// Another write to these bytes may still be carried out by a session that is lost.
bool Disk::must_wait(Piece& piece, TimeNs now) {
  piece.not_before = 0;
  if (held_.empty() || piece.ask->kind == Ask::Kind::read || piece.ask->kind == Ask::Kind::flush)
    return false;
  const TimeNs until = held_.held_until(pieces_.tag_of(piece), piece.offset, piece.bytes, now);
  // Not until then: it may be released before.
  if (until > now) piece.not_before = std::min(until, now + kBusy);
  return until > now;
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

/// By the best paths, in turn; one that has no room is passed over.
bool Disk::send(Piece& piece, TimeNs now) {
  const auto count = static_cast<std::uint32_t>(paths_.size());
  for (const auto state : {storage::PathState::optimized, storage::PathState::non_optimized}) {
    bool is_there = false;
    for (std::uint32_t i = 0; i < count; ++i) {
      Path& path = paths_[turn_ + i < count ? turn_ + i : turn_ + i - count];
      if (!path.is_known || path.session->path_state() != state) continue;
      is_there = true;
      if (!send_by(path, piece, now)) continue;
      turn_ = path.number + 1 < count ? path.number + 1 : 0;
      return true;
    }
    if (is_there) return false;
  }
  return false;
}

bool Disk::send_by(Path& path, Piece& piece, TimeNs now) {
  piece.sent_by = &path;
  const bool is_taken = path.session->on_request({.kind = piece.ask->kind,
                                                  .offset = piece.offset,
                                                  .bytes = piece.bytes,
                                                  .memory = memory_of(piece),
                                                  .is_stable = piece.ask->is_stable,
                                                  .may_discard = piece.ask->may_discard,
                                                  .user = pieces_.tag_of(piece)},
                                                 now, out_);
  if (!is_taken) piece.sent_by = nullptr;
  carry_out_once(path, now);
  return is_taken;
}

void Disk::on_answer(const storage::DiskAnswer& answer, TimeNs now) {
  Piece* const piece = pieces_.find(answer.user);
  if (piece == nullptr) return;
  if (answer.error != EAGAIN) return finish(*piece, answer.error);
  if (piece->busy_since == kNever) piece->busy_since = now;
  if (elapsed(piece->busy_since, now) >= settings_.patience) return finish(*piece, EIO);
  piece->sent_by = nullptr;
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
  if (!held_.empty()) held_.forget(pieces_.tag_of(piece));
  pieces_.give_back(piece);
  // The rest of what has failed is not begun.
  if (ask.error != 0) std::erase(asks_, &ask);
  if (--ask.open == 0 && (ask.error != 0 || ask.begun == ask.bytes)) finish(ask);
}

void Disk::finish(Ask& ask) {
  ++answered_;
  outside_.on_answered(ask);
}

/// But what a session still has: a target that lets no path reach it may answer that yet.
void Disk::fail_all() {
  again_.clear();
  pieces_.for_each([this](Piece& piece) {
    if (piece.sent_by == nullptr) finish(piece, EIO);
  });
  for (Ask* const ask : std::exchange(asks_, {})) {
    ask->error = EIO;
    finish(*ask);
  }
}

}  // namespace verbatim::ulp::disk
