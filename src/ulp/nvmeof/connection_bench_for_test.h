#pragma once

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "ulp/nvmeof/ladder_for_test.h"
#include "ulp/nvmeof/portal.h"
#include "ulp/nvmeof/queue_connection.h"

/// A connection from its request on: each line is one input, and what comes of it.
namespace verbatim::ulp::nvmeof {

inline constexpr std::string_view kNqn = "nqn.2026-01.test:n1";
inline constexpr std::string_view kHost =
    "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-000000000000";
inline constexpr std::string_view kAdminRequest = "0000000020001f00";
inline constexpr std::string_view kIoRequest = "0000010080007f00";
inline constexpr std::string_view kConnect =
    "7f400000010000000000000000000000000000000000000000b88dca4bba2fff0004008df300004f"
    "000000001f0000008813";

inline std::vector<std::byte> padded(std::string_view hex, std::size_t bytes) {
  std::vector<std::byte> all = bytes_of(hex);
  all.resize(bytes);
  return all;
}

inline ConnectData linux_host() {
  ConnectData data{.subsystem = std::string(kNqn), .host = std::string(kHost)};
  const auto id = bytes_of("d2504e7c6615494eafba570c3946249a");
  std::ranges::copy(id, data.host_id.begin());
  return data;
}

/// A target of one disk, and one connection to it.
class ConnectionBench : public Ladder {
 public:
  explicit ConnectionBench(bool admits = true) {
    auto subsystem = Subsystem::create(std::string(kNqn));
    if (admits) subsystem->admit(std::string(kHost));
    EXPECT_TRUE(subsystem->add(1, {.unit = storage::UnitId{7}, .blocks = 131072}));
    EXPECT_TRUE(target.add(std::move(*subsystem)));
  }

  /// "accept" and the private data of the reply, or "reject" and its.
  std::string meet(std::string_view request, const Meeting& like = {.reads = {.initiator = 16}}) {
    Meeting meeting = like;
    meeting.private_data = to_private_data(padded(request, 56));
    auto verdict = portal.on_meeting(meeting, 0);
    if (const auto* const no = std::get_if<Rejection>(&verdict))
      return "reject " + hex_of({no->private_data.begin(), no->private_data.size()});
    auto& yes = std::get<storage::Accept>(verdict);
    session = std::move(yes.session);
    return "accept " + hex_of({yes.private_data.begin(), 8});
  }
  std::string in(std::vector<std::byte> capsule) {
    receive_ = std::move(capsule);
    const Message message{
        .receive = ReceiveId{5},
        .memory = {receive_.data(), static_cast<std::uint32_t>(receive_.size()), {}}};
    session->on_message(message, now, out_);
    return printed();
  }
  std::string in(std::string_view hex) { return in(padded(hex, AdminCommand::kSize)); }
  std::string in(const AdminCommand& command, ByteSpan data = {}) {
    std::vector<std::byte> capsule(AdminCommand::kSize + data.size());
    encode(command, std::span(capsule).first<AdminCommand::kSize>());
    std::ranges::copy(data, capsule.begin() + AdminCommand::kSize);
    return in(capsule);
  }
  std::string pages(std::uint32_t bytes, storage::StoreStatus status = storage::StoreStatus::done) {
    lent_ = {{page.data(), bytes, MemoryKey{1}}};
    session->on_pages(tag, status, lent_, now, out_);
    return printed();
  }
  std::string done(CompletionStatus status = CompletionStatus::success) {
    session->on_done(tag, status, now, out_);
    return printed();
  }
  std::string time(TimeNs at) {
    now = at;
    session->on_time(now, out_);
    return printed();
  }
  std::string end() {
    session->on_end(now, out_);
    return printed();
  }
  /// Connect with its data in the capsule, and what is enabled.
  std::string connect(std::uint16_t queue, const ConnectData& data,
                      std::uint32_t keep_alive = 5000) {
    AdminCommand command{
        .data = {.kind = DataDescriptor::Kind::in_capsule, .bytes = ConnectData::kSize}};
    put_connect(
        {.queue_id = queue, .commands = queue == 0 ? 32u : 128u, .keep_alive_ms = keep_alive},
        command);
    std::array<std::byte, ConnectData::kSize> bytes;
    encode(data, bytes);
    return in(command, bytes);
  }
  std::string enable() {
    AdminCommand command;
    put_property(FabricsType::property_set, {Property::configuration, false, 0x460001}, command);
    return in(command);
  }

  Target target{Limits{}};
  Portal portal{target, *SocketAddress::parse("10.0.0.1", 4420), 256};
  std::unique_ptr<storage::Session> session;
  std::array<std::byte, 8192> page{};
  TimeNs now = 1000;

 private:
  std::vector<std::byte> receive_;
  std::vector<Slice> lent_;
};

}  // namespace verbatim::ulp::nvmeof
