#include "paceline/wire/codec/link_proto.h"

#include <string>
#include <vector>

#include "paceline/base/status_macros.h"
#include "paceline/wire/codec/decode.h"
#include "paceline/wire/codec/encode.h"
#include "paceline/wire/codec/fields.h"

namespace paceline::wire {
namespace {

void Fill(const core::PairsJudged::Link& from,
          pb::PairsJudged::Link* to){PACELINE_PAIR_LINK(PUT)} absl::Status
    Take(const pb::PairsJudged::Link& from, core::PairsJudged::Link* to) {
  PACELINE_PAIR_LINK(TAKE)
  return absl::OkStatus();
}

template <class Names>
absl::Status TakeNodes(const Names& from, std::vector<std::string>* to) {
  for (const std::string& name : from) {
    RETURN_IF_ERROR(CheckName(name, "node"));
    to->push_back(name);
  }
  return absl::OkStatus();
}

}  // namespace

void Put(const LinkTested& from, pb::AgentMessage* message) {
  auto* to = message->mutable_link_tested();
  PACELINE_LINK_TESTED(PUT)
}
void Put(const LinkTry& from, pb::MasterMessage* message) {
  auto* to = message->mutable_try_link();
  PACELINE_LINK_TRY(PUT)
}
void Put(const core::PairsJudged& from, pb::Fact* fact) {
  auto* to = fact->mutable_pairs_judged();
  PACELINE_PAIRS_JUDGED(PUT)
  for (const std::string& name : from.bad) to->add_bad(Encode(name));
  for (const auto& link : from.bad_links) Fill(link, to->add_bad_links());
  for (const auto& link : from.doubtful) Fill(link, to->add_doubtful());
  for (const std::string& name : from.missed) to->add_missed(Encode(name));
}

absl::Status FromProto(const pb::LinkTested& from, LinkTested* to) {
  PACELINE_LINK_TESTED(TAKE)
  if (to->problem.size() > kLinkProblemMax) return Invalid("problem", "is too long");
  if (!(to->gb_s >= 0)) return Invalid("gb_s", "is no speed");
  return CheckName(to->peer, "peer");
}
absl::Status FromProto(const pb::LinkTry& from, LinkTry* to) {
  PACELINE_LINK_TRY(TAKE)
  if (to->chunks == 0 || to->chunks > kLinkChunksMax) return Invalid("chunks", "is out of range");
  RETURN_IF_ERROR(CheckName(to->peer, "peer"));
  return CheckAddress(to->address, "address");
}
absl::Status FromProto(const pb::PairsJudged& from, core::PairsJudged* to) {
  PACELINE_PAIRS_JUDGED(TAKE)
  RETURN_IF_ERROR(TakeNodes(from.bad(), &to->bad));
  RETURN_IF_ERROR(TakeNodes(from.missed(), &to->missed));
  for (const auto& link : from.bad_links()) {
    RETURN_IF_ERROR(Take(link, &to->bad_links.emplace_back()));
  }
  for (const auto& link : from.doubtful()) {
    RETURN_IF_ERROR(Take(link, &to->doubtful.emplace_back()));
  }
  return absl::OkStatus();
}

}  // namespace paceline::wire
