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
    double store_sleeps = 0.0;  // Of each step: the store answers nothing.
    double reserve = 0.0;       // Of each command of I/O: it is one of reservations.
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
  /// Writes of hosts that were kept out, and Preempt and Abort that was answered.
  std::uint64_t refused_writes() const { return refused_writes_; }
  std::uint64_t preemptions() const { return preemptions_; }

 private:
  struct Command {
    bool is_write = false;
    bool is_io = false;
    std::uint32_t slot = 0;
    std::uint8_t pattern = 0;
    bool is_reservation = false, preempts = false;
    Status expected = Status::success;  // Of a reservation.
    bool is_kept_out = false;           // A write, when it was sent.
    std::uint64_t holders = 0;          // `holders_` then.
  };
  /// What the hosts have registered and reserved: type 1, write exclusive.
  struct Reserved {
    std::set<std::uint32_t> registered;
    std::optional<std::uint32_t> holder;
    friend bool operator==(const Reserved&, const Reserved&) = default;
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
  void send_reservation(Connection& connection);
  Status reserve(Opcode opcode, bool preempts, std::uint32_t host, std::uint32_t other);
  Reserved reserved_there() const;
  void on_reserved(const Connection& connection, const Command& command, Status status);
  bool is_kept_out(std::uint32_t host) const {
    return reserved_.holder && *reserved_.holder != host;
  }
  void check_frozen();
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
  std::uint64_t reads_ = 0, writes_ = 0, refused_writes_ = 0, preemptions_ = 0;
  Subsystem* good_ = nullptr;
  Reserved reserved_;
  std::uint64_t holders_ = 0;  // How often the holder has changed.
  /// The disk of hosts that a preemption keeps out, from its answer on.
  std::map<std::uint32_t, std::vector<std::byte>> frozen_;
};

}  // namespace verbatim::ulp::nvmeof
