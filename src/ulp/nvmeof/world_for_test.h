#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sim/random.h"
#include "ulp/nvmeof/portal.h"

/// A target and its hosts in virtual time: connections, memory of hosts and a store, whose order
/// and failures come from a seed. It checks what an adapter, a store and a host leave to the
/// target.
namespace verbatim::ulp::nvmeof {

class World {
 public:
  struct Options {
    double cut = 0.002;         // Of each step: a connection ends.
    double hostile = 0.02;      // A connection of the hostile host gets any bytes.
    double store_error = 0.0;   // Of each request of the store.
    double vanish = 0.0005;     // A host says nothing any more.
    std::uint32_t entries = 8;  // Of an I/O queue.
  };
  static constexpr std::uint32_t kHosts = 4;  // The last one is hostile.
  static constexpr std::uint32_t kQueuesMax = 4;
  static constexpr std::uint32_t kSlots = 8;  // Commands of a queue at a time.
  static constexpr std::uint32_t kSlotBytes = 4096;

  World(std::uint64_t seed, const Options& options);
  void run(int steps);
  /// Ends all, and says what is left behind. Empty: nothing.
  std::vector<std::string> finish();
  std::uint64_t reads() const { return reads_; }
  std::uint64_t writes() const { return writes_; }

 private:
  struct Command {
    bool is_write = false;
    bool is_io = false;
    std::uint32_t slot = 0;
    std::uint8_t pattern = 0;
  };
  struct Connection {
    std::uint32_t host = 0;
    std::uint16_t queue = 0;
    std::uint32_t entries = 0;
    std::unique_ptr<storage::Session> session;
    std::deque<Work> works;  // With copies of their headers.
    std::deque<std::vector<std::byte>> headers;
    std::map<std::uint16_t, Command> commands;
    std::set<std::uint32_t> kept;
    std::vector<std::vector<std::byte>> receives;
    std::uint16_t last_id = 0;
    int step = 0;  // Of its set-up.
    bool is_over = false;
  };
  struct Host {
    std::string name;
    std::uint16_t controller = 0;
    std::uint16_t queues = 1;
    bool is_gone = false;  // It says nothing any more.
    std::vector<std::byte> memory;
  };
  struct Asked {
    Connection* connection = nullptr;
    storage::StoreRequest request;
  };
  struct Loan {
    storage::Borrow borrow;
    std::vector<std::byte> bytes;  // Of a buffer; empty: the store's own.
    std::vector<Slice> slices;
  };
  using LoanKey = std::pair<const Connection*, std::uint32_t>;

  void step();
  void open_connection();
  void host_acts(Connection& connection);
  void set_up(Connection& connection);
  void send_io(Connection& connection);
  void send_admin(Connection& connection);
  void send_noise(Connection& connection);
  void send(Connection& connection, std::vector<std::byte> capsule);
  std::uint16_t next_id(Connection& connection, const Command& command);
  void carry_out(Connection& connection);
  void collect(Connection& connection);
  void do_work(Connection& connection);
  void do_one(Connection& connection, const Work& work);
  void move(Connection& connection, std::span<const Slice> slices, const RemoteRange& range,
            bool to_host, Tag done);
  void receive(Connection& connection, ByteSpan response);
  void check_read(const Connection& connection, const Command& command);
  void answer_store();
  void answer(Asked asked);
  void lend(Connection& connection, const storage::Borrow& borrow);
  void end_loan(const Connection& connection, Tag tag);
  void cut(Connection& connection);
  void bury();
  void violation(std::string text) { violations_.push_back(std::move(text)); }
  Connection* any(bool also_over);
  std::size_t region(const Connection& connection, std::uint32_t slot) const;
  std::vector<std::byte>& disk_of(storage::UnitId unit) { return disks_[raw(unit) - 1]; }

  sim::Random random_;
  const Options options_;
  Target target_;
  Portal portal_;
  TimeNs now_ = 1;
  std::vector<Host> hosts_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<std::vector<std::byte>> disks_;
  std::map<std::size_t, std::uint8_t> known_;  // By place on disk 1: what was acknowledged.
  std::vector<Asked> asked_;
  std::map<LoanKey, Loan> loans_;
  storage::Output out_;
  std::vector<std::string> violations_;
  std::uint64_t reads_ = 0, writes_ = 0;
};

}  // namespace verbatim::ulp::nvmeof
