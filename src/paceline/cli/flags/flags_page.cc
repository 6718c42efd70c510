#include "paceline/cli/flags/flags_page.h"

#include "paceline/cli/command.h"
#include "paceline/cli/flags/torchrun_flags.h"
#include "paceline/cli/run/flags.h"

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

constexpr std::string_view kIntroduction = R"(# Command line

Commands write data to stdout and messages for people to stderr, so
`paceline status --json | jq .` always works. `-o jsonl` prints one object a line, `-o plain`
tab-separated rows, and `-o wide` does not shorten lines. JSON has the name and version of its
schema ([schemas](../schemas)). A version may get new fields, but its fields never change their
meaning.

Whether output is coloured depends on the first of these that is set: `--color`, `NO_COLOR`,
`CLICOLOR_FORCE`, `CLICOLOR=0`, `TERM=dumb`; else on whether the stream is a terminal. Signs such as
✓ become ASCII when the locale is not UTF-8. Control characters in text that paceline did not write
are shown as `\x1b`. The output of ranks is shown as it is, except that a terminal gets only those
control sequences that colours and progress bars need.

See also: [exit codes and errors](../errors.md), [the settings behind the flags](settings.md).

This page is made by `paceline config docs flags`; a test compares them.
)";

constexpr std::string_view kTorchrun = R"(The second table has torchrun's flags, of versions 2.8 to
2.15. They are read as torchrun reads them:

- with dashes or underscores, as `--flag value` or `--flag=value`;
- shortened as long as only one flag of torchrun begins that way;
- with `PET_<NAME>` from the environment as the default.

Everything after the script belongs to the script. paceline accepts a flag that has no effect here,
and names it in one line on stderr.

What differs from torchrun on purpose:

- `--max-restarts` unset means a budget that counts only failures without progress, not 0 restarts.
- `--nnodes` greater than `--local-nodes` without an address means torchrun's static rendezvous:
  the address is `--master-addr` (127.0.0.1 by default) and `--master-port`, and `--node-rank 0`
  runs the master.
- Ranks always write to files, also without `--log-dir`; `--redirects` only takes streams off the
  console.
- When a rank fails, the other ranks get SIGKILL at once, not SIGTERM with 30 s to end. They wait in
  a collective that never ends, so these 30 s would be most of the recovery time. A signal handler
  that saves would save a half-done step.
- A signal that stops `paceline run` makes 128 plus its number the exit code, not 1.
- `--log-dir DIR` makes `DIR/<job>/<node>/g<world>/rank<n>.out` and `.err`.
- With `--master-port P` the master listens on P, and ranks see P as `MASTER_PORT`. The store of the
  world has another port. `init_process_group` with `env://` or `tcp://HOST:P` connects to the store
  all the same. A program that is not Python (`--no-python`) gets the store's port as `MASTER_PORT`.
- A firewall between the hosts needs three things open: P; the store's port, which is between 10000
  and the kernel's own range; and that range (`net.ipv4.ip_local_port_range`), which gloo and NCCL
  use.
- If several ranks print the same line, the console shows it once, as `node0:2| ×4 ranks | …`. With
  `log.fold = off` it shows each line.
- If a rank fails, the console shows its trace, and one line for the trace of each other rank.
  `paceline logs` has all of them. A trace waits for up to 3 s until it is known which rank failed.
- An invalid command line ends with exit code 2 and an error in four parts, not with a `ValueError`.
- Ranks have no terminal. In a job with one rank, that rank reads what is piped into `paceline run`.
  Several ranks read `/dev/null`.

torchrun's flags:

)";

constexpr std::string_view kStopping = R"(
### How a job is stopped

Ranks get the signal that `paceline run` got, as under torchrun, and SIGKILL when the grace period
`--stop-grace` (`timers.stop_grace`, 30 s) has passed. So Ctrl-C is `KeyboardInterrupt` in a script,
which can save. `paceline stop` sends SIGTERM. A rank that ends by such a signal does not count as
failed.

- A second SIGTERM, or a second `paceline stop`, changes nothing, because `timeout`, systemd, Slurm
  and Kubernetes send SIGTERM twice.
- A second Ctrl-C, at least a second after the first, kills the ranks at once. A third one kills all
  processes of the job on this host.
- Without a terminal, `paceline stop --force` kills the ranks at once, and
  `paceline stop --stop-grace TIME` shortens the grace period of a stop that has begun. A grace
  period that has begun cannot be lengthened.
)";

constexpr std::string_view kWhichJob = R"(
### Which job a command is about

`--job` names it. Without `--job`, a command takes a job of the directory in which it is typed: one
that was started there, or whose run directory this is.

- `status`, `why`, `events`, `goodput`, `logs`, `data` and `plan --show` take the newest job of this
  directory, running or ended. If there is none, they take the only job that runs, else the newest
  one of this host.
- `wait` and `report` take the newest job of this directory, and no job of another one.
- `attach` and `stacks` do as `status` does, but a running job goes before newer ones that have
  ended.
- `stop` and `ckpt rescue` take only a job of this directory, the running one first.
- `run --resume` takes the only job of this directory that has failed, was stopped or was killed.

The newest job is the one that was started or resumed last.

If the job is of another directory, a note says so. If several jobs may be meant, the command is
refused and names them.
)";

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
  page += kWhichJob;
  for (const Command& command : Commands()) {
    if (command.hidden || command.name == "run" || command.flags[0].empty()) continue;
    page += "\n### `paceline " + std::string(command.name) + "`\n\n" + std::string(kHeading);
    for (const FlagTable table : command.flags) page += Rows(table);
  }
  return page;
}

}  // namespace paceline::cli
