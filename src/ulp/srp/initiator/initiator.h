#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "ulp/engine/slots.h"
#include "ulp/scsi/initiator/disk.h"
#include "ulp/scsi/unit_settings.h"
#include "ulp/srp/wire/login.h"
#include "ulp/srp/wire/message.h"
#include "ulp/storage/initiator.h"

namespace verbatim::ulp::srp {

struct InitiatorSettings {
  LoginForm form = LoginForm::rdma_cm;
  PortId initiator{}, target{};
  std::uint64_t lun = 0;
  std::uint32_t request_bytes = 8260;  // Of the longest message that the target takes.
  std::uint16_t requests = 64;         // Under way at most.
  std::uint32_t transfer_bytes_max = 1 << 20;
  std::uint16_t formats = kDirectFormat | kIndirectFormat;  // Of descriptors that are used.
  TimeNs patience = 30 * kSecond;                           // For the answer to a command.
  /// Further channel of a session that may be there: else the login ends the session's others.
  bool joins = false;
  bool lists_units = false;  // No disk: `facts()` has the target's units.
};

/// One session of SRP's initiator, with one unit of the target, over one channel.
///
///     read, long write   SEND command (where the data is) -> [the target's WRITEs or READs] ->
///     response short write        SEND command and data -> response no answer          SEND abort
///     -> response: the command again
///                        no answer either: reset of the unit; at last the session's end
///
/// Credits: what the target grants is spent by one for a command; one is left for an abort.
class Initiator final : public storage::Initiator {
 public:
  static constexpr TimeNs kManagementPatience = 5 * kSecond;
  static constexpr std::uint32_t kResponseBytes = 512;

  /// `scratch`: of `kScratchBytes`, read and written by the peer; outlives the session.
  Initiator(const InitiatorSettings& settings, const storage::PeerMemory& scratch);

  void begin(TimeNs now, storage::InitiatorOutput& out) override;
  void on_established(storage::Channel channel, ByteSpan private_data, TimeNs now,
                      storage::InitiatorOutput& out) override;
  ReceiveUse on_message(storage::Channel channel, const Message& message, TimeNs now,
                        storage::InitiatorOutput& out) override;
  void on_done(storage::Channel channel, Tag tag, CompletionStatus status, TimeNs now,
               storage::InitiatorOutput& out) override;
  bool on_request(const storage::DiskRequest& request, TimeNs now,
                  storage::InitiatorOutput& out) override;
  void on_time(TimeNs now, storage::InitiatorOutput& out) override;
  TimeNs deadline() const override;
  void resume(TimeNs now, storage::InitiatorOutput& out) override;
  void log_out(TimeNs now, storage::InitiatorOutput& out) override;

  storage::Failure on_rejected(storage::Channel channel, int reason,
                               ByteSpan private_data) override;
  const storage::DiskFacts* facts() const override { return facts_ ? &*facts_ : nullptr; }
  bool ends_older() const override { return !settings_.joins; }
  const storage::Failure* failure() const override { return failure_ ? &*failure_ : nullptr; }
  storage::PathState path_state() const override { return probe_.access().state(); }

 private:
  using Output = storage::InitiatorOutput;
  /// Immediate data begins here, behind a command with its descriptor.
  static constexpr std::uint16_t kImmediateAt = 68;
  static constexpr std::uint32_t kImmediateBytesMax = 8192;
  static constexpr std::size_t kZeroesAt = 4096;  // Of the scratch; before it: the probe's data.
  static constexpr std::uint8_t kRepeatsMax = 5;

  struct Request {
    scsi::DiskCommand command;
    storage::PeerMemory memory{};
    Tag user{};  // None: the probe's.
    TimeNs due = kNever;
    std::uint8_t repeats = 0;
    bool is_sent = false;
    bool is_leaving = false;    // Its data is on its way, in the message.
    std::optional<int> answer;  // Held until that is over.
    Slice data{};
    std::array<std::byte, Command::kSize + 20 + Buffer::kRangeBytes> message{};
  };
  struct Managing {
    Function function{};
    Tag task{};
    std::uint64_t tag = 0;
    TimeNs due = kNever;
  };

  // The session (initiator.cpp).
  void on_response(const Response& response, TimeNs now, Output& out);
  void on_target_request(ByteSpan message, Opcode opcode, Output& out);
  void on_managed(const std::optional<ResponseCode>& code, TimeNs now, Output& out);
  void manage(Function function, Tag task, TimeNs now, Output& out);
  void on_late(TimeNs now, Output& out);
  void end(std::string words, bool is_final, Output& out);
  void send(ByteSpan message, Output& out);

  // Commands (commands.cpp).
  void ask_unit(TimeNs now, Output& out);
  void look_at_access(TimeNs now, Output& out);
  void post(Request& request, TimeNs now, Output& out);
  std::size_t describe(Request& request) const;
  bool fits_message(const Request& request) const;
  void on_answer(Request& request, const Response& response, TimeNs now, Output& out);
  void on_unit_answer(Request& request, const Response& response, TimeNs now, Output& out);
  void finish(Request& request, int error, Output& out);
  void repeat(Request& request);
  void repeat_all();
  void pump(TimeNs now, Output& out);
  storage::PeerMemory scratch(std::size_t at, std::uint32_t bytes) const;
  /// There is a credit, and no reset under way: all that was sent is repeated after that, and what
  /// was sent behind it would be carried out twice, once after its answer.
  bool can_send() const {
    const bool is_resetting = managing_ && managing_->function == Function::unit_reset;
    return !is_resetting && (credits_ > 1 || (credits_ == 1 && in_flight_ == 0));
  }

  const InitiatorSettings settings_;
  const storage::PeerMemory scratch_;
  Slots<Request> requests_;
  std::deque<Tag> to_send_;  // Again, or as soon as there is a credit.
  InplaceVector<std::array<std::byte, TaskManagement::kSize>, 16> messages_;  // Of one input.
  scsi::DiskProbe probe_;
  std::optional<storage::DiskFacts> facts_;
  std::optional<storage::Failure> failure_;
  LoginResponse login_{};  // What the target has said.
  bool is_established_ = false, is_over_ = false;
  std::int64_t credits_ = 0;
  std::uint32_t in_flight_ = 0;  // Commands and management that have no answer.
  std::optional<Managing> managing_;
  std::uint64_t managed_ = 0;
  TimeNs look_ = kNever;  // Not after the first command that is late.
};

}  // namespace verbatim::ulp::srp
