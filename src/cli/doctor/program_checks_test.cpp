#include <cerrno>
#include <string>
#include <vector>

#include <elf.h>
#include <gtest/gtest.h>

#include "cli/doctor/check_case_test_util.h"
#include "cli/doctor/facts/program.h"

namespace verbatim::cli::doctor {
namespace {

constexpr const char* kOurs = "/opt/verbatim/lib/libibverbs.so.1";

/// A program that is linked with libibverbs and finds ours.
Program healthy() {
  Program program{};
  program.command = "ib_write_bw";
  program.path = "/usr/bin/ib_write_bw";
  program.elf = read_elf("/proc/self/exe").value();
  program.elf->rdma_names.clear();
  program.elf->rpath.clear();
  program.elf->sets_asan_options = false;
  program.elf->contains_libibverbs = false;  // This test program contains the message.
  program.libraries = {{"libibverbs.so.1", kOurs, true, {}},
                       {"libc.so.6", "/lib/x86_64-linux-gnu/libc.so.6", false, {}}};
  return program;
}

LoadedLibrary& rdma_library(Program& program) {
  LoadedLibrary& library = program.libraries[0];
  library.path = "/usr/lib/libibverbs.so.1";
  library.is_ours = false;
  return library;
}

using Case = CheckCase<Program>;

const std::vector<Case> kFile = {
    {"Missing", [](Program& p) { p.path = refuse(ENOENT, "no such command"); }, Verdict::fault,
     "file", "no such command", "give the path"},
    {"InterpreterMissing", [](Program& p) { p.missing_interpreter = "/bin/perl7"; }, Verdict::fault,
     "file", "/bin/perl7, which is not there", "install"},
    {"NoInterpreterLine", [](Program& p) { p.is_script_without_interpreter = true; }, Verdict::note,
     "file", "neither a program nor a script", "#!/bin/sh"},
    {"Script", [](Program& p) { p.interpreters = {"/usr/bin/python3"}; }, Verdict::ok, "file",
     "/usr/bin/python3 runs", ""},
    {"Launcher", [](Program& p) { p.command = "/usr/bin/docker"; }, Verdict::note, "launcher",
     "libraries and an environment of its own", "into the image"},
    {"Valgrind", [](Program& p) { p.command = "valgrind"; }, Verdict::note, "launcher",
     "take the wire", "without valgrind"},
    {"Sanitizer", [](Program& p) { p.elf->needed = {"libasan.so.8"}; }, Verdict::ok, "sanitizer",
     "libasan.so.8: it starts behind", ""},
    {"SanitizerWithOwnOptions",
     [](Program& p) {
       p.elf->needed = {"libasan.so.8"};
       p.elf->sets_asan_options = true;
     },
     Verdict::ok, "sanitizer", "loads it first", ""},
    {"GainsRights", [](Program& p) { p.gains_rights = true; }, Verdict::fault, "rights",
     "ignores LD_LIBRARY_PATH", "a copy without them"},
    {"OtherArchitecture", [](Program& p) { p.elf->machine = EM_S390; }, Verdict::fault,
     "architecture", "s390", "build Verbatim"},
    {"OtherWordSize", [](Program& p) { p.elf->machine = EM_386, p.elf->is_64_bit = false; },
     Verdict::fault, "architecture", "32 bits", "build Verbatim"},
};

const std::vector<Case> kLoading = {
    {"Static", [](Program& p) { p.elf->is_dynamic = false, p.libraries.clear(); }, Verdict::fault,
     "loader", "a static program", "link it dynamically"},
    {"NoLoader", [](Program& p) { p.has_loader = false; }, Verdict::fault, "loader", "is not there",
     "install the C library"},
    {"Musl", [](Program& p) { p.elf->loader = "/lib/ld-musl-x86_64.so.1"; }, Verdict::fault,
     "loader", "musl", "glibc"},
    {"LoaderComplains", [](Program& p) { p.loader_words = "version GLIBC_2.99 not found"; },
     Verdict::fault, "loader", "GLIBC_2.99", "install what is missing"},
    {"LibraryMissing", [](Program& p) { p.libraries[1].path.clear(); }, Verdict::fault, "loader",
     "does not find libc.so.6", "install the packages"},
    {"SystemsLibrary", [](Program& p) { rdma_library(p); }, Verdict::fault, "libraries",
     "comes from /usr/lib/libibverbs.so.1", "readelf -d"},
    {"RpathOfTheProgram", [](Program& p) { rdma_library(p), p.elf->rpath = {"/usr/lib/"}; },
     Verdict::fault, "libraries", "the RPATH of /usr/bin/ib_write_bw", "patchelf --remove-rpath"},
    {"RpathRelativeToTheProgram",
     [](Program& p) {
       rdma_library(p).path = "/usr/bin/lib/libibverbs.so.1";
       p.elf->rpath = {"$ORIGIN/lib"};
     },
     Verdict::fault, "libraries", "the RPATH of /usr/bin/ib_write_bw", "patchelf"},
    {"RpathOfALibrary",
     [](Program& p) { rdma_library(p), p.libraries[1].elf.rpath = {"/usr/lib"}; }, Verdict::fault,
     "libraries", "the RPATH of /lib/x86_64-linux-gnu/libc.so.6", "patchelf"},
    {"NoRdma", [](Program& p) { p.libraries.erase(p.libraries.begin()); }, Verdict::note,
     "libraries", "loads no RDMA library", "dlopen"},
    {"LoadsLater", [](Program& p) { p.elf->rdma_names = {"libibverbs.so.1"}; }, Verdict::ok,
     "dlopen", "libibverbs.so.1 later", ""},
    {"LoadsAbsentName", [](Program& p) { p.elf->rdma_names = p.absent_names = {"libibverbs.so"}; },
     Verdict::note, "dlopen", "does not have", "libibverbs.so.1"},
    {"LoadsByPath",
     [](Program& p) {
       p.libraries[1].elf.rdma_names = p.absent_names = {"/usr/lib/libibverbs.so.1"};
     },
     Verdict::fault, "dlopen", "does not lead there", "by its name"},
    {"StaticLibibverbs", [](Program& p) { p.elf->contains_libibverbs = true; }, Verdict::fault,
     "libibverbs", "is linked into /usr/bin/ib_write_bw", "-libverbs"},
    {"StaticLibibverbsOfALibrary",
     [](Program& p) { p.libraries[1].elf.contains_libibverbs = true; }, Verdict::fault,
     "libibverbs", "is linked into /lib/", "-libverbs"},
    {"VendorsLibrary",
     [](Program& p) {
       p.libraries.push_back({"libmlx5.so.1", "/usr/lib/libmlx5.so.1", false, {}});
     },
     Verdict::note, "libmlx5.so.1", "find no device", "plain verbs"},
    {"NoPathWithAFault", [](Program& p) { p.gains_rights = true; }, Verdict::note, "path",
     "none: the program does not see", "faults above"},
};

class ProgramCheck : public ::testing::TestWithParam<Case> {};

TEST_P(ProgramCheck, SaysWhatIsWrongAndWhatToDo) {
  Program program = healthy();
  GetParam().spoil(program);
  expect_found(GetParam(), check_program(program, Machine{}));
}

INSTANTIATE_TEST_SUITE_P(File, ProgramCheck, ::testing::ValuesIn(kFile), name_of_case<Program>);
INSTANTIATE_TEST_SUITE_P(Loading, ProgramCheck, ::testing::ValuesIn(kLoading),
                         name_of_case<Program>);

TEST(HealthyProgram, HasNothingToComplainOf) {
  for (const Finding& finding : check_program(healthy(), Machine{})) {
    EXPECT_EQ(finding.verdict, Verdict::ok) << finding.subject << ": " << finding.text;
  }
}

}  // namespace
}  // namespace verbatim::cli::doctor
