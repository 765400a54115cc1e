#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ulp/engine/slots.h"
#include "ulp/iscsi/command.h"
#include "ulp/iscsi/login.h"
#include "ulp/iscsi/sessions.h"
#include "ulp/iscsi/wire/pdu.h"
#include "ulp/storage/session.h"

/// The target's side of iSCSI (RFC 7143), whatever carries it: login, discovery, commands in their
/// window, data that comes unasked, task management, NOP, text, logout. Error recovery level 0: a
/// connection is a session, and ends with it.
namespace verbatim::ulp::iscsi {

/// Data that a command moves is the carrier's:
///
///              Data-In               data that is asked for     response
///     TCP      Data-In PDUs          R2T, Data-Out PDUs         PDU         tcp_connection.h
///     iSER     RDMA WRITE            RDMA READ                  SEND        ulp/iser
class Connection : public storage::Session, public SessionConnection {
 public:
  struct Setup {
    Sessions* sessions = nullptr;
    Parameters ours;
    SocketAddress own;  // The portal that the initiator has used.
    SocketAddress peer;
    bool is_iser = false;
    TimeNs begun_at = 0;
  };
  explicit Connection(Setup setup) : setup_(std::move(setup)) {}
  ~Connection() override;
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void on_done(Tag tag, CompletionStatus status, TimeNs now, storage::Output& out) override;
  void on_pages(Tag tag, storage::StoreStatus status, std::span<const Slice> pages, TimeNs now,
                storage::Output& out) override;
  void on_stored(Tag tag, storage::StoreStatus status, TimeNs now, storage::Output& out) override;
  void on_time(TimeNs now, storage::Output& out) override;
  TimeNs deadline() const override;
  void resume(TimeNs now, storage::Output& out) override;
  void on_end(TimeNs now, storage::Output& out) override;
  bool is_idle() const override;

  void end(std::string words) override { end_words_ = std::move(words); }
  const Parameters& parameters() const { return parameters_; }
  ConnectionFacts facts() const override {
    return {setup_.peer, setup_.is_iser, connection_id_, exp_cmd_sn_, max_cmd_sn_, stat_sn_};
  }
  /// Null: no login is complete, or it is a discovery session.
  const Sessions::Session* session() const { return session_; }

 protected:
  // Of the carrier. Each may add two pieces of work to `out`.

  /// A message. `ends`: the command whose response it is. `done` comes back when it has left.
  virtual void send(const ResponseHeader& header, ByteSpan data, const Command* ends, Tag done,
                    storage::Output& out) = 0;
  /// Moves the slices to the initiator. What does not fit goes on with `continue_delivery`, which
  /// returns false while there is more.
  virtual void deliver(Command& command, std::span<const Slice> from, storage::Output& out) = 0;
  virtual bool continue_delivery(storage::Output& out) = 0;
  /// Asks for the initiator's data from `fetch_offset` to `fetch_end`. `moved` is called when all
  /// has come, `fetch_failed` when it has not.
  virtual void solicit(Command& command, storage::Output& out) = 0;
  /// Nobody wants the data any more. Returns true if no byte of it is moved from now on.
  virtual bool stop_fetch(Command& command) = 0;
  /// Takes the next message of what has come. Returns false if there is none.
  virtual bool take_message(TimeNs now, storage::Output& out) = 0;

  /// The driver has carried out what came of the last input.
  void begin_input() { setup_.sessions->clear_headers(); }
  void on_message_header(const RequestHeader& header, ByteSpan data, const RemoteBuffers& buffers,
                         TimeNs now, storage::Output& out);
  void on_bad_header(RejectReason reason, HeaderSpan header, storage::Output& out);
  /// Carries out what has come of an input, as far as it fits.
  void pump(TimeNs now, storage::Output& out);
  /// The connection must end; nothing more is taken or answered. `words`: why, or "" in order.
  void close(std::string words, storage::Output& out);
  /// The same, when the message that is sent with `kCloseTag` has left.
  void close_after_message(std::string words);
  void moved(Command& command);
  void fetch_failed(Command& command);
  bool has_room(const storage::Output& out) const {
    return out.has_room() && setup_.sessions->has_header_room();
  }
  bool is_closing() const { return is_closing_; }
  /// Of one message, without what its carrier adds.
  std::uint32_t data_bytes_max() const;
  Sessions& sessions() { return *setup_.sessions; }
  /// A response's numbers. `counts`: it has a status (RFC 7143, section 4.2.2.2).
  void number(ResponseHeader& header, bool counts);
  std::uint32_t next_transfer_tag();
  Tag tag_of(const Command& command) const { return full_->commands.tag_of(command); }
  /// Null: there is none.
  Command* find_command(std::uint32_t task_tag);

 private:
  struct Managing {
    std::uint64_t request = 0;
    std::uint32_t task_tag = 0;
    std::uint32_t left = 0;  // Units that a target reset waits for.
    scsi::ManagementResult result{};
    bool closes = false;
  };
  /// An answer that is sent later.
  struct Held {
    ResponseHeader header;
    std::string text;
    Tag done{};
    TimeNs due = 0;
  };
  /// What a session has once its login is complete.
  struct FullFeature {
    FullFeature(Sessions::Session& session, std::uint16_t count, std::span<const Slice> memory)
        : commands(count),
          tags(count),
          tasks(session.nexus, session.target->port(), session.units, count, memory) {}
    Slots<Command> commands;
    TaskTags tags;
    scsi::TaskSet tasks;
    std::vector<Tag> moved, failed;  // Fetches that the task set does not know of yet.
    std::vector<Managing> managing;
    std::uint64_t managed = 0;  // Numbers management requests.
    std::uint32_t open = 0;     // Commands without a response: they take from the window.
  };

  // Login (connection_login.cpp).
  void on_login(const RequestHeader& header, ByteSpan data, storage::Output& out);
  Sessions::Session const* find_replaced() const;
  void send_login(Login::Answer& answer, storage::Output& out);
  void complete_login(storage::Output& out);
  bool is_waiting() const { return last_answer_ != nullptr; }

  // Discovery sessions (connection_login.cpp).
  /// Of a login, too, if it names no target.
  bool is_discovery() const {
    return login_ != nullptr ? login_->target() == nullptr : full_ == nullptr;
  }
  /// Sends an answer of a discovery session: over iSER after a pause.
  void answer_discovery(const ResponseHeader& header, std::string_view text, Tag done,
                        storage::Output& out);
  void send_held(storage::Output& out);

  // Requests (connection.cpp).
  void on_request(const RequestHeader& header, ByteSpan data, const RemoteBuffers& buffers,
                  storage::Output& out);
  bool takes_number(const RequestHeader& header);
  void on_nop(const RequestHeader& header, ByteSpan data, storage::Output& out);
  void on_text(const RequestHeader& header, ByteSpan data, storage::Output& out);
  std::string text_answer(std::string_view text) const;
  void add_targets(std::string_view which, std::string& text) const;
  void on_logout(const RequestHeader& header, storage::Output& out);
  void reject(RejectReason reason, HeaderSpan header, storage::Output& out);
  void reject(RejectReason reason, const RequestHeader& header, storage::Output& out);

  // Commands (connection_commands.cpp).
  void on_command(const RequestHeader& header, ByteSpan data, const RemoteBuffers& buffers,
                  storage::Output& out);
  bool may_come_unasked(const RequestHeader& header, std::size_t bytes) const;
  void refuse_command(const RequestHeader& header, scsi::Status status, storage::Output& out);
  void on_data_out(const RequestHeader& header, ByteSpan data, storage::Output& out);
  void on_management(const RequestHeader& header, storage::Output& out);
  void manage(const Managing& one, scsi::Management what, std::uint64_t lun, std::uint64_t task);
  void advance_fetch(Command& command, storage::Output& out);
  void act(const scsi::Action& action, storage::Output& out);
  void respond(const scsi::Respond& respond, storage::Output& out);
  void on_managed(const scsi::Managed& managed, storage::Output& out);
  void give_back(Command& command);
  bool carry_out_tasks(TimeNs now, storage::Output& out);

  static constexpr TimeNs kLoginTime = 15 * kSecond;
  static constexpr TimeNs kPingAfter = 15 * kSecond, kPingTime = 30 * kSecond;
  /// open-iscsi's discovery misses an answer that comes before its own call to send has returned,
  /// and then waits 30 s for the next message.
  static constexpr TimeNs kDiscoveryPause = 50 * kMillisecond, kDiscoveryTime = 60 * kSecond;
  static constexpr TimeNs kReplaceStep = 10 * kMillisecond, kLastTime = 5 * kSecond;
  static constexpr std::uint16_t kImmediateMax = 16;  // Commands beyond the window.
  /// No tag of `Slots` has this index.
  static constexpr Tag kCloseTag{0xfffe};

  const Setup setup_;
  Parameters parameters_;
  std::unique_ptr<Login> login_;
  std::unique_ptr<Login::Answer> last_answer_;  // Waits for the session that it replaces.
  std::string initiator_;
  std::uint16_t connection_id_ = 0;
  const Sessions::Session* session_ = nullptr;
  std::unique_ptr<FullFeature> full_;
  std::uint32_t stat_sn_ = 1, exp_cmd_sn_ = 0, max_cmd_sn_ = 0;
  std::uint32_t transfer_tag_ = 0;
  std::string text_in_, text_out_;
  std::optional<Held> held_;
  std::string words_;
  std::size_t store_at_ = 0, action_at_ = 0;  // What is carried out of the task set's output.
  TimeNs now_ = 0, heard_at_ = 0, pinged_at_ = kNever;
  TimeNs ends_at_ = kNever;               // A last message should have left by then.
  std::optional<std::string> end_words_;  // It is to end, because of this.
  bool is_closing_ = false, is_over_ = false, wakes_replaced_ = false;
};

}  // namespace verbatim::ulp::iscsi
