#include "base/os/passed_descriptors.h"

#include <cerrno>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>

namespace verbatim {
namespace {

constexpr std::size_t kRoom = 2;  // Of a receiver in these tests.

struct Ends {
  UniqueFd a, b;
};

Ends connected() {
  int ends[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

/// The number that the next descriptor gets: it rises if one stays open.
int next_number() {
  const UniqueFd next(open("/dev/null", O_RDONLY | O_CLOEXEC));
  return next.get();
}

iovec piece_of(std::string& text) { return {text.data(), text.size()}; }

struct Message {
  const char* name;
  std::size_t sent;  // Descriptors beside it.
  int spare = -1;    // So many more the receiver's process may have; -1: enough.
  int error = 0;     // 0: it comes.
  std::size_t bytes = 4;
  bool is_cut = false;
};

class PassedMessage : public testing::TestWithParam<Message> {};

TEST_P(PassedMessage, ComeWholeOrNoneStaysOpen) {
  const Message& message = GetParam();
  const Ends ends = connected();
  std::string text(message.bytes, 'x'), room(8, ' ');
  const iovec out = piece_of(text), in = piece_of(room);
  const std::vector<int> numbers(message.sent, ends.a.get());
  ASSERT_TRUE(send_message(ends.a.get(), {&out, 1}, numbers));

  const int before = next_number();
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  if (message.spare >= 0) {
    const rlimit low{static_cast<rlim_t>(before + message.spare), limit.rlim_max};
    setrlimit(RLIMIT_NOFILE, &low);
  }
  {
    std::array<UniqueFd, kRoom> descriptors;
    const auto got = receive_message(ends.b.get(), {&in, 1}, descriptors);
    const int error = errno;
    setrlimit(RLIMIT_NOFILE, &limit);
    ASSERT_EQ(got.has_value(), message.error == 0);
    if (!got) {
      EXPECT_EQ(error, message.error);
      EXPECT_FALSE(descriptors[0]);
    } else {
      EXPECT_EQ(got->descriptors, message.sent);
      EXPECT_EQ(got->bytes, std::min(message.bytes, room.size()));
      EXPECT_EQ(got->is_cut, message.is_cut);
      for (std::size_t i = 0; i < message.sent; ++i) {
        EXPECT_EQ(fcntl(descriptors[i].get(), F_GETFD), FD_CLOEXEC);
      }
    }
  }
  EXPECT_EQ(next_number(), before);
}

constexpr Message kMessages[] = {
    {.name = "none", .sent = 0},
    {.name = "one", .sent = 1},
    {.name = "all_that_fit", .sent = kRoom},
    {.name = "one_too_many", .sent = kRoom + 1, .error = EPROTO},
    {.name = "as_many_as_the_kernel_takes", .sent = kPassedDescriptorsMax, .error = EPROTO},
    {.name = "no_number_left", .sent = 1, .spare = 0, .error = EMFILE},
    {.name = "one_number_left", .sent = 2, .spare = 1, .error = EMFILE},
    {.name = "too_long", .sent = 2, .bytes = 9, .is_cut = true},
};
INSTANTIATE_TEST_SUITE_P(Table, PassedMessage, testing::ValuesIn(kMessages),
                         [](const auto& one) { return std::string(one.param.name); });

TEST(PassedDescriptors, OneThatNobodyExpectsIsRefused) {
  const Ends ends = connected();
  std::string text = "x";
  const iovec piece = piece_of(text);
  const int beside = ends.a.get();
  ASSERT_TRUE(send_message(ends.a.get(), {&piece, 1}, {&beside, 1}));
  const int before = next_number();
  EXPECT_FALSE(receive_message(ends.b.get(), {&piece, 1}, {}));
  EXPECT_EQ(errno, EPROTO);
  EXPECT_EQ(next_number(), before);
}

TEST(PassedDescriptors, ErrorsAreThoseOfTheSocket) {
  Ends ends = connected();
  std::string text = "x";
  const iovec piece = piece_of(text);
  EXPECT_FALSE(receive_message(ends.b.get(), {&piece, 1}, {}));
  EXPECT_EQ(errno, EAGAIN);
  ends.b.reset();
  EXPECT_FALSE(send_message(ends.a.get(), {&piece, 1}, {}));  // No SIGPIPE.
  EXPECT_EQ(errno, EPIPE);
  const auto end = receive_message(ends.a.get(), {&piece, 1}, {});
  ASSERT_TRUE(end);
  EXPECT_EQ(end->bytes, 0u);
}

/// Control data that a program wants to send: the kernel refuses it, and we do not read beyond it.
struct ControlData {
  const char* name;
  std::size_t room;    // msg_controllen
  std::size_t length;  // cmsg_len
  int level = SOL_SOCKET;
  std::size_t found = 0;
};

class DescriptorsToSend : public testing::TestWithParam<ControlData> {};

TEST_P(DescriptorsToSend, AreFoundInsideTheControlDataAlone) {
  const ControlData& data = GetParam();
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(3 * sizeof(int))> bytes{};
  msghdr message{};
  message.msg_control = bytes.data();
  message.msg_controllen = bytes.size();
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = data.level;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = data.length;
  message.msg_controllen = data.room;
  std::size_t found = 0;
  for_each_descriptor(message, [&](int) { ++found; });
  EXPECT_EQ(found, data.found);
}

constexpr ControlData kControlData[] = {
    {.name = "none", .room = 0, .length = CMSG_LEN(4)},
    {.name = "half_a_header", .room = CMSG_LEN(0) - 1, .length = CMSG_LEN(4)},
    {.name = "two", .room = CMSG_LEN(8), .length = CMSG_LEN(8), .found = 2},
    {.name = "a_number_and_a_half", .room = CMSG_LEN(8), .length = CMSG_LEN(6), .found = 1},
    {.name = "a_length_of_nothing", .room = CMSG_LEN(8), .length = 0},
    {.name = "shorter_than_its_header", .room = CMSG_LEN(8), .length = CMSG_LEN(0) - 1},
    {.name = "longer_than_the_room", .room = CMSG_LEN(4), .length = CMSG_LEN(12)},
    {.name = "a_wild_length", .room = CMSG_LEN(8), .length = ~std::size_t{0}},
    {.name = "another_level", .room = CMSG_LEN(8), .length = CMSG_LEN(8), .level = IPPROTO_IP},
};
INSTANTIATE_TEST_SUITE_P(Table, DescriptorsToSend, testing::ValuesIn(kControlData),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace verbatim
