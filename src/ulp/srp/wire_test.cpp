#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ulp/scsi/text_for_test.h"
#include "ulp/srp/wire/login.h"
#include "ulp/srp/wire/message.h"

namespace verbatim::ulp::srp {
namespace {

using scsi::bytes_of_hex;
using scsi::hex_of;

// Captured between Linux 6.1's ib_srp and ib_srpt.
constexpr std::string_view kLogin =
    "0000000000000000000680000000204400000000000000005054"
    "00fffe780003505400fffe780002505400fffe7800020044000000000000";
constexpr std::string_view kLoginResponse =
    "c00000000000008000000000000000000000204400002044000680"
    "00000000000000000000000000000000000000000000000000";

TEST(SrpWire, LoginOfLinux) {
  const auto bytes = bytes_of_hex(kLogin);
  ASSERT_EQ(bytes.size(), 56u);
  const auto login = decode_login(bytes, LoginForm::rdma_cm);
  ASSERT_TRUE(login);
  EXPECT_EQ(login->request_bytes, 8260u);
  EXPECT_EQ(login->formats, 6);
  EXPECT_EQ(login->flags, kImmediateData);
  EXPECT_EQ(login->immediate_offset, 68);
  EXPECT_EQ(text_of(login->initiator), "0x0000000000000000505400fffe780003");
  EXPECT_EQ(text_of(login->target), "0x505400fffe780002505400fffe780002");
  EXPECT_EQ(hex_of(ByteSpan(encode(*login, LoginForm::rdma_cm)).first(56)), kLogin);
  const auto other = encode(*login, LoginForm::infiniband_cm);
  EXPECT_EQ(decode_login(other, LoginForm::infiniband_cm), login);

  const auto answer = bytes_of_hex(kLoginResponse);
  const auto response = decode_login_response(answer);
  ASSERT_TRUE(response);
  EXPECT_EQ(*response, (LoginResponse{128, 0, 8260, 8260, 6, kImmediateData}));
  EXPECT_EQ(hex_of(encode(*response)), kLoginResponse);
  const LoginReject reject{RejectReason::wrong_target_port, 7, 6};
  EXPECT_EQ(decode_login_reject(encode(reject)), reject);
  EXPECT_EQ(hex_of(ByteSpan(encode(reject)).first(8)), "c200000000010003");
}

TEST(SrpWire, PortIdentifiers) {
  const auto id = parse_port_id("0x505400fffe780002505400fffe780003");
  ASSERT_TRUE(id);
  EXPECT_EQ(text_of(*id), "0x505400fffe780002505400fffe780003");
  EXPECT_EQ(parse_port_id("505400fffe780002505400fffe780003"), id);
  for (const auto* const bad : {"", "0x", "0x505400fffe78000", "505400fffe780002505400fffe78000g",
                                "505400fffe780002-05400fffe780003"})
    EXPECT_FALSE(parse_port_id(bad)) << bad;
}

std::string text(const Buffer& buffer) {
  std::string text = fmt::format("{}:{}", raw(buffer.format), buffer.bytes);
  for (std::size_t i = 0; i < buffer.count(); ++i)
    text +=
        fmt::format(" {:x}/{:x}/{}", buffer[i].address, raw(buffer[i].remote_key), buffer[i].bytes);
  return text + (buffer.needs_table() ? " +table" : "");
}
/// A command, or what does not fit.
std::string text(std::string_view hex, std::uint16_t immediate_offset = 68) {
  const auto bytes = bytes_of_hex(hex);
  BufferFault fault;
  const auto command = decode_command(bytes, immediate_offset, fault);
  if (!command) return "none";
  if (fault.what != nullptr) return fmt::format("{} {}: {}", fault.said, fault.what, fault.bound);
  std::string text = fmt::format("{:x} lun {:x} cdb {} out {}", command->tag, command->lun,
                                 hex_of(command->cdb.first(1)), srp::text(command->out));
  if (!command->immediate.empty()) text += " " + hex_of(command->immediate);
  return text + " in " + srp::text(command->in);
}

constexpr std::string_view kTag = "3800000000000000", kZero8 = "0000000000000000";
/// `formats`: with both counts.
std::string of(std::string_view formats, std::string_view rest, std::string_view more_cdb = "00") {
  return fmt::format("0200000000{}{}00000000{}000000{}12{}{}", formats, kTag, kZero8, more_cdb,
                     std::string(30, '0'), rest);
}

TEST(SrpWire, CommandsOfLinux) {
  EXPECT_EQ(text("020000000001000038000000000000000000000000000000000000000000000012000000240000"
                 "000000000000000000ff2fba4bef7b15000000040300000024"),
            "3800000000000000 lun 0 cdb 12 out 0:0 in 1:36 ff2fba4bef7b1500/403/36");
  EXPECT_EQ(text("02000000000000003b000000000000000000000000000000000000000000000000000000000000"
                 "000000000000000000"),
            "3b00000000000000 lun 0 cdb 00 out 0:0 in 0:0");
  EXPECT_EQ(text("02000000001000003c00000000000000000000000000000000000000000000002a000000000000"
                 "007000000000000000ff2fba4bc9f12000000005b00000e000"),
            "3c00000000000000 lun 0 cdb 2a out 1:57344 ff2fba4bc9f12000/5b0/57344 in 0:0");
  // Cut to four bytes of data; what is between descriptor and data has no meaning.
  EXPECT_EQ(text("02000000003000003d00000000000000000000000000000000000000000000002a000000007000"
                 "00100000000000000000000004c9f320000000040a0000e00000000000c7a10aa8"),
            "3d00000000000000 lun 0 cdb 2a out 3:4 c7a10aa8 in 0:0");
}

TEST(SrpWire, Descriptors) {
  const std::string one = "00000000000010000000000700000200",
                    two = "00000000000020000000000800000300",
                    table16 = "000000000000f0000000000900000010",
                    table32 = "000000000000f0000000000900000020";
  EXPECT_EQ(text(of("020001", table16 + "00000200" + one)),
            "3800000000000000 lun 0 cdb 12 out 0:0 in 2:512 1000/7/512");
  EXPECT_EQ(text(of("220101", table16 + "00000200" + one + table16 + "00000300" + two)),
            "3800000000000000 lun 0 cdb 12 out 2:512 1000/7/512 in 2:768 2000/8/768");
  EXPECT_EQ(text(of("200200", table32 + "00000500" + one + two)),
            "3800000000000000 lun 0 cdb 12 out 2:1280 1000/7/512 2000/8/768 in 0:0");
  EXPECT_EQ(text(of("200100", table32 + "00000500" + one)),
            "3800000000000000 lun 0 cdb 12 out 2:1280 1000/7/512 +table in 0:0");
  EXPECT_EQ(text(of("010000", "00000000" + one, "04")),
            "3800000000000000 lun 0 cdb 12 out 0:0 in 1:512 1000/7/512");
  // What does not fit.
  EXPECT_EQ(text(of("010000", "0000")), "2 bytes of descriptors are left: 16");
  EXPECT_EQ(text(of("020002", table32 + "00000500" + one)), "16 bytes of descriptors are left: 32");
  EXPECT_EQ(text(of("020001", table16 + "00000201" + one)), "512 bytes are described: 513");
  EXPECT_EQ(text(of("020000",
                    "000000000000f0000000000900000011"
                    "00000200")),
            "17 bytes of a table of descriptors: 8192");
  EXPECT_EQ(text(of("020000",
                    "000000000000f0000000000900002010"
                    "00000200")),
            "8208 bytes of a table of descriptors: 8192");
  EXPECT_EQ(text(of("040000", one)), "4 is a format of descriptors: 3");
  EXPECT_EQ(text(of("030000", "00000000")), "3 is a format of data to the initiator: 2");
  EXPECT_EQ(text(of("300000", "00000001" + std::string(32, '0'))),
            "0 bytes of immediate data are there: 1");
  EXPECT_EQ(text(of("300000", "00000001" + std::string(34, '0')), 0),
            "0 is where immediate data begins, behind its descriptor: 52");
  EXPECT_EQ(text(of("000000", "", "08")), "16 bytes of descriptors are left: 24");
  EXPECT_EQ(text(of("000000", "").substr(0, 94)), "none");
  EXPECT_EQ(text(""), "none");
}

TEST(SrpWire, Responses) {
  const std::string good = "c1000000000000013800000000000000" + std::string(40, '0');
  const auto bytes = bytes_of_hex(good);
  const auto response = decode_response(bytes);
  ASSERT_TRUE(response);
  EXPECT_EQ(response->request_limit, 1);
  EXPECT_EQ(response->tag, 0x3800000000000000u);
  const ResponseBytes again = encode(*response);
  EXPECT_EQ(hex_of({again.begin(), again.size()}), good);
  // Of READ CAPACITY of a descriptor that is too long: 0xff0 bytes less came.
  const auto under = bytes_of_hex(
      "c1000000000000013d00000000000000000020000000000000000ff0"
      "0000000000000000");
  EXPECT_EQ(decode_response(under)->in_residual, -0xff0);
  // Linux's sense has 96 bytes.
  std::string sense =
      "c1000000000000013b0000000000000000000202000000000000000000000060000000007000"
      "05000000000a000000002000";
  auto refused = bytes_of_hex(sense);
  EXPECT_FALSE(decode_response(refused));
  refused.resize(132);
  EXPECT_EQ(decode_response(refused)->sense.size(), 96u);
  EXPECT_EQ(decode_response(refused)->status, 2);

  const Response coded{.request_limit = -1, .tag = 5, .code = ResponseCode::not_supported};
  const ResponseBytes code = encode(coded);
  EXPECT_EQ(hex_of({code.begin(), code.size()}),
            "c1000000ffffffff0000000000000005000001000000000000000000000000000000000400000004");
  EXPECT_EQ(decode_response({code.begin(), code.size()})->code, ResponseCode::not_supported);
  EXPECT_EQ(decode_response({code.begin(), code.size()})->request_limit, -1);
  EXPECT_FALSE(decode_response({code.begin(), code.size() - 1}));
}

TEST(SrpWire, ManagementAndWhatTheTargetAsks) {
  const TaskManagement wanted{0x80000001, 0x0001000000000000, Function::unit_reset, 9};
  EXPECT_EQ(decode_management(encode(wanted)), wanted);
  EXPECT_FALSE(decode_management(ByteSpan(encode(wanted)).first(47)));
  const auto hex = [](const ResponseBytes& bytes) { return hex_of({bytes.begin(), bytes.size()}); };
  EXPECT_EQ(hex(encode_request(Opcode::credit_request, 3, 7)), "81000000000000030000000000000007");
  EXPECT_EQ(hex(encode_request(Opcode::target_logout, 0, 0)), "80000000000000000000000000000000");
  EXPECT_EQ(hex(encode_request(Opcode::event_request, 1, 7, 2, bytes_of_hex("70"))),
            "820000000000000100000000000000070000000000000000000000020000000100000000"
            "70");
  EXPECT_EQ(hex_of(encode_answer(Opcode::credit_response, 7)), "41000000000000000000000000000007");
}

}  // namespace
}  // namespace verbatim::ulp::srp
