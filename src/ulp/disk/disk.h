#pragma once

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

#include "ulp/engine/slots.h"
#include "ulp/storage/initiator.h"

namespace verbatim::ulp::disk {

/// What a disk's user wants: whole blocks, as many as it likes. The user's object, which is the
/// disk's from `Disk::ask` until it is answered.
struct Ask {
  using Kind = storage::DiskRequest::Kind;
  Kind kind{};
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::byte* data = nullptr;  // Of `read` and `write`.
  /// Registered memory that begins at `data`: the target reads and writes it, and nothing is
  /// copied.
  const storage::PeerMemory* registered = nullptr;
  bool is_stable = false;
  bool may_discard = false;

  int error = 0;  // When it is answered.
  std::atomic<bool> is_answered = false;

  // The disk's.
  std::uint64_t begun = 0;  // Bytes that are pieces already.
  std::uint32_t open = 0;   // Pieces.
};

/// What the disk asks of whatever carries its connections, and has its answers.
class Outside {
 public:
  virtual void connect(const storage::ConnectRequest& request) = 0;
  virtual void carry_out(storage::Channel channel, std::span<const Work> work) = 0;
  /// `on_end` follows.
  virtual void disconnect(storage::Channel channel) = 0;
  virtual void on_answered(Ask& ask) = 0;
  /// A line for the log: the target is lost, or back.
  virtual void tell(const std::string& line) = 0;

 protected:
  ~Outside() = default;
};

/// A disk of a target: sessions one after the other, and what its users have asked. Cuts requests
/// into pieces, each with a buffer; when a session is lost, begins another and repeats the pieces
/// that have no answer. No I/O, clock or thread inside; `Outside` never calls back from within.
class Disk {
 public:
  using NewSession = std::function<std::unique_ptr<storage::Initiator>()>;
  struct Settings {
    NewSession new_session;
    /// Registered, all of one size, of which one is taken a piece.
    std::vector<storage::PeerMemory> buffers;
    /// How long a lost target is waited for; then requests end with EIO, until it is there again.
    TimeNs patience = 120 * kSecond;
    /// The same for the first login, unless its failure is final.
    TimeNs first_patience = 5 * kSecond;
  };
  Disk(Settings settings, Outside& outside);

  void begin(TimeNs now);
  void ask(Ask& ask, TimeNs now);
  /// Ends the session in order, and fails what has no answer.
  void end(TimeNs now);

  void on_established(storage::Channel channel, ByteSpan private_data, TimeNs now);
  ReceiveUse on_message(storage::Channel channel, const Message& message, TimeNs now);
  void on_done(storage::Channel channel, Tag tag, CompletionStatus status, TimeNs now);
  /// A connection is over, or could not be made. `words`: why.
  void on_end(storage::Channel channel, const std::string& words, TimeNs now);
  void on_rejected(storage::Channel channel, int reason, ByteSpan private_data, TimeNs now);
  void on_time(TimeNs now);
  TimeNs deadline() const;

  /// Of the first login on. Null: there was none yet.
  const storage::DiskFacts* facts() const { return facts_ ? &*facts_ : nullptr; }
  bool is_there() const { return session_ != nullptr && session_->facts() != nullptr; }
  bool is_over() const { return is_ending_ && session_ == nullptr; }
  /// Why the first login has failed for good; null: it has not.
  const std::string* refusal() const { return has_failed_ ? &words_ : nullptr; }
  /// Why the last session has ended, or could not begin.
  const std::string& words() const { return words_; }
  std::uint64_t sessions() const { return sessions_; }
  std::uint64_t answered() const { return answered_; }
  std::size_t open() const { return asks_.size() + pieces_.size(); }

 private:
  static constexpr TimeNs kBetween = kSecond;          // Logins of a lost target.
  static constexpr TimeNs kBusy = 100 * kMillisecond;  // Before a busy target is asked again.
  struct Piece {
    Ask* ask = nullptr;
    std::uint64_t offset = 0, bytes = 0;
    std::uint32_t buffer = 0;
    bool is_sent = false;
    TimeNs not_before = 0;
    TimeNs busy_since = kNever;
  };

  std::optional<int> answer_at_once(const Ask& ask) const;
  void begin_session(TimeNs now);
  void carry_out(TimeNs now);
  void carry_out_once(TimeNs now);
  void on_answer(const storage::DiskAnswer& answer, TimeNs now);
  void check_facts(TimeNs now);
  void lose(TimeNs now);
  void disconnect_all();
  void pump(TimeNs now);
  bool send_again(TimeNs now);
  bool send_next(TimeNs now);
  bool send(Piece& piece, TimeNs now);
  storage::PeerMemory memory_of(const Piece& piece) const;
  void finish(Piece& piece, int error);
  void finish(Ask& ask);
  void fail_all();

  const Settings settings_;
  Outside& outside_;
  std::unique_ptr<storage::Initiator> session_;
  std::array<bool, storage::kChannelsMax> is_open_{};  // Or asked for.
  std::optional<storage::DiskFacts> facts_;
  std::deque<Ask*> asks_;  // Of which not all bytes are pieces yet.
  Slots<Piece> pieces_;
  std::vector<Tag> again_;  // Pieces that wait to be sent again.
  std::vector<std::uint32_t> free_buffers_;
  storage::InitiatorOutput out_;
  std::string words_;
  TimeNs lost_at_ = 0, next_login_ = kNever;
  bool has_failed_ = false, is_given_up_ = false, is_ending_ = false;
  bool is_known_ = false;  // This session's facts are checked.
  std::uint64_t sessions_ = 0, answered_ = 0;
};

}  // namespace verbatim::ulp::disk
