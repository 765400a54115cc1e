#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ulp/nvmeof/wire/command.h"
#include "ulp/nvmeof/wire/connect.h"
#include "ulp/nvmeof/wire/identify_data.h"
#include "ulp/nvmeof/wire/log_pages.h"
#include "ulp/storage/initiator.h"

namespace verbatim::ulp::nvmeof {

/// A host of NVMe over Fabrics: an admin queue (channel 0), one I/O queue (channel 1), one
/// namespace; or the queues alone, for commands of the user's. Our keys are a region's, so no
/// command lets the target invalidate one.
///
///     channel 0   Connect, CAP, CC, CSTS, identify, features ...........  keep alive
///     channel 1                                              Connect, reads, writes
class Initiator final : public storage::Initiator {
 public:
  struct Settings {
    std::string subsystem, host;  // NQNs.
    std::array<std::byte, 16> host_id{};
    std::uint32_t namespace_id = 1;
    std::uint16_t entries = 128;  // Of the I/O queue; the target may have fewer.
    bool has_disk = true;    // False: commands of the user's are passed on; `facts()` say nothing.
    bool passes_io = false;  // Without a disk: an I/O queue, too. Not of a discovery controller.
    std::uint32_t keep_alive_ms = 15'000;  // 0: none.
  };
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

  /// Without a disk, after the login: passes a command on to the admin queue (channel 0) or the I/O
  /// queue, with `data` if it has some. False: one is under way, or there is no such queue.
  bool pass(storage::Channel channel, AdminCommand command, const storage::PeerMemory& data,
            TimeNs now, storage::InitiatorOutput& out);
  /// Its answer, once.
  std::optional<Completion> take_answer() { return std::exchange(passed_answer_, {}); }
  std::uint16_t controller_id() const { return controller_; }
  const FoundNames& names() const { return names_; }
  /// The target has answered a command of the login by a status that is no success.
  bool was_refused() const { return was_refused_; }

  storage::Failure on_rejected(storage::Channel channel, int reason,
                               ByteSpan private_data) override;
  const storage::DiskFacts* facts() const override { return facts_ ? &*facts_ : nullptr; }
  const storage::Failure* failure() const override { return failure_ ? &*failure_ : nullptr; }
  storage::PathState path_state() const override;

 private:
  /// What the admin queue waits for; then the I/O queue.
  enum class Step : std::uint8_t {
    connect,
    capabilities,
    enable,
    ready,
    controller,
    queues,
    space,
    access,
    events,
    io_connect,
    serving,
    shutdown,
  };
  /// Of asynchronous events, and of the log page of access states.
  static constexpr CommandId kEventId{4}, kAccessId{5};
  static constexpr TimeNs kLook = kSecond;
  static constexpr TimeNs kLoginPatience = 15 * kSecond;
  static constexpr TimeNs kCommandPatience = 30 * kSecond;
  /// Between two keep alives; as long for an answer.
  TimeNs keep_alive() const { return settings_.keep_alive_ms * kMillisecond / 3; }

  struct Entry {
    CommandId id{};
    bool is_taken = false;
    Tag user{};
    TimeNs sent_at = 0;
    Slice payload{};  // In the capsule.
  };

  void on_admin(const Completion& completion, TimeNs now, storage::InitiatorOutput& out);
  void on_step(const Completion& completion, TimeNs now, storage::InitiatorOutput& out);
  void on_io(const Completion& completion, storage::InitiatorOutput& out);
  void take_capabilities(std::uint64_t capabilities, storage::InitiatorOutput& out);
  void take_status(std::uint64_t status, TimeNs now, storage::InitiatorOutput& out);
  void take_controller(storage::InitiatorOutput& out);
  void take_space(storage::InitiatorOutput& out);
  void begin_io(storage::InitiatorOutput& out);

  // access.cpp: how the target reaches the namespace by this port.
  AdminCommand access_log() const;
  void take_access();
  void on_access_log(const Completion& completion);
  void look_at_access(storage::InitiatorOutput& out);
  void wait_for_event(storage::InitiatorOutput& out);
  void on_event(const Completion& completion, storage::InitiatorOutput& out);
  void on_refused_access(Status status);

  void go(Step step, AdminCommand command, storage::InitiatorOutput& out);
  void ask_for(Step step, Property property, storage::InitiatorOutput& out);
  void set(Step step, std::uint64_t value, storage::InitiatorOutput& out);
  void identify(Step step, IdentifyKind kind, std::uint32_t space, storage::InitiatorOutput& out);
  AdminCommand connect_command(std::uint16_t queue, std::uint32_t commands);
  void send_admin(storage::Channel channel, AdminCommand command, storage::InitiatorOutput& out);
  void send_io(Entry& entry, const storage::DiskRequest& request, storage::InitiatorOutput& out);
  void send_discard(const Entry& entry, const storage::DiskRequest& request,
                    storage::InitiatorOutput& out);
  ByteSpan add_to_arena(ByteSpan bytes);
  DataDescriptor describe_scratch(std::uint32_t bytes) const;
  Entry* take_entry(TimeNs now);
  std::string words_of_connect(Status status) const;
  void close(std::string words, bool is_final, storage::InitiatorOutput& out);

  const Settings settings_;
  const storage::PeerMemory scratch_;
  Step step_ = Step::connect;
  std::uint16_t controller_ = 0;
  std::uint16_t entries_;
  FoundController found_;
  FoundNames names_;
  std::uint32_t access_group_ = 0;  // 0: the target tells no states.
  AccessState access_ = AccessState::optimized;
  bool is_access_asked_ = false;
  storage::DiskFacts known_;  // `facts_` when all is known.
  std::vector<Entry> io_;     // By the command's id, modulo the count.
  std::vector<std::uint16_t> free_;
  std::uint16_t rounds_ = 0;
  std::vector<std::byte> arena_;  // Capsules of this input.
  std::optional<storage::DiskFacts> facts_;
  std::optional<storage::Failure> failure_;
  bool is_established_ = false, is_closing_ = false, is_asked_ = false, is_not_ready_ = false;
  bool was_refused_ = false, is_passing_ = false;
  TimeNs passed_at_ = 0;
  std::optional<Completion> passed_answer_;
  TimeNs began_ = 0, next_look_ = kNever, asked_at_ = 0;
};

/// What a completion's status says of its request: 0, or an errno value.
int error_of(Status status);

}  // namespace verbatim::ulp::nvmeof
