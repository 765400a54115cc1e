#include "cm/iwarp/mpa_setup.h"

#include <gtest/gtest.h>

/// Requests and Replies of MPA, between two sides of ours and with older peers.
namespace verbatim::cm {
namespace {

using RtrMessage = MpaParameters::RtrMessage;
using Bytes = std::vector<std::byte>;

Bytes words(std::string_view text) {
  Bytes bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

MpaMessage parsed(const Bytes& bytes) {
  auto message = parse_mpa(bytes);
  EXPECT_TRUE(message && *message);
  EXPECT_EQ((*message)->bytes, bytes.size());
  return **message;
}

/// Each side's view of the negotiated parameters.
struct Meeting {
  Meeting(const MpaOffer& initiator, const MpaOffer& responder) {
    request = compose_mpa_request(initiator, words("to you"));
    const MpaMessage asked = parsed(request);
    EXPECT_FALSE(asked.frame.is_reply);
    EXPECT_EQ(Bytes(asked.private_data.begin(), asked.private_data.end()), words("to you"));
    const auto accepted = accept_mpa(asked, responder, words("and to you"));
    EXPECT_TRUE(accepted);
    there = accepted->agreement;
    reply = accepted->reply;
    const MpaMessage answer = parsed(reply);
    EXPECT_TRUE(answer.frame.is_reply);
    EXPECT_EQ(Bytes(answer.private_data.begin(), answer.private_data.end()), words("and to you"));
    const auto agreed = negotiate_mpa(initiator, answer);
    EXPECT_TRUE(agreed) << agreed.error();
    here = *agreed;
  }
  Bytes request, reply;
  MpaParameters here, there;
};

TEST(MpaSetup, DepthsAreWhatBothCan) {
  const Meeting meeting({.inbound_reads = 4, .outbound_reads = 16},
                        {.inbound_reads = 8, .outbound_reads = 9});
  EXPECT_EQ(meeting.here.outbound_reads, 8);
  EXPECT_EQ(meeting.there.inbound_reads, 8);
  EXPECT_EQ(meeting.here.inbound_reads, 4);
  EXPECT_EQ(meeting.there.outbound_reads, 4);
}

TEST(MpaSetup, PeersSayThatTheyAreReadyByAnEmptyRead) {
  const Meeting meeting({.outbound_reads = 1}, {.inbound_reads = 0});
  EXPECT_EQ(meeting.here.ready, RtrMessage::read);
  EXPECT_EQ(meeting.there.ready, RtrMessage::read);
  EXPECT_EQ(meeting.here.outbound_reads, 1);
  EXPECT_EQ(meeting.there.inbound_reads, 1);
}

TEST(MpaSetup, WhoAsksForNoReadsSaysSoByAnEmptyReadAsWell) {
  const Meeting meeting({.outbound_reads = 0}, {.inbound_reads = 0});
  EXPECT_EQ(meeting.here.ready, RtrMessage::read);
  EXPECT_EQ(meeting.there.ready, RtrMessage::read);
  EXPECT_EQ(meeting.here.outbound_reads, 0);
  EXPECT_EQ(meeting.there.inbound_reads, 1);
}

TEST(MpaSetup, AClientAndItsServerSayNothing) {
  const Meeting meeting({.peer_to_peer = false}, {});
  EXPECT_EQ(meeting.here.ready, RtrMessage::nothing);
  EXPECT_EQ(meeting.there.ready, RtrMessage::nothing);
}

TEST(MpaSetup, EachSideHasMarkersInWhatComesIfItWantsThem) {
  const Meeting meeting({.wants_markers = true}, {});
  EXPECT_TRUE(meeting.here.receives_markers);
  EXPECT_FALSE(meeting.here.sends_markers);
  EXPECT_TRUE(meeting.there.sends_markers);
  EXPECT_FALSE(meeting.there.receives_markers);
}

TEST(MpaSetup, WhoWantsACrcBindsBoth) {
  EXPECT_TRUE(Meeting({.wants_crc = false}, {.wants_crc = true}).here.has_crc);
  EXPECT_TRUE(Meeting({.wants_crc = true}, {.wants_crc = false}).there.has_crc);
  EXPECT_FALSE(Meeting({.wants_crc = false}, {.wants_crc = false}).here.has_crc);
}

TEST(MpaSetup, RevisionOneHasNoDepthsAndNoReadiness) {
  const Meeting meeting({.revision = 1, .inbound_reads = 4, .outbound_reads = 16},
                        {.inbound_reads = 8, .outbound_reads = 9});
  EXPECT_EQ(parsed(meeting.reply).frame.revision, 1);
  EXPECT_EQ(meeting.here.outbound_reads, 16);
  EXPECT_EQ(meeting.there.outbound_reads, 9);
  EXPECT_EQ(meeting.there.ready, RtrMessage::nothing);
}

TEST(MpaSetup, AReplyOfANewerRevisionIsRefused) {
  const MpaOffer old{.revision = 1};
  const MpaMessage answer = parsed(accept_mpa(parsed(compose_mpa_request({}, {})), {}, {})->reply);
  EXPECT_FALSE(negotiate_mpa(old, answer));
}

TEST(MpaSetup, WhoWouldReadMoreAtOnceThanItMayIsRefused) {
  const MpaMessage answer = parsed(
      accept_mpa(parsed(compose_mpa_request({.inbound_reads = 9}, {})), {.outbound_reads = 9}, {})
          ->reply);
  const auto agreed = negotiate_mpa({.inbound_reads = 8}, answer);
  ASSERT_FALSE(agreed);
  EXPECT_EQ(agreed.error(), "it would ask for 9 READs at once, and may for 8");
}

TEST(MpaSetup, ARejectionCarriesItsWords) {
  const Bytes request = compose_mpa_request({}, {});
  const Bytes refusal = refuse_mpa(parsed(request), words("not now"));
  const MpaMessage answer = parsed(refusal);
  EXPECT_TRUE(answer.frame.is_rejection);
  EXPECT_EQ(Bytes(answer.private_data.begin(), answer.private_data.end()), words("not now"));
}

TEST(MpaSetup, AMessageComesInPieces) {
  const Bytes request = compose_mpa_request({}, words("private"));
  for (std::size_t size = 0; size < request.size(); ++size) {
    const auto message = parse_mpa(std::span(request).first(size));
    ASSERT_TRUE(message);
    EXPECT_FALSE(*message) << size;
  }
}

TEST(MpaSetup, WishesAreWords) {
  const auto framing = [](std::string_view list) {
    const MpaOffer offer = parse_mpa_options(list).value();
    return std::pair{offer.wants_crc, offer.wants_markers};
  };
  EXPECT_EQ(framing(""), std::pair(true, false));
  EXPECT_EQ(framing("no-crc"), std::pair(false, false));
  EXPECT_EQ(framing("no-crc,markers"), std::pair(false, true));
  for (const char* text : {"crc", ",", "no-crc,", "no-crc,,markers"}) {
    const auto wishes = parse_mpa_options(text);
    ASSERT_FALSE(wishes) << text;
    EXPECT_EQ(wishes.error().code, EINVAL);
  }
}

TEST(MpaSetup, WhatIsNoMpaIsRefused) {
  Bytes request = compose_mpa_request({}, words("private"));
  request[3] = std::byte{'x'};
  EXPECT_EQ(parse_mpa(request).error(), wire::WireError::mpa_key);
}

}  // namespace
}  // namespace verbatim::cm
