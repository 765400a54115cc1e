#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/error.h"
#include "base/time.h"
#include "service/loop.h"
#include "ulp/ipoib/datagram_sender.h"
#include "ulp/ipoib/driver/address_answers.h"
#include "ulp/ipoib/driver/connected_port.h"
#include "ulp/ipoib/driver/datagram_queue.h"
#include "ulp/ipoib/driver/subnet.h"
#include "ulp/ipoib/interface/interface.h"
#include "ulp/ipoib/interface/kernel.h"
#include "ulp/ipoib/offload/cut.h"
#include "ulp/ipoib/offload/merge.h"
#include "ulp/rdma/driver.h"
#include "ulp/rdma/infiniband/datagram_port.h"
#include "ulp/rdma/infiniband/management.h"

namespace verbatim::ulp::ipoib {

/// An interface and its partition, joined: what the kernel sends goes to the fabric, and what comes
/// from there to the kernel.
class Link final : public rdma::Handler, private service::Source {
 public:
  struct Options {
    InterfacePlace place;
    std::uint8_t port = 1;
    PKey pkey = kDefaultPKey;
    bool is_connected = false;  // Connected mode.
  };
  /// Call it before the process has threads. ENODEV: the node is none of InfiniBand, or no subnet
  /// manager has brought its port up. The loop outlives it.
  static Result<std::unique_ptr<Link>> create(const Options& options, service::Loop& loop);
  ~Link() override;

  /// The interface is in the partition's broadcast group.
  bool has_carrier() const { return has_carrier_; }
  /// Why not; empty: nothing has been refused yet.
  const std::string& why() const { return why_; }
  nlohmann::json status() const;

 private:
  struct Counters {
    std::uint64_t received = 0, received_bytes = 0;
    std::uint64_t sent = 0, sent_bytes = 0;
    std::uint64_t connected_sent = 0, connected_received = 0;  // Of these, by connections.
    std::uint64_t cut = 0, merged = 0;  // Large packets from and to the kernel.
    std::uint64_t malformed = 0;        // From the fabric.
    std::uint64_t kernel_full = 0;      // The kernel did not take it.
  };
  Link(const Options& options, service::Loop& loop, Interface interface);
  Result<void> open_device();
  Result<void> check_connected_mode() const;
  rdma::PortFacts port_facts() const { return driver_->device().port(options_.port); }
  Result<void> open_subnet();
  Result<std::uint16_t> pkey_index() const;
  Result<void> watch();
  Result<void> attend();
  void serve_packets(TimeNs now);
  bool is_driver_awake() const { return driver_->deadline() == 0; }

  // Handler: datagrams, and in connected mode connections.
  void on_requested(const rdma::Requested& requested, TimeNs now) override;
  ReceiveUse on_message(rdma::ConnectionId connection, const Message& message, TimeNs now,
                        WorkList& work) override;
  void on_established(const rdma::Established& established, TimeNs now, WorkList& work) override;
  void on_done(rdma::ConnectionId connection, Tag tag, CompletionStatus status, TimeNs now,
               WorkList& work) override;
  void on_end(rdma::ConnectionId connection, const rdma::End& end, TimeNs now) override;
  void on_datagram(const rdma::Ended& ended, TimeNs now) override;
  void on_device(const rdma::DeviceNotice& notice, TimeNs now) override;

  TimeNs deadline() const override;
  void on_time(TimeNs now) override;

  void on_broadcast(const Result<wire::MulticastRecord>& record);
  Result<void> use(const wire::MulticastRecord& record);
  Result<void> make_port(const wire::MulticastRecord& record);
  Result<void> set_mtu();
  Result<void> take_connections();
  void begin_to_serve();
  void set_carrier(bool has_carrier);
  void query_groups();

  /// Of programs of the host: nothing while a neighbour is being asked.
  std::optional<AddressAnswers::Answer> find(const AddressAnswers::Question& question);
  AddressAnswers::Answer own_answer(const SocketAddress& source) const;
  void answer_programs();

  void read_packets();
  /// As a card whose queue is full: packets stay in the kernel's until some have left.
  bool has_room() const { return queue_->has_room() && !(sender_ && sender_->is_full()); }
  void resume_reading();
  void on_packet(const OffloadHeader& header, MutableByteSpan packet);
  void on_kernel_changes();
  /// True: it is being merged, so the bytes must stay until `flush_merge`.
  bool on_bytes(ByteSpan bytes);
  void on_frame(const Frame& frame);
  void on_neighbour_heard();
  void to_kernel(ByteSpan packet) { to_kernel({}, {&packet, 1}); }
  void to_kernel(const OffloadHeader& header, std::span<const ByteSpan> parts);
  void flush_merge();
  bool merges(const Frame& frame);
  /// Carries out what the last input has left in `out_`, and what comes of that.
  void carry_out();
  bool send(const Output& output);
  bool send(const SendPacket& datagram);
  void tell(const TellTooLong& told);
  void count_sent(ByteSpan packet, bool is_taken);
  void answer(const Output& question);

  const Options options_;
  service::Loop& loop_;
  Interface interface_;
  Kernel kernel_;
  std::unique_ptr<rdma::Driver> driver_;
  std::unique_ptr<rdma::Management> management_;
  std::unique_ptr<DatagramQueue> queue_;
  std::unique_ptr<rdma::DatagramPort> port_;  // From the first broadcast group on.
  std::unique_ptr<ConnectedPort> connected_;  // Likewise, in connected mode.
  std::unique_ptr<Subnet> subnet_;
  HardwareAddress own_;
  Lid lid_{};
  std::uint32_t datagram_mtu_ = 0;
  std::uint32_t mtu_ = 0;  // The interface's.
  std::optional<DatagramSender> sender_;
  Outputs out_;
  std::deque<Output> questions_;
  std::optional<Cut> cut_;  // The packet that is being read is to be cut so.
  ByteSpan cut_packet_;
  Merge merge_;
  std::vector<std::uint32_t> merged_;  // Receives whose packets are in it.
  bool is_merging_ = false;            // Datagram mode, if the kernel takes large packets.
  bool answers_ = false;               // `carry_out` is at work.
  std::unique_ptr<AddressAnswers> address_answers_;  // Null: the node is no host of a fabric.
  int packets_ = -1;       // Readable when some have come, where this thread attends to them.
  bool looks_ = false;     // Something has come, or was posted: the driver may sleep.
  bool in_batch_ = false;  // Packets are being read: posted together.
  bool reads_ = true;      // Packets of the kernel.
  bool has_carrier_ = false;
  TimeNs joins_again_ = kNever;
  std::string why_;
  Counters counters_;
};

}  // namespace verbatim::ulp::ipoib
