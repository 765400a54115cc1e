#pragma once

#include "ulp/nvmeof/queue_connection.h"
#include "ulp/storage/session.h"

namespace verbatim::ulp::nvmeof {

/// Where hosts of NVMe over Fabrics connect: one for each address that a target listens at.
class Portal final : public storage::Service {
 public:
  /// `at`: its address. If that is any address, hosts' discovery logs have what they have used.
  /// `receives`: of all connections together.
  Portal(Target& target, const SocketAddress& at, std::uint32_t receives)
      : target_(target), at_(at), receives_(receives) {}

  storage::Verdict on_meeting(const Meeting& meeting, TimeNs now) override;
  std::vector<storage::Session*> ends_with(const storage::Session& session) override;
  void on_gone(const storage::Session& session) override;

  /// Of the queues that are connected, or about to be.
  std::uint32_t queue_count() const { return static_cast<std::uint32_t>(queues_.size()); }

 private:
  QueueRejection refusal(const QueueRequest& request, const Meeting& meeting) const;
  std::uint32_t receives_of_strict() const;

  struct Queue {
    QueueConnection* connection = nullptr;
    std::uint32_t receives = 0;  // That must be posted whenever the host sends.
  };
  Target& target_;
  const SocketAddress at_;
  const std::uint32_t receives_;
  std::vector<Queue> queues_;
};

}  // namespace verbatim::ulp::nvmeof
