#include "agent/management/pending_disconnects.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "arena/arena_header.h"
#include "base/os/unique_fd.h"

namespace verbatim::agent {
namespace {

constexpr std::uint32_t kLocalId = 0x400005;
constexpr std::uint32_t kRemoteId = 0x800007;

Path path_to(std::uint8_t host, std::uint16_t port = kRocePort) {
  return roce_path(SocketAddress::ipv4({10, 0, 0, host}, port));
}

/// The arena of a program that was connected to host 2.
UniqueFd arena_with_connection() {
  UniqueFd fd(memfd_create("arena-for-test", MFD_CLOEXEC));
  arena::ArenaHeader header;
  header.connections.value = sizeof header;
  header.connection_count = 1;
  EXPECT_EQ(write(fd.get(), &header, sizeof header), ssize_t{sizeof header});
  arena::ConnectionRecord record;
  record.state = arena::ConnectionRecord::kEstablished;
  record.local_id = kLocalId;
  record.remote_id = kRemoteId;
  record.path = arena::flat_path_of(path_to(2));
  EXPECT_EQ(write(fd.get(), &record, sizeof record), ssize_t{sizeof record});
  return fd;
}

std::vector<std::byte> reply_to(std::uint32_t local_id) {
  std::vector<std::byte> bytes(wire::kMadBytes);
  wire::encode({1, wire::CmDrep{.local_id = static_cast<wire::CommunicationId>(kRemoteId),
                                .remote_id = static_cast<wire::CommunicationId>(local_id)}},
               std::span(bytes).first<wire::kMadBytes>());
  return bytes;
}

TEST(PendingDisconnects, ADisconnectRequestIsRepeatedUntilThePeerReplies) {
  PendingDisconnects farewells;
  farewells.add(arena_with_connection().get(), 0);
  std::vector<std::string> told;
  const auto tell = [&](const PendingDisconnects::Message& message) {
    told.push_back(path_text(message.path));
  };
  farewells.send_due(0, tell);
  farewells.send_due(0, tell);
  EXPECT_EQ(told, std::vector{path_text(path_to(2))});
  farewells.send_due(farewells.next_deadline(), tell);
  EXPECT_EQ(told.size(), 2u);

  const auto hears = [&](const Path& source, std::uint32_t local_id) {
    const auto reply = reply_to(local_id);
    farewells.on_mad(source, std::span(reply).first<wire::kMadBytes>());
    return farewells.empty();
  };
  EXPECT_FALSE(hears(path_to(3), kLocalId)) << "it does not come from the peer";
  EXPECT_FALSE(hears(path_to(2), kLocalId + 1));
  EXPECT_TRUE(hears(path_to(2, 1024), kLocalId));
}

TEST(PendingDisconnects, TheyEndWithoutAReply) {
  PendingDisconnects farewells;
  farewells.add(arena_with_connection().get(), 0);
  int times = 0;
  while (!farewells.empty()) {
    farewells.send_due(farewells.next_deadline(),
                       [&](const PendingDisconnects::Message&) { ++times; });
  }
  EXPECT_EQ(times, 5);
}

}  // namespace
}  // namespace verbatim::agent
