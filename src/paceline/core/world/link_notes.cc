#include "paceline/core/world/link_notes.h"

#include <algorithm>
#include <vector>

#include "paceline/base/number_text.h"
#include "paceline/base/text.h"

namespace paceline::core {

namespace {

constexpr size_t kLinksNamedMax = 4;

std::string LinkNames(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size() && i < kLinksNamedMax; ++i) {
    Append(&text, i == 0 ? "" : ", ", names[i]);
  }
  return names.size() > kLinksNamedMax ? text + ", …" : text;
}

std::string PairText(const PairsJudged::Link& link, bool is_certain) {
  const std::string link_text = Concat("the link between ", link.a, " and ", link.b, " is bad");
  return Concat(link_text, is_certain ? "" : ", or one of these nodes is", ": ", link.problem);
}

}  // namespace

void NoteLinks(const PairsJudged& fact, JobState* state) {
  for (const auto* list : {&fact.bad_links, &fact.doubtful}) {
    for (const PairsJudged::Link& link : *list) {
      std::erase_if(state->links,
                    [&](const auto& told) { return told.a == link.a && told.b == link.b; });
      state->links.push_back(link);
    }
  }
  if (state->links.size() > kLinksToldMax) {
    state->links.erase(state->links.begin(), state->links.end() - kLinksToldMax);
  }
}

void ForgetLinks(const std::string& node, JobState* state) {
  std::erase_if(state->links, [&](const auto& told) { return told.a == node || told.b == node; });
}

std::string LinksText(const PairsJudged& fact) {
  std::string text = Concat("the links between ", fact.nodes, " nodes were tested in ",
                            Counted(fact.pairs, "pair"), ", which took ", ToString(fact.took));
  if (!fact.HasTold()) {
    text += ": all are good";
    if (fact.slowest > 0)
      Append(&text, ", and the slowest has ", FixedText(fact.slowest, 2), " GB/s");
  }
  if (!fact.bad.empty()) {
    Append(&text, "; no ranks for ", LinkNames(fact.bad), ", whose tests failed with good nodes");
  }
  size_t named = 0;
  for (const auto* list : {&fact.bad_links, &fact.doubtful}) {
    for (const PairsJudged::Link& link : *list) {
      if (++named > kLinksNamedMax) return text + "; …";
      Append(&text, "; ", PairText(link, list == &fact.bad_links));
    }
  }
  if (!fact.missed.empty()) {
    Append(&text, "; not checked in time: ", LinkNames(fact.missed));
  }
  return text;
}

std::string LinkText(const PairsJudged::Link& link) {
  return Concat("the link between ", link.a, " and ", link.b, " may be bad: ", link.problem);
}

}  // namespace paceline::core
