#include <gtest/gtest.h>

#include "ulp/nvmeof/connection_bench_for_test.h"

/// What the admin queue answers to each page, feature and kind of Identify, beside Linux's target.
namespace verbatim::ulp::nvmeof {
namespace {

constexpr std::uint32_t kAll = 0xffffffff;
constexpr std::uint32_t kPageBytes = 4096;

/// A controller of a subsystem with namespaces 1, which can be reserved, and 3.
class Bench : public ConnectionBench {
 public:
  Bench() {
    SubsystemSettings settings{.admits_any_host = true};
    settings.spaces[1] = {.unit = storage::UnitId{1}, .blocks = 1000, .can_reserve = true};
    settings.spaces[3] = {.unit = storage::UnitId{3}, .blocks = 1000};
    Subsystem& subsystem = *target.subsystems().front();
    subsystem.set(std::move(settings));
    meet(kAdminRequest);
    connect(0, linux_host());
    enable();
  }
  /// "data", or the status.
  std::string ask(AdminCommand command, std::uint32_t bytes) {
    if (bytes != 0)
      command.data = {.kind = DataDescriptor::Kind::keyed, .bytes = bytes, .key = MemoryKey{1}};
    const std::string said = in(command);
    if (!said.starts_with("borrow")) return said.substr(5, said.find(" head") - 5);
    std::ranges::fill(page, std::byte{0xee});
    pages(bytes);
    done();
    return "data";
  }
  std::string log(LogPage wanted, std::uint32_t bytes, std::uint32_t space = kAll) {
    AdminCommand command{.namespace_id = space};
    put_log_request({.page = wanted, .bytes = bytes}, command);
    return ask(command, bytes);
  }
  std::string hex(std::size_t at, std::size_t bytes) const {
    return hex_of(std::span(page).subspan(at, bytes));
  }
  Subsystem& subsystem() { return *target.subsystems().front(); }
  void tell(std::uint32_t space, ReservationEvent event) {
    const ReservationNotice notice{linux_host().host_id, event};
    target.tell(subsystem(), space, {&notice, 1});
  }
};

TEST(NvmeAdminAnswers, Identify) {
  struct Row {
    std::uint32_t kind, space, command_set;
    const char* answer;
  };
  constexpr Row kRows[] = {
      {0x00, 1, 0, "data"},   {0x00, 2, 0, "data"},  // Zeros: it is not there.
      {0x00, kAll, 0, "0xb"}, {0x01, 0, 0, "data"}, {0x02, 0, 0, "data"},
      {0x02, kAll, 0, "0xb"}, {0x03, 1, 0, "data"}, {0x03, 2, 0, "0xb"},
      {0x05, 1, 0, "data"},   {0x05, 1, 2, "0x2"},  // Zoned namespaces.
      {0x06, 0, 0, "data"},   {0x06, 0, 2, "0x2"},  {0x04, 0, 0, "0x2"},
      {0x10, 0, 0, "0x2"},    {0x12, 1, 0, "0x2"},  {0x1c, 0, 0, "0x2"},
      {0x42, 0, 0, "0x2"},
  };
  for (const auto& [kind, space, set, answer] : kRows) {
    Bench b;
    AdminCommand command{.opcode = AdminOpcode::identify, .namespace_id = space};
    command.dwords = {kind, set << 24};
    EXPECT_EQ(b.ask(command, kPageBytes), answer) << kind << " of " << space;
  }
  Bench b;
  AdminCommand identify{.opcode = AdminOpcode::identify};
  identify.dwords[0] = 1;
  b.ask(identify, kPageBytes);
  EXPECT_EQ(b.hex(520, 2), "2c00") << "discards, zeroes, reservations";
  EXPECT_EQ(b.hex(261, 2), "067f") << "effects, parts of pages; 128 errors";
  identify.namespace_id = 1;
  identify.dwords[0] = 0;
  b.ask(identify, kPageBytes);
  EXPECT_EQ(b.hex(30, 2), "01fe") << "all types of reservations; they are kept nowhere";
  identify.namespace_id = 3;
  b.ask(identify, kPageBytes);
  EXPECT_EQ(b.hex(30, 2), "0100");
}

TEST(NvmeAdminAnswers, Features) {
  struct Row {
    std::uint32_t feature, space, value;
    const char *get, *set;
  };
  constexpr Row kRows[] = {
      {0x01, 0, 0, "0x2", "0x2"},  // Arbitration: as Linux.
      {0x02, 0, 0, "0x2", "0x2"},  // Power.
      {0x04, 0, 0, "0x2", "0x2"},  // Temperature.
      {0x06, 0, 0, "0x0", "0x2"},  // The cache is there.
      {0x07, 0, 0x00030003, "0x0", "0x0"}, {0x0b, 0, 0x900, "0x0", "0x0"},
      {0x0f, 0, 5000, "0x0", "0x0"},       {0x82, 1, 0x0e, "0x0", "0x0"},
      {0x82, 1, 0x01, "0x0", "0x2"},  // No event.
      {0x82, 3, 0x02, "0x2", "0x2"},  // It cannot be reserved.
      {0x82, 2, 0x02, "0xb", "0xb"},       {0x82, kAll, 0x02, "0xb", "0x0"},
      {0x83, 1, 1, "0x0", "0x2"},  // They are kept nowhere.
      {0x83, 1, 0, "0x0", "0x0"},          {0xc0, 0, 0, "0x2", "0x2"},
  };
  for (const auto& [feature, space, value, get, set] : kRows) {
    Bench b;
    AdminCommand command{.opcode = AdminOpcode::get_features, .namespace_id = space};
    command.dwords = {feature, value};
    EXPECT_EQ(b.ask(command, 0), get) << feature;
    command.opcode = AdminOpcode::set_features;
    EXPECT_EQ(b.ask(command, 0), set) << feature;
  }
  Bench b;
  AdminCommand host{.opcode = AdminOpcode::get_features};
  host.dwords = {0x81, 1};
  EXPECT_EQ(b.ask(host, 16), "data");
  EXPECT_EQ(b.hex(0, 16), "d2504e7c6615494eafba570c3946249a");
  host.dwords = {0x81, 0};
  EXPECT_EQ(b.ask(host, 16), "0x2") << "8 bytes of it";
}

TEST(NvmeAdminAnswers, LogPages) {
  struct Row {
    std::uint8_t page;
    std::uint32_t bytes, space;
    const char* answer;
  };
  constexpr Row kRows[] = {
      {0x01, 64, kAll, "data"},   {0x02, 512, kAll, "data"}, {0x02, 512, 1, "data"},
      {0x02, 512, 2, "0xb"},      {0x03, 512, kAll, "data"}, {0x04, 4096, kAll, "data"},
      {0x05, 4096, kAll, "data"}, {0x80, 64, kAll, "data"},  {0x0c, 16, kAll, "0x109"},
      {0x70, 64, kAll, "0x109"},  {0x06, 64, kAll, "0x109"}, {0xc0, 64, kAll, "0x109"},
  };
  for (const auto& [page, bytes, space, answer] : kRows) {
    Bench b;
    EXPECT_EQ(b.log(LogPage{page}, bytes, space), answer) << page;
  }
  Bench b;
  b.log(LogPage::effects, 4096);
  EXPECT_EQ(b.hex(1024 + 4 * 0x0d, 8), "0100000001000000") << "Register and Report";
}

constexpr LogPage kNoPage{0xc0};
constexpr AdminOpcode kNoCommand{0x80};

TEST(NvmeAdminAnswers, RefusedCommandsAreInTheErrorLog) {
  Bench b;
  EXPECT_EQ(b.log(kNoPage, 64), "0x109");
  EXPECT_EQ(b.response.substr(28), "12c2") << "do not retry, more";
  b.ask({.opcode = kNoCommand, .namespace_id = 7}, 0);
  EXPECT_EQ(b.log(LogPage::errors, 192), "data");
  // The number of the error, queue and command, status, no place; block; namespace.
  EXPECT_EQ(b.hex(0, 28),
            "0200000000000000"
            "0000"
            "0000"
            "0280"
            "ffff"
            "0000000000000000"
            "07000000");
  EXPECT_EQ(b.hex(64, 16),
            "0100000000000000"
            "0000"
            "0000"
            "1282"
            "ffff");
  EXPECT_EQ(b.hex(128, 8), "0000000000000000");
  b.log(LogPage::health, 512);
  EXPECT_EQ(b.hex(176, 8), "0200000000000000");
  for (int i = 0; i < 200; ++i) b.ask({.opcode = kNoCommand}, 0);
  b.log(LogPage::errors, 8192);
  EXPECT_EQ(b.hex(0, 8), "ca00000000000000");
  EXPECT_EQ(b.hex(127 * 64, 8), "4b00000000000000") << "the last 128";
}

TEST(NvmeAdminAnswers, NoticesOfReservationsAreReadOneByOne) {
  Bench b;
  b.tell(1, ReservationEvent::registration_preempted);
  b.tell(1, ReservationEvent::reservation_released);
  EXPECT_EQ(b.in(AdminCommand{.opcode = AdminOpcode::async_event_request}), "SEND 0x0 head 3");
  EXPECT_EQ(b.response.substr(0, 8), "06008000") << "of the command set; page 0x80";
  b.log(LogPage::reservations, 64);
  EXPECT_EQ(b.hex(0, 16),
            "0100000000000000"
            "01"
            "01"
            "0000"
            "01000000");
  EXPECT_EQ(b.in(AdminCommand{.opcode = AdminOpcode::async_event_request}).substr(0, 8), "SEND 0x0")
      << "there is another one";
  b.log(LogPage::reservations, 64);
  EXPECT_EQ(b.hex(0, 16),
            "0200000000000000"
            "02"
            "00"
            "0000"
            "01000000");
  b.log(LogPage::reservations, 64);
  EXPECT_EQ(b.hex(0, 16), std::string(32, '0')) << "none is left";
  AdminCommand mask{.opcode = AdminOpcode::set_features, .namespace_id = kAll};
  mask.dwords = {0x82, 0x04};
  EXPECT_EQ(b.ask(mask, 0), "0x0");
  b.tell(1, ReservationEvent::reservation_released);
  EXPECT_EQ(b.in(AdminCommand{.opcode = AdminOpcode::async_event_request}), "") << "it is masked";
  for (int i = 0; i < 100; ++i) b.tell(1, ReservationEvent::reservation_preempted);
  EXPECT_EQ(b.session->deadline(), 0u) << "the event is due";
  b.log(LogPage::reservations, 64);
  EXPECT_EQ(b.hex(8, 2), "033f") << "64 are kept";
}

}  // namespace
}  // namespace verbatim::ulp::nvmeof
