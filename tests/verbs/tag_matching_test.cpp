#include <cerrno>
#include <optional>

#include <endian.h>
#include <infiniband/tm_types.h>

#include "test_util.h"

/// Tag matching shared receive queues.
namespace verbs_test {
namespace {

constexpr std::uint64_t kTag = 0x1122334455667788;
constexpr std::uint32_t kHeader = sizeof(ibv_tmh);
constexpr int kSignaled = IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC;

Owned<ibv_srq> create(const OpenDevice& host, ibv_cq* cq, std::uint32_t tags = 8) {
  ibv_srq_init_attr_ex wanted{};
  wanted.attr = {.max_wr = 16, .max_sge = 1, .srq_limit = 0};
  wanted.comp_mask =
      IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM;
  wanted.srq_type = IBV_SRQT_TM;
  wanted.pd = host.pd();
  wanted.cq = cq;
  wanted.tm_cap = {.max_num_tags = tags, .max_ops = 8};
  return Owned<ibv_srq>(ibv_create_srq_ex(host.context(), &wanted));
}

/// A sender, and a receiver with a tag matching queue.
struct Tags {
  explicit Tags(std::uint32_t sends = 0, const ConnectOptions& connection = {}) {
    receiver.emplace(host, EndpointOptions{.sends = sends, .srq = srq.get(), .shared_cq = cq()});
    sender.connect(receiver->address(), connection);
    receiver->connect(sender.address(), connection);
  }
  ibv_cq* cq() const { return ibv_cq_ex_to_cq(extended); }
  ~Tags() {
    receiver.reset();
    srq.reset();
    EXPECT_EQ(ibv_destroy_cq(cq()), 0);
  }
  static ibv_cq_ex* create_cq(const OpenDevice& host) {
    ibv_cq_init_attr_ex wanted{};
    wanted.cqe = 64;
    wanted.wc_flags = std::uint64_t{IBV_WC_STANDARD_FLAGS} | IBV_WC_EX_WITH_TM_INFO;
    return ibv_create_cq_ex(host.context(), &wanted);
  }

  int operate(ibv_ops_wr& request) const {
    ibv_ops_wr* bad = nullptr;
    return ibv_post_srq_ops(srq.get(), &request, &bad);
  }
  /// Adds a tagged receive and returns its handle.
  std::uint32_t add(std::uint64_t tag, std::uint64_t wr_id, ibv_sge segment, int flags = 0,
                    std::uint32_t handled = 0) const {
    ibv_ops_wr request{};
    request.wr_id = wr_id + 1000;
    request.opcode = IBV_WR_TAG_ADD;
    request.flags = flags;
    request.tm.unexpected_cnt = handled;
    request.tm.add = {
        .recv_wr_id = wr_id, .sg_list = &segment, .num_sge = 1, .tag = tag, .mask = ~0ull};
    EXPECT_EQ(operate(request), 0);
    return request.tm.handle;
  }
  int post(std::uint64_t wr_id, ibv_sge segment) const {
    ibv_recv_wr request{.wr_id = wr_id, .next = nullptr, .sg_list = &segment, .num_sge = 1};
    ibv_recv_wr* bad = nullptr;
    return ibv_post_srq_recv(srq.get(), &request, &bad);
  }
  /// Posts two receives of 200 bytes, at 0 and 200, for messages that match no tag.
  void post_two() const {
    for (std::uint64_t i = 0; i < 2; ++i) ASSERT_EQ(post(i, receiver->segment(i * 200, 200)), 0);
  }
  /// Sends `length` bytes, from `fill`, after a header.
  void send(ibv_tmh_op operation, std::uint32_t length, std::uint64_t tag = kTag) const {
    ibv_tmh header{.opcode = static_cast<std::uint8_t>(operation),
                   .reserved = {},
                   .app_ctx = htobe32(77),
                   .tag = htobe64(tag)};
    std::memcpy(sender.memory().data(), &header, sizeof header);
    fill(sender.memory().subspan(kHeader, length), 1);
    ASSERT_EQ(sender.post(IBV_WR_SEND, 1, 0, kHeader + length), 0);
  }
  /// Offers `length` bytes at 4096 in a rendezvous.
  void offer(std::uint32_t length) const {
    ibv_rvh source{
        .va = htobe64(sender.at(4096)), .rkey = htobe32(sender.mr()->rkey), .len = htobe32(length)};
    ibv_tmh header{
        .opcode = IBV_TMH_RNDV, .reserved = {}, .app_ctx = htobe32(77), .tag = htobe64(kTag)};
    std::memcpy(sender.memory().data(), &header, sizeof header);
    std::memcpy(sender.memory().data() + kHeader, &source, sizeof source);
    fill(sender.memory().subspan(4096, length), 2);
    ASSERT_EQ(sender.post(IBV_WR_SEND, 1, 0, kHeader + sizeof source), 0);
    ASSERT_OK(sender.wait());
  }
  void expect(std::uint64_t wr_id, ibv_wc_opcode opcode, unsigned flags,
              std::uint32_t bytes = 0) const {
    const ibv_wc entry = receiver->wait();
    ASSERT_OK(entry);
    EXPECT_EQ(entry.wr_id, wr_id);
    EXPECT_EQ(entry.opcode, opcode);
    EXPECT_EQ(entry.wc_flags, flags);
    EXPECT_EQ(entry.byte_len, bytes);
  }

  OpenDevice host;
  ibv_cq_ex* extended = create_cq(host);
  Owned<ibv_srq> srq = create(host, cq());
  Endpoint sender{host};
  std::optional<Endpoint> receiver;
};

TEST(TagMatching, AnEagerMessageGoesIntoItsTagsReceiveWithoutTheHeader) {
  Tags tags;
  ASSERT_EQ(tags.post(1, tags.receiver->segment(0, 200)), 0);
  tags.add(kTag + 1, 2, tags.receiver->segment(1000, 200), kSignaled);
  tags.expect(1002, IBV_WC_TM_ADD, 0);
  tags.add(kTag, 3, tags.receiver->segment(2000, 100));
  tags.send(IBV_TMH_EAGER, 100);
  ibv_poll_cq_attr attributes{};
  while (ibv_start_poll(tags.extended, &attributes) != 0) {
  }
  EXPECT_EQ(tags.extended->wr_id, 3u);
  EXPECT_EQ(tags.extended->status, IBV_WC_SUCCESS);
  EXPECT_EQ(ibv_wc_read_opcode(tags.extended), IBV_WC_TM_RECV);
  EXPECT_EQ(ibv_wc_read_wc_flags(tags.extended),
            unsigned{IBV_WC_TM_MATCH} | unsigned{IBV_WC_TM_DATA_VALID});
  EXPECT_EQ(ibv_wc_read_byte_len(tags.extended), 100u);
  ibv_wc_tm_info info{};
  ibv_wc_read_tm_info(tags.extended, &info);
  EXPECT_EQ(info.tag, kTag);
  EXPECT_EQ(info.priv, 77u);
  ibv_end_poll(tags.extended);
  EXPECT_EQ(difference(tags.receiver->memory().subspan(2000, 100), 1), std::nullopt);
}

TEST(TagMatching, ALongEagerMessageTellsItsMatchFirst) {
  Tags tags;
  tags.add(kTag, 3, tags.receiver->segment(0, 10'000));
  tags.send(IBV_TMH_EAGER, 10'000);
  tags.expect(3, IBV_WC_TM_RECV, IBV_WC_TM_MATCH);
  tags.expect(3, IBV_WC_TM_RECV, IBV_WC_TM_DATA_VALID, 10'000);
  EXPECT_EQ(difference(tags.receiver->memory().first(10'000), 1), std::nullopt);
}

TEST(TagMatching, AnEagerMessageThatIsTooLongIsALengthError) {
  Tags tags;
  tags.add(kTag, 3, tags.receiver->segment(0, 99));
  tags.send(IBV_TMH_EAGER, 100);
  const ibv_wc entry = tags.receiver->wait();
  EXPECT_EQ(entry.status, IBV_WC_LOC_LEN_ERR);
  EXPECT_EQ(entry.wr_id, 3u);
  EXPECT_EQ(tags.sender.wait().status, IBV_WC_REM_INV_REQ_ERR);
}

TEST(TagMatching, MessagesWithoutATagAndUnexpectedOnesKeepTheirHeader) {
  Tags tags;
  tags.post_two();
  tags.send(IBV_TMH_NO_TAG, 50);
  tags.expect(0, IBV_WC_TM_NO_TAG, 0, kHeader + 50);
  tags.add(kTag + 1, 3, tags.receiver->segment(1000, 100), kSignaled);
  tags.expect(1003, IBV_WC_TM_ADD, 0);
  tags.send(IBV_TMH_EAGER, 60);
  tags.expect(1, IBV_WC_TM_RECV, 0, kHeader + 60);
  EXPECT_EQ(tags.receiver->memory()[200], std::byte{IBV_TMH_EAGER});
  EXPECT_EQ(difference(tags.receiver->memory().subspan(200 + kHeader, 60), 1), std::nullopt);
}

TEST(TagMatching, NewTagsWaitUntilUnexpectedMessagesAreHandled) {
  Tags tags;
  tags.post_two();
  tags.send(IBV_TMH_EAGER, 8);
  tags.expect(0, IBV_WC_TM_RECV, 0, kHeader + 8);
  tags.add(kTag, 3, tags.receiver->segment(1000, 100), kSignaled, 0);
  tags.expect(1003, IBV_WC_TM_ADD, IBV_WC_TM_SYNC_REQ);
  tags.send(IBV_TMH_EAGER, 8);
  tags.expect(1, IBV_WC_TM_RECV, 0, kHeader + 8);
  ibv_ops_wr synchronize{};
  synchronize.wr_id = 9;
  synchronize.opcode = IBV_WR_TAG_SYNC;
  synchronize.flags = kSignaled;
  synchronize.tm.unexpected_cnt = 2;
  ASSERT_EQ(tags.operate(synchronize), 0);
  tags.expect(9, IBV_WC_TM_SYNC, 0);
  tags.send(IBV_TMH_EAGER, 8);
  tags.expect(3, IBV_WC_TM_RECV, IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID, 8);
}

TEST(TagMatching, ATagThatIsRemovedIsGone) {
  Tags tags;
  ibv_ops_wr remove{};
  remove.wr_id = 9;
  remove.opcode = IBV_WR_TAG_DEL;
  remove.tm.handle = tags.add(kTag, 3, tags.receiver->segment(0, 8));
  remove.flags = IBV_OPS_SIGNALED;
  ASSERT_EQ(tags.operate(remove), 0);
  tags.expect(9, IBV_WC_TM_DEL, 0);
  remove.flags = 0;  // An error completes without the flag, too.
  ASSERT_EQ(tags.operate(remove), 0);
  const ibv_wc again = tags.receiver->wait();
  EXPECT_EQ(again.opcode, IBV_WC_TM_DEL);
  EXPECT_EQ(again.status, IBV_WC_TM_ERR);
}

TEST(TagMatching, ARendezvousReadsTheDataAndTellsTheSender) {
  Tags tags;
  ASSERT_EQ(tags.sender.receive(5, 0, 64), 0);
  tags.add(kTag, 3, tags.receiver->segment(0, 20'000));
  tags.offer(20'000);
  tags.expect(3, IBV_WC_TM_RECV, IBV_WC_TM_MATCH);
  tags.expect(3, IBV_WC_TM_RECV, IBV_WC_TM_DATA_VALID, 20'000);
  EXPECT_EQ(difference(tags.receiver->memory().first(20'000), 2), std::nullopt);
  const ibv_wc finished = tags.sender.wait();
  ASSERT_OK(finished);
  EXPECT_EQ(finished.byte_len, kHeader + sizeof(ibv_rvh));
  ibv_tmh header{};
  std::memcpy(&header, tags.sender.memory().data(), sizeof header);
  EXPECT_EQ(header.opcode, IBV_TMH_FIN);
  EXPECT_EQ(header.tag, htobe64(kTag));
  EXPECT_EQ(header.app_ctx, htobe32(77));
}

TEST(TagMatching, ManyRendezvousAtOnceEndInTheirTags) {
  Tags tags;
  constexpr int kCount = 8;
  for (int round = 0; round < 20; ++round) {
    for (std::uint64_t i = 0; i < kCount; ++i) {
      ASSERT_EQ(tags.sender.receive(i, 1000, 64), 0);
      tags.add(kTag, i, tags.receiver->segment(i * 5000, 5000));
    }
    for (int i = 0; i < kCount; ++i) tags.offer(5000);
    int valid = 0;
    for (int i = 0; i < 2 * kCount; ++i) {
      const ibv_wc entry = tags.receiver->wait();
      ASSERT_OK(entry);
      valid += entry.wc_flags == IBV_WC_TM_DATA_VALID;
    }
    EXPECT_EQ(valid, kCount);
    for (int i = 0; i < kCount; ++i) ASSERT_OK(tags.sender.wait());
    for (std::size_t i = 0; i < kCount; ++i) {
      EXPECT_EQ(difference(tags.receiver->memory().subspan(i * 5000, 5000), 2), std::nullopt);
    }
  }
}

TEST(TagMatching, ARendezvousForATooSmallReceiveIsTheProgramsToFinish) {
  Tags tags;
  tags.add(kTag, 3, tags.receiver->segment(0, 100));
  tags.offer(101);
  const ibv_wc entry = tags.receiver->wait();
  EXPECT_EQ(entry.status, IBV_WC_TM_RNDV_INCOMPLETE);
  EXPECT_EQ(entry.wr_id, 3u);
  EXPECT_EQ(entry.wc_flags & IBV_WC_TM_MATCH, unsigned{IBV_WC_TM_MATCH});
  EXPECT_EQ(std::memcmp(tags.receiver->memory().data(), tags.sender.memory().data(), 32), 0);
}

TEST(TagMatching, ARendezvousIsUnexpectedWhereTheProgramHasTheSendQueue) {
  Tags tags(4);
  ASSERT_EQ(tags.post(1, tags.receiver->segment(0, 200)), 0);
  tags.add(kTag, 3, tags.receiver->segment(1000, 200));
  tags.offer(100);
  tags.expect(1, IBV_WC_TM_RECV, 0, 32);
  tags.send(IBV_TMH_EAGER, 100);
  tags.expect(3, IBV_WC_TM_RECV, IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID, 100);
}

TEST(TagMatching, ARendezvousWithAWrongKeyEndsInError) {
  Tags tags;
  tags.add(kTag, 3, tags.receiver->segment(0, 20'000));
  ibv_rvh source{.va = htobe64(tags.sender.at(0)), .rkey = 0, .len = htobe32(100)};
  std::memcpy(tags.sender.memory().data() + kHeader, &source, sizeof source);
  ibv_tmh header{.opcode = IBV_TMH_RNDV, .reserved = {}, .app_ctx = 0, .tag = htobe64(kTag)};
  std::memcpy(tags.sender.memory().data(), &header, sizeof header);
  ASSERT_EQ(tags.sender.post(IBV_WR_SEND, 1, 0, 32), 0);
  tags.expect(3, IBV_WC_TM_RECV, IBV_WC_TM_MATCH);
  const ibv_wc entry = tags.receiver->wait();
  EXPECT_EQ(entry.wr_id, 3u);
  EXPECT_EQ(entry.status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(tags.receiver->state(), IBV_QPS_ERR);
}

TEST(TagMatching, WrongUse) {
  Tags tags;
  EXPECT_EQ(create(tags.host, nullptr), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(create(tags.host, tags.cq(), 0), nullptr);
  ibv_device_attr_ex device{};
  ASSERT_EQ(ibv_query_device_ex(tags.host.context(), nullptr, &device), 0);
  EXPECT_EQ(create(tags.host, tags.cq(), device.tm_caps.max_num_tags + 1), nullptr);
  EXPECT_NE(create(tags.host, tags.cq(), device.tm_caps.max_num_tags), nullptr);
  EXPECT_EQ(tags.receiver->post(IBV_WR_SEND, 1, 0, 8), EINVAL) << "the send queue is the device's";
  for (std::uint64_t i = 0; i < 8; ++i) tags.add(i, i, tags.receiver->segment(0, 8));
  ibv_ops_wr request{};
  EXPECT_EQ(tags.operate(request), ENOMEM) << "the list is full";
  request.opcode = static_cast<ibv_ops_wr_opcode>(IBV_WR_TAG_SYNC + 1);
  EXPECT_EQ(tags.operate(request), EINVAL);
  request.opcode = IBV_WR_TAG_SYNC;
  request.flags = 4;
  EXPECT_EQ(tags.operate(request), EINVAL);
  ibv_srq_init_attr basic{.srq_context = nullptr,
                          .attr = {.max_wr = 1, .max_sge = 1, .srq_limit = 0}};
  const Owned<ibv_srq> other(ibv_create_srq(tags.host.pd(), &basic));
  ibv_ops_wr* bad = nullptr;
  request.flags = 0;
  EXPECT_EQ(ibv_post_srq_ops(other.get(), &request, &bad), EINVAL);
  EXPECT_EQ(bad, &request);
}

}  // namespace
}  // namespace verbs_test
