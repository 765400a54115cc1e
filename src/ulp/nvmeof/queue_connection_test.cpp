#include "ulp/nvmeof/queue_connection.h"

#include <gtest/gtest.h>

#include "ulp/nvmeof/connection_bench_for_test.h"

/// A connection from its request on: each line is one input, and what comes of it. Bytes of Linux's
/// host and target were captured between two kernels.
namespace verbatim::ulp::nvmeof {
namespace {

using storage::StoreStatus;
using Bench = ConnectionBench;

/// The admin queue of Linux's host from its first message on. The responses are those of Linux's
/// target; only CAP is ours.
TEST(NvmeQueueConnection, LinuxsAdminQueueIsAnsweredAsLinuxAnswersIt) {
  Bench b;
  EXPECT_EQ(b.meet(kAdminRequest), "accept 0000200000000000");
  EXPECT_EQ(b.in(kConnect), "borrow 0 +0 1024");
  EXPECT_EQ(b.pages(1024), "READ 1024 from 0xff2fba4bca8db800 key 0xf38d");
  encode(linux_host(), std::span(b.page).first<ConnectData::kSize>());
  EXPECT_EQ(b.done(), "give back, SEND 0x0 head 1 invalidate 0xf38d");
  EXPECT_EQ(b.response, "01000000000000000100000000000000");
  struct Step {
    std::string_view command, response;
  };
  for (const auto& [command, response] :
       {Step{"7f4001000400000000000000000000000000000000000000000000000000000000000000000000"
             "4001",  // CAP
             "7f00010f200000000200000001000000"},
        Step{"7f4000100000000000000000000000000000000000000000000000000000000000000000000000"
             "400000000014000000600046",  // CC
             "00000000000000000300000000100000"},
        Step{"7f4001100400000000000000000000000000000000000000000000000000000000000000000000"
             "400000000014",
             "60004600000000000400000001100000"},
        Step{"7f4000200400000000000000000000000000000000000000000000000000000000000000000000"
             "4001",
             "7f00010f200000000500000000200000"},
        Step{"7f4001200000000000000000000000000000000000000000000000000000000000000000000000"
             "400000000014000000610046",  // CC: it is enabled.
             "00000000000000000600000001200000"},
        Step{"7f4000300400000000000000000000000000000000000000000000000000000000000000000000"
             "40000000001c",  // CSTS: it is ready.
             "01000000000000000700000000300000"},
        Step{"7f4001300400000000000000000000000000000000000000000000000000000000000000000000"
             "400000000008",  // VS
             "00030100000000000800000001300000"}}) {
    EXPECT_EQ(b.in(command).substr(0, 8), "SEND 0x0") << command;
    EXPECT_EQ(b.response, response) << command;
  }
  EXPECT_EQ(
      b.in("06401600000000000000000000000000000000000000000000006bc24bba2fff0010008ef300004f01"),
      "borrow 0 +0 4096");
  EXPECT_EQ(b.pages(4096),
            "WRITE 4096 to 0xff2fba4bc26b0000 key 0xf38e, "
            "SEND 0x0 head 9 invalidate 0xf38e");
  EXPECT_EQ(b.response, "00000000000000000900000016000000");
  EXPECT_EQ(b.done(), "give back");
}

/// Its later commands, whose heads are those of Linux's target, too.
TEST(NvmeQueueConnection, LinuxsFeaturesAndListsAreAnsweredAsLinuxAnswersThem) {
  Bench b;
  b.meet(kAdminRequest);
  b.connect(0, linux_host());
  b.enable();
  for (int i = 0; i < 10; ++i) b.in(AdminCommand{.opcode = AdminOpcode::keep_alive});
  EXPECT_EQ(b.in("09401610000000000000000000000000000000000000000000000000000000000000000000000040"
                 "07"),
            "SEND 0x0 head 13");
  EXPECT_EQ(b.response, "7f007f00000000000d00000016100000");
  EXPECT_EQ(b.in("09401710000000000000000000000000000000000000000000000000000000000000000000000040"
                 "0b0000000009"),
            "SEND 0x0 head 14");
  EXPECT_EQ(
      b.in("06401810000000000000000000000000000000000000000000c096ca4bba2fff00100092f300004f06"),
      "borrow 0 +0 4096");
  b.pages(4096);
  EXPECT_EQ(b.response, "00000000000000000f00000018100000");
  EXPECT_EQ(b.done(), "give back");
  b.in("06401910000000000000000000000000000000000000000000c096ca4bba2fff00100093f300004f02");
  b.pages(4096);
  EXPECT_EQ(hex_of(std::span(b.page).first(8)), "0100000000000000");  // One namespace, number 1.
}

TEST(NvmeQueueConnection, LinuxsIoQueueIsConnectedByTheDataInItsCapsule) {
  Bench b;
  b.meet(kAdminRequest);
  b.connect(0, linux_host());
  b.enable();
  const auto admin = std::move(b.session);
  EXPECT_EQ(b.meet(kIoRequest), "accept 0000800000000000");
  auto data = linux_host();
  data.controller_id = 1;
  EXPECT_EQ(b.connect(1, data), "SEND 0x0 head 1");
  EXPECT_EQ(b.response, "01000000000000000100010000000000");
  EXPECT_EQ(b.in("02407100010000000000000000000000000000000000000000"
                 "50a73f4cba2fff001000c41301004f000000000000000007"),
            "borrow 7 +0 4096");
}

TEST(NvmeQueueConnection, RejectionsHaveTheirCodes) {
  Bench b;
  EXPECT_EQ(b.meet("0100000020001f00"), "reject 00000200");  // Format 1.
  EXPECT_EQ(b.meet("0000810080007f00"), "reject 00000300");  // Queue 129.
  EXPECT_EQ(b.meet("0000000020002000"), "reject 00000400");  // 33 entries of the admin queue.
  EXPECT_EQ(b.meet("0000010080008000"), "reject 00000400");  // 129 of an I/O queue.
  EXPECT_EQ(b.meet("0000000000001f00"), "reject 00000500");  // No receives of the host.
  EXPECT_EQ(b.meet(kAdminRequest, {.reads = {.initiator = 0}}), "reject 00000700");
}

/// A host that does not wait for a missing receive is granted only what is posted.
TEST(NvmeQueueConnection, StrictHostsGetNoMoreQueuesThanReceives) {
  Bench b;
  const Meeting strict{.reads = {.initiator = 16}, .is_iwarp = true};
  EXPECT_EQ(b.meet(kIoRequest, strict), "accept 0000800000000000");
  const auto first = std::move(b.session);
  EXPECT_EQ(b.meet(kIoRequest, strict), "accept 0000800000000000");
  const auto second = std::move(b.session);
  EXPECT_EQ(b.meet(kIoRequest, strict), "reject 00000600");
  b.portal.on_gone(*first);
  EXPECT_EQ(b.meet(kIoRequest, strict), "accept 0000800000000000");
}

/// Status, and where the mistake is: bit 16 says in the data.
TEST(NvmeQueueConnection, RefusedConnectsNameTheirReason) {
  const auto refused = [](bool admits, const ConnectData& data) {
    Bench b(admits);
    b.meet(kAdminRequest);
    const std::string answer = b.connect(0, data);
    return answer + ", " + b.response.substr(0, 8);
  };
  auto data = linux_host();
  data.subsystem = "nqn.2026-01.test:other";
  EXPECT_EQ(refused(true, data), "SEND 0x182 head 1, 00010100");
  data = linux_host();
  data.host.clear();
  EXPECT_EQ(refused(true, data), "SEND 0x182 head 1, 00020100");
  data = linux_host();
  data.controller_id = 3;
  EXPECT_EQ(refused(true, data), "SEND 0x182 head 1, 10000100");
  EXPECT_EQ(refused(false, linux_host()), "SEND 0x184 head 1, 00020100");  // Nobody is admitted.
}

TEST(NvmeQueueConnection, AnotherHostsControllerIsNotGiven) {
  Bench b;
  b.meet(kAdminRequest);
  b.connect(0, linux_host());
  b.enable();
  const auto admin = std::move(b.session);
  b.meet(kIoRequest);
  auto data = linux_host();
  data.controller_id = 1;
  data.host = "nqn.2014-08.org.nvmexpress:uuid:another";
  EXPECT_EQ(b.connect(1, data), "SEND 0x182 head 1");
  data = linux_host();
  data.controller_id = 2;
  EXPECT_EQ(b.connect(1, data), "SEND 0x182 head 2");
}

TEST(NvmeQueueConnection, BeforeConnectNothingElseIsServed) {
  Bench b;
  b.meet(kAdminRequest);
  EXPECT_EQ(b.in(AdminCommand{.opcode = AdminOpcode::keep_alive}), "SEND 0xc head 1");
  EXPECT_EQ(b.connect(0, linux_host()), "SEND 0x0 head 2");
  EXPECT_EQ(b.in(AdminCommand{.opcode = AdminOpcode::identify}),
            "SEND 0xc head 3");  // Not enabled.
  EXPECT_EQ(b.connect(0, linux_host()), "SEND 0xc head 4");
}

TEST(NvmeQueueConnection, ASilentHostIsDisconnected) {
  Bench b;
  b.meet(kAdminRequest);
  b.connect(0, linux_host(), 5000);
  b.enable();
  EXPECT_EQ(b.time(5 * kSecond), "");
  b.in(AdminCommand{.opcode = AdminOpcode::keep_alive});
  EXPECT_EQ(b.session->deadline(), 11 * kSecond);
  EXPECT_EQ(b.time(10 * kSecond), "");
  EXPECT_EQ(b.time(11 * kSecond), "disconnect: the host has not kept its controller alive");
  EXPECT_EQ(b.session->deadline(), kNever);
}

TEST(NvmeQueueConnection, AConnectionWithoutConnectEnds) {
  Bench b;
  b.meet(kAdminRequest);
  EXPECT_EQ(b.time(kSecond), "");
  EXPECT_EQ(b.session->deadline(), 31 * kSecond);
  EXPECT_EQ(b.time(31 * kSecond), "disconnect: the host has a connection, and sends no Connect");
}

TEST(NvmeQueueConnection, AnEndWhileConnectIsUnderWayGivesItsPagesBack) {
  Bench b;
  b.meet(kAdminRequest);
  b.in(kConnect);
  EXPECT_EQ(b.end(), "");
  EXPECT_FALSE(b.session->is_idle());
  EXPECT_EQ(b.pages(1024), "give back");
  EXPECT_TRUE(b.session->is_idle());
  b.meet(kAdminRequest);
  b.in(kConnect);
  b.pages(1024);
  EXPECT_EQ(b.done(CompletionStatus::flushed), "");
  EXPECT_EQ(b.end(), "give back");
  EXPECT_TRUE(b.session->is_idle());
}

TEST(NvmeAdminQueue, EventsWaitAndNoMoreThanFour) {
  Bench b;
  b.meet(kAdminRequest);
  b.connect(0, linux_host());
  b.enable();
  const AdminCommand event{.opcode = AdminOpcode::async_event_request};
  for (int i = 0; i < 4; ++i) EXPECT_EQ(b.in(event), "");
  EXPECT_EQ(b.in(event), "SEND 0x105 head 7");
  EXPECT_EQ(b.end(), "");
  EXPECT_TRUE(b.session->is_idle());
}

TEST(NvmeAdminQueue, DataThatDoesNotFitIsRefused) {
  Bench b;
  b.meet(kAdminRequest);
  b.connect(0, linux_host());
  b.enable();
  AdminCommand identify{.opcode = AdminOpcode::identify, .dwords = {1}};
  EXPECT_EQ(b.in(identify), "SEND 0xf head 3");  // No data.
  identify.data = {.kind = DataDescriptor::Kind::keyed, .bytes = 4095, .key = MemoryKey{1}};
  EXPECT_EQ(b.in(identify), "SEND 0xf head 4");
  identify.dwords[0] = 0x42;
  EXPECT_EQ(b.in(identify), "SEND 0x2 head 5");
  AdminCommand log{.data = {.kind = DataDescriptor::Kind::keyed, .bytes = 512}};
  put_log_request({LogPage::discovery, 0, 512}, log);  // Not of this controller.
  EXPECT_EQ(b.in(log), "SEND 0x109 head 6");
}

TEST(NvmeAdminQueue, TheDiscoveryLogHasWhatTheHostMayHave) {
  for (const bool admits : {true, false}) {
    Bench b(admits);
    b.meet(kAdminRequest);
    auto data = linux_host();
    data.subsystem = kDiscoveryNqn;
    EXPECT_EQ(b.connect(0, data, 0), "SEND 0x0 head 1");
    b.enable();
    AdminCommand log{.data = {.kind = DataDescriptor::Kind::keyed, .bytes = 2048}};
    put_log_request({LogPage::discovery, 0, 2048}, log);
    EXPECT_EQ(b.in(log), "borrow 0 +0 2048");
    b.pages(2048);
    EXPECT_EQ(decode_discovery_header(b.page)->entries, admits ? 1u : 0u);
    const auto entry = std::span(b.page).subspan(1024);
    EXPECT_EQ(hex_of(entry.first(12)),
              admits ? "010102000100ffff20000000" : "000000000000000000000000");
    if (admits) {
      EXPECT_STREQ(reinterpret_cast<const char*>(&entry[32]), "4420");
      EXPECT_STREQ(reinterpret_cast<const char*>(&entry[256]), "nqn.2026-01.test:n1");
      EXPECT_STREQ(reinterpret_cast<const char*>(&entry[512]), "10.0.0.1");
    }
    b.done();
    // The entry alone, from its middle on: hosts read in parts.
    put_log_request({LogPage::discovery, 1024 + 256, 256}, log);
    log.data.bytes = 256;
    b.in(log);
    b.pages(256);
    EXPECT_STREQ(reinterpret_cast<const char*>(b.page.data()), admits ? "nqn.2026-01.test:n1" : "");
  }
}

TEST(NvmeSubsystem, NamesAreTheSameAgain) {
  const auto first = Subsystem::create(std::string(kNqn)),
             again = Subsystem::create(std::string(kNqn));
  EXPECT_EQ(first->serial(), again->serial());
  EXPECT_EQ(first->serial().size(), 20u);
  EXPECT_EQ(first->uuid_of(1), again->uuid_of(1));
  EXPECT_NE(first->uuid_of(1), first->uuid_of(2));
  EXPECT_FALSE(Subsystem::create("disk"));
  EXPECT_FALSE(Subsystem::create(std::string(kDiscoveryNqn)));
  EXPECT_FALSE(Subsystem::create("nqn.2026-01.test:" + std::string(223, 'x')));
}

}  // namespace
}  // namespace verbatim::ulp::nvmeof
