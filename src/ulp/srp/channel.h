#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "ulp/engine/slots.h"
#include "ulp/srp/port.h"

namespace verbatim::ulp::srp {

/// One channel of SRP's target: a connection that has logged in. A command keeps its receive until
/// it is answered, so that its descriptors and immediate data stay where they came.
///
///     read     pages -> WRITE for each descriptor, SEND
///     write    READ for each descriptor, or a copy of immediate data -> SEND
///     long     a table that is not in the message: READ of the table, then as above
class Channel final : public storage::Session {
 public:
  struct Setup {
    Ports* ports = nullptr;
    Ports::Session* session = nullptr;
    std::uint32_t place = 0;
    std::span<const Slice> memory{};
    std::uint16_t immediate_offset = 0;  // 0: no immediate data.
  };
  /// Receives beyond the request limit: answers of the initiator take no credit.
  static constexpr std::uint32_t kAnswers = 2;

  explicit Channel(const Setup& setup);
  ~Channel() override;
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  ReceiveUse on_message(const Message& message, TimeNs now, storage::Output& out) override;
  void on_done(Tag tag, CompletionStatus status, TimeNs now, storage::Output& out) override;
  void on_pages(Tag tag, storage::StoreStatus status, std::span<const Slice> pages, TimeNs now,
                storage::Output& out) override;
  void on_stored(Tag tag, storage::StoreStatus status, TimeNs now, storage::Output& out) override;
  void on_time(TimeNs now, storage::Output& out) override;
  TimeNs deadline() const override;
  void resume(TimeNs now, storage::Output& out) override;
  void on_end(TimeNs now, storage::Output& out) override;
  bool is_idle() const override { return is_over_ && tasks_.is_idle(); }
  std::string take_refusal() override { return std::exchange(refusal_, {}); }

  /// From 2 to the service's limit. Told with the next response, or asked for by SRP_CRED_REQ; less
  /// than before holds as soon as the initiator has used up what it has.
  void set_request_limit(std::uint16_t limit);
  const Ports::Session& session() const { return *setup_.session; }

 private:
  struct Request {
    Command command;
    ReceiveId receive{};
    Tag task{};  // Of the task set, as soon as it has said it.
    bool has_begun = false, is_fetching = false, is_answered = false, is_aborted = false;
    std::vector<Slice> parts;  // Of READs and WRITEs: they stay until those are done.
  };
  /// Data of one request, on its way to or from its descriptors, one after the other.
  struct Move {
    Tag request{};
    bool is_read = false;
    const Buffer* buffer = nullptr;
    std::size_t range = 0;
    std::uint32_t range_offset = 0;
    std::span<const Slice> slices{};
    std::uint32_t slice_offset = 0;
    std::uint64_t left = 0;
  };
  struct Managing {
    std::uint64_t request = 0;
    std::uint64_t tag = 0;
  };

  // Messages (channel.cpp).
  ReceiveUse on_request(const Message& message, storage::Output& out);
  bool take_credit(storage::Output& out);
  std::int32_t give_credits();
  void ask_for_credits(storage::Output& out);
  void send(const ResponseBytes& message, bool is_solicited, Tag done, storage::Output& out);
  void send_response(Response response, std::uint8_t notification, Tag done, storage::Output& out);
  void close(std::string words, storage::Output& out);
  void note(std::string words);

  // Commands (channel_commands.cpp).
  ReceiveUse on_command(const Message& message, storage::Output& out);
  void refuse(const Command& command, scsi::Status status, storage::Output& out);
  bool can_start(const Request& request) const;
  void start(Request& request, storage::Output& out);
  void drop(Request& request, storage::Output& out);
  void begin(Request& request, storage::Output& out);
  void on_table(bool is_whole, storage::Output& out);
  bool start_waiting(storage::Output& out);
  void give_receive(Request& request, storage::Output& out);
  void on_management(const TaskManagement& wanted, storage::Output& out);
  bool abort_waiting(const TaskManagement& wanted);
  void answer_management(std::uint64_t tag, ResponseCode code, storage::Output& out);
  void on_managed(const scsi::Managed& managed, storage::Output& out);
  Request* request_of(Tag task);

  // What the task set wants (channel_data.cpp).
  void begin_move(Request& request, bool is_read, std::span<const Slice> slices,
                  std::uint32_t offset, storage::Output& out);
  bool continue_move(storage::Output& out);
  std::span<const Slice> take_slices(std::uint32_t bytes, std::vector<Slice>& parts);
  void fetch(const scsi::Fetch& one, storage::Output& out);
  void deliver(const scsi::Deliver& one, storage::Output& out);
  void respond(const scsi::Respond& one, storage::Output& out);
  void act(const scsi::Action& action, storage::Output& out);
  bool carry_out(storage::Output& out);
  void pump(storage::Output& out);

  // No tags of `Slots`, whose indices are smaller.
  static constexpr Tag kCloseTag{0xfffe}, kTableTag{0xfffd};
  static constexpr TimeNs kLastTime = 5 * kSecond;

  const Setup setup_;
  Slots<Request> requests_;
  scsi::TaskSet tasks_;
  std::deque<Tag> waiting_;  // Behind a table that is read or used, in their order.
  InplaceVector<TaskManagement, 8> held_management_;  // Until the table is read.
  bool reads_table_ = false;
  Tag table_owner_ = kNoTag;
  Move move_;
  std::vector<Tag> fetched_, failed_;  // Tasks; the task set does not know of it yet.
  InplaceVector<Managing, 16> managing_;
  std::uint64_t managed_ = 0;                 // Numbers management requests.
  std::size_t store_at_ = 0, action_at_ = 0;  // What is carried out of the task set's output.

  // limit = what the initiator may still send + what it has sent and has no answer to.
  std::uint32_t limit_, granted_, open_ = 0;
  std::uint64_t credit_tag_ = 0;
  bool asks_for_credits_ = false;

  std::string words_, refusal_;
  TimeNs now_ = 0, ends_at_ = kNever;
  bool is_closing_ = false, is_over_ = false;
};

}  // namespace verbatim::ulp::srp
