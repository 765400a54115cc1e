#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "base/error.h"
#include "base/time.h"
#include "fabric/daemon/trunks/trunk_socket.h"
#include "fabric/keeper/keeper.h"
#include "fabric/keeper/trunk_end.h"
#include "fabric/management/management_net.h"
#include "fabric/trunk/session.h"

namespace verbatim::fabric {

/// The trunks of a fabric: each joins a port's management datagrams (the net) and its packets (the
/// keeper's end) with a session, and that with a socket.
class Trunks final : private TrunkCarrier {
 public:
  struct Options {
    PortPlace port;
    Rate rate{LinkWidth::x4, LinkSpeed::hdr};
    std::optional<SocketAddress> listen;
    std::optional<SocketAddress> peer;
  };

  /// Both must outlive this.
  Trunks(ManagementNet& net, Keeper& keeper);

  /// Plugs a trunk in. EBUSY: the port has a cable, or a trunk; EINVAL; what the kernel says of the
  /// addresses. Returns the descriptors that the owner watches.
  Result<std::array<int, 2>> add(const Options& options, TimeNs now);
  /// Takes the trunk out of the port, or puts it in again. ENODEV: there is none.
  Result<void> set_cable(PortPlace port, bool is_in, TimeNs now);
  bool contains(PortPlace port) const { return trunks_.contains(port); }

  /// The descriptor is readable. False: it is none of these.
  bool note_ready(int fd);
  /// Takes in what has come. The net may have datagrams for programs then.
  void receive(TimeNs now);
  /// Sends what there is to send, and does what is due.
  void send(TimeNs now);
  /// Before the thread sleeps. False: there is something already.
  bool begin_sleep();
  TimeNs deadline() const;

  /// For `verbatim fabric show`, an element for each.
  nlohmann::ordered_json status() const;

 private:
  struct Trunk {
    PortPlace port;
    Rate rate;
    TrunkSocket socket;
    std::unique_ptr<TrunkEnd> end;
    trunk::Session session;
    std::string fault{};  // Why the link of this session does not come up.
    bool has_cable = true;
    bool is_readable = false;
  };

  void receive(Trunk& trunk, TimeNs now);
  void send(Trunk& trunk, TimeNs now);
  void on_departure(PortPlace port, const ManagementDatagram& datagram) override;
  void on_trunk_changed(PortPlace port) override;
  void on_event(Trunk& trunk, const trunk::Session::Event& event, TimeNs now);
  void on_up(Trunk& trunk, const trunk::Hello& peer, TimeNs now);
  Result<Rate> rate_with(const Trunk& trunk, const trunk::Hello& peer) const;
  void on_packet(Trunk& trunk, const trunk::Packet& packet, TimeNs now);
  void seek(Trunk& trunk, TimeNs now);
  std::optional<trunk::Offer> offer_of(const Trunk& trunk) const;

  ManagementNet& net_;
  Keeper& keeper_;
  std::map<PortPlace, Trunk> trunks_;
};

}  // namespace verbatim::fabric
