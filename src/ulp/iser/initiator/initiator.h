#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ulp/engine/slots.h"
#include "ulp/iser/connection.h"
#include "ulp/iser/initiator/login.h"
#include "ulp/iser/wire/header.h"
#include "ulp/scsi/initiator/disk.h"
#include "ulp/storage/initiator.h"

namespace verbatim::ulp::iser {

/// The initiator's side of iSER (RFC 7145): one session of one connection for one unit, error
/// recovery level 0. Keys are a region's, which no peer may invalidate: our private data says so.
///
///     read    command, read key    the target WRITEs            response
///     write   command, write key   [data unasked] it READs      response
class Initiator final : public storage::Initiator {
 public:
  struct Settings {
    LoginSettings login;
    std::uint16_t lun = 0;        // Up to 16,383.
    std::uint16_t commands = 64;  // At a time; the target's window may be smaller.
  };
  /// `scratch`: `storage::kScratchBytes`.
  Initiator(Settings settings, const storage::PeerMemory& scratch);

  void begin(TimeNs now, storage::InitiatorOutput& out) override;
  void on_established(storage::Channel channel, ByteSpan private_data, TimeNs now,
                      storage::InitiatorOutput& out) override;
  ReceiveUse on_message(storage::Channel channel, const Message& message, TimeNs now,
                        storage::InitiatorOutput& out) override;
  void on_done(storage::Channel, Tag, CompletionStatus, TimeNs,
               storage::InitiatorOutput&) override {}
  bool on_request(const storage::DiskRequest& request, TimeNs now,
                  storage::InitiatorOutput& out) override;
  void on_time(TimeNs now, storage::InitiatorOutput& out) override;
  TimeNs deadline() const override { return next_look_; }
  void resume(TimeNs, storage::InitiatorOutput&) override {}
  void log_out(TimeNs now, storage::InitiatorOutput& out) override;

  storage::Failure on_rejected(storage::Channel channel, int reason,
                               ByteSpan private_data) override;
  const storage::DiskFacts* facts() const override { return facts_ ? &*facts_ : nullptr; }
  /// RFC 7143, 6.3.5: a session of the same ISID is reinstated.
  bool ends_older() const override { return true; }
  const storage::Failure* failure() const override { return failure_ ? &*failure_ : nullptr; }
  storage::PathState path_state() const override { return probe_.access().state(); }

 private:
  static constexpr TimeNs kLook = kSecond;
  static constexpr TimeNs kLoginPatience = 15 * kSecond;
  static constexpr TimeNs kCommandPatience = 30 * kSecond;
  static constexpr TimeNs kSilence = 5 * kSecond;  // Then NOP-Out; then as long for its answer.
  static constexpr std::uint32_t kPartsMax = 17;   // FirstBurstLength in pieces of 512 bytes.

  struct Command {
    bool is_probe = false;
    storage::DiskRequest request;
    std::uint32_t data_bytes = 0;
    bool reads = false;
    TimeNs sent_at = 0;
    std::array<Slice, kPartsMax> parts{};  // Of its messages: they stay while it is under way.
  };

  void on_bytes(ByteSpan bytes, TimeNs now, storage::InitiatorOutput& out);
  void on_pdu(const iscsi::ResponseHeader& header, ByteSpan data, TimeNs now,
              storage::InitiatorOutput& out);
  void take_numbers(const iscsi::ResponseHeader& header);
  void on_login(const iscsi::ResponseHeader& header, ByteSpan data, TimeNs now,
                storage::InitiatorOutput& out);
  void on_response(const iscsi::ResponseHeader& header, ByteSpan data, TimeNs now,
                   storage::InitiatorOutput& out);
  void on_nop(const iscsi::ResponseHeader& header, storage::InitiatorOutput& out);
  void on_async(const iscsi::ResponseHeader& header, storage::InitiatorOutput& out);

  void send_login(InitiatorLogin::Request request, storage::InitiatorOutput& out);
  void probe(TimeNs now, storage::InitiatorOutput& out);
  void look_at_access(TimeNs now, storage::InitiatorOutput& out);
  void send_command(Command& command, const scsi::DiskCommand& scsi,
                    const storage::PeerMemory& memory, TimeNs now, storage::InitiatorOutput& out);
  void send_unasked(const Command& command, std::uint32_t from, std::uint32_t to,
                    std::span<Slice> parts, storage::InitiatorOutput& out);
  void send_immediate(iscsi::RequestHeader header, storage::InitiatorOutput& out);
  void send(const Header& buffers, iscsi::RequestHeader header, ByteSpan text,
            std::span<const Slice> payload, storage::InitiatorOutput& out);
  bool is_window_open() const { return static_cast<std::int32_t>(max_cmd_sn_ - cmd_sn_) >= 0; }
  void close(std::string words, bool is_final, storage::InitiatorOutput& out);
  storage::PeerMemory scratch(std::uint32_t offset, std::uint32_t bytes) const;

  const Settings settings_;
  const storage::PeerMemory scratch_;  // Data of the probe, then a block of zeroes.
  const std::uint64_t lun_;
  InitiatorLogin login_;
  scsi::DiskProbe probe_;
  Slots<Command> commands_;
  std::vector<std::byte> arena_;  // Headers of this input's messages.
  std::optional<storage::DiskFacts> facts_;
  std::optional<storage::Failure> failure_;
  bool is_established_ = false, is_closing_ = false, is_logging_out_ = false;
  std::uint32_t cmd_sn_ = 1, max_cmd_sn_ = 0, exp_stat_sn_ = 0;
  TimeNs began_ = 0, last_heard_ = 0, asked_at_ = 0, next_look_ = kNever;
  bool is_asked_ = false;  // NOP-Out has no answer yet.
};

}  // namespace verbatim::ulp::iser
