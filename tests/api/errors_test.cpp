#include <cerrno>
#include <future>
#include <set>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "test_util.h"

namespace verbatim {
namespace {

using kit::Pair;
using std::chrono::milliseconds;

/// An adapter whose completions all have the same status.
int (*poll_truly)(ibv_cq*, int, ibv_wc*) = nullptr;
ibv_wc_status told = IBV_WC_SUCCESS;
int poll_and_change(ibv_cq* queue, int most, ibv_wc* entries) {
  const int count = poll_truly(queue, most, entries);
  for (int i = 0; i < count; ++i) {
    entries[i].status = told;
    entries[i].vendor_err = 0x99;
  }
  return count;
}

struct StatusRow {
  ibv_wc_status code;
  Status status;
};
constexpr StatusRow kStatuses[] = {
    {IBV_WC_LOC_LEN_ERR, Status::local_length},
    {IBV_WC_LOC_QP_OP_ERR, Status::local_queue_pair_operation},
    {IBV_WC_LOC_PROT_ERR, Status::local_protection},
    {IBV_WC_WR_FLUSH_ERR, Status::flushed},
    {IBV_WC_MW_BIND_ERR, Status::window_bind},
    {IBV_WC_BAD_RESP_ERR, Status::bad_response},
    {IBV_WC_LOC_ACCESS_ERR, Status::local_access},
    {IBV_WC_REM_INV_REQ_ERR, Status::remote_invalid_request},
    {IBV_WC_REM_ACCESS_ERR, Status::remote_access},
    {IBV_WC_REM_OP_ERR, Status::remote_operation},
    {IBV_WC_RETRY_EXC_ERR, Status::transport_retries_exceeded},
    {IBV_WC_RNR_RETRY_EXC_ERR, Status::receiver_not_ready_retries_exceeded},
    {IBV_WC_REM_ABORT_ERR, Status::remote_aborted},
    {IBV_WC_FATAL_ERR, Status::other},
    {IBV_WC_GENERAL_ERR, Status::other},
};

TEST(Errors, EachStatusOfACompletionNamesRequestQueuePairAndCause) {
  Pair pair;
  auto& poll = pair.asker.native()->context->ops.poll_cq;
  for (const StatusRow& row : kStatuses) {
    SCOPED_TRACE(ibv_wc_status_str(row.code));
    told = row.code;
    poll_truly = std::exchange(poll, poll_and_change);
    const auto end = pair.asker.write(pair.here.slice(0, 8), pair.there.token()).wait();
    poll = poll_truly;
    ASSERT_FALSE(end);
    const Failure& failure = end.error();
    EXPECT_EQ(failure.status, row.status);
    EXPECT_EQ(failure.code, row.code);
    EXPECT_EQ(failure.operation, Operation::write);
    EXPECT_EQ(failure.queue_pair, pair.asker.number());
    EXPECT_EQ(failure.vendor_error, 0x99u);
    char number[32];
    std::snprintf(number, sizeof number, "0x%x", pair.asker.number());
    const std::string text = failure.message();
    EXPECT_EQ(text.find("write on queue pair " + std::string(number) + ": " +
                        std::string(to_string(row.status)) + " (" + std::to_string(row.code) + ")"),
              0u)
        << text;
    EXPECT_NE(text.find(usual_cause(row.status)), std::string::npos) << text;
    try {
      end.value();
      FAIL() << "value() does not throw";
    } catch (const Error& error) {
      EXPECT_EQ(error.what(), text);
      EXPECT_EQ(error.failure().status, row.status);
    }
  }
  const auto drained = pair.asker.drain();
  ASSERT_FALSE(drained) << "the first failure is kept";
  EXPECT_EQ(drained.error().status, Status::local_length);
}

TEST(Errors, HaveNamesThatDiffer) {
  std::set<std::string_view> names;
  for (int i = 0; i <= static_cast<int>(Status::other); ++i)
    names.insert(to_string(static_cast<Status>(i)));
  EXPECT_EQ(names.size(), static_cast<std::size_t>(Status::other) + 1);
  names.clear();
  for (int i = 0; i <= static_cast<int>(Call::wait); ++i)
    names.insert(to_string(static_cast<Call>(i)));
  EXPECT_EQ(names.size(), static_cast<std::size_t>(Call::wait) + 1);
  names.clear();
  for (int i = 0; i <= static_cast<int>(Operation::receive); ++i)
    names.insert(to_string(static_cast<Operation>(i)));
  EXPECT_EQ(names.size(), static_cast<std::size_t>(Operation::receive) + 1);
}

int refuse_post(ibv_qp*, ibv_send_wr* request, ibv_send_wr** bad) {
  *bad = request;
  return EINVAL;
}

TEST(Errors, APostThatTheAdapterRefusesLeavesNothingBehind) {
  Pair pair;
  auto& post = pair.asker.native()->context->ops.post_send;
  auto* const truly = std::exchange(post, refuse_post);
  RequestToken token = pair.asker.read(pair.here.slice(0, 8), pair.there.token());
  const auto posted = pair.asker.post_send(pair.here.slice(0, 8));
  post = truly;
  EXPECT_TRUE(token.done());
  const Failure failure = token.wait().error();
  EXPECT_EQ(failure.call, Call::post);
  EXPECT_EQ(failure.status, Status::refused);
  EXPECT_EQ(failure.code, EINVAL);
  EXPECT_NE(failure.message().find("posting a read on queue pair"), std::string::npos)
      << failure.message();
  EXPECT_EQ(posted.error().operation, Operation::send);
  EXPECT_EQ(pair.asker.in_flight(), 0u);
  EXPECT_TRUE(pair.asker.write(pair.here.slice(0, 8), pair.there.token()).wait());
}

TEST(Errors, OfSlicesAndTokensAreToldBeforeAnythingLeaves) {
  Pair pair;
  const Slice beyond = pair.here.slice(Pair::kBytes, 1);
  EXPECT_EQ(pair.peer.receive(beyond).wait().error().status, Status::out_of_range);
  const Slice many[] = {pair.here.slice(0, 1), pair.here.slice(1, 1)};
  EXPECT_EQ(pair.peer.receive(many).wait().error().status, Status::out_of_range);
  EXPECT_EQ(pair.asker.read(pair.here.slice(0, 9), pair.there.token(0, 8)).wait().error().status,
            Status::out_of_range);
  EXPECT_EQ(pair.asker.write(pair.here.slice(0, 8), pair.there.token().slice(Pair::kBytes, 8))
                .wait()
                .error()
                .status,
            Status::out_of_range);
  EXPECT_EQ(pair.asker.send(pair.here.slice(0, 4096), {.inlined = true}).wait().error().status,
            Status::out_of_range);
  EXPECT_EQ(pair.asker.batch().post().wait().error().status, Status::out_of_range);
  EXPECT_EQ(RequestToken().wait().error().status, Status::cancelled);
}

TEST(Errors, AfterTheEndOfTheConnection) {
  Pair pair;
  RequestToken received = pair.asker.receive(pair.here.slice(0, 8));
  const std::uint32_t number = pair.asker.number();
  pair.asker.disconnect();
  pair.asker.disconnect();
  EXPECT_EQ(received.wait().error().status, Status::flushed);
  EXPECT_FALSE(pair.asker.is_connected());
  const Failure failure = pair.asker.send(pair.here.slice(0, 8)).wait().error();
  EXPECT_EQ(failure.status, Status::disconnected);
  EXPECT_EQ(failure.queue_pair, number);
  EXPECT_EQ(pair.asker.receive(pair.here.slice(0, 8)).wait().error().status, Status::disconnected);
  EXPECT_EQ(pair.asker.batch().send(pair.here.slice(0, 8)).post().wait().error().status,
            Status::disconnected);
}

TEST(Errors, AFullQueueIsAStatus) {
  ConnectOptions small;
  small.queue_pair.receive_depth = 2;
  Pair pair({}, small);
  std::vector<RequestToken> tokens;
  for (int i = 0; i < 3; ++i) tokens.push_back(pair.peer.receive(pair.there.slice(0, 8)));
  EXPECT_FALSE(tokens[1].poll());
  EXPECT_EQ(tokens[2].wait().error().status, Status::queue_full);
  const auto narrow = CompletionQueue::make(pair.context, {.entries = 4}).value();
  ConnectOptions wide;
  wide.queue_pair.send_depth = static_cast<std::uint32_t>(narrow.native()->cqe) + 1;
  wide.queue_pair.completions = narrow;
  EXPECT_THROW(kit::connect_both(pair.domain, wide), Error);
}

TEST(Errors, OfConnectingSayWhatIsMissing) {
  const ProtectionDomain domain = Context::open().value().allocate_domain().value();
  const std::string address = kit::own_address(domain.context());
  EXPECT_EQ(connect(domain, "no such host", 1).error().status, Status::refused);
  Listener listener = Listener::open(domain, {.address = address}).value();
  EXPECT_EQ(listener.next(milliseconds(1)).error().status, Status::timed_out);
  EXPECT_EQ(listener.accept({}, milliseconds(1)).error().call, Call::accept);
  EXPECT_EQ(Listener::open(domain, {.address = "192.0.2.77"}).error().call, Call::listen);
  // No accept comes in time.
  const auto late = connect(domain, address, listener.port(), {.timeout = milliseconds(50)});
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().status, Status::timed_out);
  EXPECT_EQ(late.error().call, Call::connect);

  auto exchanged = exchange::Listener::open(domain).value();
  EXPECT_EQ(exchanged.accept({}, milliseconds(1)).error().status, Status::timed_out);
  EXPECT_EQ(exchange::connect(domain, "localhost", exchanged.port(), {.timeout = milliseconds(50)})
                .error()
                .status,
            Status::timed_out);
  ConnectOptions much;
  much.data.resize(65'537);
  EXPECT_EQ(exchange::connect(domain, "localhost", exchanged.port(), much).error().status,
            Status::out_of_range);
}

TEST(Errors, OfDevicesAndMemory) {
  EXPECT_EQ(Context::open({.name = "no-such-device"}).error().call, Call::open_device);
  EXPECT_EQ(Context::open({.address = "not an address"}).error().code, EINVAL);
  EXPECT_FALSE(Context::open({.port = 77}));
  const ProtectionDomain domain = Context::open().value().allocate_domain().value();
  const auto none = domain.allocate(std::size_t{0} - 1);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().call, Call::register_memory);
  EXPECT_FALSE(domain.register_memory({reinterpret_cast<std::byte*>(4096), 4096}));
}

TEST(Errors, AtomicOperationsNameWhatIsWrongWithTheirBytes) {
  Pair pair;
  const auto cell = pair.there.token();
  const auto refused = [&](std::uint32_t bytes, std::uint64_t at) {
    const auto end =
        pair.asker.compare_and_swap(pair.here.slice(0, bytes), cell.slice(at, 8), 0, 1).wait();
    return end ? std::string() : end.error().message();
  };
  EXPECT_EQ(refused(8, 8), "");
  EXPECT_NE(refused(4, 0).find("8 bytes"), std::string::npos) << refused(4, 0);
  EXPECT_NE(refused(8, 4).find("multiple of 8"), std::string::npos) << refused(8, 4);
}

TEST(Errors, AnEmptyDestinationIsRefused) {
  const ProtectionDomain domain = Context::open().value().allocate_domain().value();
  DatagramQueuePair queue_pair = DatagramQueuePair::make(domain).value();
  Buffer buffer = domain.allocate(64).value();
  const auto end = queue_pair.send(buffer.slice(0, 8), Destination()).wait();
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().status, Status::refused);
  EXPECT_NE(end.error().message().find("resolve"), std::string::npos) << end.error().message();
}

}  // namespace
}  // namespace verbatim
