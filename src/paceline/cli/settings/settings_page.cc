#include "paceline/cli/settings/settings_page.h"

#include "paceline/base/text.h"
#include "paceline/cli/flags/torchrun_flags.h"
#include "paceline/cli/run/flags.h"
#include "paceline/cli/settings/setting.h"

namespace paceline::cli {
namespace {

std::string_view KindName(FlagKind kind) {
  switch (kind) {
    case FlagKind::kSwitch:
    case FlagKind::kOnOff: return "on/off";
    case FlagKind::kText: return "text";
    case FlagKind::kInteger: return "whole number";
    case FlagKind::kNumber: return "number";
    case FlagKind::kDuration: return "duration";
    case FlagKind::kSize: return "size";
    case FlagKind::kChoice: return "choice";
    case FlagKind::kList: return "list";
  }
  return "";
}

// The flags that set it, as code spans.
std::string FlagsOf(std::string_view key) {
  std::string names;
  for (const FlagTable table : {TorchrunFlags(), RunFlags(), GlobalFlags()}) {
    for (const Flag& flag : table) {
      if (flag.setting != key) continue;
      names += (names.empty() ? "`" : " `") + std::string(flag.spellings[0]) + "`";
    }
  }
  return names;
}

std::string KindText(const Setting& setting) {
  if (setting.kind != FlagKind::kChoice) return std::string(KindName(setting.kind));
  std::string joined;
  for (const std::string& choice : Split(setting.choices, '|')) {
    joined += (joined.empty() ? "" : ", ") + choice;
  }
  return joined;
}

constexpr std::string_view kPageIntroduction = R"(# Settings

A setting can be given in four places. The first place in this list that has it wins:

1. the flag on the command line (column *flag*)
2. the environment: `PACELINE_<SECTION>_<NAME>`, such as `PACELINE_TIMERS_LOST_AFTER=2s`; then, for
   torchrun's flags, torchrun's own `PET_<NAME>`
3. `paceline.toml` in the current directory, then the user's `$XDG_CONFIG_HOME/paceline/config.toml`
4. the default

Durations and sizes need a unit (`"250ms"`, `"30s"`, `"5m"`, `"10GiB"`). An unknown setting is an
error. `paceline config show --origin` prints every value and where it came from. Two variables are
no settings: [PACELINE_FAILURE_DOMAIN and
PACELINE_RUNTIME_DIR](hosts.md#environment-variables-that-you-may-set).

```toml
[job]
nproc_per_node = 2
spares = 1

[timers]
lost_after = "2s"
```

This page is made by `paceline config docs settings`; a test compares them.
)";

}  // namespace

std::string SettingsMarkdown() {
  std::string page(kPageIntroduction);
  std::string_view section;
  for (const Setting& setting : Settings()) {
    if (setting.section() != section) {
      section = setting.section();
      page += "\n## [" + std::string(section) +
              "]\n\n| setting | kind | default | flag | meaning "
              "|\n|---|---|---|---|---|\n";
    }
    page += "| `" + std::string(setting.name()) + "` | " + KindText(setting) + " | " +
            (setting.default_text.empty() ? "unset" : "`" + setting.default_text + "`") + " | " +
            FlagsOf(setting.key) + " | " + std::string(setting.help) + " |\n";
  }
  return page;
}

}  // namespace paceline::cli
