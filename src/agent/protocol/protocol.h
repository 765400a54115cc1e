#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "agent/protocol/node.h"
#include "arena/flat_path.h"
#include "base/error.h"
#include "base/inplace_text.h"
#include "base/os/unique_fd.h"

/// Messages between programs and the agent over NODE.sock (SOCK_SEQPACKET): one structure per
/// message, in the machine's byte order, with descriptors.
///
///     program                                 agent
///     Hello (shared files)               ->
///                                        <-   Welcome (descriptor store, slot lock, sockets) or
///                                        Refusal
///     Rejoin (descriptor store, shared files)    ->                   to an agent that replaces a
///     dead one
///                                        <-   Rejoined or Refusal
///     DescriptionRequest                 ->
///                                        <-   Description
///     StatusRequest                      ->
///                                        <-   Status (memfd with JSON text)
///     PeerRequest                        ->                   for the direct path
///                                        <-   Peer (arena, memory, doorbell) or Refusal
///     OpenBindings (socket)              ->                   the other end of a socket pair
///                                        <-   Mad            a management datagram for the program
///                                        <-   Description    the node's port or addresses have
///                                                            changed (sockets of those added)
///                                        <-   LinkOrder      capture and faults have changed
///     CaptureOffer (ring)                ->
///
///     command                                 agent
///     CaptureRequest                     ->                   until the connection ends
///                                        <-   CaptureStarted or Refusal
///                                        <-   CapturedProgram (ring)    one for each program
///     CaptureSync                        ->
///                                        <-   CaptureSynced             after those of all offers
///                                        so far
///     FaultRequest                       ->
///                                        <-   NodeFaults or Refusal
///
///     agent of another node                   agent
///     GiveWay                            ->
///                                        <-   Refusal: it has programs; else it leaves
///
/// And over a separate socket pair, on which no other message delays an answer:
///
///     BindingRequest                     ->
///                                        <-   BindingAnswer or Refusal
namespace verbatim::agent {

/// Counts up with every change of a structure below: program and agent must agree.
inline constexpr std::uint16_t kProtocolVersion = 18;

enum class MessageType : std::uint16_t {
  hello = 1,
  rejoin,
  description_request,
  status_request,
  open_bindings,
  binding_request,
  peer_request,
  capture_request,
  capture_offer,
  capture_sync,
  fault_request,
  give_way,
  welcome = 0x100,
  rejoined,
  description,
  status,
  refusal,
  binding_answer,
  mad,
  peer,
  link_order,
  capture_started,
  captured_program,
  capture_synced,
  node_faults,
};

struct Header {
  std::uint32_t magic = kMagic;
  std::uint16_t version = kProtocolVersion;
  MessageType type{};
  static constexpr std::uint32_t kMagic = 0x56726274;  // "Vrbt"
};

struct AddressRecord {
  std::array<std::uint8_t, 16> bytes{};  // An IPv4 address as ::ffff:a.b.c.d.
  std::uint32_t scope_id = 0;
  std::uint16_t port = 0;
  std::uint16_t is_ipv4 = 0;
};

/// Text in all records ends with a zero.
using DeviceNameText = std::array<char, config::kDeviceNameMax + 1>;
using ProfileText = std::array<char, 32>;

/// A plan of faults, as link::FaultPlan reads it.
using FaultText = std::array<char, 1024>;

/// What a node's programs do with packets besides sending and receiving them.
struct LinkOrders {
  std::uint64_t capture = 0;  // The number of the capture that goes on; 0: there is none.
  FaultText faults{};         // Empty: nobody has said. Programs keep what they began with.
};

/// The node that a program or command asks for. A node with programs has it or refuses; an agent
/// without programs gives way to the next one if it is another.
struct WantedNode {
  std::uint64_t configuration = 0;  // config::digest_of all its values; 0: they have a fault.
  std::uint32_t address_count = 0;  // 0: those of the running node.
  std::array<AddressRecord, kAddressesMax> addresses{};
  std::uint32_t version_count = 0;  // 0: those of the running node.
  std::array<RoceVersion, config::kRoceVersionsMax> versions{};
  std::uint8_t names_protocol = 0;  // If 0: that of the running node.
  WireProtocol protocol = WireProtocol::roce;
  DeviceNameText device{};  // A name or a rule; empty: whatever the node has.
  ProfileText profile{};    // Empty: whatever the node has.
  InplaceText<63> fabric{};
  InplaceText<64> host{};       // Of `fabric`; empty: whatever the node has.
  InplaceText<127> function{};  // Of a card; empty: whatever the node has.
};

struct Hello {
  static constexpr MessageType kType = MessageType::hello;
  Header header{.type = kType};
  std::array<char, 64> program_name{};
  WantedNode wanted;
  // Descriptors: none, the arena, or arena, memory and doorbell.
};

struct Welcome {
  static constexpr MessageType kType = MessageType::welcome;
  Header header{.type = kType};
  std::uint32_t slot = 0;
  std::int64_t since_seconds = 0;  // Unix time.
  Node node;
  LinkOrders links;  // In time for the program's first packet.
  // Descriptors: descriptor store in and out, slot lock, then a socket for each address.
  static constexpr std::size_t kFixedDescriptors = 3;
};

struct Rejoin {
  static constexpr MessageType kType = MessageType::rejoin;
  Header header{.type = kType};
  std::uint32_t slot = 0;
  std::int64_t since_seconds = 0;
  std::array<char, 64> program_name{};
  std::uint32_t address_count = 0;  // That the program has sockets for.
  FaultText faults{};               // As the agent before said, for programs to come.
  // Descriptors: descriptor store in and out, then as in Hello.
  static constexpr std::size_t kFixedDescriptors = 2;
};

struct Rejoined {
  static constexpr MessageType kType = MessageType::rejoined;
  Header header{.type = kType};
};

struct DescriptionRequest {
  static constexpr MessageType kType = MessageType::description_request;
  Header header{.type = kType};
  std::uint8_t is_of_any_node = 0;  // `wanted` does not count.
  std::uint8_t keeps_node = 0;      // As a program does, until the connection ends.
  WantedNode wanted;
};

struct Description {
  static constexpr MessageType kType = MessageType::description;
  Header header{.type = kType};
  Node node;
  // Descriptors: to a program, a socket for each address that it has not been told of.
};

struct StatusRequest {
  static constexpr MessageType kType = MessageType::status_request;
  Header header{.type = kType};
};

struct Status {
  static constexpr MessageType kType = MessageType::status;
  Header header{.type = kType};
  std::uint64_t size = 0;  // Bytes of text in the memfd.
};

struct PeerRequest {
  static constexpr MessageType kType = MessageType::peer_request;
  Header header{.type = kType};
  std::uint32_t slot = 0;
};

struct Peer {
  static constexpr MessageType kType = MessageType::peer;
  Header header{.type = kType};
  // Descriptors: arena, memory, doorbell.
  static constexpr std::size_t kDescriptors = 3;
};

struct Refusal {
  static constexpr MessageType kType = MessageType::refusal;
  Header header{.type = kType};
  std::int32_t code = 0;
  std::array<char, 508> text{};
};

struct OpenBindings {
  static constexpr MessageType kType = MessageType::open_bindings;
  Header header{.type = kType};
  // Descriptor: the agent's end of the socket pair.
};

enum class BindingOperation : std::uint16_t { bind = 1, listen, release, restore };

/// `bind` and `restore` need all fields, the others only the handle.
struct BindingRequest {
  static constexpr MessageType kType = MessageType::binding_request;
  Header header{.type = kType};
  BindingOperation operation{};
  PortSpace port_space{};
  std::uint64_t handle = 0;
  ServiceRange services;  // A mask of 0: the address's port.
  AddressRecord address;
  std::uint16_t reuses_address = 0;
  std::uint16_t own_family_only = 0;
  std::uint16_t listens = 0;  // `restore`: an earlier agent's grant.
};

struct BindingAnswer {
  static constexpr MessageType kType = MessageType::binding_answer;
  Header header{.type = kType};
  std::uint16_t port = 0;  // 0: services that are no port.
};

struct MadMessage {
  static constexpr MessageType kType = MessageType::mad;
  Header header{.type = kType};
  std::uint32_t address = 0;  // Of the node's: which one it was sent to.
  arena::FlatPath source;
  std::uint32_t source_qpn = 0;
  std::uint16_t pkey_index = 0;
  std::array<std::byte, kMadBytes> bytes{};
};

struct LinkOrder {
  static constexpr MessageType kType = MessageType::link_order;
  Header header{.type = kType};
  LinkOrders links;
};

struct CaptureRequest {
  static constexpr MessageType kType = MessageType::capture_request;
  Header header{.type = kType};
  WantedNode wanted;
};

struct CaptureStarted {
  static constexpr MessageType kType = MessageType::capture_started;
  Header header{.type = kType};
  std::uint32_t programs = 0;  // That run now.
};

/// A program's answer to a capture.
struct CaptureOffer {
  static constexpr MessageType kType = MessageType::capture_offer;
  Header header{.type = kType};
  std::uint64_t capture = 0;
  std::array<char, 256> failure{};  // Why there is no ring; else empty.
  // Descriptor: the ring, or none.
};

/// To who captures: a ring, or a program of which there is something to say.
struct CapturedProgramMessage {
  static constexpr MessageType kType = MessageType::captured_program;
  Header header{.type = kType};
  std::int32_t pid = 0;  // 0: it lives in another process namespace.
  std::uint32_t slot = 0;
  std::array<char, 64> name{};
  std::uint32_t is_direct = 0;  // Peers of this machine reach it on the direct path.
  std::array<char, 256> failure{};
  // Descriptor: the ring, or none.
};

/// Of who captures: programs that have ended may have left offers that the agent has not read.
struct CaptureSync {
  static constexpr MessageType kType = MessageType::capture_sync;
  Header header{.type = kType};
};

struct CaptureSynced {
  static constexpr MessageType kType = MessageType::capture_synced;
  Header header{.type = kType};
};

/// Sets the faults of a node's programs, those to come, too; with an empty text it only asks.
struct FaultRequest {
  static constexpr MessageType kType = MessageType::fault_request;
  Header header{.type = kType};
  FaultText faults{};
};

struct NodeFaultsMessage {
  static constexpr MessageType kType = MessageType::node_faults;
  Header header{.type = kType};
  FaultText faults{};
  std::uint32_t programs = 0;
};

/// Of the agent of another node, which wants an address or interface that this node has.
struct GiveWay {
  static constexpr MessageType kType = MessageType::give_way;
  Header header{.type = kType};
};

/// A message that came: bytes of some length and the descriptors beside them.
struct Incoming {
  std::vector<std::byte> bytes;
  std::vector<UniqueFd> descriptors;

  MessageType type() const;
  /// Returns the message as a `T`, or why it is none (EPROTO: type or length; EPROTONOSUPPORT:
  /// version).
  template <typename T>
  Result<T> as() const {
    static_assert(std::is_trivially_copyable_v<T>);
    if (auto fitting = check(T::kType, sizeof(T)); !fitting) {
      return std::unexpected(fitting.error());
    }
    T message;
    std::memcpy(&message, bytes.data(), sizeof message);
    return message;
  }

 private:
  Result<void> check(MessageType type, std::size_t size) const;
};

/// The code of `receive` after the other side has closed.
inline constexpr int kClosed = ECONNRESET;

/// Returns one message, or an errno value: kClosed at the end, EAGAIN if there is none (with
/// MSG_DONTWAIT, or after the socket's timeout).
Result<Incoming> receive(int fd, int flags = 0);
Result<void> send_bytes(int fd, std::span<const std::byte> bytes, std::span<const int> descriptors,
                        int flags);
template <typename T>
Result<void> send(int fd, const T& message, std::span<const int> descriptors = {}, int flags = 0) {
  static_assert(std::is_trivially_copyable_v<T>);
  return send_bytes(fd, std::as_bytes(std::span(&message, 1)), descriptors, flags);
}

/// Copies text to a fixed-length field; cuts it if it is too long, and always adds a zero.
void put_text(std::span<char> field, std::string_view text);
/// Returns the text up to the first zero; '?' replaces all but printable ASCII.
std::string get_text(std::span<const char> field);

AddressRecord to_record(const SocketAddress& address);
SocketAddress from_record(const AddressRecord& record);

}  // namespace verbatim::agent
