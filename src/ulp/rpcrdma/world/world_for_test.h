#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/random.h"
#include "ulp/rpcrdma/client_connection.h"
#include "ulp/rpcrdma/record_stream.h"
#include "ulp/rpcrdma/server_connection.h"

namespace verbatim::ulp::rpcrdma {

using Bytes = std::vector<std::byte>;

/// An NFS client, our client connection, RDMA, our server connection and an NFS server by seed:
/// calls and replies of all kinds, answered out of order; streams cut into any pieces; little
/// memory; calls back; connections that end at any time. What the one end has said is what the
/// other end must hear, byte by byte; and all memory comes back.
class World {
 public:
  struct Options {
    std::size_t large_pieces = 60;  // Of each pool.
    double cut = 0.0005;            // Of each step: the connection ends.
    InlineLimits limits{.send = kInlineBytes, .receive = kInlineBytes};
  };
  World(std::uint64_t seed, const Options& options);
  void run(int calls);
  /// Empty: nothing is left behind.
  std::vector<std::string> finish();
  const std::vector<std::string>& violations() const { return violations_; }
  std::uint64_t answered() const { return answered_; }
  std::uint64_t moved() const { return moved_; }
  /// WRITEs of replies that were not whole yet.
  std::uint64_t early() const { return early_; }

 private:
  struct Memory {
    Memory(std::size_t large, MemoryKey remote);
    std::vector<std::byte> bytes;
    std::optional<PiecePool> pool;
    std::size_t free_at_first = 0;
  };
  struct Job {
    Work work;
    Bytes header;
  };
  /// One of our two connections, with its stream.
  struct Side {
    std::unique_ptr<Memory> records, chunks;
    std::unique_ptr<Connection> engine;
    std::unique_ptr<RecordStream> stream;
    std::deque<Job> rdma;        // In order.
    std::deque<Bytes> receives;  // Messages of the peer; those that are kept stay.
    std::map<std::uint32_t, Bytes> kept;
    std::deque<Tag> written;
    Bytes out;  // What it has put on its stream.
    Bytes in;   // What its stream brings it.
  };
  struct Call {
    Bytes call, reply;
  };

  void connect();
  void cut();
  void begin();
  void step();
  void carry_out(Side& side);
  void work(Side& side, Side& peer);
  void deliver(Side& side, Side& peer, const Send& send, const Bytes& header);
  void feed(Side& side);
  void on_client_bytes();
  void on_server_bytes();
  void answer_some();
  void fail(std::string what) { violations_.push_back(std::move(what)); }
  Side& other(const Side& side) { return &side == &client_ ? server_ : client_; }

  sim::Random random_;
  const Options options_;
  Side client_, server_;
  Output output_;
  std::map<std::uint32_t, Call> calls_;  // Of the NFS client, by xid.
  std::map<std::uint32_t, Call> back_calls_;
  std::deque<std::uint32_t> to_answer_;  // The server has them.
  std::uint32_t last_xid_ = 0, last_receive_ = 0;
  std::vector<std::string> violations_;
  std::uint64_t answered_ = 0, moved_ = 0, early_ = 0;
};

}  // namespace verbatim::ulp::rpcrdma
