#include "ulp/nvmeof/notices/notices.h"

#include <gtest/gtest.h>

#include "ulp/nvmeof/connection_bench_for_test.h"

/// What hosts are told of changes, and how groups of namespaces answer by their states.
namespace verbatim::ulp::nvmeof {
namespace {

constexpr std::uint32_t kAll = 0xffffffff;

SubsystemSettings settings_of(std::vector<std::uint32_t> ids) {
  SubsystemSettings settings{.admits_any_host = true};
  for (const std::uint32_t id : ids)
    settings.spaces[id] = {.unit = storage::UnitId{id}, .blocks = 1000, .group = id};
  return settings;
}

/// An admin queue whose host wants to be told, and the subsystem that changes.
class NoticeBench : public ConnectionBench {
 public:
  explicit NoticeBench(SubsystemSettings settings, std::uint32_t wanted = kAll) {
    set(std::move(settings));
    meet(kAdminRequest);
    connect(0, linux_host());
    enable();
    AdminCommand features{.opcode = AdminOpcode::set_features};
    features.dwords = {0x0b, wanted};
    in(features);
  }
  void set(SubsystemSettings settings) {
    Subsystem& subsystem = *target.subsystems().front();
    subsystem.set(std::move(settings));
    target.refresh(subsystem);
  }
  std::string ask_for_event() {
    return in(AdminCommand{.opcode = AdminOpcode::async_event_request});
  }
  /// What is told now: the result of the event, in hexadecimal; "-": nothing.
  std::string told() {
    if (session->deadline() > now) return "-";
    time(now);
    return response.substr(0, 8);
  }
  std::string log(LogPage wanted, std::uint32_t bytes, bool keeps_event = false) {
    AdminCommand command{.data = {.kind = DataDescriptor::Kind::keyed, .bytes = bytes}};
    put_log_request({.page = wanted, .bytes = bytes}, command);
    if (keeps_event) command.dwords[0] |= 0x8000;
    if (const std::string said = in(command); !said.starts_with("borrow")) return said;
    std::ranges::fill(page, std::byte{0xee});
    pages(bytes);
    done();
    return hex_of(std::span(page).first(bytes));
  }
};

TEST(NvmeNotices, AHostIsToldOnceWhichNamespacesHaveChanged) {
  NoticeBench b(settings_of({1}));
  b.log(LogPage::changed_spaces, 16);  // What has changed before it asked.
  EXPECT_EQ(b.ask_for_event(), "");
  EXPECT_EQ(b.told(), "-");
  b.set(settings_of({1, 2, 5}));
  EXPECT_EQ(b.told(), "02000400") << "a notice, namespaces, page 4";
  b.set(settings_of({1, 5}));
  EXPECT_EQ(b.ask_for_event(), "");
  EXPECT_EQ(b.told(), "-") << "not again before the page is read";
  EXPECT_EQ(b.log(LogPage::changed_spaces, 16, true), "02000000050000000000000000000000");
  EXPECT_EQ(b.told(), "-") << "the host keeps the event";
  EXPECT_EQ(b.log(LogPage::changed_spaces, 16), "02000000050000000000000000000000");
  EXPECT_EQ(b.log(LogPage::changed_spaces, 16), "00000000000000000000000000000000");
  auto larger = settings_of({1, 5});
  larger.spaces[1].blocks = 2000;
  b.set(larger);
  EXPECT_EQ(b.told(), "02000400");
  EXPECT_EQ(b.log(LogPage::changed_spaces, 8), "0100000000000000");
}

TEST(NvmeNotices, WhatComesBeforeTheRequestIsToldWithIt) {
  NoticeBench b(settings_of({1}));
  b.log(LogPage::changed_spaces, 16);
  b.set(settings_of({1, 2}));
  EXPECT_EQ(b.told(), "-") << "nobody asks yet";
  EXPECT_EQ(b.ask_for_event().substr(0, 8), "SEND 0x0");
  EXPECT_EQ(b.response.substr(0, 8), "02000400");
}

TEST(NvmeNotices, WhatAHostDoesNotWantIsNotTold) {
  NoticeBench b(settings_of({1}), 1u << 11);
  b.ask_for_event();
  b.set(settings_of({1, 2}));
  EXPECT_EQ(b.told(), "-");
}

TEST(NvmeNotices, AccessStatesAreThoseOfTheHostsPort) {
  auto settings = settings_of({1, 3});
  const auto here = *SocketAddress::parse("10.0.0.1", 4420);
  const auto there = *SocketAddress::parse("10.0.0.2", 4420);
  settings.access = {{there, {{1, AccessState::inaccessible}}},
                     {here, {{1, AccessState::optimized}, {3, AccessState::change}}}};
  NoticeBench b(settings);
  EXPECT_EQ(b.log(LogPage::access_states, 88),
            "01000000000000000200000000000000"
            "01000000010000000100000000000000"
            "01000000000000000000000000000000"
            "01000000"
            "03000000010000000100000000000000"
            "0f000000000000000000000000000000"
            "03000000");
  b.log(LogPage::changed_spaces, 16);
  b.ask_for_event();
  settings.access[1].groups[3] = AccessState::persistent_loss;
  b.set(settings);
  EXPECT_EQ(b.told(), "02030c00") << "a notice, access states, page 12";
  const auto admin = std::move(b.session);
  b.meet(kIoRequest);
  auto data = linux_host();
  data.controller_id = 1;
  b.connect(1, data);
  const auto flushed = [&](std::uint32_t id) {
    std::vector<std::byte> capsule(Command::kSize);
    encode(Command{.opcode = Opcode::flush, .namespace_id = id},
           std::span(capsule).first<Command::kSize>());
    return b.in(capsule);
  };
  EXPECT_EQ(flushed(1), "flush 1");
  EXPECT_EQ(flushed(3).substr(0, 10), "SEND 0x301");
  EXPECT_EQ(b.response.substr(28), "0206") << "status 301h, and it may be tried again elsewhere";
}

/// As a host reads the page, of which any part may have come.
TEST(NvmeNotices, AccessStatesAreReadAsFarAsTheyHaveCome) {
  std::array<std::byte, kLogBlockBytes> page{};
  LogBlockWriter out(0, page);
  put_access_header(1, 2, out);
  put_access_group(1, 1, 1, AccessState::inaccessible, out);
  out.put(std::uint32_t{7});
  put_access_group(3, 0, 1, AccessState::non_optimized, out);
  EXPECT_EQ(decode_access_state(page, 1), AccessState::inaccessible);
  EXPECT_EQ(decode_access_state(page, 3), AccessState::non_optimized);
  EXPECT_EQ(decode_access_state(page, 2), std::nullopt);
  EXPECT_EQ(decode_access_state(std::span(page).first(83), 3), std::nullopt) << "half of it";
  EXPECT_EQ(decode_access_state(std::span(page).first(15), 1), std::nullopt);
  store_le(&page[20], ~std::uint32_t{0});  // So many namespaces that no page has them.
  EXPECT_EQ(decode_access_state(page, 3), std::nullopt);
}

TEST(NvmeNotices, WithoutStatesThereIsNoSuchPage) {
  NoticeBench b(settings_of({1}));
  EXPECT_EQ(b.log(LogPage::access_states, 16).substr(0, 10), "SEND 0x109");
}

}  // namespace
}  // namespace verbatim::ulp::nvmeof
