#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <poll.h>

#include "base/time.h"
#include "cli/capture/output.h"
#include "cli/capture/signals.h"
#include "cli/capture/wall_clock.h"
#include "cli/command.h"
#include "cli/fabric/commands.h"
#include "cli/fabric/port_name.h"
#include "cli/fabric/status.h"
#include "cli/text/quantity.h"
#include "fabric/data/image/image.h"
#include "fabric/protocol/channel.h"
#include "link/capture_file/capture_file.h"

namespace verbatim::cli {
namespace {

namespace protocol = fabric::protocol;

constexpr const char* kExamples =
    "Captured are packets of programs and management datagrams, on all cables or on\n"
    "one, in both directions, until Ctrl-C. Each is there once for each cable that it\n"
    "crosses; the interface is the port that it leaves. Programs never wait: what\n"
    "comes faster than it is written is lost, and counted.\n"
    "\n"
    "Examples:\n"
    "  verbatim fabric capture fabric.pcapng\n"
    "  verbatim fabric capture fabric.pcapng --link L1/3 --for 10s\n"
    "  verbatim fabric capture - --link L1/3 | tshark -r -";

struct Form {
  std::string name;
  std::string path;
  std::string link;
  std::string duration;
};

/// Returns the port where each link of the image starts, such as "S1/3". The image has two links
/// for each cable, in the order of the status; its link 0 is none.
Result<std::vector<std::string>> port_names(const std::string& fabric_name) {
  const auto status = fabric_status(fabric_name);
  if (!status) return std::unexpected(status.error());
  std::vector<std::string> names{""};
  for (const auto& link : status->at("links")) {
    for (const char* const end : {"a", "b"}) {
      names.push_back(fmt::format("{}/{}", link.at(end).at("node").get<std::string>(),
                                  link.at(end).at("port").get<unsigned>()));
    }
  }
  return names;
}

/// A capture of a fabric's cables: the daemon has their packets copied into the image's tap for as
/// long as the connection is open.
class FabricCapture {
 public:
  static Result<FabricCapture> open(const Form& form) {
    protocol::CaptureRequest request;
    if (!form.link.empty()) {
      const auto port = parse_port_name(form.link);
      if (!port) return std::unexpected(port.error());
      protocol::put_text(request.node, port->node);
      request.port = port->port;
    }
    auto names = port_names(form.name);
    if (!names) return std::unexpected(names.error());
    auto connection = connect_to_fabric(form.name);
    if (!connection) return std::unexpected(connection.error());
    UniqueFd memory;
    const auto capturing = protocol::ask<protocol::Capturing>(connection->get(), request, &memory);
    if (!capturing) return std::unexpected(capturing.error());
    auto image = fabric::Image::attach(memory.get());
    if (!image) return std::unexpected(std::move(image.error()));
    auto output = Output::open(form.path);
    if (!output) return std::unexpected(output.error());
    return FabricCapture(std::move(*names), std::move(*connection), std::move(*image),
                         std::move(*output));
  }

  /// Writes packets until `deadline`, a signal, or the fabric's end (ECONNRESET).
  Result<void> run(Signals& signals, TimeNs deadline) {
    std::array<pollfd, 2> ready{};
    while (monotonic_now() < deadline && ready[0].revents == 0) {
      const std::uint64_t before = packets_;
      if (auto written = write_packets(signals.fd()); !written) return written;
      // The tap has room for what crosses cables in some milliseconds.
      const int pause_ms = packets_ == before ? 5 : 0;
      ready = {pollfd{signals.fd(), POLLIN, 0}, pollfd{connection_.get(), POLLIN, 0}};
      poll(ready.data(), ready.size(), pause_ms);
      if (ready[1].revents != 0) return refuse(ECONNRESET, "the fabric has ended");
    }
    if (auto written = write_packets(signals.fd()); !written) return written;
    file_.add_statistics(wall_clock_now(), packets_ + reader_.lost(), reader_.lost());
    return flush(signals.fd());
  }

  void print_summary() const {
    fmt::print(stderr, "verbatim fabric capture: {}, {} lost, in {}\n", counted(packets_, "packet"),
               reader_.lost(), output_.name());
  }

 private:
  FabricCapture(std::vector<std::string> names, UniqueFd connection, fabric::Image image,
                Output output)
      : names_(std::move(names)),
        connection_(std::move(connection)),
        image_(std::move(image)),
        output_(std::move(output)),
        reader_(image_.tap()),
        clock_offset_(wall_clock_now() - monotonic_now()) {}

  /// Writes as many packets as the tap holds at most, so that a signal ends a capture into which
  /// packets keep coming.
  Result<void> write_packets(int stop) {
    constexpr std::size_t kBytesAtOnce = 1 << 18;
    for (std::size_t i = 0; i < fabric::kTapCells; ++i) {
      const auto read = reader_.next(monotonic_now());
      if (!read) break;
      const auto& [packet, content] = *read;
      if (packet.link >= names_.size()) continue;
      file_.add_on_cable({.time = packet.at + clock_offset_,
                          .port = names_[packet.link],
                          .lane = packet.lane,
                          .is_damaged = packet.is_damaged != 0,
                          .bytes = content});
      ++packets_;
      if (file_.bytes().size() < kBytesAtOnce) continue;
      if (auto written = flush(stop); !written) return written;
    }
    return flush(stop);
  }
  Result<void> flush(int stop) {
    auto written = output_.write(file_.bytes(), stop);
    file_.bytes().clear();
    return written;
  }

  std::vector<std::string> names_;
  UniqueFd connection_;
  fabric::Image image_;
  Output output_;
  fabric::TapReader reader_;
  TimeNs clock_offset_;
  link::CaptureFile file_{"fabric", "verbatim fabric capture " VERBATIM_VERSION};
  std::uint64_t packets_ = 0;
};

int run(const Form& form) {
  const auto fail = [](const Error& error) {
    fmt::print(stderr, "verbatim fabric capture: {}\n", error.text);
    return error.code == EINVAL ? kExitUsage : kExitFailure;
  };
  TimeNs deadline = kNever;
  if (!form.duration.empty()) {
    const auto duration = parse_duration(form.duration);
    if (!duration) return fail(duration.error());
    deadline = monotonic_now() + *duration;
  }
  auto signals = Signals::take();
  if (!signals) return fail(signals.error());
  auto capture = FabricCapture::open(form);
  if (!capture) return fail(capture.error());
  fmt::print(stderr, "verbatim fabric capture: fabric '{}'; Ctrl-C ends it\n", form.name);
  const auto captured = capture->run(*signals, deadline);
  capture->print_summary();
  // EPIPE: the reader of a pipe has ended, such as `head`.
  return captured || captured.error().code == EPIPE ? 0 : fail(captured.error());
}

}  // namespace

void add_fabric_capture(CLI::App& fabric, int& exit_status) {
  auto* capture = fabric.add_subcommand("capture", "Write packets on cables into a file");
  auto form = std::make_shared<Form>();  // Lives as long as the callback that reads it.
  capture->add_option("file", form->path, "The pcapng file, or - for standard output")
      ->type_name("FILE")
      ->required();
  capture->add_option("--link", form->link, "Of this cable alone, such as L1/3")->type_name("PORT");
  capture->add_option("--for", form->duration, "End it after this time: 500ms, 10s, 5min")
      ->type_name("TIME");
  add_name_option(*capture, form->name);
  capture->footer(kExamples);
  capture->callback([form, &exit_status] { exit_status = run(*form); });
}

}  // namespace verbatim::cli
