#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "ulp/nvmeof/admin_queue.h"
#include "ulp/nvmeof/io_queue.h"
#include "ulp/nvmeof/target.h"

namespace verbatim::ulp::nvmeof {

/// One connection: Connect, and then the queue that it has made.
///
///     connect, data in the capsule   -> SEND
///     connect, data in the host      -> borrow scratch, pages -> READ, done -> give back, SEND
///     after that                     the admin queue's, or the I/O queue's
class QueueConnection final : public storage::Session, public Namespaces {
 public:
  /// `request`: the private data of the connection. `at`: our address, as the host has used it.
  QueueConnection(Target& target, const QueueRequest& request, const SocketAddress& at);
  ~QueueConnection() override;

  std::uint16_t queue_id() const { return request_.queue_id; }
  /// Null: not connected.
  const Controller* controller() const { return controller_; }
  ReceiveUse on_message(const Message& message, TimeNs now, storage::Output& out) override;
  void on_done(Tag tag, CompletionStatus status, TimeNs now, storage::Output& out) override;
  void on_pages(Tag tag, storage::StoreStatus status, std::span<const Slice> pages, TimeNs now,
                storage::Output& out) override;
  void on_stored(Tag tag, storage::StoreStatus status, TimeNs now, storage::Output& out) override;
  void on_time(TimeNs now, storage::Output& out) override;
  TimeNs deadline() const override;
  void resume(TimeNs now, storage::Output& out) override;
  void on_end(TimeNs now, storage::Output& out) override;
  bool is_idle() const override;
  std::string take_refusal() override { return std::exchange(refusal_, {}); }

  /// Only a controller that is enabled shows its namespaces.
  std::optional<Namespace> find(std::uint32_t id) const override;
  const HostId& host() const override { return controller_->host().host_id; }
  void tell(std::uint32_t id, std::span<const ReservationNotice> notices) override;
  void wake() override { target_.wake(); }
  bool log(const ErrorEntry& error) override;

 private:
  static constexpr Tag kConnectTag{0xffff0001};
  static constexpr TimeNs kConnectPatience = 30 * kSecond;
  enum class State : std::uint8_t { waiting, borrowing, reading, connected };

  void begin_connect(const Message& message, TimeNs now, storage::Output& out);
  void connect(ByteSpan data, TimeNs now, storage::Output& out);
  void answer(Status status, std::uint32_t result, storage::Output& out);
  void give_back(storage::Output& out);
  bool must_end() const;
  storage::Session& queue();
  const storage::Session& queue() const;

  Target& target_;
  const QueueRequest request_;
  const SocketAddress at_;
  /// One of both. Made before the first message, because engines do not allocate later.
  std::unique_ptr<AdminQueue> admin_;
  std::unique_ptr<IoQueue> io_;

  State state_ = State::waiting;
  Controller* controller_ = nullptr;
  AdminCommand command_;
  std::span<const Slice> pages_;  // Lent.
  std::array<std::byte, Completion::kSize> response_{};
  std::uint16_t head_ = 0;
  TimeNs gives_up_ = 0;  // 0: no time was told yet.
  std::string refusal_;
  bool has_ended_ = false;
};

}  // namespace verbatim::ulp::nvmeof
