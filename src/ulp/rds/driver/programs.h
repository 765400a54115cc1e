#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <sys/socket.h>

#include "base/error.h"
#include "base/os/unique_fd.h"
#include "service/loop.h"
#include "ulp/rds/broker.h"
#include "ulp/rds/driver/fragment_pool.h"
#include "ulp/rds/driver/grants.h"
#include "ulp/rds/driver/transfers.h"
#include "ulp/rds/local/client.h"
#include "ulp/rds/local/protocol.h"

namespace verbatim::ulp::rds {

/// The sockets of programs: packets (local/protocol.h) to the broker's calls, and back.
class Programs final : private service::Source {
 public:
  /// All outlive it but the broker, which `serve` names.
  struct Parts {
    service::Loop& loop;
    FragmentPool& pool;
    Grants& grants;
    Transfers& transfers;
  };
  /// `path`: where programs connect.
  static Result<std::unique_ptr<Programs>> create(const Parts& parts, const std::string& path);
  ~Programs();
  Programs(const Programs&) = delete;
  Programs& operator=(const Programs&) = delete;
  void serve(Broker& broker) { broker_ = &broker; }
  /// Addresses of the node, for `Ask::source_for`.
  void set_addresses(std::vector<SocketAddress> addresses) { addresses_ = std::move(addresses); }
  /// Those that have not been admitted yet find no broker here.
  void admit_no_more();
  /// Programs of this user and machine find the inboxes of this node's.
  void share();

  // The broker's `Outside`.
  bool deliver(SocketId socket, const Delivery& delivery);
  void tell_congestion(SocketId socket, std::uint64_t ports);
  void let_send(std::uint64_t waiter);
  void on_finished(SocketId socket);
  void pause(SocketId socket, bool is_paused);
  void show_congestion(bool is_any);

  /// Fragments were given back: programs that waited for them go on.
  void on_fragments();
  std::size_t count() const { return programs_.size(); }
  /// How many sockets there ever were.
  std::uint32_t admitted() const { return last_socket_; }
  int process_of(SocketId socket) const;
  const std::string& path() const { return path_; }

 private:
  struct Program {
    SocketId socket{};
    UniqueFd fd;
    UniqueFd inbox_file;
    std::unique_ptr<local::Inbox, decltype(&local::unmap)> inbox{nullptr, local::unmap};
    int process = 0;
    bool is_paused = false;
    bool waits = false;  // The broker keeps messages for it.
    bool owes_bell = false;
    std::uint64_t owed_ports = 0;  // Congested no more; it is not told yet.
  };
  struct Waiter {
    SocketId socket{};
    UniqueFd answer;
  };
  /// A packet of a program.
  struct Packet {
    local::Head head;
    std::size_t bytes = 0;  // After the head.
    UniqueFd beside;        // Of a question: where the answer goes.
    UniqueFd file;          // Beside that.
    int process = 0;        // Who has sent it.
  };
  Programs(const Parts& parts, std::string path);
  Result<void> open();
  void accept_all();
  Result<void> admit(UniqueFd fd);
  void on_ready(SocketId id);
  void read_all(SocketId id);
  bool read_one(Program& program);
  bool fill_spare();
  static void take_beside(msghdr& message, Packet& packet);
  bool receive(Program& program, Packet& packet);
  void on_message(Program& program, const Packet& packet);
  Result<std::vector<Slice>> fragments_in(const Packet& packet);
  Result<std::vector<Slice>> fragments_of_file(int file, std::uint32_t bytes);
  void on_question(Program& program, Packet& packet);
  Result<local::Answer> answer(Program& program, Packet& packet, std::vector<std::byte>& more);
  std::vector<std::byte> rest_of(const Packet& packet) const;
  Result<local::Answer> transmit(Program& program, Packet& packet);
  Result<local::Answer> grant(Program& program, const Packet& packet);
  Result<local::Answer> set_option(Program& program, const local::Head& head);
  Result<local::Answer> get_option(Program& program, const local::Head& head);
  void wait_for_room(Program& program);
  Result<void> make_inbox(Program& program);
  void set_limit(Program& program);
  bool put_in(Program& program, const local::Head& head, std::span<const ByteSpan> pieces);
  void ring(Program& program);
  void owe_bell(Program& program);
  void tell_owed_congestion(Program& program);
  void look_again();
  void serve_held(Program& program);
  TimeNs deadline() const override { return looks_again_; }
  void on_time(TimeNs now) override;
  void on_word(Program& program, const local::Head& head);
  void publish(const SocketAddress& address);
  void watch(Program& program);
  void end(SocketId id);

  service::Loop& loop_;
  FragmentPool& pool_;
  Grants& grants_;
  Transfers& transfers_;
  const std::string path_;
  Broker* broker_ = nullptr;
  UniqueFd listener_;
  UniqueFd page_file_;
  local::SharedPage* page_ = nullptr;
  std::uint32_t last_socket_ = 0;
  std::uint64_t last_waiter_ = 0;
  std::map<SocketId, std::unique_ptr<Program>> programs_;
  std::map<std::uint64_t, Waiter> waiters_;
  std::vector<SocketAddress> addresses_;
  std::set<std::string> published_;  // Links to this broker, by its addresses.
  std::vector<Slice> spare_;         // The next message is received into them.
  bool is_starved_ = false;
  TimeNs looks_again_ = kNever;  // At inboxes: without room, or with bells owed.
};

}  // namespace verbatim::ulp::rds
