#include "fabric/protocol/channel.h"

#include <cstring>
#include <filesystem>
#include <iterator>

#include <gtest/gtest.h>
#include <sys/socket.h>

namespace verbatim::fabric::protocol {
namespace {

std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

/// One message with two descriptors, of which the protocol knows none.
void send_two_descriptors(int fd) {
  const Done message;
  iovec piece{const_cast<Done*>(&message), sizeof message};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(2 * sizeof(int))> control{};
  const std::array<int, 2> sent{fd, fd};
  msghdr header{.msg_iov = &piece,
                .msg_iovlen = 1,
                .msg_control = control.data(),
                .msg_controllen = control.size()};
  cmsghdr* const first = CMSG_FIRSTHDR(&header);
  first->cmsg_level = SOL_SOCKET;
  first->cmsg_type = SCM_RIGHTS;
  first->cmsg_len = CMSG_LEN(sizeof sent);
  std::memcpy(CMSG_DATA(first), sent.data(), sizeof sent);
  ASSERT_GT(sendmsg(fd, &header, 0), 0);
}

TEST(FabricChannel, DescriptorsThatNobodyAskedForAreClosed) {
  const auto ends = make_socket_pair();
  ASSERT_TRUE(ends);
  const auto before = open_descriptors();
  for (int i = 0; i < 10; ++i) {
    send_two_descriptors(ends->first.get());
    Receiver receiver;
    const auto incoming = receiver.receive(ends->second.get());
    ASSERT_TRUE(incoming) << incoming.error().text;
    EXPECT_TRUE(decode<Done>(incoming->bytes));
  }
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace verbatim::fabric::protocol
