#include "paceline/logclass/classes_page.h"

#include <string_view>

#include "paceline/base/text.h"
#include "paceline/model/role_name.h"

namespace paceline::logclass {
namespace {

constexpr std::string_view kHead =
    R"(# Classes of failures

When a rank dies, its agent looks for the class of the failure, and `paceline why` names the class
and what to do. The class is in `details` of the event `rank_failed` as `class`, with its `role`.

- **Where it looks**, in this order: the kernel's line about the process, the exception, the last
  64 KiB of stderr, and what the kernel's log said of the host in the last two minutes. Ranks that
  live are not scanned.
- **Role.** A `cause` is what broke. A `cascade` follows from a failure elsewhere: another rank or
  host broke first. paceline blames it only if no rank has reported a cause before the master
  decides. `advice` is a hint that says nothing of the cause.
- **Order.** Texts are matched line by line, and a line belongs to the first class in these tables
  that matches. The first line with a cause decides. Classes marked * count only if the text has no
  other class.
- **Rung** is what helps: R0 nothing that paceline could start again, R1 a repair in place, R3 new
  processes, R4 a new agent, R5 another node, R7 a new job, R8 an older checkpoint, R9 a change by
  the user. The job's own decisions do not depend on it.

## Your own classes

A file of rules is TOML, with one table for each class. Its classes come before the ones below:

```toml
[[rule]]
class = "license_away"
role = "cause"
rung = "R0"
pattern = 'FlexLM error -\d+'
advice = "start the license server again"
example = "FlexLM error -15: cannot connect to the license server"
```

The pattern is a regular expression of [RE2](https://github.com/google/re2/wiki/Syntax), and is
searched in each line alone. The example must belong to its own rule. Name the files in
`paceline.toml`; each host reads its own copy when the job starts:

```toml
[log]
rules = ["rules/site.toml"]
```

A file that cannot be read, a pattern that matches the empty text, or a class that stands twice ends
`paceline run` with the file and the line, before anything starts.

This page is made by `paceline config docs classes` from the files of `log_classes/`; a test
compares them.
)";

std::string_view FamilyOf(std::string_view file) {
  file.remove_prefix(file.rfind('/') + 1);
  return file.substr(0, file.find('.'));
}

}  // namespace

std::string ClassesPage(const RuleSet& rules) {
  std::string page(kHead);
  std::string_view file;
  for (const Rule& rule : rules.rules()) {
    if (rule.file != file) {
      file = rule.file;
      Append(&page, "\n## ", FamilyOf(file), "\n\n| class | role | rung | what to do |\n",
             "|---|---|---|---|\n");
    }
    Append(&page, "| `", rule.name, "`", rule.is_general ? "*" : "", " | ", RoleName(rule.role),
           " | ", rule.rung, " | ", rule.advice, " |\n");
  }
  return page;
}

}  // namespace paceline::logclass
