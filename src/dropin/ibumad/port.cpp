#include <array>
#include <bitset>
#include <cerrno>
#include <cstring>

#include <sys/socket.h>
#include <unistd.h>

#include "dropin/ibumad/host.h"
#include "dropin/ibumad/umad.h"
#include "dropin/ibverbs/refusal.h"

/// Open ports and their agents. A port's descriptor is the connection to the fabric's daemon: the
/// library keeps nothing about it, so close(2), dup(2) and fork(2) do what they do with a device.
namespace verbatim::ibumad {
namespace {

constexpr std::uint32_t kFlagsKnown = UMAD_USER_RMPP;

bool has_oui(unsigned management_class) {
  return management_class >= UMAD_CLASS_VENDOR_RANGE2_START &&
         management_class <= UMAD_CLASS_VENDOR_RANGE2_END;
}

Result<UniqueFd> open_port(const char* device, int number) {
  const auto host = describe_host();
  if (!host) return std::unexpected(host.error());
  if (auto ours = check_device(*host, device); !ours) return std::unexpected(ours.error());
  const auto port = choose_port(*host, number);
  if (!port) return std::unexpected(port.error());
  auto connection = connect_to_fabric();
  if (!connection) return connection;
  const protocol::OpenPort request{.host = host_name(),
                                   .port = static_cast<std::uint8_t>(port->number)};
  const auto opened = protocol::ask<protocol::Opened>(connection->get(), request);
  if (!opened) return std::unexpected(opened.error());
  return connection;
}

protocol::RegisterAgent request_of(const umad_reg_attr& wanted) {
  protocol::RegisterAgent request;
  request.management_class = wanted.mgmt_class;
  request.class_version = wanted.mgmt_class_version;
  request.rmpp_version = wanted.rmpp_version;
  request.has_own_rmpp = (wanted.flags & UMAD_USER_RMPP) != 0 ? 1 : 0;
  request.oui = wanted.oui;
  request.methods = {wanted.method_mask[0], wanted.method_mask[1]};
  return request;
}

Result<std::uint32_t> register_agent(int port, const umad_reg_attr& wanted) {
  const auto registered = protocol::ask_beside<protocol::Registered>(port, request_of(wanted));
  if (!registered) return std::unexpected(registered.error());
  return registered->agent;
}

/// The older calls' way to say it.
int register_or_refuse(const char* call, int port, umad_reg_attr wanted, const long* methods) {
  if (methods != nullptr) std::memcpy(wanted.method_mask, methods, sizeof wanted.method_mask);
  const auto agent = register_agent(port, wanted);
  if (agent) return static_cast<int>(*agent);
  errno = dropin::refused(call, agent.error());
  return -EPERM;
}

int opened_or_refused(const char* call, const char* device, int number) {
  auto opened = open_port(device, number);
  if (opened) return opened->release();
  errno = dropin::refused(call, opened.error());
  return errno == ENODEV ? -ENODEV : -EIO;
}

}  // namespace
}  // namespace verbatim::ibumad

using namespace verbatim;

extern "C" {

int umad_open_port(const char* ca_name, int portnum) {
  return ibumad::opened_or_refused("umad_open_port", ca_name, portnum);
}

/// The device's only port manages the subnet, too.
int umad_open_smi_port(const char* ca_name, int portnum) {
  return ibumad::opened_or_refused("umad_open_smi_port", ca_name, portnum);
}

int umad_close_port(int portid) {
  close(portid);
  return 0;
}

int umad_get_fd(int portid) { return portid; }

int umad_register(int portid, int mgmt_class, int mgmt_version, uint8_t rmpp_version,
                  long method_mask[16 / sizeof(long)]) {
  umad_reg_attr wanted{};
  wanted.mgmt_class = static_cast<uint8_t>(mgmt_class);
  wanted.mgmt_class_version = static_cast<uint8_t>(mgmt_version);
  wanted.rmpp_version = rmpp_version;
  if (ibumad::has_oui(wanted.mgmt_class)) wanted.oui = UMAD_OPENIB_OUI;
  return ibumad::register_or_refuse("umad_register", portid, wanted, method_mask);
}

int umad_register_oui(int portid, int mgmt_class, uint8_t rmpp_version, uint8_t oui[3],
                      long method_mask[16 / sizeof(long)]) {
  if (mgmt_class < 0 || !ibumad::has_oui(static_cast<unsigned>(mgmt_class))) return -EINVAL;
  umad_reg_attr wanted{};
  wanted.mgmt_class = static_cast<uint8_t>(mgmt_class);
  wanted.mgmt_class_version = 1;
  wanted.rmpp_version = rmpp_version;
  wanted.oui = static_cast<uint32_t>(oui[0] << 16 | oui[1] << 8 | oui[2]);
  return ibumad::register_or_refuse("umad_register_oui", portid, wanted, method_mask);
}

/// Returns errno values as positive numbers.
int umad_register2(int port_fd, umad_reg_attr* attr, uint32_t* agent_id) {
  if ((attr->flags & ~ibumad::kFlagsKnown) != 0) {
    attr->flags = ibumad::kFlagsKnown;
    return EINVAL;
  }
  const auto agent = ibumad::register_agent(port_fd, *attr);
  if (!agent) return dropin::refused("umad_register2", agent.error());
  *agent_id = *agent;
  return 0;
}

int umad_unregister(int portid, int agentid) {
  const auto done = ibumad::protocol::ask_beside<ibumad::protocol::Done>(
      portid, ibumad::protocol::UnregisterAgent{.agent = static_cast<uint32_t>(agentid)});
  return done ? 0 : dropin::refused_minus_one("umad_unregister", done.error());
}

}  // extern "C"
