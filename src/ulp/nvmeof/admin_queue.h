#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "ulp/engine/slots.h"
#include "ulp/nvmeof/target.h"
#include "ulp/nvmeof/wire/log_pages.h"
#include "ulp/storage/session.h"

namespace verbatim::ulp::nvmeof {

/// A controller's admin queue, after Connect: the target's side.
///
///     data to the host   command -> borrow scratch, pages -> WRITE, SEND, done -> give back
///     all others         command -> SEND; an Async Event Request waits for an event
///
/// It ends the connection of a host that does not say in time that it lives.
class AdminQueue final : public storage::Session {
 public:
  static constexpr std::uint32_t kEventsMax = 4;  // Async Event Requests at a time.
  /// Of one command. Log pages are longer than that only if hosts ask so.
  static constexpr std::uint32_t kDataMax = 64 * 1024;

  AdminQueue(std::uint32_t entries, const Target& target)
      : entries_(entries), target_(target), requests_(2 * entries) {}
  /// Connect has succeeded. `at`: the address that the host has used, for its discovery log.
  void begin(Controller& controller, const SocketAddress& at, std::uint16_t head, TimeNs now);

  ReceiveUse on_message(const Message& message, TimeNs now, storage::Output& out) override;
  void on_done(Tag tag, CompletionStatus status, TimeNs now, storage::Output& out) override;
  void on_pages(Tag tag, storage::StoreStatus status, std::span<const Slice> pages, TimeNs now,
                storage::Output& out) override;
  void on_stored(Tag, storage::StoreStatus, TimeNs, storage::Output&) override {}
  void on_time(TimeNs now, storage::Output& out) override;
  TimeNs deadline() const override;
  void resume(TimeNs now, storage::Output& out) override;
  void on_end(TimeNs now, storage::Output& out) override;
  bool is_idle() const override { return has_ended_ && requests_.size() == 0; }

 private:
  enum class Step : std::uint8_t { borrowing, answering, waiting };
  struct Request {
    Step step{};
    AdminCommand command;
    std::span<const Slice> pages;  // Lent.
    std::array<std::byte, Completion::kSize> response{};
  };
  /// What a command comes to: an answer, or how many bytes the host gets.
  struct Outcome {
    Status status = Status::success;
    std::uint64_t result = 0;
    std::uint64_t bytes = 0;
  };
  using Serve = Outcome (AdminQueue::*)(const AdminCommand&);
  struct Row {
    AdminOpcode opcode;
    Serve serve;
  };
  static const Row kRows[];

  Outcome serve(const AdminCommand& command);
  Outcome fabrics(const AdminCommand& command);
  Outcome identify(const AdminCommand& command);
  Outcome get_log_page(const AdminCommand& command);
  Outcome set_features(const AdminCommand& command);
  Outcome get_features(const AdminCommand& command);
  Outcome set_reservation_mask(const AdminCommand& command);
  Outcome set_reservations_last(const AdminCommand& command);
  Outcome get_reservation_feature(const AdminCommand& command) const;
  /// Null: there is no such namespace, or it cannot be reserved.
  Reservations* reservations_of(std::uint32_t space) const;
  Outcome abort(const AdminCommand& command);
  Outcome keep_alive(const AdminCommand& command);

  bool has_notice() const;
  void tell_notice(storage::Output& out);
  void wait_for_event(Request& request, storage::Output& out);
  void lend(Request& request, std::uint64_t bytes, storage::Output& out);
  void fill(const AdminCommand& command, std::span<const Slice> pages) const;
  void fill_identify(const AdminCommand& command, IdentifyPage out) const;
  void fill_controller(IdentifyPage out) const;
  void fill_active_spaces(std::uint32_t after, IdentifyPage out) const;
  void fill_log_block(const LogRequest& request, std::uint64_t block, LogBlock out) const;
  void fill_errors(std::uint64_t block, LogBlock out) const;
  void fill_changed_spaces(std::uint64_t block, LogBlock out) const;
  void fill_access_states(bool only_groups, std::uint64_t block, LogBlock out) const;
  void fill_discovery(std::uint64_t block, LogBlock out) const;
  void answer(Request& request, Status status, std::uint64_t result, storage::Output& out);
  void finish(Request& request, storage::Output& out);

  const std::uint32_t entries_;
  const Target& target_;
  Controller* controller_ = nullptr;
  SocketAddress at_;
  Slots<Request> requests_;
  std::uint32_t unanswered_ = 0;
  std::uint32_t events_ = 0;
  std::uint16_t head_ = 0;
  TimeNs silent_until_ = kNever;
  bool has_ended_ = false;
};

}  // namespace verbatim::ulp::nvmeof
