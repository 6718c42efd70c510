// A command line of `paceline run`, its words separated by newlines; words of the form PET_X=… and
// PACELINE_X=… in front of it are environment.

#include "paceline/cli/flags/flag.h"

#include "paceline/cli/flags/torchrun_flags.h"
#include "paceline/cli/run/flags.h"
#include "paceline/cli/run/request.h"
#include "paceline/cli/settings/settings.h"
#include "parts.h"

namespace {

bool IsVariable(const std::string& word) {
  return (word.starts_with("PET_") || word.starts_with("PACELINE_")) &&
         word.find('=') != std::string::npos;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace cli = paceline::cli;
  std::vector<std::string> words = paceline::fuzz::Parts(paceline::fuzz::AsText(data, size), '\n');
  cli::Environment environment;
  while (!words.empty() && IsVariable(words.front())) {
    const size_t equals = words.front().find('=');
    environment[words.front().substr(0, equals)] = words.front().substr(equals + 1);
    words.erase(words.begin());
  }
  const cli::Grammar grammar{.command = "paceline run",
                             .tables = {cli::TorchrunFlags(), cli::RunFlags(), cli::GlobalFlags()},
                             .stops_at_script = true,
                             .drops_separator = true};
  const auto line = cli::ParseFlags(grammar, words);
  if (!line.ok()) {
    paceline::fuzz::Demand(!line.problem().what.empty(), "a problem says what is wrong");
    return 0;
  }
  const auto names = cli::ResolveTorchrun(*line, environment);
  if (names.ok()) (void)cli::TorchrunNamespaceJson(*names, line->positionals);
  const auto settings = cli::LoadSettings({.environment = environment, .line = &*line});
  if (!settings.ok()) return 0;
  (void)cli::MakeRunRequest(*line, *settings, environment, cli::HostFacts{}).ok();
  return 0;
}
