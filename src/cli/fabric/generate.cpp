#include "fabric/topology/generate.h"

#include <memory>
#include <string>

#include <fmt/format.h>

#include "base/text/nearest.h"
#include "cli/command.h"
#include "cli/fabric/commands.h"
#include "fabric/topology/write.h"

namespace verbatim::cli {
namespace {

std::string examples() {
  std::string text = "Kinds:\n";
  for (const auto& shape : fabric::kShapes) {
    text += fmt::format("  {:<15} {}\n", shape.name, shape.description);
  }
  return text +
         "\n"
         "The topology goes to standard output, for 'verbatim fabric up' and for programs\n"
         "that read what ibnetdiscover or ibsim write.\n"
         "\n"
         "Examples:\n"
         "  verbatim fabric generate fat-tree --hosts 128 --switch-ports 40 > net\n"
         "  verbatim fabric generate torus-2d --hosts 64 --rate 4xNDR > torus.net";
}

struct Form {
  std::string shape;
  fabric::GenerateOptions options;
  std::string rate = "4xHDR";
  std::string format = "ibnetdiscover";
};

Result<fabric::Shape> find_shape(const std::string& name) {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < fabric::kShapes.size(); ++i) {
    if (fabric::kShapes[i].name == name) return static_cast<fabric::Shape>(i);
    names.emplace_back(fabric::kShapes[i].name);
  }
  const std::string meant = nearest(name, names);
  return refuse(EINVAL, fmt::format("there is no kind '{}'{}", name,
                                    meant.empty() ? "" : "; '" + meant + "' may be meant"));
}

Result<std::string> generate_text(Form& form) {
  const auto shape = find_shape(form.shape);
  if (!shape) return std::unexpected(shape.error());
  const auto rate = fabric::parse_rate(form.rate);
  if (!rate) return refuse(EINVAL, fmt::format("'{}' is no rate such as 4xHDR", form.rate));
  form.options.rate = *rate;
  const auto topology = fabric::generate(*shape, form.options);
  if (!topology) return std::unexpected(topology.error());
  return write_topology(
      *topology, form.format == "ibsim" ? fabric::Format::ibsim : fabric::Format::ibnetdiscover);
}

}  // namespace

void add_fabric_generate(CLI::App& fabric, int& exit_status) {
  auto* generate = fabric.add_subcommand("generate", "Make a topology of many hosts");
  auto form = std::make_shared<Form>();  // Lives as long as the callback that reads it.
  generate->add_option("kind", form->shape, "fat-tree, torus-2d... (below)")
      ->type_name("KIND")
      ->required();
  generate->add_option("--hosts", form->options.hosts, "How many hosts")
      ->type_name("N")
      ->required();
  generate
      ->add_option("--ports", form->options.host_ports,
                   "Of each host, at different switches: 1 (default) or 2")
      ->type_name("N");
  generate->add_option("--switch-ports", form->options.switch_ports, "Of each switch; default: 36")
      ->type_name("N");
  generate
      ->add_option("--oversubscription", form->options.oversubscription,
                   "Fat trees: hosts of a leaf for each uplink; default: 1")
      ->type_name("N");
  generate->add_option("--rate", form->rate, "Of each link: width and speed; default: 4xHDR")
      ->type_name("RATE");
  generate->add_option("--length", form->options.length_m, "Of each cable, in metres")
      ->type_name("METRES");
  generate
      ->add_option("--guid-base", form->options.guid_base,
                   "In all GUIDs, 0 to 65535: differs between fabrics that a trunk joins")
      ->type_name("N");
  generate->add_option("--name-prefix", form->options.name_prefix, "Before all names, such as b-")
      ->type_name("TEXT");
  generate->add_option("--format", form->format, "ibnetdiscover (default) or ibsim")
      ->type_name("NAME")
      ->check(CLI::IsMember({"ibnetdiscover", "ibsim"}));
  generate->footer(examples());
  generate->callback([form, &exit_status] {
    const auto text = generate_text(*form);
    if (text) {
      fmt::print("{}", *text);
    } else {
      fmt::print(stderr, "verbatim fabric generate: {}\n", text.error().text);
      exit_status = kExitUsage;
    }
  });
}

}  // namespace verbatim::cli
