#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/error.h"
#include "offload/card/attached_driver.h"
#include "offload/card/function/ring_function.h"
#include "offload/card/kernel_device.h"
#include "offload/card/tap.h"
#include "offload/switch/frames/edited_frame.h"
#include "offload/switch/meter.h"
#include "offload/switch/switch.h"
#include "service/clients.h"
#include "service/keeper/keeper.h"
#include "service/loop.h"

namespace verbatim::offload {

struct ArrivedFrame;
struct Burst;

struct CardOptions {
  std::string prefix = "nic";  // Of the interfaces: nicup, nicvf0...
  std::uint16_t functions = 4;
  std::vector<std::uint16_t> rings;  // Functions that are rings of memory, not interfaces.
  /// A DPU: the driver is on the card's own processors, and the functions are its host's, which
  /// has a physical one, too: the last port.
  bool is_dpu = false;
  std::uint32_t rules = 1 << 20;
  std::string socket;  // Where a driver connects.
  std::string keeper;  // Who holds the interfaces if the card is killed (service/keeper.h).
  std::string device;  // Of the kernel's driver, which then is the card's only one.
};

/// The card: its functions and its uplink are TAP interfaces, functions also rings of memory; one
/// thread forwards between them by the embedded switch. A driver brings rules, takes what they do
/// not decide, and sends. The rules of a driver end with its connection. The interfaces end with
/// the card, unless it is killed.
class Card final : private service::Source {
 public:
  static Result<std::unique_ptr<Card>> create(service::Loop& loop, const CardOptions& options);
  ~Card();

  nlohmann::json show() const;
  nlohmann::json flows() const;
  nlohmann::json stats() const;

 private:
  struct Port {
    std::variant<Tap, RingFunction> end;
    bool is_ready = true;  // It may have frames.
    vnic_port_counters counters{};
    Tap* tap() { return std::get_if<Tap>(&end); }
    RingFunction* rings() { return std::get_if<RingFunction>(&end); }
    std::size_t read(MutableByteSpan room, ArrivedFrame& frame);
    template <typename Do>
    auto visit(Do what) {
      return std::visit(what, end);
    }
  };
  Card(service::Loop& loop, const CardOptions& options);
  Result<void> open_ports();
  bool is_rings(std::size_t port) const;
  Result<Tap> open_tap(const std::string& name, std::vector<service::Kept>& kept);
  Result<void> keep_ports();
  /// Of its interface, after the prefix.
  std::string port_name(std::size_t port) const;
  /// Of what the commands print.
  std::string port_title(std::size_t port) const;
  Result<void> listen();
  Result<void> watch();
  Result<void> attach_kernel();
  vnic_welcome welcome();

  TimeNs deadline() const override { return sleeps_ ? kNever : 0; }
  void on_time(TimeNs now) override;
  std::size_t work();
  void wake();
  void silence_doorbell() const;
  void try_to_sleep();

  Result<void> on_hello(service::Client& client);
  Result<void> on_memory(service::Client& client, const service::Incoming& message);
  void on_gone(const service::Client& client);
  void on_driver_gone();
  void expel_driver();

  // Functions that are rings: functions.cpp.
  Result<void> on_join(service::Client& client, const service::Incoming& message);
  /// Null: it is no function's.
  FunctionMember* member_of(const service::Client& client, std::uint16_t* port = nullptr);
  void leave_function(const service::Client& client);
  void take_last_frames(std::uint16_t port, const FunctionMember& member);
  void say_link(const RingFunction& function);
  void say_asleep_to_members(bool asleep);
  bool members_have_work();
  void publish_to_members();
  void wake_members();
  void expel_cutters();

  int execute(const vnic_command& command);
  int execute_on_port(const vnic_command& command);
  int set_meter(const vnic_meter& meter);
  int set_link(std::uint16_t port, bool is_up);
  std::uint16_t port_count() const { return static_cast<std::uint16_t>(ports_.size()); }
  std::size_t serve_port(std::uint16_t port);
  void handle(const Arrival& arrival, const Verdict& verdict, ArrivedFrame& frame);
  bool has_to_be_cut(const Arrival& arrival, const Verdict& verdict);
  template <typename Ask>
  bool ask_meter(std::uint32_t id, Ask ask);
  void carry_out(const Verdict& verdict, ArrivedFrame& frame, bool has_met_meter);
  void output(std::uint16_t port, ByteSpan head, ByteSpan rest, const FrameNote& note);
  void to_driver(std::uint16_t port, const Verdict& verdict, ByteSpan frame, const FrameNote& note);

  service::Loop& loop_;
  const CardOptions options_;
  std::vector<Port> ports_;
  std::unique_ptr<service::Clients> clients_;
  UniqueFd doorbell_;
  std::optional<Switch> switch_;
  Meters meters_{VNIC_METERS_MAX};
  TimeNs now_ = 0;  // Of this turn.
  std::unique_ptr<AttachedDriver> driver_;
  const service::Client* driver_client_ = nullptr;  // Null: the kernel, or there is no driver.
  std::optional<KernelDevice> kernel_;
  bool has_delivered_ = false;  // Since the kernel's last interrupt.
  std::unique_ptr<Burst> burst_;
  bool is_kept_ = false;  // A keeper has the interfaces.
  bool sleeps_ = false;
  TimeNs idle_since_ = kNever;
  std::uint64_t unedited_drops_ = 0;   // They lacked a header that their rule changes.
  std::uint64_t undecided_drops_ = 0;  // Misses for which there was no driver.
};

}  // namespace verbatim::offload
