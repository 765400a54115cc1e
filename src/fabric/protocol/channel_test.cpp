#include "fabric/protocol/channel.h"

#include <array>
#include <filesystem>
#include <iterator>

#include <gtest/gtest.h>

#include "base/os/passed_descriptors.h"

namespace verbatim::fabric::protocol {
namespace {

std::ptrdiff_t open_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

TEST(FabricChannel, DescriptorsThatNobodyAskedForAreClosed) {
  const auto ends = make_socket_pair();
  ASSERT_TRUE(ends);
  const auto before = open_descriptors();
  const Done done;
  const iovec piece{const_cast<Done*>(&done), sizeof done};
  const std::array<int, 2> sent{ends->first.get(), ends->first.get()};
  ASSERT_TRUE(send_message(ends->first.get(), {&piece, 1}, sent));
  Receiver receiver;
  EXPECT_EQ(receiver.receive(ends->second.get()).error().code, EPROTO);
  EXPECT_EQ(open_descriptors(), before);
}

}  // namespace
}  // namespace verbatim::fabric::protocol
