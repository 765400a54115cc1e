#include "agent/netlink/rdma_answers.h"

#include <cerrno>
#include <cstring>
#include <map>
#include <string>

#include <gtest/gtest.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>

#include "wire/hex_test_util.h"
#include "wire/netlink/rdma_request.h"

namespace verbatim::agent::netlink {
namespace {

using wire::netlink::Attribute;
using wire::netlink::Message;
using wire::netlink::MessageWriter;

constexpr Asker kUser{.port = 77, .has_admin_rights = false};
constexpr Asker kRoot{.port = 77, .has_admin_rights = true};
constexpr std::uint16_t kAck = NLM_F_REQUEST | NLM_F_ACK;
constexpr std::uint16_t kDump = kAck | NLM_F_DUMP;

/// A RoCE device with as many queue pairs as wanted.
RdmaFacts facts(std::uint32_t queue_pairs = 2) {
  PortFact port{.number = 1, .capabilities = 0x04010000, .state = 4, .physical_state = 5};
  port.interface_index = 2;
  port.interface = "eth0";
  port.counters = {{"sent_pkts", 12}, {"rcvd_pkts", 13}};
  ResourceFacts resources;
  for (std::uint32_t i = 0; i < queue_pairs; ++i) {
    resources.queue_pairs.push_back(
        {.id = 100 + i, .port = 1, .pid = 4242, .destination = 7, .type = 2, .state = 3});
  }
  resources.regions = {{.id = 5, .pid = 4242, .key = 0xabcd, .length = 4096, .domain = 3}};
  return {.device = {.index = 0,
                     .name = "verbatim0",
                     .firmware = "1.0",
                     .protocol = "roce",
                     .capabilities = 0x80,
                     .guid = 0x0200'00ff'fe00'0002,
                     .node_type = 1,
                     .ports = {port},
                     .character_device = "uverbs0",
                     .character_device_abi = 1,
                     .character_device_number = 0xe7c0},
          .resources = [resources] { return resources; }};
}

using Numbers = std::map<std::uint16_t, std::uint32_t>;

std::vector<std::byte> request(std::uint16_t operation, std::uint16_t flags,
                               const Numbers& numbers = {}) {
  MessageWriter out({.type = wire::netlink::rdma_message_type(operation),
                     .flags = flags,
                     .sequence = 9,
                     .port = 0});
  for (const auto& [type, number] : numbers) out.put_number(type, number);
  return std::move(out).finish();
}

std::vector<std::vector<std::byte>> ask(std::uint16_t operation, std::uint16_t flags,
                                        const Numbers& numbers = {}, const Asker& asker = kUser) {
  return answer(request(operation, flags, numbers), facts(), asker);
}

Message only_message(const std::vector<std::byte>& datagram) {
  ByteSpan rest = datagram;
  const auto message = wire::netlink::take_message(rest);
  EXPECT_TRUE(message && rest.empty());
  return message.value_or(Message{});
}

/// The errno value of an NLMSG_ERROR; -1 if it is none.
int error_of(const std::vector<std::byte>& datagram) {
  const Message message = only_message(datagram);
  if (message.header.type != NLMSG_ERROR) return -1;
  std::int32_t error = 0;
  std::memcpy(&error, message.attributes().data(), sizeof error);
  return -error;
}

ByteSpan value_of(ByteSpan attributes, std::uint16_t type) {
  while (const auto attribute = wire::netlink::take_attribute(attributes)) {
    if (attribute->type == type) return attribute->value;
  }
  return {};
}

std::string text_of(ByteSpan attributes, std::uint16_t type) {
  const Attribute found{.type = type, .value = value_of(attributes, type)};
  return std::string(found.text().value_or("missing"));
}

template <typename T>
T number_of(ByteSpan attributes, std::uint16_t type) {
  const Attribute found{.type = type, .value = value_of(attributes, type)};
  return found.number<T>().value_or(static_cast<T>(-1));
}

std::size_t count_of(ByteSpan attributes) {
  std::size_t count = 0;
  while (wire::netlink::take_attribute(attributes)) ++count;
  return count;
}

TEST(RdmaAnswers, ADumpOfDevicesEndsWithDone) {
  const auto answers = ask(RDMA_NLDEV_CMD_GET, kDump);
  ASSERT_EQ(answers.size(), 2u);
  const Message device = only_message(answers[0]);
  EXPECT_EQ(device.header.type, 0x1401);
  EXPECT_EQ(device.header.flags, NLM_F_MULTI);
  EXPECT_EQ(device.header.sequence, 9u);
  EXPECT_EQ(device.header.port, 77u);
  EXPECT_EQ(text_of(device.attributes(), RDMA_NLDEV_ATTR_DEV_NAME), "verbatim0");
  EXPECT_EQ(text_of(device.attributes(), RDMA_NLDEV_ATTR_DEV_PROTOCOL), "roce");
  EXPECT_EQ(number_of<std::uint32_t>(device.attributes(), RDMA_NLDEV_ATTR_PORT_INDEX), 1u);
  EXPECT_EQ(only_message(answers[1]).header.type, NLMSG_DONE);
}

TEST(RdmaAnswers, APortThenItsAcknowledgement) {
  const auto answers = ask(RDMA_NLDEV_CMD_PORT_GET, kAck,
                           {{RDMA_NLDEV_ATTR_DEV_INDEX, 0}, {RDMA_NLDEV_ATTR_PORT_INDEX, 1}});
  ASSERT_EQ(answers.size(), 2u);
  const ByteSpan port = only_message(answers[0]).attributes();
  EXPECT_EQ(number_of<std::uint8_t>(port, RDMA_NLDEV_ATTR_PORT_STATE), 4);
  EXPECT_EQ(text_of(port, RDMA_NLDEV_ATTR_NDEV_NAME), "eth0");
  EXPECT_TRUE(value_of(port, RDMA_NLDEV_ATTR_LID).empty());  // InfiniBand's alone.
  // The acknowledgement: error 0, and the request's header.
  EXPECT_EQ(wire::to_hex(answers[1]),
            "2400000002000001090000004d000000"
            "00000000"
            "20000000051405000900000000000000");
}

TEST(RdmaAnswers, WhatDoesNotExistGetsTheKernelsErrno) {
  struct Case {
    std::uint16_t operation;
    std::uint16_t flags;
    Numbers numbers;
    int error;
  };
  const Case cases[] = {
      {RDMA_NLDEV_CMD_GET, kAck, {}, EINVAL},
      {RDMA_NLDEV_CMD_GET, kAck, {{RDMA_NLDEV_ATTR_DEV_INDEX, 1}}, EINVAL},
      {RDMA_NLDEV_CMD_PORT_GET,
       kAck,
       {{RDMA_NLDEV_ATTR_DEV_INDEX, 0}, {RDMA_NLDEV_ATTR_PORT_INDEX, 2}},
       EINVAL},
      {RDMA_NLDEV_CMD_PORT_GET, kDump, {}, EINVAL},
      {RDMA_NLDEV_CMD_RES_QP_GET,
       kAck,
       {{RDMA_NLDEV_ATTR_DEV_INDEX, 0}, {RDMA_NLDEV_ATTR_RES_LQPN, 1}},
       ENOENT},
      {RDMA_NLDEV_CMD_RES_QP_GET, kAck, {{RDMA_NLDEV_ATTR_DEV_INDEX, 0}}, EINVAL},
      {RDMA_NLDEV_CMD_SYS_GET, kDump, {}, EINVAL},
      {RDMA_NLDEV_CMD_GET_CHARDEV, kAck, {{RDMA_NLDEV_ATTR_DEV_INDEX, 0}}, EINVAL},
      {RDMA_NLDEV_CMD_STAT_GET, kDump, {{RDMA_NLDEV_ATTR_DEV_INDEX, 0}}, EINVAL},
      {500, kAck, {}, EINVAL},
  };
  for (const Case& wrong : cases) {
    const auto answers = ask(wrong.operation, wrong.flags, wrong.numbers);
    ASSERT_EQ(answers.size(), 1u) << wrong.operation;
    EXPECT_EQ(error_of(answers[0]), wrong.error) << wrong.operation;
  }
}

TEST(RdmaAnswers, ChangesAreRefused) {
  for (const std::uint16_t change : {RDMA_NLDEV_CMD_SET, RDMA_NLDEV_CMD_NEWLINK,
                                     RDMA_NLDEV_CMD_SYS_SET, RDMA_NLDEV_CMD_STAT_SET}) {
    EXPECT_EQ(error_of(ask(change, kAck, {}, kUser).at(0)), EPERM);
    EXPECT_EQ(error_of(ask(change, kAck, {}, kRoot).at(0)), EOPNOTSUPP);
  }
}

TEST(RdmaAnswers, AnotherClientsMessagesAreRefused) {
  MessageWriter out({.type = RDMA_NL_GET_TYPE(RDMA_NL_IWCM, 1), .flags = kAck, .sequence = 1});
  EXPECT_EQ(error_of(answer(std::move(out).finish(), facts(), kUser).at(0)), EINVAL);
}

TEST(RdmaAnswers, ManyQueuePairsComeInDatagramsThatFitAndEachOnce) {
  constexpr std::uint32_t kMany = 1000;
  const auto answers =
      answer(request(RDMA_NLDEV_CMD_RES_QP_GET, kDump, {{RDMA_NLDEV_ATTR_DEV_INDEX, 0}}),
             facts(kMany), kUser);
  std::uint32_t next = 100;
  for (std::size_t i = 0; i + 1 < answers.size(); ++i) {
    EXPECT_LE(answers[i].size(), kAnswerBytesMax);
    ByteSpan table = value_of(only_message(answers[i]).attributes(), RDMA_NLDEV_ATTR_RES_QP);
    while (const auto entry = wire::netlink::take_attribute(table)) {
      EXPECT_EQ(number_of<std::uint32_t>(entry->value, RDMA_NLDEV_ATTR_RES_LQPN), next++);
      EXPECT_EQ(number_of<std::uint32_t>(entry->value, RDMA_NLDEV_ATTR_RES_PID), 4242u);
    }
  }
  EXPECT_EQ(next, 100 + kMany);
  EXPECT_EQ(only_message(answers.back()).header.type, NLMSG_DONE);
}

TEST(RdmaAnswers, ADumpOfNothingHasAnEmptyTable) {
  const auto answers = answer(
      request(RDMA_NLDEV_CMD_RES_QP_GET, kDump, {{RDMA_NLDEV_ATTR_DEV_INDEX, 0}}), facts(0), kUser);
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(count_of(value_of(only_message(answers[0]).attributes(), RDMA_NLDEV_ATTR_RES_QP)), 0u);
}

TEST(RdmaAnswers, KeysAreForAdministrators) {
  const Numbers region{{RDMA_NLDEV_ATTR_DEV_INDEX, 0}, {RDMA_NLDEV_ATTR_RES_MRN, 5}};
  const auto shown = [&](const Asker& asker) {
    const auto answers = ask(RDMA_NLDEV_CMD_RES_MR_GET, kAck, region, asker);
    return number_of<std::uint32_t>(only_message(answers.at(0)).attributes(),
                                    RDMA_NLDEV_ATTR_RES_LKEY);
  };
  EXPECT_EQ(shown(kRoot), 0xabcdu);
  EXPECT_EQ(shown(kUser), 0xffffffffu);  // Missing.
}

TEST(RdmaAnswers, StatisticsAreThePortsCounters) {
  const auto answers = ask(RDMA_NLDEV_CMD_STAT_GET, kAck,
                           {{RDMA_NLDEV_ATTR_DEV_INDEX, 0}, {RDMA_NLDEV_ATTR_PORT_INDEX, 1}});
  ASSERT_EQ(answers.size(), 2u);
  ByteSpan table = value_of(only_message(answers[0]).attributes(), RDMA_NLDEV_ATTR_STAT_HWCOUNTERS);
  const auto first = wire::netlink::take_attribute(table);
  ASSERT_TRUE(first);
  EXPECT_EQ(text_of(first->value, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_NAME), "sent_pkts");
  EXPECT_EQ(number_of<std::uint64_t>(first->value, RDMA_NLDEV_ATTR_STAT_HWCOUNTER_ENTRY_VALUE),
            12u);
}

TEST(RdmaAnswers, SeveralMessagesOfADatagramAreAnsweredInOrder) {
  auto both = request(RDMA_NLDEV_CMD_SYS_GET, kAck);
  const auto second = request(500, kAck);
  both.insert(both.end(), second.begin(), second.end());
  const auto answers = answer(both, facts(), kUser);
  ASSERT_EQ(answers.size(), 3u);
  EXPECT_EQ(error_of(answers[1]), 0);
  EXPECT_EQ(error_of(answers[2]), EINVAL);
}

}  // namespace
}  // namespace verbatim::agent::netlink
