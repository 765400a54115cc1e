#pragma once

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sim/random.h"
#include "ulp/iscsi/bench_for_test.h"
#include "ulp/iscsi/tcp_connection.h"
#include "ulp/iser/connection.h"

namespace verbatim::ulp::iser {

/// An initiator and a target by seed, over a byte stream or over iSER: messages that are cut
/// anywhere, a store that answers late and in any order, connections that end at any time. Checks
/// that each command is answered once, with the right bytes, and that all that was lent comes back.
class World {
 public:
  World(std::uint64_t seed, bool is_iser);
  ~World();
  void run(int commands);

 private:
  static constexpr std::uint32_t kRegions = 16, kRegionBlocks = 60, kBlock = 512;
  /// A command of the initiator's, at the beginning of a region of its own.
  struct Op {
    bool writes = false;
    std::uint32_t region = 0;
    std::vector<std::byte> data;
    std::uint32_t sent = 0;      // Of a write, without being asked.
    std::uint32_t received = 0;  // Of a read.
    std::uint32_t data_sn = 0;
  };
  struct Job {
    Work work;
    std::vector<std::byte> header;
  };

  void connect();
  void cut();
  void step();
  void begin();
  void send_unasked(const iscsi::RequestHeader& command, Op& op);
  void send(iscsi::RequestHeader header, ByteSpan data, std::uint32_t op_tag = 0);
  void take(storage::Output& out);
  void finish_job();
  void deliver();
  void on_bytes(ByteSpan bytes);
  void on_pdu(const iscsi::ResponseHeader& header, ByteSpan data);
  void on_response(const iscsi::ResponseHeader& header);
  void on_data_in(const iscsi::ResponseHeader& header, ByteSpan data);
  void on_ready(const iscsi::ResponseHeader& header);
  Op& op_of(std::uint32_t tag);
  MutableByteSpan memory_of(const RemoteRange& range);
  MutableByteSpan region(std::uint32_t index, std::size_t bytes);

  sim::Random random_;
  const bool is_iser_;
  const bool waits_for_r2t_ = random_.below(2) == 0;
  iscsi::TargetBench bench_{
      {.sessions = 4, .window = 8, .stashes = 6, .initial_r2t = waits_for_r2t_}};
  iscsi::TcpService tcp_{*bench_.sessions};
  Service iser_{*bench_.sessions};
  std::unique_ptr<storage::Session> session_;
  std::unique_ptr<storage::StoreBench> store_;
  storage::Output out_;
  TimeNs now_ = kSecond;

  std::vector<std::byte> truth_ = std::vector<std::byte>(1000 * kBlock);
  std::map<std::uint32_t, Op> ops_;  // By task tag.
  std::deque<Job> jobs_;
  std::deque<std::vector<std::byte>> messages_;  // To the target; TCP: one after the other.
  std::vector<std::byte> in_;                    // From the target, not yet a message.
  bool is_logged_in_ = false, is_over_ = false;
  std::uint32_t cmd_sn_ = 1, max_cmd_sn_ = 0, stat_sn_ = 0, tag_ = 0;
  int begun_ = 0, answered_ = 0, lost_ = 0;
};

}  // namespace verbatim::ulp::iser
