#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ulp/disk/held_ranges.h"
#include "ulp/engine/slots.h"
#include "ulp/storage/initiator.h"

namespace verbatim::ulp::disk {

/// What a disk's user wants: whole blocks, as many as it likes. The user's object, which is the
/// disk's from `Disk::ask` until it is answered.
struct Ask {
  using Kind = storage::DiskRequest::Kind;
  /// Who asks without waiting, in the disk's own thread.
  class User {
   public:
    /// Called within calls of the disk: `is_answered` is set, and nothing is asked from here.
    virtual void on_answered() = 0;

   protected:
    ~User() = default;
  };
  Kind kind{};
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::byte* data = nullptr;  // Of `read` and `write`.
  /// Registered memory that begins at `data`: the target reads and writes it, and nothing is
  /// copied.
  const storage::PeerMemory* registered = nullptr;
  bool is_stable = false;
  bool may_discard = false;
  User* user = nullptr;  // Null: another thread waits for `is_answered`.

  int error = 0;  // When it is answered.
  std::atomic<bool> is_answered = false;

  // The disk's.
  std::uint64_t begun = 0;  // Bytes that are pieces already.
  std::uint32_t open = 0;   // Pieces.
};

/// A connection: a channel of one of the disk's paths, which are counted from 0.
struct PathChannel {
  std::uint32_t path = 0;
  storage::Channel channel{};
  friend bool operator==(const PathChannel&, const PathChannel&) = default;
};

/// What the disk asks of whatever carries its connections, and has its answers.
class Outside {
 public:
  virtual void connect(std::uint32_t path, const storage::ConnectRequest& request) = 0;
  virtual void carry_out(PathChannel at, std::span<const Work> work) = 0;
  /// `on_end` follows.
  virtual void disconnect(PathChannel at) = 0;
  virtual void on_answered(Ask& ask) = 0;
  /// A line for the log: the target is lost, or back.
  virtual void tell(const std::string& line) = 0;

 protected:
  ~Outside() = default;
};

/// A disk that is reached by one or more paths, each with sessions one after the other, and what
/// its users have asked. Cuts requests into pieces, each with a buffer, and sends them by the best
/// paths in turn; when a session is lost, begins another, and repeats the pieces that have no
/// answer, by another path at once. No I/O, clock or thread inside; `Outside` never calls back from
/// within.
class Disk {
 public:
  using NewSession = std::function<std::unique_ptr<storage::Initiator>()>;
  struct Settings {
    /// A path each.
    std::vector<NewSession> new_sessions;
    /// Registered, all of one size, of which one is taken a piece.
    std::vector<storage::PeerMemory> buffers;
    /// How long a lost target is waited for; then requests end with EIO, until it is there again.
    TimeNs patience = 120 * kSecond;
    /// The same for the first login, unless its failure is final.
    TimeNs first_patience = 5 * kSecond;
    /// How long a target may go on with the commands of a session that we have lost. NVMe: the
    /// keep alive timeout, after which it ends them.
    TimeNs quiescence = 15 * kSecond;
  };
  Disk(Settings settings, Outside& outside);

  void begin(TimeNs now);
  void ask(Ask& ask, TimeNs now);
  /// Ends the sessions in order, and fails what has no answer.
  void end(TimeNs now);

  void on_established(PathChannel at, ByteSpan private_data, TimeNs now);
  ReceiveUse on_message(PathChannel at, const Message& message, TimeNs now);
  void on_done(PathChannel at, Tag tag, CompletionStatus status, TimeNs now);
  /// A connection is over, or could not be made. `words`: why.
  void on_end(PathChannel at, const std::string& words, TimeNs now);
  void on_rejected(PathChannel at, int reason, ByteSpan private_data, TimeNs now);
  void on_time(TimeNs now);
  TimeNs deadline() const;

  /// Of the first login on. Null: there was none yet.
  const storage::DiskFacts* facts() const { return facts_ ? &*facts_ : nullptr; }
  bool is_there() const { return std::ranges::any_of(paths_, &Disk::is_usable); }
  bool is_over() const { return is_ending_ && !has_session(); }
  /// Why the first login has failed for good, by each path; null: it has not.
  const std::string* refusal() const;
  /// Why the last session has ended, or could not begin.
  const std::string& words() const { return words_; }
  std::uint64_t sessions() const { return sessions_; }
  std::uint64_t answered() const { return answered_; }
  std::size_t open() const { return asks_.size() + pieces_.size(); }
  struct PathFacts {
    bool is_there = false;
    storage::PathState state{};
    const std::string& words;  // As `words()`.
  };
  PathFacts path_facts(std::uint32_t path) const;

 private:
  static constexpr TimeNs kBetween = kSecond;          // Logins of a lost target.
  static constexpr TimeNs kBusy = 100 * kMillisecond;  // Before a busy target is asked again.
  struct Path {
    std::uint32_t number = 0;
    std::unique_ptr<storage::Initiator> session{};
    std::array<bool, storage::kChannelsMax> is_open{};  // Or asked for.
    bool is_known = false;                              // This session's facts are checked.
    bool has_failed = false;                            // For good, before there were facts.
    TimeNs next_login = kNever;
    std::string words{};
  };
  struct Piece {
    Ask* ask = nullptr;
    std::uint64_t offset = 0, bytes = 0;
    std::uint32_t buffer = 0;
    Path* sent_by = nullptr;  // Null: it waits.
    TimeNs not_before = 0;
    TimeNs busy_since = kNever;
  };

  static bool is_usable(const Path& path) {
    return path.is_known && path.session->path_state() != storage::PathState::none;
  }
  bool has_session() const;
  bool waits_for_target() const { return facts_ && !was_there_ && !is_given_up_ && !is_ending_; }

  // paths.cpp: sessions.
  void begin_session(Path& path, TimeNs now);
  void carry_out(Path& path, TimeNs now);
  void carry_out_once(Path& path, TimeNs now);
  void check_facts(Path& path);
  std::string objection(const storage::DiskFacts& found) const;
  void look_at_paths(TimeNs now);
  void lose(Path& path, TimeNs now);
  void disconnect_all(Path& path);

  // disk.cpp: requests.
  std::optional<int> answer_at_once(const Ask& ask) const;
  void on_answer(const storage::DiskAnswer& answer, TimeNs now);
  void pump(TimeNs now);
  bool send_again(TimeNs now);
  bool send_next(TimeNs now);
  bool must_wait(Piece& piece, TimeNs now);
  bool send(Piece& piece, TimeNs now);
  bool send_by(Path& path, Piece& piece, TimeNs now);
  storage::PeerMemory memory_of(const Piece& piece) const;
  void finish(Piece& piece, int error);
  void finish(Ask& ask);
  void fail_all();

  const Settings settings_;
  Outside& outside_;
  std::vector<Path> paths_;  // As many as there are new_sessions.
  std::uint32_t turn_ = 0;   // The path that is tried first.
  std::optional<storage::DiskFacts> facts_;
  std::deque<Ask*> asks_;  // Of which not all bytes are pieces yet.
  Slots<Piece> pieces_;
  std::vector<Tag> again_;  // Pieces that wait to be sent again.
  std::vector<std::uint32_t> free_buffers_;
  HeldRanges held_;
  storage::InitiatorOutput out_;
  std::string words_;
  TimeNs lost_at_ = 0;
  bool was_there_ = false;  // When the paths were last looked at.
  bool is_given_up_ = false, is_ending_ = false;
  std::uint64_t sessions_ = 0, answered_ = 0;
};

}  // namespace verbatim::ulp::disk
