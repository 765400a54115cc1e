#include "fabric/topology/read.h"

#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "fabric/topology/write.h"

namespace verbatim::fabric {
namespace {

/// What Debian's ibnetdiscover printed of a switch with two hosts on ibsim, under opensm.
constexpr std::string_view kDiscovered = R"(#
# Topology file: generated on Tue Nov 24 07:37:41 2026
#
# Initiated from node 0000000000100003 port 0000000000100004

vendid=0x2c9
devid=0xd2f0
sysimgguid=0x200000
switchguid=0x200000(200000)
Switch	36 "S-0000000000200000"		# "S1" enhanced port 0 lid 2 lmc 0
[1]	"H-0000000000100000"[1](100001) 		# "H1" lid 1 4xHDR
[2]	"H-0000000000100003"[1](100004) 		# "H2" lid 5 4xSDR

vendid=0x0
devid=0x0
sysimgguid=0x100000
caguid=0x100000
Ca	2 "H-0000000000100000"		# "H1"
[1](100001) 	"S-0000000000200000"[1]		# lid 1 lmc 3 "S1" lid 2 4xHDR

vendid=0x0
devid=0x0
sysimgguid=0x100003
caguid=0x100003
Ca	2 "H-0000000000100003"		# "H2"
[1](100004) 	"S-0000000000200000"[2]		# lid 5 lmc 0 "S1" lid 2 4xSDR
)";

constexpr std::string_view kNet = R"(Switch	8 "Switch1"
[1]	"Hca1"[1] w=2 s=4 e=2
[2]	"Hca2"[2]
[3]	"Switch2"[3]
[4]	"Switch2"[4]

Switch 8 "Switch2"
[3]	"Switch1"[3]
[4]	"Switch1"[4]

Hca	2 "Hca1"
[1]	"Switch1"[1]

Hca	2 "Hca2"
[2]	"Switch1"[2]
)";

/// The text with its first `from` replaced.
std::string changed(std::string_view text, std::string_view from, std::string_view to) {
  std::string result(text);
  result.replace(result.find(from), from.size(), to);
  return result;
}

/// The only fault of a text.
std::string fault_of(std::string_view text) {
  const Reading reading = read_topology(text);
  EXPECT_EQ(reading.faults.size(), 1u);
  return reading.faults.empty() ? "" : text_of(reading.faults[0]);
}

TEST(ReadTopology, OutputOfIbnetdiscover) {
  const Reading reading = read_topology(kDiscovered);
  ASSERT_TRUE(reading.faults.empty()) << text_of(reading.faults[0]);
  EXPECT_TRUE(reading.remarks.empty());
  const Topology& topology = reading.topology;
  ASSERT_EQ(topology.nodes.size(), 3u);
  const Node expected{.kind = NodeKind::switch_node,
                      .ports = 36,
                      .enhanced_port_0 = true,
                      .name = "S1",
                      .guid = 0x200000,
                      .system_image_guid = 0x200000,
                      .vendor_id = 0x2c9,
                      .device_id = 0xd2f0,
                      .identities = {{.guid = 0x200000, .lid = Lid{2}}}};
  EXPECT_EQ(topology.nodes[0], expected);
  EXPECT_EQ(identity_of(topology.nodes[1], 1),
            (PortIdentity{.guid = 0x100001, .lid = Lid{1}, .lmc = 3}));
  ASSERT_EQ(topology.links.size(), 2u);
  EXPECT_EQ(topology.links[0], (Link{.a = {0, 1}, .b = {1, 1}, .speed = LinkSpeed::hdr}));
}

TEST(ReadTopology, IbsimsNetWithTheGuidsThatIbsimGives) {
  const Reading reading = read_topology(kNet);
  ASSERT_TRUE(reading.faults.empty()) << text_of(reading.faults[0]);
  const Topology& topology = reading.topology;
  ASSERT_EQ(topology.nodes.size(), 4u);
  EXPECT_EQ(topology.nodes[1].guid, 0x200001u);
  EXPECT_EQ(topology.nodes[3].guid, 0x100003u);
  EXPECT_EQ(identity_of(topology.nodes[3], 2).guid, 0x100005u);
  ASSERT_EQ(topology.links.size(), 4u);
  EXPECT_EQ(topology.links[0].speed, LinkSpeed::edr);
  EXPECT_EQ(topology.links[1].speed, LinkSpeed::sdr);
}

TEST(ReadTopology, WhatIsWrittenIsReadAsTheSame) {
  for (const std::string_view text : {kDiscovered, kNet}) {
    Topology topology = read_topology(text).topology;
    topology.links[0].length_m = 20;
    for (const Format format : {Format::ibnetdiscover, Format::ibsim}) {
      const Reading again = read_topology(write_topology(topology, format));
      ASSERT_TRUE(again.faults.empty()) << text_of(again.faults[0]);
      EXPECT_EQ(again.topology, topology);
    }
  }
}

TEST(ReadTopology, WritesWhatIbnetdiscoverPrints) {
  const std::string written =
      write_topology(read_topology(kDiscovered).topology, Format::ibnetdiscover);
  const auto nodes = [](std::string_view text) { return text.substr(text.find("\nvendid")); };
  EXPECT_EQ(nodes(written), nodes(kDiscovered));
}

TEST(ReadTopology, ASwitchCabledToItself) {
  const Reading reading = read_topology("Switch 4 \"S\"\n[1] \"S\"[2]\n[2] \"S\"[1]\n");
  EXPECT_TRUE(reading.faults.empty());
  ASSERT_EQ(reading.topology.links.size(), 1u);
  EXPECT_EQ(reading.topology.links[0], (Link{.a = {0, 1}, .b = {0, 2}}));
}

TEST(ReadTopology, HeadingsAndMessagesOfTheToolAreLeftOut) {
  const std::string text =
      "src/query_smp.c:195; umad bad status 110\nNon-Chassis Nodes\n\n" + std::string(kDiscovered);
  const Reading reading = read_topology(text);
  EXPECT_TRUE(reading.faults.empty());
  EXPECT_EQ(reading.remarks.size(), 2u);
}

TEST(ReadTopology, EndsThatDisagreeOnTheRate) {
  const Reading reading = read_topology(changed(kDiscovered, "lid 1 4xHDR", "lid 1 1xHDR"));
  EXPECT_TRUE(reading.faults.empty());
  ASSERT_EQ(reading.remarks.size(), 1u);
  EXPECT_EQ(text_of(reading.remarks[0]),
            "line 11: line 19 says another rate of this link: taken as 1xHDR");
  EXPECT_EQ(reading.topology.links[0].width, LinkWidth::x1);
}

TEST(ReadTopology, FaultsNameTheirLine) {
  EXPECT_EQ(fault_of("Swich 8 \"S\"\n"),
            "line 1: neither a node, nor a port, nor a key that is known: Swich 8 \"S\"");
  EXPECT_EQ(fault_of("\n[1] \"S\"[1]\n"),
            "line 2: a port's line belongs behind its node's, without a blank line between");
  EXPECT_EQ(fault_of("Switch 300 \"S\"\n"),
            "line 1: a node has 1 to 254 ports, which stand before its id");
  EXPECT_EQ(fault_of("Switch 8 \"S\"\n[1] \"H\"[1]\n"), "line 2: there is no node \"H\"");
  EXPECT_EQ(fault_of("Switch 8 \"S\"\n[9] \"S\"[1]\n"), "line 2: S has no port 9: it has 8");
  EXPECT_EQ(fault_of("Switch 8 \"S\"\n\nSwitch 8 \"S\"\n"),
            "line 3: there is a node \"S\" already");
  EXPECT_EQ(fault_of("switchguid=0x\nSwitch 8 \"S\"\n"), "line 1: switchguid is no number: 0x");
  EXPECT_EQ(fault_of("Switch 8 \"S\"\n[1] \"S\"[1]\n"),
            "line 2: a cable leads from a port to itself");
  EXPECT_EQ(fault_of("Switch 8 \"S\"\n[1] \"T\"[9]\n\nSwitch 8 \"T\"\n"),
            "line 2: T has no port 9: it has 8");
  EXPECT_EQ(fault_of("switchguid=5\nSwitch 8 \"S\"\n\nswitchguid=5\nSwitch 8 \"T\"\n"),
            "line 5: T and S have the same GUID 0x5");
  EXPECT_EQ(fault_of("SW    2  1 0x0002c90000000001 4x SDR - CA    5  1 0x2 ( 'S' - 'H' )\n"),
            "line 1: this is a list of ports (ibnetdiscover -p): take what ibnetdiscover prints "
            "without -p");
}

TEST(ReadTopology, GuidsAreNumbersWithOrWithoutTheirPrefix) {
  for (const char* guid : {"10000a", "0x10000a"}) {
    const auto reading = read_topology(
        fmt::format("Ca 1 \"H\"\n[1]({}) \"S\"[1]\n\nSwitch 2 \"S\"\n[1] \"H\"[1]\n", guid));
    ASSERT_TRUE(reading.faults.empty()) << reading.faults.front().text;
    EXPECT_EQ(reading.topology.nodes[0].identities[0].guid, 0x10000au);
  }
}

TEST(ReadTopology, BinaryFilesAreNotShown) {
  const std::string binary(
      "\x7f"
      "ELF\0\n\n",
      7);
  const Reading reading = read_topology(binary);
  ASSERT_EQ(reading.faults.size(), 1u);
  EXPECT_EQ(text_of(reading.faults[0]), "this is no text, but a binary file");
}

TEST(ReadTopology, TwoCablesInOnePort) {
  const Reading reading =
      read_topology(changed(kNet, "[4]\t\"Switch2\"[4]", "[4]\t\"Switch2\"[3]"));
  ASSERT_FALSE(reading.faults.empty());
  EXPECT_NE(text_of(reading.faults[0]).find("has two cables"), std::string::npos);
}

TEST(ReadTopology, FaultsAreBounded) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "nonsense\n";
  EXPECT_EQ(read_topology(text).faults.size(), kFaultsMax);
}

TEST(Rate, TextAndBack) {
  EXPECT_EQ(rate_text(LinkWidth::x12, LinkSpeed::fdr10), "12xFDR10");
  EXPECT_EQ(parse_rate("12xFDR10"), (Rate{LinkWidth::x12, LinkSpeed::fdr10}));
  for (const std::string_view text : {"", "4x", "xHDR", "3xHDR", "4xHDR2", "4HDR"}) {
    EXPECT_EQ(parse_rate(text), std::nullopt) << text;
  }
}

TEST(ReadTopology, ARateThatIsNoneIsRefusedAndAnUnknownOneRemarked) {
  const auto with = [](const std::string& rate) {
    return read_topology("Switch 36 \"S1\"\n[1] \"H1\"[1] # " + rate +
                         "\n\nHca 1 \"H1\"\n[1] \"S1\"[1] # " + rate + "\n");
  };
  for (const char* wrong : {"9xHDR", "4xHRD", "44xHDR"}) {
    const Reading reading = with(wrong);
    ASSERT_FALSE(reading.faults.empty()) << wrong;
    EXPECT_NE(text_of(reading.faults[0]).find(std::string(wrong) + " is no rate"),
              std::string::npos);
  }
  EXPECT_TRUE(with("4xHDR").faults.empty());
  for (const char* other : {"??x??", "2nd", "rack"}) EXPECT_TRUE(with(other).faults.empty());
  EXPECT_FALSE(with("??x??").remarks.empty());
}

TEST(ReadTopology, OnlyASwitchHasAPort0) {
  const Reading plain = read_topology(kDiscovered);
  for (const std::string_view port : {"enhanced port 0", "base port 0"}) {
    const Reading read = read_topology(
        changed(kDiscovered, "\"H1\"\n", fmt::format("\"H1\" {} lid 9 lmc 1\n", port)));
    EXPECT_TRUE(read.faults.empty());
    EXPECT_EQ(read.topology, plain.topology) << port;
  }
}

}  // namespace
}  // namespace verbatim::fabric
