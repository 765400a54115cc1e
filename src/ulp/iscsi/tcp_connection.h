#pragma once

#include <array>
#include <optional>
#include <vector>

#include "ulp/iscsi/connection.h"

namespace verbatim::ulp::iscsi {

/// iSCSI in a byte stream: its messages are the bytes that have come, however they are cut; a
/// `Send` is written to the stream. Digests are not there.
class TcpConnection final : public Connection {
 public:
  /// Of a message but data that was asked for, which goes to its pages as it comes.
  static constexpr std::uint32_t kDataBytesMax = 8192;

  explicit TcpConnection(Setup setup) : Connection(std::move(setup)) {}

  ReceiveUse on_message(const Message& message, TimeNs now, storage::Output& out) override;

 private:
  void send(const ResponseHeader& header, ByteSpan data, const Command* ends, Tag done,
            storage::Output& out) override;
  void deliver(Command& command, std::span<const Slice> from, storage::Output& out) override;
  bool continue_delivery(storage::Output& out) override;
  void solicit(Command& command, storage::Output& out) override;
  bool stop_fetch(Command& command) override;
  bool take_message(TimeNs now, storage::Output& out) override;

  bool on_header(storage::Output& out);
  bool begin_data(storage::Output& out);
  void take_data(ByteSpan data, storage::Output& out);
  void end_data(Command& command, storage::Output& out);
  ByteSpan take(std::size_t bytes);

  // What comes in.
  ByteSpan chunk_;
  std::optional<ReceiveId> kept_;
  std::vector<std::byte> in_;  // Of one message, until it is whole.
  RequestHeader header_;
  Command* filled_ = nullptr;  // Whose data comes now; null: it is dropped.
  std::uint32_t data_left_ = 0, skip_ = 0;

  // What goes out.
  struct Delivery {
    Command* command = nullptr;
    std::size_t part = 0;
    std::uint32_t offset = 0, bytes = 0;
  };
  Delivery delivery_;
  std::uint32_t padding_owed_ = 0;  // Of the last Data-In.
};

/// What listens for iSCSI over TCP. The sessions outlive it.
class TcpService final : public storage::Service {
 public:
  explicit TcpService(Sessions& sessions) : sessions_(sessions) {}
  storage::Verdict on_meeting(const Meeting& meeting, TimeNs now) override;
  void on_gone(const storage::Session&) override {}

 private:
  Sessions& sessions_;
};

}  // namespace verbatim::ulp::iscsi
