#include "paceline/cli/flags/flags_page.h"

#include "paceline/cli/command.h"
#include "paceline/cli/flags/torchrun_flags.h"

namespace paceline::cli {
namespace {

std::string Code(std::string_view text) { return "`" + std::string(text) + "`"; }

std::string Escaped(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '|' ? "\\|" : std::string(1, c);
  return out;
}

constexpr std::string_view kHeading = "| flag | value | meaning |\n|---|---|---|\n";

std::string Rows(FlagTable table) {
  std::string out;
  for (const Flag& flag : table) {
    std::string names;
    for (const std::string_view spelling : flag.spellings) {
      if (spelling.empty() || spelling.find('_') != std::string_view::npos) continue;
      names += (names.empty() ? "" : " ") + Code(spelling);
    }
    std::string help = Escaped(flag.help);
    if (!flag.without_effect.empty()) {
      help = "no effect: " + Escaped(flag.without_effect);
    }
    out += "| " + names + " | " + (flag.metavar.empty() ? "" : Code(Escaped(flag.metavar))) +
           " | " + help + " |\n";
  }
  return out;
}

constexpr std::string_view kIntroduction =
    "# Command line\n\n"
    "Data goes to stdout, and all messages for people to stderr, so `paceline status --json | "
    "jq .` always works.\n`-o jsonl` prints one object a line, `-o plain` tab-separated rows, `-o "
    "wide` does not cut lines. JSON carries a\nschema name with a version (`docs/schemas`); fields "
    "are added within a version, never changed.\n\n"
    "Colours: `--color`, then `NO_COLOR`, `CLICOLOR_FORCE`, `CLICOLOR=0`, `TERM=dumb`, then "
    "whether "
    "the stream is a\nterminal. Signs such as ✓ become ASCII when the locale is not UTF-8. Control "
    "characters in text from elsewhere are\nshown as `\\x1b`.\n\n"
    "Exit codes and errors: `docs/errors.md`. Settings behind the flags: "
    "`docs/guides/settings.md`.\n\n"
    "This page is made by `paceline config docs flags`; a test compares them.\n";

constexpr std::string_view kTorchrun =
    "These are torchrun's flags of versions 2.8 to 2.15, read as torchrun reads them: with dashes "
    "or underscores, as\n`--flag value` or `--flag=value`, shortened as long as it is clear which "
    "torchrun flag is meant, and with\n`PET_<NAME>` from the environment as the default. "
    "Everything "
    "after the script is the script's. Flags that mean\nnothing here are accepted and named once "
    "on "
    "stderr.\n\n"
    "What differs from torchrun on purpose:\n\n"
    "- `--max-restarts` unset means a budget that counts only failures without progress, not 0 "
    "restarts.\n"
    "- `--nnodes` greater than `--local-nodes` without an address means torchrun's static "
    "rendezvous, as there.\n"
    "- Ranks always write to files, also without `--log-dir`; `--redirects` only takes streams off "
    "the console.\n"
    "- When a rank fails, the other ranks are killed by SIGKILL at once, not by SIGTERM with 30 s "
    "to end. The other\n  ranks wait in a collective that never ends, so waiting 30 s for them "
    "would be most of the recovery time. A handler\n  that saves would save a half-done step.\n"
    "- A signal that stops `paceline run` makes 128 plus its number the exit code, not 1.\n"
    "- `--log-dir DIR` makes `DIR/<job>/<node>/g<world>/rank<n>.out` and `.err`.\n"
    "- With `--master-port P` the master listens on P, and ranks see P as `MASTER_PORT`. "
    "`init_process_group` with `env://`\n  or `tcp://HOST:P` takes the store of the world for it, "
    "which has a port of its own. A program that is not Python\n  (`--no-python`) sees that port.\n"
    "- A firewall between the hosts needs three things open: P; the store's port, which is one "
    "from 10000 up to the\n  kernel's own range; and that range (`net.ipv4.ip_local_port_range`), "
    "which gloo and NCCL use.\n"
    "- Ranks that print one and the same line are shown once, as `node0:2| ×4 ranks | …`; "
    "`log.fold = off` shows each.\n"
    "- A command line that makes no sense ends with exit code 2 and an error in four parts, not "
    "with a `ValueError`.\n"
    "- Ranks have no terminal. What is piped into `paceline run` reaches the only rank of a job; "
    "several ranks read\n  `/dev/null`.\n\n";

constexpr std::string_view kStopping =
    "\n### How a job is stopped\n\n"
    "Ranks get the signal that `paceline run` got, as under torchrun, and SIGKILL when "
    "`--stop-grace`\n(`timers.stop_grace`, 30 s) has passed. So Ctrl-C is `KeyboardInterrupt` in a "
    "script, which can save. `paceline stop`\nis SIGTERM. A rank that ends by such a signal has "
    "not failed.\n\n"
    "- `paceline stop` and a signal to `paceline run` ask for this. A request that comes again is "
    "the same request: `timeout`,\n  systemd, Slurm and Kubernetes send SIGTERM twice.\n"
    "- Ctrl-C again, a second after the first or later, kills the ranks at once; a third one kills "
    "everything of the job on\n  this host.\n"
    "- Without a terminal, `paceline stop --force` kills the ranks at once, and `paceline stop "
    "--stop-grace TIME` shortens\n  the grace of a stop that has begun. Neither makes it longer.\n";

}  // namespace

std::string FlagsMarkdown() {
  std::string page(kIntroduction);
  page += "\n## Flags of every command\n\n" + std::string(kHeading) + Rows(GlobalFlags());
  page +=
      "\n## `paceline run`\n\n`paceline run [FLAGS] SCRIPT [ARGS…]` runs a torchrun script. Flags "
      "on top of torchrun's:\n\n" +
      std::string(kHeading) + Rows(RunFlags()) + "\n" + std::string(kTorchrun) +
      std::string(kHeading) + Rows(TorchrunFlags()) + std::string(kStopping);
  page += "\n## Other commands\n\n| command | takes | does |\n|---|---|---|\n";
  for (const Command& command : Commands()) {
    if (command.hidden || command.name == "run") continue;
    page += "| " + Code(command.name) + " | " +
            (command.usage.empty() ? "" : Code(Escaped(command.usage))) + " | " +
            Escaped(command.summary) + " |\n";
  }
  for (const Command& command : Commands()) {
    if (command.hidden || command.name == "run" || command.flags[0].empty()) continue;
    page += "\n### `paceline " + std::string(command.name) + "`\n\n" + std::string(kHeading);
    for (const FlagTable table : command.flags) page += Rows(table);
  }
  return page;
}

}  // namespace paceline::cli
