#include "dropin/ibverbs/fabric/fabric_management.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <sys/socket.h>

#include "fabric/protocol/fabric_folder.h"
#include "fabric/protocol/mad_address.h"
#include "wire/mad/cm_message.h"

namespace verbatim::dropin {
namespace {

namespace protocol = fabric::protocol;

constexpr std::uint32_t kTries = 10;  // As Linux, which divides the time-out by them.

Result<UniqueFd> connect_to(const arena::Node& node) {
  const auto folder = protocol::FabricFolder::of(std::string(node.fabric.view()));
  if (!folder) return std::unexpected(folder.error());
  return folder->connect();
}

/// Without methods: requests of the class go to other agents.
Result<std::uint32_t> register_agent(int port, wire::MadClass management_class,
                                     std::uint8_t version) {
  const auto registered = protocol::ask_beside<protocol::Registered>(
      port,
      protocol::RegisterAgent{.management_class = raw(management_class), .class_version = version});
  if (!registered) return std::unexpected(registered.error());
  return registered->agent;
}

/// Checks what a program computes with: the MTU, and that the path needs no GRH.
Result<wire::PathRecord> checked(const wire::PathRecord& record) {
  if (record.hop_limit > 1) {
    return refuse(EOPNOTSUPP, "the path leads through a router, and connections have no GRH");
  }
  if (record.mtu < raw(Mtu::k256) || record.mtu > raw(Mtu::k4096)) {
    return refuse(EPROTO, fmt::format("a path record with the MTU {}", record.mtu));
  }
  return record;
}

Result<wire::PathRecord> record_of(const wire::PathAnswer& answer) {
  if (answer.record) return checked(*answer.record);
  return refuse(
      EINVAL, fmt::format("the subnet administrator knows no path (status {:#x})", answer.status));
}

}  // namespace

Result<std::unique_ptr<FabricManagement>> FabricManagement::open(const arena::Node& node) {
  auto connection = connect_to(node);
  if (!connection) return std::unexpected(connection.error());
  protocol::OpenPort port{.port = 1};
  protocol::put_text(port.host, fmt::format("{:#x}", node.guid));
  const auto opened = protocol::ask<protocol::Opened>(connection->get(), port);
  if (!opened) return std::unexpected(opened.error());
  const auto cm = register_agent(connection->get(), wire::MadClass::communication_management,
                                 wire::kCmClassVersion);
  if (!cm) return std::unexpected(cm.error());
  const auto sa = register_agent(connection->get(), wire::MadClass::subnet_administration,
                                 wire::kSaClassVersion);
  if (!sa) return std::unexpected(sa.error());
  return std::unique_ptr<FabricManagement>(
      new FabricManagement(std::move(*connection), {.cm = *cm, .sa = *sa}));
}

Result<void> FabricManagement::start(adapter::Progress& progress) {
  return progress.watch(connection_.get(), [this, &progress] { receive(progress); });
}

Result<void> FabricManagement::send_cm(const InfinibandPath& path, wire::MadSpan mad) {
  const protocol::SentMad message{.record = {.agent = agents_.cm,
                                             .length = static_cast<std::uint32_t>(mad.size()),
                                             .address = protocol::management_address(path)}};
  return protocol::send_mad(connection_.get(), message, mad, MSG_DONTWAIT);
}

Result<void> FabricManagement::find_path(const arena::InfinibandPort& port, const Gid& source,
                                         const Gid& destination, TimeNs timeout, OnPath on_path) {
  if (port.sm_lid == Lid{}) return refuse(EAGAIN, "the port has no subnet manager yet");
  std::uint32_t query = 0;
  {
    const std::lock_guard guard(lock_);
    if (queries_.size() >= kQueriesMax) return refuse(ENOBUFS, "too many paths are asked for");
    while (queries_.contains(++last_query_)) {
    }
    query = last_query_;
    queries_.emplace(query, std::move(on_path));
  }
  const PKey pkey = port.pkeys.empty() ? kDefaultPKey : PKey{port.pkeys[0]};
  std::array<std::byte, wire::kMadBytes> mad;
  wire::encode(
      wire::PathQuery{
          .transaction = query, .destination = destination, .source = source, .pkey = raw(pkey)},
      mad);
  const auto each_ms = static_cast<std::uint32_t>(timeout / kMillisecond / kTries);
  const protocol::SentMad message{
      .record = {.agent = agents_.sa,
                 .timeout_ms = std::max(each_ms, std::uint32_t{1}),
                 .retries = kTries - 1,
                 .length = wire::kMadBytes,
                 .address = protocol::management_address({.dlid = port.sm_lid,
                                                          .slid = port.lid,
                                                          .service_level = port.sm_service_level,
                                                          .grh = std::nullopt})}};
  auto sent = protocol::send_mad(connection_.get(), message, mad, MSG_DONTWAIT);
  if (sent) return sent;
  const std::lock_guard guard(lock_);
  queries_.erase(query);
  return sent;
}

/// In the background thread.
void FabricManagement::receive(adapter::Progress& progress) {
  for (;;) {
    const auto incoming = receiver_.receive(connection_.get(), MSG_DONTWAIT);
    if (!incoming && incoming.error().code == EAGAIN) return;
    if (!incoming) {
      progress.unwatch(connection_.get());
      return end();
    }
    const auto message = protocol::decode_mad(incoming->bytes, protocol::MessageType::received_mad);
    if (message) on_message(*message);
  }
}

/// A request that has failed comes back itself; its transaction id has our number in both cases, in
/// the lower half.
void FabricManagement::on_message(const protocol::MadMessage& message) {
  constexpr std::size_t kTransactionEnd = 16;
  const ByteSpan bytes = message.inline_bytes;
  if (message.record.agent != agents_.sa || bytes.size() < kTransactionEnd) return;
  const auto query = load_be<std::uint32_t>(&bytes[kTransactionEnd - sizeof(std::uint32_t)]);
  if (message.record.status != 0) {
    const auto error = static_cast<int>(message.record.status);
    return answer(query,
                  refuse(error, fmt::format("the subnet administrator: {}", std::strerror(error))));
  }
  const auto decoded = wire::decode_path_answer(bytes);
  if (!decoded) return answer(query, refuse(EPROTO, "the answer is no path record"));
  answer(query, record_of(*decoded));
}

void FabricManagement::answer(std::uint32_t query, const Result<wire::PathRecord>& result) {
  OnPath on_path;
  {
    const std::lock_guard guard(lock_);
    auto found = queries_.extract(query);
    if (found.empty()) return;
    on_path = std::move(found.mapped());
  }
  on_path(result);
}

void FabricManagement::end() {
  std::map<std::uint32_t, OnPath> left;
  {
    const std::lock_guard guard(lock_);
    left.swap(queries_);
  }
  for (const auto& [query, on_path] : left) on_path(refuse(ENETDOWN, "the fabric has ended"));
}

Result<Gid> find_gid(const arena::Node& node, const SocketAddress& address) {
  const auto connection = connect_to(node);
  if (!connection) return std::unexpected(connection.error());
  const auto found = protocol::ask<protocol::HostGid>(
      connection->get(), protocol::GidRequest{.address = address.ipv4_bytes()});
  if (!found) return std::unexpected(found.error());
  return Gid{found->gid};
}

}  // namespace verbatim::dropin
