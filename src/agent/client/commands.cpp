#include <algorithm>
#include <cstdio>

#include <sys/mman.h>
#include <sys/stat.h>

#include "agent/client/agent_request.h"
#include "agent/client/client.h"
#include "agent/protocol/claims.h"
#include "service/folder.h"

namespace verbatim::agent {
namespace {

Result<Node> describe(int connection, const DescriptionRequest& request) {
  auto answered = ask<Description>(connection, request);
  if (!answered) return std::unexpected(answered.error());
  return arena::checked(answered->message.node);
}

}  // namespace

Result<std::vector<std::string>> list_nodes() {
  auto folder = service::RuntimeFolder::open();
  if (!folder) return std::unexpected(folder.error());
  std::vector<std::string> running;
  for (const auto& node : folder->nodes()) {
    if (service::connect_to(folder->socket(node))) running.push_back(node);
  }
  folder->remove_if_empty();
  return running;
}

Result<Node> start_node(const AgentOptions& options) {
  const auto wanted = wanted_node(options);
  if (!wanted) return std::unexpected(wanted.error());
  return with_agent(options, [&](UniqueFd connection) {
    return describe(connection.get(), {.wanted = *wanted});
  });
}

Result<UniqueFd> hold_node(const AgentOptions& options) {
  const auto wanted = wanted_node(options);
  if (!wanted) return std::unexpected(wanted.error());
  return with_agent(options, [&](UniqueFd connection) -> Result<UniqueFd> {
    // An agent answers while it serves, not while it exits.
    const DescriptionRequest request{.keeps_node = 1, .wanted = *wanted};
    if (auto described = describe(connection.get(), request); !described) {
      return std::unexpected(described.error());
    }
    return connection;
  });
}

Result<std::string> view_folder(const std::string& node) {
  auto folder = service::RuntimeFolder::open();
  if (!folder) return std::unexpected(folder.error());
  folder->remove_if_empty();
  return folder->view(node);
}

Result<Node> node_description(const std::string& node) {
  auto connection = connect_to_running(node);
  if (!connection) return std::unexpected(connection.error());
  return describe(connection->get(), {.is_of_any_node = 1});
}

Result<PeerFiles> request_peer(const SocketAddress& address, std::uint32_t slot) {
  auto folder = service::RuntimeFolder::open();
  if (!folder) return std::unexpected(folder.error());
  const auto node = node_with_address(*folder, address);
  if (!node) return std::unexpected(node.error());
  return request_peer(*node, slot);
}

Result<PeerFiles> request_peer(const std::string& node, std::uint32_t slot) {
  auto connection = connect_to_running(node);
  if (!connection) return std::unexpected(connection.error());
  auto answered = ask<Peer>(connection->get(), PeerRequest{.slot = slot});
  if (!answered) return std::unexpected(answered.error());
  auto& files = answered->descriptors;
  if (files.size() != Peer::kDescriptors) return refuse(EPROTO, "a peer without its files");
  return PeerFiles{std::move(files[0]), std::move(files[1]), std::move(files[2])};
}

Result<SocketAddress> ipv4_of_node_with(const SocketAddress& address) {
  auto folder = service::RuntimeFolder::open();
  if (!folder) return std::unexpected(folder.error());
  const auto name = node_with_address(*folder, address);
  if (!name) return std::unexpected(name.error());
  const auto node = node_description(*name);
  if (!node) return std::unexpected(node.error());
  const auto found = std::ranges::find_if(node->addresses, &SocketAddress::is_ipv4);
  if (found != node->addresses.end()) return *found;
  return refuse(ENOENT, fmt::format("node '{}' has no IPv4 address", *name));
}

Result<std::string> request_status(const std::string& node, TimeNs patience) {
  auto connection = connect_to_running(node, patience);
  if (!connection) return std::unexpected(connection.error());
  auto answered = ask<Status>(connection->get(), StatusRequest{});
  if (!answered) return std::unexpected(answered.error());
  if (answered->descriptors.size() != 1) return refuse(EPROTO, "a status without its text");
  std::string text(answered->message.size, '\0');
  const auto length = pread(answered->descriptors[0].get(), text.data(), text.size(), 0);
  if (length < 0) return refuse_errno("cannot read the status");
  text.resize(static_cast<std::size_t>(length));
  return text;
}

}  // namespace verbatim::agent
