// The daemon of a newcomer (echo_daemon.cpp) as commands and scripts see it.
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "service/control.h"
#include "service/launch.h"

namespace verbatim::service {
namespace {

using nlohmann::json;

const ServiceName kEcho{.kind = "echo", .name = "one"};

struct DaemonTest : testing::Test {
  void SetUp() override {
    std::string folder = testing::TempDir() + "verbatim-daemon-XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    setenv("XDG_RUNTIME_DIR", folder_.c_str(), 1);
  }
  void TearDown() override {
    for (const ServiceName& name : services()) {
      const pid_t process = process_of(name);
      if (process > 0) kill(process, SIGKILL);
    }
    std::filesystem::remove_all(folder_);
  }
  /// Starts the daemon with these arguments besides its name.
  static Result<void> start(std::vector<std::string> arguments = {},
                            const std::string& name = "one") {
    arguments.insert(arguments.end(), {"--name", name});
    auto program = find_program("echo_daemon");
    if (!program) return std::unexpected(program.error());
    return start_daemon({.program = *program, .arguments = std::move(arguments)});
  }
  /// Waits until a process, which is nobody's child, has ended.
  static void wait_for_end(pid_t process) {
    const UniqueFd fd(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
    if (!fd) return;
    pollfd waiting{fd.get(), POLLIN, 0};
    EXPECT_EQ(poll(&waiting, 1, 20'000), 1) << "it goes on";
  }
  std::string folder_;
};

TEST_F(DaemonTest, ServesWhenItsStartReturnsAndEndsWhenAsked) {
  ASSERT_TRUE(start({"--greeting", "hello "}));
  EXPECT_EQ(ask(kEcho, {{"ask", "echo"}, {"text", "world"}})->at("text"), "hello world");
  const json status = *ask(kEcho, {{"ask", "status"}});
  EXPECT_EQ(status.at("kind"), "echo");
  EXPECT_EQ(status.at("name"), "one");
  EXPECT_EQ(status.at("answers"), 1);
  const pid_t process = status.at("process");
  EXPECT_EQ(process_of(kEcho), process);
  EXPECT_EQ(services(), std::vector{kEcho});
  EXPECT_EQ(ask(kEcho, {{"ask", "stop"}})->at("process"), process);
  wait_for_end(process);
  EXPECT_TRUE(std::filesystem::is_empty(folder_)) << "it leaves nothing behind";
  EXPECT_TRUE(services().empty());
  EXPECT_EQ(ask(kEcho, {{"ask", "status"}}).error().code, ENOENT);
}

TEST_F(DaemonTest, SaysWhyItCannotServe) {
  const auto refused = start({"--greeting", "none"});
  EXPECT_EQ(refused.error().code, EINVAL);
  EXPECT_EQ(refused.error().text, "a greeting of 'none' is not polite");
  EXPECT_EQ(start({"--nonsense"}).error().code, EINVAL);
  ASSERT_TRUE(start());
  const auto twice = start();
  EXPECT_EQ(twice.error().code, EEXIST);
  EXPECT_NE(twice.error().text.find("'verbatim echo down' ends it"), std::string::npos);
  EXPECT_EQ(find_program("no_such_daemon").error().code, ENOENT);
}

TEST_F(DaemonTest, RefusesQuestionsInWords) {
  ASSERT_TRUE(start());
  EXPECT_EQ(ask(kEcho, {{"ask", "echo"}}).error().text, "echo: which text?");
  EXPECT_EQ(ask(kEcho, {{"ask", "nothing"}}).error().code, EINVAL);
  EXPECT_EQ(ask(kEcho, json::array()).error().code, EINVAL);
  EXPECT_TRUE(ask(kEcho, {{"ask", "status"}}));
}

TEST_F(DaemonTest, LongAnswersComeWhole) {
  ASSERT_TRUE(start());
  const std::string text(50'000, 'x');
  EXPECT_EQ(ask(kEcho, {{"ask", "echo"}, {"text", text}})->at("text"), text);
}

TEST_F(DaemonTest, EndsWithItsOwner) {
  const pid_t owner = fork();
  if (owner == 0) {
    pause();
    _exit(0);
  }
  ASSERT_TRUE(start({"--ends-with", std::to_string(owner)}));
  const pid_t process = process_of(kEcho);
  kill(owner, SIGKILL);
  waitpid(owner, nullptr, 0);
  wait_for_end(process);
  EXPECT_TRUE(services().empty());
}

TEST_F(DaemonTest, OneThatIsStoppedDoesNotAnswerAndIsNamed) {
  ASSERT_TRUE(start());
  const pid_t process = process_of(kEcho);
  kill(process, SIGSTOP);
  const auto silent = ask(kEcho, {{"ask", "status"}}, 200 * kMillisecond);
  kill(process, SIGCONT);
  EXPECT_EQ(silent.error().code, ETIMEDOUT);
  EXPECT_NE(silent.error().text.find(std::to_string(process)), std::string::npos);
}

TEST_F(DaemonTest, OneThatIsStoppedHoldsUpNobody) {
  const std::vector<ServiceName> all{{"echo", "one"}, {"echo", "two"}, {"echo", "none"}};
  ASSERT_TRUE(start());
  ASSERT_TRUE(start({}, "two"));
  const pid_t process = process_of(kEcho);
  kill(process, SIGSTOP);
  // Until the limit is far enough for a machine that is busy.
  std::vector<Result<json>> answers;
  for (TimeNs patience = 200 * kMillisecond; patience < 20 * kSecond; patience *= 2) {
    answers = ask(all, {{"ask", "status"}}, patience);
    if (answers[1]) break;
  }
  kill(process, SIGCONT);
  EXPECT_EQ(answers[0].error().code, ETIMEDOUT);
  ASSERT_TRUE(answers[1]) << answers[1].error().text;
  EXPECT_EQ(answers[1]->at("name"), "two");
  EXPECT_EQ(answers[2].error().code, ENOENT);
}

TEST_F(DaemonTest, SettingsComeFromTheFirstThatSaysThem) {
  const std::string config = folder_ + "/config";
  std::filesystem::create_directories(config + "/echo");
  setenv("VERBATIM_CONFIG", config.c_str(), 1);
  std::ofstream(config + "/echo/one.conf") << "# greeting\ngreeting = file\n";
  const auto greeting = [&](const std::vector<std::string>& arguments) {
    const auto started = start(arguments);
    EXPECT_TRUE(started) << started.error().text;
    const json answer = *ask(kEcho, {{"ask", "echo"}, {"text", ""}});
    const pid_t process = ask(kEcho, {{"ask", "stop"}})->at("process");
    wait_for_end(process);
    return answer.at("text").get<std::string>();
  };
  EXPECT_EQ(greeting({}), "file");
  setenv("VERBATIM_ECHO_GREETING", "variable", 1);
  EXPECT_EQ(greeting({}), "variable");
  EXPECT_EQ(greeting({"--greeting", "option"}), "option");
  unsetenv("VERBATIM_ECHO_GREETING");
  std::ofstream(config + "/echo/one.conf") << "greetings = file\n";
  EXPECT_EQ(start().error().text,
            config + "/echo/one.conf:1: there is no 'greetings'; there are: greeting");
  std::ofstream(config + "/echo/one.conf") << "\ngreeting\n";
  EXPECT_NE(start().error().text.find("one.conf:2: "), std::string::npos);
  unsetenv("VERBATIM_CONFIG");
}

TEST_F(DaemonTest, AfterItWasKilledTheNextOneStarts) {
  ASSERT_TRUE(start());
  const pid_t process = process_of(kEcho);
  kill(process, SIGKILL);
  wait_for_end(process);
  EXPECT_EQ(ask(kEcho, {{"ask", "status"}}).error().code, ENOENT);
  ASSERT_TRUE(start());
  EXPECT_NE(process_of(kEcho), process);
}

TEST_F(DaemonTest, OneThatWasKilledIsNobody) {
  ASSERT_TRUE(start());
  const pid_t process = process_of(kEcho);
  ASSERT_GT(process, 0);
  kill(process, SIGKILL);
  wait_for_end(process);
  EXPECT_EQ(process_of(kEcho), 0);
}

TEST_F(DaemonTest, OneThatIsKilledIsWaitedForByTheNext) {
  for (int times = 0; times < 20; ++times) {
    ASSERT_TRUE(start());
    kill(process_of(kEcho), SIGKILL);
  }
  ASSERT_TRUE(start());
}

TEST_F(DaemonTest, WhoStartsItReadsWhatItLogsUntilItServes) {
  setenv("VERBATIM_LOG", "info", 1);
  testing::internal::CaptureStderr();
  const auto started = start();
  unsetenv("VERBATIM_LOG");
  EXPECT_NE(testing::internal::GetCapturedStderr().find("echo 'one' serves"), std::string::npos);
  ASSERT_TRUE(started);
  // Then it has no pipe that nobody reads.
  const auto log =
      std::filesystem::read_symlink("/proc/" + std::to_string(process_of(kEcho)) + "/fd/2");
  EXPECT_EQ(log, "/dev/null");
}

TEST_F(DaemonTest, LogsWithTimes) {
  const std::string log = folder_ + "/log";
  setenv("VERBATIM_LOG", "info", 1);
  const auto started = start({"--log", log});
  unsetenv("VERBATIM_LOG");
  ASSERT_TRUE(started);
  std::ifstream file(log);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(text.substr(4, 1), "-") << text;
  EXPECT_NE(text.find("echo 'one' serves"), std::string::npos) << text;
}

}  // namespace
}  // namespace verbatim::service
