#include "cli/doctor/facts/elf_file.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <elf.h>
#include <gtest/gtest.h>

namespace verbatim::cli::doctor {
namespace {

class ElfFileTest : public ::testing::Test {
 protected:
  ElfFileTest() {
    std::string pattern = ::testing::TempDir() + "/verbatim-elf-XXXXXX";
    root_ = mkdtemp(pattern.data());
  }
  ~ElfFileTest() override { std::filesystem::remove_all(root_); }

  std::string make(const std::string& content) {
    std::ofstream(root_ / "file", std::ios::binary) << content;
    return root_ / "file";
  }
  std::filesystem::path root_;
};

TEST_F(ElfFileTest, AProgramNamesItsLoaderAndLibraries) {
  const auto elf = read_elf("/bin/ls");
  ASSERT_TRUE(elf);
  EXPECT_TRUE(elf->is_dynamic);
  EXPECT_NE(elf->loader.find("/ld-"), std::string::npos);
  EXPECT_NE(std::ranges::find(elf->needed, "libc.so.6"), elf->needed.end());
  EXPECT_EQ(elf->rdma_names, std::vector<std::string>{});
  EXPECT_FALSE(elf->contains_libibverbs);
}

TEST_F(ElfFileTest, OtherFilesAreNone) {
  EXPECT_FALSE(read_elf(make("")));
  EXPECT_FALSE(read_elf(make("#!/bin/sh\necho this is long enough to have a header\n")));
  EXPECT_FALSE(read_elf("/nowhere"));
  EXPECT_FALSE(read_elf("/dev/zero"));
  EXPECT_FALSE(read_elf("/"));
}

TEST_F(ElfFileTest, NamesOfLibrariesAreFoundAmongStrings) {
  std::string file(sizeof(Elf64_Ehdr), '\0');
  file.replace(0, SELFMAG, ELFMAG);
  file[EI_CLASS] = ELFCLASS64;
  for (const char* text : {"libibverbs.so.1", "/usr/lib/librdmacm.so", "no libibverbs.so.1 found",
                           "cannot load libibverbs.so.1", "libibverbs.so.1"}) {
    file.append(text).append(1, '\0');
  }
  EXPECT_EQ(read_elf(make(file))->rdma_names,
            (std::vector<std::string>{"libibverbs.so.1", "/usr/lib/librdmacm.so"}));
}

/// Users may name any file, so no number in it is trusted.
TEST_F(ElfFileTest, DamagedFilesAreSurvived) {
  std::ifstream source("/bin/true", std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(source), std::istreambuf_iterator<char>()};
  constexpr std::size_t kStep = 13;
  constexpr std::size_t kEnd = 0x400;
  for (std::size_t at = EI_CLASS; at < std::min(kEnd, whole.size()); at += kStep) {
    read_elf(make(whole.substr(0, at)));
    std::string damaged = whole;
    damaged.replace(at, 8, "\xff\xff\xff\xff\xff\xff\xff\x7f");
    read_elf(make(damaged));
    damaged.replace(EI_CLASS, 1, 1, char{ELFCLASS32});
    read_elf(make(damaged));
  }
}

}  // namespace
}  // namespace verbatim::cli::doctor
