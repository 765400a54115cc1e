#include "agent/netlink/rdma_answers.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <expected>
#include <iterator>
#include <span>

#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>

#include "agent/netlink/encode.h"
#include "wire/netlink/rdma_request.h"

namespace verbatim::agent::netlink {
namespace {

using wire::netlink::Header;
using wire::netlink::Message;
using wire::netlink::rdma_message_type;
using wire::netlink::RdmaRequest;

using Datagram = std::vector<std::byte>;
/// The answer's datagrams without acknowledgement and end of dump, or an errno value.
using Answer = std::expected<std::vector<Datagram>, int>;

/// A request and what answers it.
struct Question {
  const RdmaRequest& request;
  const RdmaFacts& facts;
  const Asker& asker;

  bool is_dump() const { return (request.header.flags & NLM_F_DUMP) == NLM_F_DUMP; }
  bool names_device() const {
    return request.number(RDMA_NLDEV_ATTR_DEV_INDEX) == facts.device.index;
  }
  /// The port that it names; null if it names none, or one that does not exist.
  const PortFact* port() const {
    const auto number = request.number(RDMA_NLDEV_ATTR_PORT_INDEX);
    const auto& ports = facts.device.ports;
    const auto found = std::ranges::find_if(
        ports, [&](const PortFact& one) { return number && one.number == *number; });
    return names_device() && found != ports.end() ? &*found : nullptr;
  }
  MessageWriter begin(std::uint16_t operation) const {
    return MessageWriter({.type = rdma_message_type(operation),
                          .flags = static_cast<std::uint16_t>(is_dump() ? NLM_F_MULTI : 0),
                          .sequence = request.header.sequence,
                          .port = asker.port});
  }
  MessageWriter begin() const { return begin(request.operation); }
};

Answer one(MessageWriter&& message) {
  std::vector<Datagram> answer;
  answer.push_back(std::move(message).finish());
  return answer;
}

Answer nothing() { return std::vector<Datagram>(); }

Answer get_device(const Question& question) {
  if (!question.is_dump() && !question.names_device()) return std::unexpected(EINVAL);
  MessageWriter message = question.begin();
  put_device(message, question.facts.device);
  return one(std::move(message));
}

Answer get_port(const Question& question) {
  const DeviceFact& device = question.facts.device;
  if (!question.is_dump()) {
    const PortFact* const port = question.port();
    if (port == nullptr) return std::unexpected(EINVAL);
    // The kernel's own answer has the type of the device's.
    MessageWriter message = question.begin(RDMA_NLDEV_CMD_GET);
    put_port(message, device, *port);
    return one(std::move(message));
  }
  if (!question.names_device()) return std::unexpected(EINVAL);
  std::vector<Datagram> answer;
  for (const PortFact& port : device.ports) {
    MessageWriter message = question.begin();
    put_port(message, device, port);
    answer.push_back(std::move(message).finish());
  }
  return answer;
}

Answer get_system(const Question& question) {
  constexpr std::uint8_t kExclusive = 0;  // Each network namespace has devices of its own.
  MessageWriter message = question.begin();
  message.put_number(RDMA_NLDEV_SYS_ATTR_NETNS_MODE, kExclusive);
  message.put_number(RDMA_NLDEV_SYS_ATTR_COPY_ON_FORK, std::uint8_t{1});
  return one(std::move(message));
}

Answer get_character_device(const Question& question) {
  const DeviceFact& device = question.facts.device;
  if (!question.request.character_device) return std::unexpected(EINVAL);
  const bool names_a_device = question.request.number(RDMA_NLDEV_ATTR_DEV_INDEX).has_value();
  const bool names_a_port = question.request.number(RDMA_NLDEV_ATTR_PORT_INDEX).has_value();
  if (names_a_device && !question.names_device()) return std::unexpected(EINVAL);
  if (names_a_port && question.port() == nullptr) return std::unexpected(EINVAL);
  // The others would lead to files that answer nothing.
  if (!names_a_device || *question.request.character_device != "uverbs") {
    return std::unexpected(EOPNOTSUPP);
  }
  MessageWriter message = question.begin();
  message.put_number(RDMA_NLDEV_ATTR_CHARDEV, device.character_device_number);
  message.put_number(RDMA_NLDEV_ATTR_CHARDEV_ABI, std::uint64_t{device.character_device_abi});
  message.put_text(RDMA_NLDEV_ATTR_CHARDEV_NAME, device.character_device);
  return one(std::move(message));
}

Answer get_summary(const Question& question) {
  if (!question.is_dump() && !question.names_device()) return std::unexpected(EINVAL);
  MessageWriter message = question.begin();
  put_handle(message, question.facts.device);
  put_summary(message, question.facts.resources());
  return one(std::move(message));
}

/// How a request names the resources of a kind.
struct TableNames {
  std::uint16_t id;
  std::uint16_t table;
  std::uint16_t entry;
};

/// All resources, in as many messages as they need, each with a table.
template <typename Resource>
std::vector<Datagram> dump(const Question& question, const TableNames& names,
                           std::span<const Resource> resources) {
  std::vector<Datagram> answer;
  for (std::size_t next = 0; next < resources.size() || answer.empty();) {
    MessageWriter message = question.begin();
    put_handle(message, question.facts.device);
    const std::size_t table = message.begin_nest(names.table);
    const std::size_t first = next;
    for (; next < resources.size(); ++next) {
      const std::size_t before = message.size();
      const std::size_t entry = message.begin_nest(names.entry);
      put(message, resources[next], question.asker.has_admin_rights);
      message.end_nest(entry);
      if (message.size() <= kAnswerBytesMax || next == first) continue;
      message.cut(before);
      break;
    }
    message.end_nest(table);
    answer.push_back(std::move(message).finish());
  }
  return answer;
}

template <typename Resource>
Answer get_resources(const Question& question, const TableNames& names,
                     std::vector<Resource> resources) {
  if (!question.names_device()) return std::unexpected(EINVAL);
  const auto port = question.request.number(RDMA_NLDEV_ATTR_PORT_INDEX);
  if (port && question.port() == nullptr) return std::unexpected(EINVAL);
  if (port) {
    std::erase_if(resources,
                  [&](const Resource& one) { return one.port != 0 && one.port != *port; });
  }
  if (question.is_dump()) return dump(question, names, std::span<const Resource>(resources));
  const auto id = question.request.number(names.id);
  if (!id) return std::unexpected(EINVAL);
  const auto found = std::ranges::find(resources, *id, &Resource::id);
  if (found == resources.end()) return std::unexpected(ENOENT);
  MessageWriter message = question.begin();
  put_handle(message, question.facts.device);
  put(message, *found, question.asker.has_admin_rights);
  return one(std::move(message));
}

Answer get_queue_pairs(const Question& question) {
  return get_resources(
      question, {RDMA_NLDEV_ATTR_RES_LQPN, RDMA_NLDEV_ATTR_RES_QP, RDMA_NLDEV_ATTR_RES_QP_ENTRY},
      question.facts.resources().queue_pairs);
}

Answer get_identifiers(const Question& question) {
  return get_resources(
      question,
      {RDMA_NLDEV_ATTR_RES_CM_IDN, RDMA_NLDEV_ATTR_RES_CM_ID, RDMA_NLDEV_ATTR_RES_CM_ID_ENTRY},
      question.facts.resources().identifiers);
}

Answer get_regions(const Question& question) {
  return get_resources(
      question, {RDMA_NLDEV_ATTR_RES_MRN, RDMA_NLDEV_ATTR_RES_MR, RDMA_NLDEV_ATTR_RES_MR_ENTRY},
      question.facts.resources().regions);
}

Answer get_contexts(const Question& question) {
  return get_resources(
      question, {RDMA_NLDEV_ATTR_RES_CTXN, RDMA_NLDEV_ATTR_RES_CTX, RDMA_NLDEV_ATTR_RES_CTX_ENTRY},
      question.facts.resources().contexts);
}

/// A table of counters that are bound to queue pairs or regions: there are none.
Answer get_bound_counters(const Question& question, std::uint16_t table) {
  if (!question.names_device()) return std::unexpected(EINVAL);
  MessageWriter message = question.begin();
  put_handle(message, question.facts.device);
  message.end_nest(message.begin_nest(table));
  return one(std::move(message));
}

/// Whether queue pairs are bound to counters automatically: they are not.
Answer get_counter_mode(const Question& question) {
  const PortFact* const port = question.port();
  const bool names_a_counter = question.request.number(RDMA_NLDEV_ATTR_STAT_COUNTER_ID).has_value();
  if (port == nullptr || names_a_counter) return std::unexpected(EINVAL);
  MessageWriter message = question.begin();
  put_handle(message, question.facts.device);
  message.put_number(RDMA_NLDEV_ATTR_PORT_INDEX, port->number);
  message.put_number(RDMA_NLDEV_ATTR_STAT_MODE, std::uint32_t{RDMA_COUNTER_MODE_NONE});
  return one(std::move(message));
}

Answer get_statistics(const Question& question) {
  const auto of = question.request.number(RDMA_NLDEV_ATTR_STAT_RES);
  if (question.is_dump()) {
    if (of == RDMA_NLDEV_ATTR_RES_QP) {
      return get_bound_counters(question, RDMA_NLDEV_ATTR_STAT_COUNTER);
    }
    if (of == RDMA_NLDEV_ATTR_RES_MR) return get_bound_counters(question, RDMA_NLDEV_ATTR_RES_MR);
    return std::unexpected(EINVAL);
  }
  if (of == RDMA_NLDEV_ATTR_RES_QP) return get_counter_mode(question);
  const PortFact* const port = question.port();
  if (of || port == nullptr) return std::unexpected(EINVAL);
  MessageWriter message = question.begin();
  put_handle(message, question.facts.device);
  put_counters(message, *port);
  return one(std::move(message));
}

Answer get_counter_names(const Question& question) {
  const PortFact* const port = question.port();
  if (port == nullptr) return std::unexpected(EINVAL);
  MessageWriter message = question.begin();
  put_handle(message, question.facts.device);
  put_counter_names(message, *port);
  return one(std::move(message));
}

/// Changes: the device is as its node was started.
Answer refuse_change(const Question& /*question*/) { return std::unexpected(EOPNOTSUPP); }
/// Of these a program's agent knows nothing: no list is better than an empty one.
Answer refuse_unknown(const Question& /*question*/) { return std::unexpected(EOPNOTSUPP); }
/// Of the driver's own formats there are none.
Answer refuse_raw(const Question& /*question*/) { return std::unexpected(EINVAL); }

struct Operation {
  std::uint16_t number;
  bool needs_admin_rights;
  bool can_ask;   // One thing.
  bool can_dump;  // All.
  Answer (*answer)(const Question&);
};

constexpr std::array kOperations = std::to_array<Operation>({
    {RDMA_NLDEV_CMD_GET, false, true, true, get_device},
    {RDMA_NLDEV_CMD_SET, true, true, false, refuse_change},
    {RDMA_NLDEV_CMD_NEWLINK, true, true, false, refuse_change},
    {RDMA_NLDEV_CMD_DELLINK, true, true, false, refuse_change},
    {RDMA_NLDEV_CMD_PORT_GET, false, true, true, get_port},
    {RDMA_NLDEV_CMD_SYS_GET, false, true, false, get_system},
    {RDMA_NLDEV_CMD_SYS_SET, true, true, false, refuse_change},
    {RDMA_NLDEV_CMD_RES_GET, false, true, true, get_summary},
    {RDMA_NLDEV_CMD_RES_QP_GET, false, true, true, get_queue_pairs},
    {RDMA_NLDEV_CMD_RES_CM_ID_GET, false, true, true, get_identifiers},
    {RDMA_NLDEV_CMD_RES_CQ_GET, false, true, true, refuse_unknown},
    {RDMA_NLDEV_CMD_RES_MR_GET, false, true, true, get_regions},
    {RDMA_NLDEV_CMD_RES_PD_GET, false, true, true, refuse_unknown},
    {RDMA_NLDEV_CMD_RES_SRQ_GET, false, true, true, refuse_unknown},
    {RDMA_NLDEV_CMD_RES_CTX_GET, false, true, true, get_contexts},
    {RDMA_NLDEV_CMD_GET_CHARDEV, false, true, false, get_character_device},
    {RDMA_NLDEV_CMD_STAT_SET, true, true, false, refuse_change},
    {RDMA_NLDEV_CMD_STAT_GET, false, true, true, get_statistics},
    {RDMA_NLDEV_CMD_STAT_DEL, true, true, false, refuse_change},
    {RDMA_NLDEV_CMD_RES_QP_GET_RAW, true, true, true, refuse_raw},
    {RDMA_NLDEV_CMD_RES_CQ_GET_RAW, true, true, true, refuse_raw},
    {RDMA_NLDEV_CMD_RES_MR_GET_RAW, true, true, true, refuse_raw},
    {RDMA_NLDEV_CMD_STAT_GET_STATUS, false, true, false, get_counter_names},
});

Answer answer_of(const Question& question) {
  const auto* const operation =
      std::ranges::find(kOperations, question.request.operation, &Operation::number);
  if (question.request.client != RDMA_NL_NLDEV || operation == kOperations.end()) {
    return std::unexpected(EINVAL);
  }
  if (operation->needs_admin_rights && !question.asker.has_admin_rights) {
    return std::unexpected(EPERM);
  }
  const bool fits = question.is_dump() ? operation->can_dump : operation->can_ask;
  return fits ? operation->answer(question) : std::unexpected(EINVAL);
}

/// NLMSG_ERROR: 0 acknowledges. The request follows, of a success its header alone.
Datagram acknowledge(const Message& message, int error, const Asker& asker) {
  const bool is_capped = error == 0;
  MessageWriter out({.type = NLMSG_ERROR,
                     .flags = static_cast<std::uint16_t>(is_capped ? NLM_F_CAPPED : 0),
                     .sequence = message.header.sequence,
                     .port = asker.port});
  const std::int32_t negative = -error;
  out.put_raw(std::as_bytes(std::span(&negative, 1)));
  out.put_raw(is_capped ? message.bytes.first(Header::kSize) : message.bytes);
  return std::move(out).finish();
}

Datagram end_of_dump(const Message& message, const Asker& asker) {
  MessageWriter out({.type = NLMSG_DONE,
                     .flags = NLM_F_MULTI,
                     .sequence = message.header.sequence,
                     .port = asker.port});
  const std::int32_t none = 0;
  out.put_raw(std::as_bytes(std::span(&none, 1)));
  return std::move(out).finish();
}

void answer_message(const Message& message, const RdmaFacts& facts, const Asker& asker,
                    std::vector<Datagram>& out) {
  const bool wants_acknowledgement = (message.header.flags & NLM_F_ACK) != 0;
  Answer found = nothing();
  bool is_dump = false;
  if ((message.header.flags & NLM_F_REQUEST) != 0 && message.header.type >= NLMSG_MIN_TYPE) {
    const auto request = wire::netlink::decode_rdma_request(message);
    if (request) {
      const Question question{*request, facts, asker};
      found = answer_of(question);
      is_dump = found && question.is_dump();
    } else {
      found = std::unexpected(request.error());
    }
  }
  if (!found) return out.push_back(acknowledge(message, found.error(), asker));
  std::ranges::move(*found, std::back_inserter(out));
  if (is_dump) {
    out.push_back(end_of_dump(message, asker));
  } else if (wants_acknowledgement) {
    out.push_back(acknowledge(message, 0, asker));
  }
}

}  // namespace

std::vector<Datagram> answer(ByteSpan datagram, const RdmaFacts& facts, const Asker& asker) {
  constexpr std::size_t kAnswersMax = 256;  // Programs ask one thing at a time.
  std::vector<Datagram> out;
  while (const auto message = wire::netlink::take_message(datagram)) {
    if (out.size() >= kAnswersMax) {
      out.push_back(acknowledge(*message, ENOBUFS, asker));
      break;
    }
    answer_message(*message, facts, asker, out);
  }
  return out;
}

}  // namespace verbatim::agent::netlink
