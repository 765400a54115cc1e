// A newcomer's daemon: answers what it is asked, says what it has done, is seen by `status`, and
// ends with its owner. All that is not its own is in src/service/.
#include <string>

#include <nlohmann/json.hpp>

#include "service/daemon.h"

namespace verbatim {
namespace {

/// The engine: all that is this daemon's own.
class Echo {
 public:
  explicit Echo(std::string greeting) : greeting_(std::move(greeting)) {}

  Result<nlohmann::json> answer(const nlohmann::json& question) {
    if (!question.contains("text")) return refuse(EINVAL, "echo: which text?");
    ++answers_;
    return nlohmann::json{{"text", greeting_ + question.at("text").get<std::string>()}};
  }
  nlohmann::json status() const { return {{"answers", answers_}}; }

 private:
  std::string greeting_;
  unsigned answers_ = 0;
};

int run(int argc, char** argv) {
  std::string greeting;
  const service::Setting settings[] = {{.name = "greeting",
                                        .value_name = "TEXT",
                                        .variable = "VERBATIM_ECHO_GREETING",
                                        .help = "what each answer begins with",
                                        .value = &greeting}};
  std::unique_ptr<Echo> echo;
  return service::run_daemon({.program = "echo_daemon",
                              .kind = "echo",
                              .summary = "answers what it is asked",
                              .settings = settings},
                             argc, argv, [&](service::Daemon& daemon) -> Result<void> {
                               if (greeting == "none")
                                 return refuse(EINVAL, "a greeting of 'none' is not polite");
                               echo = std::make_unique<Echo>(greeting);
                               daemon.control().on("echo", [&](const nlohmann::json& asked) {
                                 return echo->answer(asked);
                               });
                               daemon.on_status([&] { return echo->status(); });
                               return {};
                             });
}

}  // namespace
}  // namespace verbatim

int main(int argc, char** argv) { return verbatim::run(argc, argv); }
