#include "cli/doctor/report.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace verbatim::cli::doctor {
namespace {

std::vector<Section> findings() {
  return {{"this machine", {ok("kernel", "Linux 6.1"), note("open files", "few", "ask for more")}},
          {"program x", {fault("file", "is not there", "install it")}}};
}

TEST(Report, HasALineForEachFindingAndWhatToDoBelow) {
  EXPECT_EQ(report_text(findings(), {}),
            "this machine\n"
            "  ok     kernel      Linux 6.1\n"
            "  note   open files  few\n"
            "                     -> ask for more\n"
            "\n"
            "program x\n"
            "  fault  file        is not there\n"
            "                     -> install it\n"
            "\n"
            "1 fault, 1 note.\n");
}

TEST(Report, LongLinesAreBrokenAtTheTerminalsWidth) {
  const std::vector<Section> sections = {
      {"m", {note("a", "one two three four five", "six seven eight nine ten")}}};
  EXPECT_EQ(report_text(sections, {.is_coloured = false, .width = 32}),
            "m\n"
            "  note   a  one two three four\n"
            "            five\n"
            "            -> six seven eight nine ten\n"
            "\n"
            "no faults, 1 note.\n");
}

TEST(Report, ColoursSurroundTheVerdictAlone) {
  const std::string text = report_text(findings(), {.is_coloured = true, .width = 0});
  EXPECT_NE(text.find("  \033[1;31mfault\033[0m  file"), std::string::npos) << text;
  EXPECT_NE(text.find("  \033[32mok\033[0m     kernel"), std::string::npos) << text;
}

TEST(Report, JsonHasEverything) {
  const auto report = nlohmann::json::parse(report_json(findings()));
  EXPECT_EQ(report["faults"], 1);
  EXPECT_EQ(report["notes"], 1);
  EXPECT_EQ(report["findings"][2]["about"], "program x");
  EXPECT_EQ(report["findings"][2]["verdict"], "fault");
  EXPECT_EQ(report["findings"][1]["advice"], "ask for more");
}

}  // namespace
}  // namespace verbatim::cli::doctor
