// Completion scripts for bash, zsh and fish, made from the tables of commands and flags. They are
// static text: pressing TAB starts no process.

#include "paceline/base/text.h"
#include "paceline/cli/command.h"
#include "paceline/cli/console/exit_code.h"
#include "paceline/cli/console/text.h"

namespace paceline::cli {
namespace {

std::vector<std::string> Words(const Command& command) {
  std::vector<std::string> words;
  for (const FlagTable table : TablesOf(command)) {
    for (const Flag& flag : table) {
      for (const std::string_view spelling : flag.spellings) {
        if (spelling.empty() || spelling.find('_') != std::string_view::npos) continue;
        words.emplace_back(spelling);
      }
    }
  }
  return words;
}

std::string VerbList() {
  std::string out;
  for (const Command& command : Commands()) {
    if (!command.hidden) out += (out.empty() ? "" : " ") + std::string(command.name);
  }
  return out;
}

std::string ChoiceCases(std::string_view indent) {
  std::string out;
  for (const Command& command : Commands()) {
    if (command.hidden) continue;
    for (const FlagTable table : TablesOf(command)) {
      for (const Flag& flag : table) {
        if (flag.choices.empty()) continue;
        std::string words(flag.choices);
        for (char& c : words) c = c == '|' ? ' ' : c;
        const std::string line = std::string(indent) + std::string(flag.spellings[0]) +
                                 ") COMPREPLY=($(compgen -W '" + words +
                                 "' -- \"$word\")); return;;\n";
        if (out.find(line) == std::string::npos) out += line;
      }
    }
  }
  return out;
}

std::string Bash() {
  std::string out =
      "# bash completion for paceline; load with: source <(paceline completion bash)\n"
      "_paceline() {\n"
      "  local word=\"${COMP_WORDS[COMP_CWORD]}\" before=\"${COMP_WORDS[COMP_CWORD-1]}\" i verb=\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    case \"${COMP_WORDS[i]}\" in -*) ;; *) verb=\"${COMP_WORDS[i]}\"; break;; esac\n"
      "  done\n"
      "  case \"$before\" in\n" +
      ChoiceCases("    ") +
      "  esac\n"
      "  if [[ -z $verb ]]; then COMPREPLY=($(compgen -W '" +
      VerbList() +
      "' -- \"$word\")); return; fi\n"
      "  if [[ $word != -* ]]; then COMPREPLY=($(compgen -f -- \"$word\")); return; fi\n"
      "  case \"$verb\" in\n";
  for (const Command& command : Commands()) {
    if (command.hidden) continue;
    out += "    " + std::string(command.name) + ") COMPREPLY=($(compgen -W '" +
           JoinWith(Words(command), " ") + "' -- \"$word\"));;\n";
  }
  return out + "  esac\n}\ncomplete -o filenames -F _paceline paceline\n";
}

std::string Quoted(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else if (c == '[' || c == ']' || c == ':') {
      out += std::string("\\") + c;
    } else {
      out += c;
    }
  }
  return out;
}

std::string Zsh() {
  std::string out =
      "#compdef paceline\n# zsh completion for paceline; save as _paceline in a folder of $fpath\n"
      "_paceline() {\n  local -a verbs\n  verbs=(\n";
  for (const Command& command : Commands()) {
    if (command.hidden) continue;
    out += "    '" + std::string(command.name) + ":" + Quoted(command.summary) + "'\n";
  }
  out +=
      "  )\n  if (( CURRENT == 2 )); then _describe command verbs; return; fi\n"
      "  case \"$words[2]\" in\n";
  for (const Command& command : Commands()) {
    if (command.hidden) continue;
    out += "    " + std::string(command.name) + ") _arguments";
    for (const FlagTable table : TablesOf(command)) {
      for (const Flag& flag : table) {
        for (const std::string_view spelling : flag.spellings) {
          if (spelling.empty() || spelling.find('_') != std::string_view::npos) continue;
          out += " \\\n      '" + std::string(spelling) + "[" + Quoted(flag.help) + "]";
          if (flag.kind != FlagKind::kSwitch) {
            out += ":" + Quoted(flag.metavar) + ":";
            if (!flag.choices.empty()) {
              std::string words(flag.choices);
              for (char& c : words) c = c == '|' ? ' ' : c;
              out += "(" + words + ")";
            }
          }
          out += "'";
        }
      }
    }
    out += " \\\n      '*:file:_files';;\n";
  }
  return out + "  esac\n}\n_paceline \"$@\"\n";
}

std::string FishText(std::string_view text) {
  std::string out;
  for (const char c : text)
    out += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return out;
}

std::string Fish() {
  std::string out =
      "# fish completion for paceline; save as ~/.config/fish/completions/paceline.fish\n"
      "complete -c paceline -n __fish_use_subcommand -f\n";
  for (const Command& command : Commands()) {
    if (command.hidden) continue;
    out += "complete -c paceline -n __fish_use_subcommand -a " + std::string(command.name) +
           " -d '" + FishText(command.summary) + "'\n";
    for (const FlagTable table : TablesOf(command)) {
      for (const Flag& flag : table) {
        out += "complete -c paceline -n '__fish_seen_subcommand_from " + std::string(command.name) +
               "'";
        for (const std::string_view spelling : flag.spellings) {
          if (spelling.empty() || spelling.find('_') != std::string_view::npos) continue;
          out += spelling.starts_with("--") ? " -l " + std::string(spelling.substr(2))
                                            : " -s " + std::string(spelling.substr(1));
        }
        if (flag.kind != FlagKind::kSwitch) out += " -r";
        if (!flag.choices.empty()) {
          std::string words(flag.choices);
          for (char& c : words) c = c == '|' ? ' ' : c;
          out += " -f -a '" + words + "'";
        }
        out += " -d '" + FishText(flag.help) + "'\n";
      }
    }
  }
  return out;
}

}  // namespace

int RunCompletion(Invocation& invocation) {
  const std::string shell =
      invocation.line.positionals.empty() ? "" : invocation.line.positionals.front();
  if (shell == "bash") {
    invocation.out.Data(Bash());
  } else if (shell == "zsh") {
    invocation.out.Data(Zsh());
  } else if (shell == "fish") {
    invocation.out.Data(Fish());
  } else {
    return invocation.out.Fail({.code = "PL-E010",
                                .what = shell.empty() ? "paceline completion needs a shell"
                                                      : "there is no completion for " + shell,
                                .where = "the command line",
                                .why = "it knows bash, zsh and fish",
                                .fix = "source <(paceline completion bash)"});
  }
  return kExitDone;
}

}  // namespace paceline::cli
