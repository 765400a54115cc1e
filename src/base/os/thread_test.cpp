#include "base/os/thread.h"

#include <atomic>

#include <gtest/gtest.h>
#include <sys/mman.h>

namespace verbatim {
namespace {

TEST(Thread, UsesMemoryWhoseProtectionKeyIsAllocatedLater) {
  std::atomic<char*> memory{nullptr};
  auto thread = start_thread("test", [&] {
    memory.wait(nullptr);
    *memory.load() = 1;
  });
  ASSERT_TRUE(thread);
  constexpr std::size_t kBytes = 4096;
  void* const page =
      mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const int key = pkey_alloc(0, 0);
  if (key >= 0) {
    EXPECT_EQ(pkey_mprotect(page, kBytes, PROT_READ | PROT_WRITE, key), 0);
  }
  memory = static_cast<char*>(page);
  memory.notify_all();
  thread->join();
  EXPECT_EQ(*static_cast<char*>(page), 1);
  if (key >= 0) pkey_free(key);
  munmap(page, kBytes);
  if (key < 0) GTEST_SKIP() << "no protection keys here";
}

}  // namespace
}  // namespace verbatim
