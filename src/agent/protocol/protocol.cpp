#include "agent/protocol/protocol.h"

#include <algorithm>

#include <sys/socket.h>

#include "agent/protocol/descriptors.h"

namespace verbatim::agent {
namespace {

constexpr std::size_t kMessageBytesMax = 4096;
static_assert(sizeof(Welcome) <= kMessageBytesMax);

}  // namespace

MessageType Incoming::type() const {
  Header header{.magic = 0};
  if (bytes.size() >= sizeof header) std::memcpy(&header, bytes.data(), sizeof header);
  return header.magic == Header::kMagic ? header.type : MessageType{};
}

Result<void> Incoming::check(MessageType wanted, std::size_t size) const {
  Header header{.magic = 0};
  if (bytes.size() >= sizeof header) std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != Header::kMagic) return refuse(EPROTO, "not a message of Verbatim's");
  if (header.version != kProtocolVersion) {
    return refuse(
        EPROTONOSUPPORT,
        fmt::format("the other side speaks version {} of the agent's protocol, this one {}: "
                    "program and agent come from different releases",
                    header.version, kProtocolVersion));
  }
  if (header.type != wanted || bytes.size() != size) {
    return refuse(EPROTO,
                  fmt::format("a message of type {:#x} and {} bytes instead of {:#x} and {}",
                              raw(header.type), bytes.size(), raw(wanted), size));
  }
  return {};
}

Result<Incoming> receive(int fd, int flags) {
  Incoming incoming;
  incoming.bytes.resize(kMessageBytesMax);
  ControlBuffer control;
  iovec piece{incoming.bytes.data(), incoming.bytes.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  control.receive_into(message);
  ssize_t length;
  do {
    length = recvmsg(fd, &message, flags | MSG_CMSG_CLOEXEC);
  } while (length < 0 && errno == EINTR);
  if (length < 0) return refuse_errno("cannot receive");
  if (length == 0) return refuse(kClosed, "the other side is gone");
  incoming.descriptors = take_descriptors(message);
  incoming.bytes.resize(static_cast<std::size_t>(length));
  if ((message.msg_flags & MSG_TRUNC) != 0) {
    return refuse(EPROTO, "a message with more bytes than any has");
  }
  // There is room for as many descriptors as the kernel passes.
  if ((message.msg_flags & MSG_CTRUNC) != 0) {
    return refuse(EMFILE,
                  "no descriptor is left in this process (ulimit -n) for those that came "
                  "with a message");
  }
  return incoming;
}

Result<void> send_bytes(int fd, std::span<const std::byte> bytes, std::span<const int> descriptors,
                        int flags) {
  iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  ControlBuffer control;
  control.put(message, descriptors);
  ssize_t length;
  do {
    length = sendmsg(fd, &message, flags | MSG_NOSIGNAL);
  } while (length < 0 && errno == EINTR);
  if (length < 0) return refuse_errno("cannot send");
  return {};
}

void put_text(std::span<char> field, std::string_view text) {
  const std::size_t length = std::min(text.size(), field.size() - 1);
  std::ranges::copy(text.substr(0, length), field.begin());
  std::ranges::fill(field.subspan(length), '\0');
}

std::string get_text(std::span<const char> field) {
  std::string text(field.begin(), std::ranges::find(field, '\0'));
  std::ranges::replace_if(text, [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

AddressRecord to_record(const SocketAddress& address) {
  return {address.ipv6_bytes(), address.scope_id(), address.port(), address.is_ipv4()};
}

SocketAddress from_record(const AddressRecord& record) {
  const auto& b = record.bytes;
  if (record.is_ipv4 != 0) return SocketAddress::ipv4({b[12], b[13], b[14], b[15]}, record.port);
  return SocketAddress::ipv6(b, record.port, record.scope_id);
}

NodeRecord to_record(const NodeDescription& node) {
  NodeRecord record;
  put_text(record.name, node.name);
  put_text(record.interface, node.interface);
  record.guid = node.guid;
  record.interface_index = node.interface_index;
  record.mac = node.mac;
  record.protocol = node.protocol;
  record.agent_pid = node.agent_pid;
  record.port = {.addresses = node.port.addresses,
                 .is_present = node.port.is_present,
                 .is_active = node.port.is_active,
                 .hardware_address = node.port.hardware_address,
                 .interface_mtu_bytes = node.port.interface_mtu_bytes};
  put_text(record.device, node.device);
  put_text(record.profile, node.profile);
  put_text(record.firmware, node.firmware);
  record.limits = node.limits;
  record.enforces_memlock = node.enforces_memlock;
  for (const auto& address : node.addresses) {
    record.addresses[record.address_count++] = to_record(address);
  }
  for (const auto& entry : node.gids) {
    record.gids[record.gid_count++] = {entry.gid.bytes, entry.address};
  }
  return record;
}

Result<NodeDescription> from_record(const NodeRecord& record) {
  const bool counts_fit = record.address_count >= 1 && record.address_count <= kAddressesMax &&
                          record.gid_count <= kGidsMax;
  if (!counts_fit) return refuse(EPROTO, "a node description out of range");
  NodeDescription node;
  node.name = get_text(record.name);
  node.interface = get_text(record.interface);
  node.guid = record.guid;
  node.interface_index = record.interface_index;
  node.mac = record.mac;
  node.protocol = record.protocol;
  node.agent_pid = record.agent_pid;
  node.port = {.is_present = record.port.is_present != 0,
               .is_active = record.port.is_active != 0,
               .addresses = record.port.addresses,
               .hardware_address = record.port.hardware_address,
               .interface_mtu_bytes = record.port.interface_mtu_bytes};
  node.device = get_text(record.device);
  node.profile = get_text(record.profile);
  node.firmware = get_text(record.firmware);
  node.limits = record.limits;
  node.enforces_memlock = record.enforces_memlock != 0;
  for (std::uint32_t i = 0; i < record.address_count; ++i) {
    node.addresses.push_back(from_record(record.addresses[i]));
  }
  for (std::uint32_t i = 0; i < record.gid_count; ++i) {
    if (record.gids[i].address >= record.address_count) {
      return refuse(EPROTO, "a GID without an address");
    }
    node.gids.push_back({Gid{record.gids[i].bytes}, record.gids[i].address});
  }
  return node;
}

}  // namespace verbatim::agent
