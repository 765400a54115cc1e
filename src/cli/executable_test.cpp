#include "cli/executable.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include <elf.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace verbatim::cli {
namespace {

class Executable : public ::testing::Test {
 protected:
  Executable() {
    std::string pattern = ::testing::TempDir() + "/verbatim-cli-XXXXXX";
    root_ = mkdtemp(pattern.data());
  }
  ~Executable() override { std::filesystem::remove_all(root_); }

  std::string make(const std::string& name, const std::string& content, mode_t mode = 0755) {
    const auto path = (root_ / name).string();
    std::ofstream(path, std::ios::binary) << content;
    chmod(path.c_str(), mode);
    return path;
  }

  /// Builds an ELF file with one segment of this type.
  static std::string elf(std::uint32_t segment_type, unsigned char word_size = ELFCLASS64) {
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = word_size;
    header.e_phoff = sizeof(header);
    header.e_phnum = 1;
    Elf64_Phdr segment{};
    segment.p_type = segment_type;
    std::string bytes(sizeof(header) + sizeof(segment), '\0');
    std::memcpy(bytes.data(), &header, sizeof(header));
    std::memcpy(bytes.data() + sizeof(header), &segment, sizeof(segment));
    return bytes;
  }

  std::filesystem::path root_;
};

TEST_F(Executable, IsFoundInTheFirstFolderThatHasIt) {
  std::filesystem::create_directory(root_ / "one");
  std::filesystem::create_directory(root_ / "two");
  make("two/tool", "#!/bin/sh\n");
  const auto search = (root_ / "one").string() + ":" + (root_ / "two").string();
  EXPECT_EQ(find_executable("tool", search).value(), (root_ / "two/tool").string());
}

TEST_F(Executable, MissingCommandIsNotFound) {
  EXPECT_EQ(find_executable("tool", root_.string()).error().code, ENOENT);
  EXPECT_EQ(find_executable((root_ / "tool").string(), "").error().code, ENOENT);
}

TEST_F(Executable, FileWithoutTheRightIsRefused) {
  const auto path = make("tool", "x", 0644);
  EXPECT_EQ(find_executable(path, "").error().code, EACCES);
  EXPECT_EQ(find_executable("tool", root_.string()).error().code, EACCES);
}

TEST_F(Executable, FolderIsNoCommand) {
  EXPECT_EQ(find_executable(root_.string(), "").error().code, EACCES);
}

TEST_F(Executable, DynamicProgramsAndScriptsUseTheDropins) {
  EXPECT_EQ(reason_dropins_are_ignored(make("dynamic", elf(PT_INTERP))), "");
  EXPECT_EQ(reason_dropins_are_ignored(make("script", "#!/bin/sh\n")), "");
}

TEST_F(Executable, StaticProgramIsTold) {
  EXPECT_NE(reason_dropins_are_ignored(make("static", elf(PT_LOAD))).find("static program"),
            std::string::npos);
}

TEST_F(Executable, OtherWordSizeIsTold) {
  const auto path = make("small", elf(PT_INTERP, ELFCLASS32));
  EXPECT_NE(reason_dropins_are_ignored(path).find("word size"), std::string::npos);
}

TEST_F(Executable, ProgramThatGainsRightsIsTold) {
  const auto path = make("setuid", elf(PT_INTERP));
  constexpr uid_t kNobody = 65534;
  if (chown(path.c_str(), kNobody, kNobody) != 0) GTEST_SKIP() << "needs root";
  chmod(path.c_str(), 04755);
  EXPECT_NE(reason_dropins_are_ignored(path).find("gains rights"), std::string::npos);
}

}  // namespace
}  // namespace verbatim::cli
