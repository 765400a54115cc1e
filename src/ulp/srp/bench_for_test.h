#pragma once

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/overloaded.h"
#include "ulp/scsi/text_for_test.h"
#include "ulp/srp/channel.h"
#include "ulp/srp/service.h"
#include "ulp/storage/store_bench_for_test.h"

/// A port with one unit of 1,000 blocks, for tests; its store answers when it is told to.
namespace verbatim::ulp::srp {

inline constexpr std::uint32_t kBlock = 512;
inline PortId port_id(std::uint8_t last) {
  PortId id{};
  id[15] = std::byte{last};
  return id;
}

class TargetBench {
 public:
  explicit TargetBench(const Ports::Limits& limits = {.channels = 3,
                                                      .channels_per_session = 2,
                                                      .requests = 8})
      : memory_(std::size_t{limits.channels} * Ports::kPiecesPerChannel *
                scsi::LogicalUnit::kMemoryBytes) {
    for (std::size_t at = 0; at < memory_.size(); at += scsi::LogicalUnit::kMemoryBytes)
      pieces_.push_back({&memory_[at], scsi::LogicalUnit::kMemoryBytes, MemoryKey{3}});
    ports = std::make_unique<Ports>(limits, pieces_);
    port = *ports->add(Port(port_id(2), "target"));
    EXPECT_TRUE(port->add(0, unit));
    port->admit(port_id(3));
  }
  static scsi::UnitSettings settings() {
    scsi::UnitSettings settings;
    settings.blocks = 1000;
    settings.can_unmap = true;
    settings.ports = {1};
    return settings;
  }
  static LoginRequest login_of(std::uint8_t action = 0) {
    return {.tag = 5,
            .request_bytes = 8260,
            .flags = static_cast<std::uint8_t>(kImmediateData | action),
            .immediate_offset = 68,
            .initiator = port_id(3),
            .target = port_id(2)};
  }
  storage::Verdict meet(const LoginRequest& login, std::uint8_t reads = 4) {
    Meeting meeting{.own = SocketAddress::ipv4({10, 0, 0, 1}, 4242),
                    .reads = {.initiator = reads, .responder = 0}};
    meeting.private_data = to_private_data(ByteSpan(encode(login, LoginForm::rdma_cm)).first(56));
    return Service(*ports).on_meeting(meeting, 0);
  }

  scsi::LogicalUnit unit{storage::UnitId{7}, {}, settings()};
  std::unique_ptr<Ports> ports;
  Port* port = nullptr;
  std::vector<std::byte> disk = std::vector<std::byte>(1000 * kBlock);

 private:
  std::vector<std::byte> memory_;
  std::vector<Slice> pieces_;
};

/// A command's message. Ranges are described inline, or only the first `inlined` of them.
struct CommandText {
  std::uint64_t tag = 1;
  std::uint64_t lun = 0;
  std::uint8_t attribute = 0;
  bool writes = false;
  std::vector<std::byte> cdb{};
  std::vector<RemoteRange> ranges{};
  RemoteRange table{};  // Of an indirect one.
  std::size_t inlined = 255;
  bool is_indirect = false;
  std::vector<std::byte> immediate{};

  static void add(std::vector<std::byte>& out, const RemoteRange& range) {
    const std::size_t at = out.size();
    out.resize(at + 16);
    store_be(&out[at], range.address);
    store_be(&out[at + 8], raw(range.remote_key));
    store_be(&out[at + 12], range.bytes);
  }
  std::vector<std::byte> bytes() const {
    std::vector<std::byte> out(Command::kSize);
    out[0] = std::byte{raw(Opcode::command)};
    store_be(&out[kTagAt], tag);
    store_be(&out[20], lun);
    out[29] = std::byte{attribute};
    std::ranges::copy(cdb, &out[32]);
    const std::size_t count = std::min(inlined, ranges.size());
    unsigned format = ranges.empty() ? 0 : is_indirect ? 2 : 1;
    if (!immediate.empty()) format = 3;
    out[5] = static_cast<std::byte>(writes ? format << 4 : format);
    if (format == 2) {
      out[writes ? 6 : 7] = static_cast<std::byte>(count);
      add(out, table);
      out.resize(out.size() + 4);
      std::uint32_t all = 0;
      for (const RemoteRange& range : ranges) all += range.bytes;
      store_be(&out[out.size() - 4], all);
    }
    if (format == 3) {
      out.resize(68);
      store_be(&out[48], static_cast<std::uint32_t>(immediate.size()));
      out.insert(out.end(), immediate.begin(), immediate.end());
      return out;
    }
    for (std::size_t i = 0; i < count; ++i) add(out, ranges[i]);
    return out;
  }
};

/// READ (10) or WRITE (10).
inline std::vector<std::byte> blocks_cdb(bool writes, std::uint32_t from, std::uint16_t blocks) {
  std::vector<std::byte> cdb(10);
  cdb[0] = std::byte{writes ? std::uint8_t{0x2a} : std::uint8_t{0x28}};
  store_be(&cdb[2], from);
  store_be(&cdb[7], blocks);
  return cdb;
}

}  // namespace verbatim::ulp::srp
