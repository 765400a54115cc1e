#pragma once

#include "ulp/iscsi/connection.h"

namespace verbatim::ulp::iser {

/// iSCSI over RDMA as Linux has it (RFC 7145): each message is a SEND, Data-In an RDMA WRITE, and
/// instead of an R2T the target READs. There is no Hello: a peer's is ignored.
class Connection final : public iscsi::Connection {
 public:
  /// Before data: iSER's header and iSCSI's. A receive has this and 8,192 bytes.
  static constexpr std::uint32_t kHeadersBytes = 76;
  static constexpr std::uint32_t kReceiveBytes = kHeadersBytes + 8192;

  Connection(Setup setup, bool may_invalidate)
      : iscsi::Connection(std::move(setup)), may_invalidate_(may_invalidate) {}

  ReceiveUse on_message(const Message& message, TimeNs now, storage::Output& out) override;

 private:
  void on_bytes(ByteSpan bytes, TimeNs now, storage::Output& out);
  void send(const iscsi::ResponseHeader& header, ByteSpan data, const iscsi::Command* ends,
            Tag done, storage::Output& out) override;
  void deliver(iscsi::Command& command, std::span<const Slice> from, storage::Output& out) override;
  bool continue_delivery(storage::Output&) override { return true; }
  void solicit(iscsi::Command& command, storage::Output& out) override;
  /// The READ is under way: its end says so.
  bool stop_fetch(iscsi::Command&) override { return false; }
  bool take_message(TimeNs, storage::Output&) override { return false; }

  const bool may_invalidate_;
};

/// What listens for iSER. The sessions outlive it.
class Service final : public storage::Service {
 public:
  explicit Service(iscsi::Sessions& sessions) : sessions_(sessions) {}
  storage::Verdict on_meeting(const Meeting& meeting, TimeNs now) override;
  void on_gone(const storage::Session&) override {}

 private:
  iscsi::Sessions& sessions_;
};

}  // namespace verbatim::ulp::iser
