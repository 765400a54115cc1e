#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "ulp/disk/disk.h"

/// The disk's paths: sessions, one after the other.
namespace verbatim::ulp::disk {

using storage::Channel;

namespace {

constexpr std::size_t index_of(Channel channel) { return static_cast<std::size_t>(channel); }

}  // namespace

void Disk::begin(TimeNs now) {
  lost_at_ = now;
  for (Path& path : paths_) begin_session(path, now);
}

void Disk::begin_session(Path& path, TimeNs now) {
  path.next_login = kNever;
  path.session = settings_.new_sessions[path.number]();
  path.session->begin(now, out_);
  carry_out(path, now);
}

void Disk::end(TimeNs now) {
  if (std::exchange(is_ending_, true)) return;
  if (!has_session()) fail_all();
  for (Path& path : paths_) {
    path.next_login = kNever;
    if (path.session == nullptr) continue;
    bool is_busy = false;
    pieces_.for_each([&](const Piece& piece) { is_busy = is_busy || piece.sent_by == &path; });
    if (is_busy || !path.is_known) {
      disconnect_all(path);
    } else {
      path.session->log_out(now, out_);
      carry_out(path, now);
    }
  }
}

bool Disk::has_session() const {
  return std::ranges::any_of(paths_, [](const Path& path) { return path.session != nullptr; });
}

const std::string* Disk::refusal() const {
  return std::ranges::all_of(paths_, &Path::has_failed) ? &words_ : nullptr;
}

Disk::PathFacts Disk::path_facts(std::uint32_t number) const {
  const Path& path = paths_.at(number);
  return {path.is_known, path.is_known ? path.session->path_state() : storage::PathState::none,
          path.words};
}

void Disk::on_established(PathChannel at, ByteSpan private_data, TimeNs now) {
  Path& path = paths_[at.path];
  if (path.session == nullptr) return;
  path.session->on_established(at.channel, private_data, now, out_);
  carry_out(path, now);
}

ReceiveUse Disk::on_message(PathChannel at, const Message& message, TimeNs now) {
  Path& path = paths_[at.path];
  if (path.session == nullptr) return ReceiveUse::done;
  const ReceiveUse use = path.session->on_message(at.channel, message, now, out_);
  carry_out(path, now);
  return use;
}

void Disk::on_done(PathChannel at, Tag tag, CompletionStatus status, TimeNs now) {
  Path& path = paths_[at.path];
  if (path.session == nullptr) return;
  path.session->on_done(at.channel, tag, status, now, out_);
  carry_out(path, now);
}

void Disk::on_rejected(PathChannel at, int reason, ByteSpan private_data, TimeNs now) {
  Path& path = paths_[at.path];
  if (path.session == nullptr) return;
  const storage::Failure why = path.session->on_rejected(at.channel, reason, private_data);
  path.has_failed = path.has_failed || (why.is_final && !facts_);
  on_end(at, why.words, now);
}

/// The session is over when all its connections are.
void Disk::on_end(PathChannel at, const std::string& words, TimeNs now) {
  Path& path = paths_[at.path];
  if (path.session == nullptr || !std::exchange(path.is_open[index_of(at.channel)], false)) return;
  const bool has_logged_in = path.session->facts() != nullptr;
  if (const storage::Failure* const why = path.session->failure()) {
    path.words = why->words;
    path.has_failed = path.has_failed || (why->is_final && !facts_);
  } else if (!words.empty() || !has_logged_in || path.is_known) {
    // Else it is an objection of ours.
    path.words = !words.empty() ? words
                 : path.is_known
                     ? "the target has disconnected"
                     : "the target has disconnected during the login: is the secret right?";
  }
  if (std::ranges::count(path.is_open, true) > 0) return disconnect_all(path);
  lose(path, now);
}

void Disk::disconnect_all(Path& path) {
  for (std::size_t i = 0; i < path.is_open.size(); ++i) {
    if (path.is_open[i]) outside_.disconnect({path.number, Channel{static_cast<std::uint8_t>(i)}});
  }
}

/// What was under way is repeated, by another path if there is one.
void Disk::lose(Path& path, TimeNs now) {
  const bool was_known = std::exchange(path.is_known, false);
  path.session.reset();
  words_ = path.words;
  pieces_.for_each([&](Piece& piece) {
    if (piece.sent_by != &path) return;
    piece.sent_by = nullptr;
    const Tag tag = pieces_.tag_of(piece);
    again_.push_back(tag);
    const bool changes = piece.ask->kind != Ask::Kind::read && piece.ask->kind != Ask::Kind::flush;
    if (changes) held_.add(tag, piece.offset, piece.bytes, path.number, now + settings_.quiescence);
  });
  if (is_ending_) {
    if (!has_session()) fail_all();
    return;
  }
  path.next_login = was_known ? now : now + kBetween;
  if (!facts_ && elapsed(lost_at_, now) >= settings_.first_patience) path.has_failed = true;
  if (path.has_failed) path.next_login = kNever;
  look_at_paths(now);
  if (was_known && was_there_)
    outside_.tell(
        fmt::format("path {} is lost, and another one taken: {}", path.number + 1, path.words));
  pump(now);
}

/// Notices that the last path cannot be used any more, or a first one again.
void Disk::look_at_paths(TimeNs now) {
  if (!facts_ || std::exchange(was_there_, is_there()) == is_there()) return;
  if (was_there_) {
    is_given_up_ = false;
    if (sessions_ > 1) outside_.tell("the target is back");
    return;
  }
  lost_at_ = now;
  if (words_.empty()) words_ = "the target lets no path reach it";
  outside_.tell(fmt::format("the target is lost, and waited for: {}", words_));
}

void Disk::carry_out(Path& path, TimeNs now) {
  carry_out_once(path, now);
  check_facts(path);
  look_at_paths(now);
  pump(now);
}

void Disk::carry_out_once(Path& path, TimeNs now) {
  for (;;) {
    for (const storage::ConnectRequest& request : out_.connect) {
      path.is_open[index_of(request.channel)] = true;
      outside_.connect(path.number, request);
    }
    for (std::size_t i = 0; i < out_.work.size(); ++i) {
      const auto& work = out_.work[i];
      const PathChannel at{path.number, Channel{static_cast<std::uint8_t>(i)}};
      if (!work.empty()) outside_.carry_out(at, {work.begin(), work.size()});
    }
    for (const storage::DiskAnswer& answer : out_.answers) on_answer(answer, now);
    const bool more = out_.more;
    out_.clear();
    if (!more) return;
    path.session->resume(now, out_);
  }
}

/// A disk that was lost and comes back as another one is not served.
void Disk::check_facts(Path& path) {
  if (path.is_known || path.session == nullptr || path.session->facts() == nullptr) return;
  const storage::DiskFacts& found = *path.session->facts();
  if (std::string words = objection(found); !words.empty()) {
    if (words != path.words && paths_.size() > 1)
      outside_.tell(fmt::format("path {} is not taken: {}", path.number + 1, words));
    words_ = path.words = std::move(words);
    return disconnect_all(path);
  }
  if (!facts_) {
    facts_ = found;
    facts_->transfer_bytes_max =
        std::min(found.transfer_bytes_max, settings_.buffers.front().bytes()) / found.block_bytes *
        found.block_bytes;
    for (Path& other : paths_) {
      if (std::exchange(other.has_failed, false) && other.session == nullptr)
        other.next_login = lost_at_;
    }
  }
  if (path.session->ends_older()) held_.release(path.number);
  path.is_known = true;
  path.words.clear();
  words_.clear();
  ++sessions_;
}

/// Why what a path leads to is not our disk; empty: it is.
std::string Disk::objection(const storage::DiskFacts& found) const {
  const bool has_several = paths_.size() > 1;
  if (has_several && found.identity.empty())
    return "the disk does not say which one it is: two paths might lead to two";
  if (!facts_) return {};
  if (has_several && found.identity != facts_->identity)
    return fmt::format("it leads to disk {}: another path leads to {}", found.identity,
                       facts_->identity);
  if (found.bytes < facts_->bytes || found.block_bytes != facts_->block_bytes)
    return fmt::format("the disk has {} bytes in blocks of {} now: it had {} in blocks of {}",
                       found.bytes, found.block_bytes, facts_->bytes, facts_->block_bytes);
  if (has_several && (found.transfer_bytes_max < facts_->transfer_bytes_max ||
                      found.clear_bytes_max < facts_->clear_bytes_max))
    return fmt::format("it takes {} bytes at a time, and clears {}: another path {} and {}",
                       found.transfer_bytes_max, found.clear_bytes_max, facts_->transfer_bytes_max,
                       facts_->clear_bytes_max);
  return {};
}

TimeNs Disk::deadline() const {
  TimeNs first = waits_for_target() ? lost_at_ + settings_.patience : kNever;
  for (const Path& path : paths_) {
    first = std::min(first, path.next_login);
    if (path.session != nullptr) first = std::min(first, path.session->deadline());
  }
  if (!was_there_) return first;
  for (const Tag tag : again_) {
    // What waits for the target's window is sent after an input; a busy target has a time.
    if (const Piece* const piece = const_cast<Slots<Piece>&>(pieces_).find(tag);
        piece->not_before != 0)
      first = std::min(first, piece->not_before);
  }
  return first;
}

void Disk::on_time(TimeNs now) {
  for (Path& path : paths_) {
    if (path.next_login <= now) begin_session(path, now);
    if (path.session != nullptr && path.session->deadline() <= now) {
      path.session->on_time(now, out_);
      carry_out(path, now);
    }
  }
  if (waits_for_target() && elapsed(lost_at_, now) >= settings_.patience) {
    is_given_up_ = true;
    outside_.tell(fmt::format("the target has been away for {} s: requests fail until it is back",
                              settings_.patience / kSecond));
    fail_all();
  }
  pump(now);
}

}  // namespace verbatim::ulp::disk
