#include "ulp/iscsi/login.h"

#include "ulp/iscsi/bench_for_test.h"

namespace verbatim::ulp::iscsi {
namespace {

constexpr std::uint8_t kToOperational = 0x81, kToFull = 0x87, kInSecurity = 0x00, kSkip = 0x83;

/// A login, request by request: each answer as "flags status keys".
class LoginBench : public TargetBench {
 public:
  explicit LoginBench(bool is_iser = false)
      : login_(*sessions, {.rdma_extensions = is_iser ? 1u : 0u, .initiator_receives = 262144},
               is_iser) {}

  std::string ask(std::uint8_t flags, std::initializer_list<std::string_view> keys) {
    return ask(flags, text_of(keys));
  }
  std::string ask(std::uint8_t flags, const std::string& text,
                  std::uint64_t lun = 0x23d0000010000) {
    RequestHeader header{.opcode = Opcode::login, .is_immediate = true, .flags = flags, .lun = lun};
    header.data_bytes = static_cast<std::uint32_t>(text.size());
    const auto answer = login_.on_request(header, std::as_bytes(std::span(text)));
    words = answer.words;
    is_complete = answer.is_complete;
    return fmt::format("{:02x} {:04x} {}", answer.header.flags,
                       static_cast<unsigned>(answer.status),
                       readable(std::as_bytes(std::span(answer.text))));
  }
  std::string words;
  bool is_complete = false;

 private:
  Login login_;
};

const std::string kWho = fmt::format("InitiatorName={}", kInitiatorName);
const std::string kWhere = fmt::format("TargetName={}", kTargetName);

// As ib_iser asks; Linux's target answers the same, but for its FirstBurstLength and alias.
TEST(IscsiLogin, OfLinuxOverIser) {
  LoginBench bench(true);
  EXPECT_EQ(bench.ask(kToFull, {kWho,
                                "InitiatorAlias=guest",
                                kWhere,
                                "SessionType=Normal",
                                "DefaultTime2Wait=2",
                                "DefaultTime2Retain=0",
                                "IFMarker=No",
                                "OFMarker=No",
                                "ErrorRecoveryLevel=0",
                                "InitialR2T=No",
                                "ImmediateData=Yes",
                                "MaxBurstLength=16776192",
                                "FirstBurstLength=262144",
                                "MaxOutstandingR2T=1",
                                "MaxConnections=1",
                                "DataPDUInOrder=Yes",
                                "DataSequenceInOrder=Yes",
                                "InitiatorRecvDataSegmentLength=262144",
                                "TargetRecvDataSegmentLength=8192",
                                "RDMAExtensions=Yes"}),
            "87 0000 TargetPortalGroupTag=1 DefaultTime2Wait=2 DefaultTime2Retain=0 IFMarker=No "
            "OFMarker=No ErrorRecoveryLevel=0 InitialR2T=Yes ImmediateData=Yes "
            "MaxBurstLength=262144 FirstBurstLength=8192 MaxOutstandingR2T=1 MaxConnections=1 "
            "DataPDUInOrder=Yes DataSequenceInOrder=Yes InitiatorRecvDataSegmentLength=262144 "
            "TargetRecvDataSegmentLength=8192 RDMAExtensions=Yes");
  EXPECT_TRUE(bench.is_complete);
}

TEST(IscsiLogin, InTwoStagesOverTcp) {
  LoginBench bench;
  EXPECT_EQ(bench.ask(kToOperational, {kWho, kWhere, "AuthMethod=CHAP,None"}),
            "81 0000 TargetPortalGroupTag=1 AuthMethod=None");
  EXPECT_EQ(bench.ask(kToFull, {"HeaderDigest=None,CRC32C", "MaxRecvDataSegmentLength=262144"}),
            "87 0000 HeaderDigest=None MaxRecvDataSegmentLength=8192");
  EXPECT_TRUE(bench.is_complete);
}

TEST(IscsiLogin, Discovery) {
  LoginBench bench;
  EXPECT_EQ(bench.ask(kSkip | 0x04, {kWho, "SessionType=Discovery"}),
            "87 0000 MaxRecvDataSegmentLength=8192");
  EXPECT_TRUE(bench.is_complete);
}

TEST(IscsiLogin, KeysInSeveralRequests) {
  LoginBench bench;
  EXPECT_EQ(bench.ask(0x44, "InitiatorName=iqn.2026-01.test:i1\0Targ"), "04 0000 ");
  EXPECT_EQ(bench.ask(kToFull, std::string("etName=iqn.2026-01.test:t1\0", 27)).substr(0, 7),
            "04 0200");
}

/// The rules of negotiation, a row each.
TEST(IscsiLogin, KeysAreNegotiated) {
  const struct {
    const char* key;
    const char* answer;
  } rows[] = {{"MaxBurstLength=1024", "MaxBurstLength=1024"},
              {"MaxBurstLength=0x400", "MaxBurstLength=1024"},
              {"FirstBurstLength=1048576", "FirstBurstLength=8192"},
              {"ImmediateData=No", "ImmediateData=No"},
              {"InitialR2T=No", "InitialR2T=Yes"},
              {"ErrorRecoveryLevel=2", "ErrorRecoveryLevel=0"},
              {"DefaultTime2Wait=20", "DefaultTime2Wait=20"},
              {"DefaultTime2Retain=20", "DefaultTime2Retain=0"},
              {"MaxOutstandingR2T=16", "MaxOutstandingR2T=1"},
              {"OFMarkInt=1~2", "OFMarkInt=Reject"},
              {"TaskReporting=ResponseFence,RFC3720", "TaskReporting=RFC3720"},
              {"iSCSIProtocolLevel=2", "iSCSIProtocolLevel=1"},
              {"X-com.example.key=1", "X-com.example.key=NotUnderstood"},
              {"RDMAExtensions=Yes", "RDMAExtensions=No"}};
  for (const auto& row : rows) {
    LoginBench bench;
    EXPECT_EQ(
        bench.ask(kToFull, {kWho, kWhere, row.key}),
        fmt::format("87 0000 TargetPortalGroupTag=1 {} MaxRecvDataSegmentLength=8192", row.answer));
  }
}

/// What a peer sends out of the rules: the status, and words with both sides' values.
TEST(IscsiLogin, Refusals) {
  const struct {
    std::uint8_t flags;
    std::initializer_list<std::string_view> keys;
    const char* status;
    const char* words;
  } rows[] = {
      {kToFull, {kWhere}, "0207", "no InitiatorName"},
      {kToFull, {"InitiatorName=me", kWhere}, "0200", "InitiatorName=me is no iSCSI name"},
      {kToFull, {kWho}, "0207", "no TargetName"},
      {kToFull, {kWho, "TargetName=iqn.x:y"}, "0203", "target iqn.x:y: it is not there"},
      {kToFull, {kWho, kWhere, "SessionType=Odd"}, "0209", "Normal or Discovery"},
      {kToFull, {kWho, kWho, kWhere}, "0200", "a key is there twice"},
      {kToFull, {kWho, kWhere, "HeaderDigest=CRC32C"}, "0200", "HeaderDigest=CRC32C: we have None"},
      {kToFull, {kWho, kWhere, "MaxBurstLength=1"}, "0200", "512 to 16777215 is expected"},
      {kToFull, {kWho, kWhere, "ImmediateData=1"}, "0200", "Yes or No is expected"},
      {kToFull, {kWho, kWhere, "CHAP_A=5"}, "0200", "does not belong to the operational stage"},
      {kToOperational, {kWho, kWhere, "AuthMethod=CHAP"}, "0201", "None is expected"},
      {0x8c, {kWho, kWhere}, "0200", "a login in stage 3"},
      {0x86, {kWho, kWhere}, "0200", "from stage 1 to 2"},
      {0xc7, {kWho, kWhere}, "0200", "both set"},
  };
  for (const auto& row : rows) {
    LoginBench bench;
    EXPECT_EQ(bench.ask(row.flags, row.keys).substr(3, 4), row.status);
    EXPECT_NE(bench.words.find(row.words), std::string::npos) << bench.words;
  }
  LoginBench second;
  EXPECT_EQ(second.ask(kToFull, "", 0x23d0000010005).substr(3, 4), "020a");
}

TEST(IscsiLogin, AclRefusesStrangers) {
  LoginBench bench;
  auto closed = *Target::create("iqn.2026-01.test:closed");
  ASSERT_TRUE(closed.admit("iqn.2026-01.test:i2"));
  ASSERT_TRUE(bench.sessions->add(std::move(closed)));
  EXPECT_EQ(bench.ask(kToFull, {kWho, "TargetName=iqn.2026-01.test:closed"}).substr(3, 4), "0202");
  EXPECT_EQ(bench.words, "iqn.2026-01.test:i1 is not admitted to target iqn.2026-01.test:closed");
}

class ChapLogin : public LoginBench {
 public:
  ChapLogin() { target->set_authentication({{"bob", "secret of bob"}, {"tgt", "secret of tgt"}}); }
  /// Up to our challenge, which is 16 bytes of 2a, and its identifier 42.
  void begin() {
    EXPECT_EQ(ask(kToOperational, {kWho, kWhere, "AuthMethod=CHAP,None"}),
              "00 0000 TargetPortalGroupTag=1 AuthMethod=CHAP");
    EXPECT_EQ(ask(kInSecurity, {"CHAP_A=7,5"}),
              "00 0000 CHAP_A=5 CHAP_I=42 CHAP_C=0x2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a");
  }
  static std::string response(std::string_view secret) {
    const std::vector<std::byte> challenge(16, std::byte{0x2a});
    return "CHAP_R=" + hex_text(chap_response(std::byte{42}, secret, challenge));
  }
};

TEST(IscsiChap, OneWay) {
  ChapLogin bench;
  bench.begin();
  EXPECT_EQ(bench.ask(kToOperational, {"CHAP_N=bob", ChapLogin::response("secret of bob")}),
            "81 0000 ");
  EXPECT_EQ(bench.ask(kToFull, {}), "87 0000 MaxRecvDataSegmentLength=8192");
}

TEST(IscsiChap, Mutual) {
  ChapLogin bench;
  bench.begin();
  const std::vector<std::byte> theirs(16, std::byte{1});
  const std::string proof = hex_text(chap_response(std::byte{9}, "secret of tgt", theirs));
  EXPECT_EQ(bench.ask(kToOperational, {"CHAP_N=bob", ChapLogin::response("secret of bob"),
                                       "CHAP_I=9", "CHAP_C=" + hex_text(theirs)}),
            "81 0000 CHAP_N=tgt CHAP_R=" + proof);
}

TEST(IscsiChap, Refusals) {
  const auto fails = [](std::uint8_t flags, std::initializer_list<std::string_view> keys,
                        std::string_view words) {
    ChapLogin bench;
    bench.begin();
    EXPECT_EQ(bench.ask(flags, keys).substr(3, 4), "0201");
    EXPECT_NE(bench.words.find(words), std::string::npos) << bench.words;
  };
  const std::string right = ChapLogin::response("secret of bob");
  fails(kToOperational, {"CHAP_N=bob", ChapLogin::response("wrong")}, "another secret");
  fails(kToOperational, {"CHAP_N=eve", right}, "the user is 'bob'");
  fails(kToOperational, {"CHAP_N=bob"}, "no CHAP_R");
  fails(kToOperational,
        {"CHAP_N=bob", right, "CHAP_I=1", "CHAP_C=0x2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a"},
        "the target's own challenge");
  ChapLogin skips;
  EXPECT_EQ(skips.ask(kToFull, {kWho, kWhere}).substr(3, 4), "0201");
  ChapLogin silent;
  EXPECT_EQ(silent.ask(kToOperational, {kWho, kWhere}).substr(3, 4), "0201");
  ChapLogin none;
  EXPECT_EQ(none.ask(kToOperational, {kWho, kWhere, "AuthMethod=None"}).substr(3, 4), "0201");
  ChapLogin algorithm;
  algorithm.ask(kToOperational, {kWho, kWhere, "AuthMethod=CHAP"});
  EXPECT_EQ(algorithm.ask(kInSecurity, {"CHAP_A=6,7"}).substr(3, 4), "0201");
}

}  // namespace
}  // namespace verbatim::ulp::iscsi
