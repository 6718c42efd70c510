#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "paceline/cli/command.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/console/text.h"
#include "paceline/cli/flags/torchrun_flags.h"
#include "paceline/cli/run/placed_flags.h"
#include "paceline/cli/submit/submit.h"

namespace paceline::cli {
namespace {

Problem UnknownCommand(const std::string& name, std::span<const std::string> args, size_t index) {
  std::vector<std::string_view> known;
  for (const Command& command : Commands()) {
    if (!command.hidden) known.push_back(command.name);
  }
  const std::string_view nearest = Nearest(name, known);
  std::string fix = "paceline --help";
  if (!nearest.empty()) {
    fix = "did you mean paceline " + std::string(nearest) + "?";
  } else if (name.ends_with(".py")) {
    fix = "paceline run " + ShellWord(name);
  }
  return Problem{.code = "PL-E006",
                 .what = "there is no command " + name,
                 .where = PointAtArgument("paceline", args, index),
                 .why = name.ends_with(".py") ? "this looks like a script" : "",
                 .fix = fix};
}

// Errors before the output is chosen still obey --json wherever it stands.
Output EarlyOutput(const std::vector<std::string>& args, const Environment& environment) {
  ParsedLine line;
  const bool json = std::find(args.begin(), args.end(), "--json") != args.end();
  auto options = ChooseOutput(line, environment, "");
  OutputOptions chosen = options.ok() ? *options : OutputOptions{};
  if (json) chosen.format = Format::kJson;
  return Output(chosen);
}

Problem TooManyWords(const Command& command, const ParsedLine& line) {
  return Problem{
      .code = "PL-E010",
      .what = "paceline " + std::string(command.name) + " takes no argument \"" +
              line.positionals[command.positionals_max] + "\"",
      .where = "the command line",
      .why = "usage: paceline " + std::string(command.name) + " " + std::string(command.usage),
      .fix = "paceline " + std::string(command.name) + " --help"};
}

// --on: the same words where the job's master is.
int PassOn(Invocation& invocation) {
  const Given* on = invocation.line.Find("on");
  auto place = ParseOnPlace(on->value, /*has_job=*/true);
  if (!place.ok()) return invocation.out.Fail(place.problem());
  if (invocation.line.Has("job")) {
    return invocation.out.Fail({.code = "PL-E005",
                                .what = "--on and --job exclude each other",
                                .where = "the command line",
                                .why = "each of them names the job",
                                .fix = "leave one of them out"});
  }
  std::vector<std::string> words = {std::string(invocation.command.name)};
  for (size_t i = 0; i < invocation.args.size(); ++i) {
    const std::string& word = invocation.args[i];
    if (word == "--on") ++i;
    if (word != "--on" && !word.starts_with("--on=")) words.push_back(word);
  }
  return FindPlatform(place->platform)->run_on(*place, words, invocation);
}

int FailIn(const Command& command, Output& out, const Environment& environment,
           const Problem& problem) {
  return command.handler == RunRun ? RefuseStart(out, environment, problem) : out.Fail(problem);
}

// `before` are the global flags that stood before the verb.
int Dispatch(const Command& command, const ParsedLine& before, std::vector<std::string> args,
             const Environment& environment) {
  const Grammar grammar{.command = "paceline " + std::string(command.name),
                        .tables = TablesOf(command),
                        .stops_at_script = command.stops_at_script,
                        .words_before_script = command.words_before_script,
                        .drops_separator = command.stops_at_script};
  auto parsed = ParseFlags(grammar, args);
  if (!parsed.ok()) {
    Output out = EarlyOutput(args, environment);
    return FailIn(command, out, environment, parsed.problem());
  }
  parsed->given.insert(parsed->given.begin(), before.given.begin(), before.given.end());
  if (parsed->Has("help")) {
    Output out = EarlyOutput({}, environment);
    out.Data(HelpOf(command, out.options()));
    return kExitDone;
  }
  auto settings = LoadSettings(StandardSources(environment, &*parsed));
  std::string color;
  if (settings.ok()) color = settings->Text("output.color");
  auto options = ChooseOutput(*parsed, environment, color);
  if (!options.ok()) return EarlyOutput(args, environment).Fail(options.problem());
  Output out(*options);
  if (!settings.ok()) return FailIn(command, out, environment, settings.problem());
  if (!command.stops_at_script && parsed->positionals.size() > command.positionals_max) {
    return out.Fail(TooManyWords(command, *parsed));
  }
  Invocation invocation{.command = command,
                        .args = std::move(args),
                        .line = *std::move(parsed),
                        .environment = environment,
                        .settings = *std::move(settings),
                        .out = out};
  const bool is_elsewhere = invocation.line.Has("on") && command.handler != RunSubmit;
  return is_elsewhere ? PassOn(invocation) : command.handler(invocation);
}

}  // namespace

namespace {

int Run(const std::vector<std::string>& args, const Environment& environment) {
  static constexpr Flag kTopFlags[] = {{.dest = "version",
                                        .spellings = {"-V", "--version"},
                                        .kind = FlagKind::kSwitch,
                                        .help = "print the version"}};
  const Grammar grammar{
      .command = "paceline", .tables = {GlobalFlags(), kTopFlags}, .stops_at_script = true};
  auto parsed = ParseFlags(grammar, args);
  if (!parsed.ok()) return EarlyOutput(args, environment).Fail(parsed.problem());
  if (parsed->Has("version")) return Dispatch(*FindCommand("version"), {}, {}, environment);
  if (parsed->positionals.empty()) {
    Output out = EarlyOutput(args, environment);
    if (!parsed->Has("help")) {
      std::fputs(HelpOfAll(out.options()).c_str(), stderr);
      return kExitUsage;
    }
    out.Data(HelpOfAll(out.options()));
    return kExitDone;
  }
  const size_t verb_index = args.size() - parsed->positionals.size();
  const std::string verb = parsed->positionals.front();
  const Command* command = FindCommand(verb);
  if (command == nullptr) {
    return EarlyOutput(args, environment).Fail(UnknownCommand(verb, args, verb_index));
  }
  std::vector<std::string> rest(parsed->positionals.begin() + 1, parsed->positionals.end());
  return Dispatch(*command, *parsed, std::move(rest), environment);
}

}  // namespace

int Main(const std::vector<std::string>& args, const Environment& environment) {
  const int code = Run(args, environment);
  errno = 0;
  const bool is_written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  const int failure = errno;
  if (is_written || failure == EPIPE) return code;
  // As text, whatever was asked for: JSON would go where nothing more can be written.
  return EarlyOutput({}, environment)
      .Fail({.code = "PL-E016",
             .what = "not all output was written",
             .where = "standard output",
             .why = failure != 0 ? std::strerror(failure) : "an earlier write failed",
             .fix = failure == EBADF
                        ? "run the command again with an open standard output"
                        : "make room on the disk that it goes to, and run the command again"});
}

}  // namespace paceline::cli
