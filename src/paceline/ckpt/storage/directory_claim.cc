#include "paceline/ckpt/storage/directory_claim.h"

#include <algorithm>

#include <type_traits>

#include "paceline/base/json.h"
#include "paceline/base/text.h"
#include "paceline/ckpt/storage/storage.h"

namespace paceline::ckpt {
namespace {

using nlohmann::json;

constexpr char kClaimSchema[] = "paceline.claim/1";
constexpr uint64_t kClaimBytesMax = 8192;

template <typename T>
bool Take(const json& object, const char* name, T* value) {
  const auto found = object.find(name);
  if (found == object.end()) return false;
  if constexpr (std::is_same_v<T, std::string>) {
    if (!found->is_string()) return false;
  } else if (!found->is_number_integer() ||
             (std::is_unsigned_v<T> && !found->is_number_unsigned())) {
    return false;
  }
  *value = found->get<T>();
  return true;
}

// The claim file's text; "" if there is none.
Result<std::string> TextIn(Store* store) {
  Result<std::string> text = store->Get(kClaimName, kClaimBytesMax);
  if (text.ok()) return text;
  const FailureKind kind = text.failure().kind;
  if (kind == FailureKind::kNotFound || kind == FailureKind::kTooLarge) return std::string();
  return text.failure();
}

}  // namespace

std::string ToText(const DirectoryClaim& claim) {
  return PrintJson(json{{"schema", kClaimSchema},
                        {"job_id", claim.job_id},
                        {"term", claim.term},
                        {"host", claim.host},
                        {"boot_id", claim.boot_id},
                        {"pid_space", claim.pid_space},
                        {"pid", claim.pid},
                        {"start_ticks", claim.start_ticks},
                        {"since", claim.since},
                        {"beat", claim.beat}}) +
         "\n";
}

std::optional<DirectoryClaim> ParseClaim(const std::string& text) {
  const json object = ParseJson(text);
  std::string schema;
  DirectoryClaim claim;
  const bool is_claim =
      object.is_object() && Take(object, "schema", &schema) && schema == kClaimSchema &&
      Take(object, "job_id", &claim.job_id) && Take(object, "host", &claim.host) &&
      Take(object, "boot_id", &claim.boot_id) && Take(object, "pid_space", &claim.pid_space) &&
      Take(object, "pid", &claim.pid) && Take(object, "start_ticks", &claim.start_ticks) &&
      Take(object, "since", &claim.since) && Take(object, "beat", &claim.beat);
  Take(object, "term", &claim.term);  // an older release writes none
  return is_claim ? std::optional(std::move(claim)) : std::nullopt;
}

Result<std::optional<DirectoryClaim>> ReadClaim(Store* store) {
  ASSIGN_OR_RETURN(const std::string text, TextIn(store));
  return ParseClaim(text);
}

Result<void> WriteClaim(Store* store, const std::optional<DirectoryClaim>& over,
                        const DirectoryClaim& claim) {
  ASSIGN_OR_RETURN(const std::string there, TextIn(store));
  if (ParseClaim(there) != over) {
    return Failure{FailureKind::kFenced, "another claim stands there"};
  }
  const std::string text = ToText(claim);
  Result<void> put = [&]() -> Result<void> {
    if (there.empty()) return Put(store, kClaimName, text, Store::PutMode::kNew);
    // A claim that is renewed in time has no competitors, so it is replaced in one step. If the
    // claim were missing for a moment, another job could take the directory.
    const bool is_renewed = over.has_value() && over->IsBySameProcess(claim);
    if (is_renewed && store->traits().has_folders) {
      return Put(store, kClaimName, text, Store::PutMode::kReplace);
    }
    return store->Exchange(kClaimName, there, std::as_bytes(std::span(text)));
  }();
  if (put.ok() || put.failure().kind != FailureKind::kExists) return put;
  return Failure{FailureKind::kFenced, put.failure().message};
}

Result<void> RemoveClaim(Store* store, const DirectoryClaim& claim) {
  ASSIGN_OR_RETURN(const std::optional<DirectoryClaim> there, ReadClaim(store));
  return there == claim ? store->Remove(kClaimName) : Result<void>();
}

Result<std::vector<ForeignCheckpoint>> ForeignIn(Store* store, const std::string& job_id) {
  ASSIGN_OR_RETURN(const std::vector<Listed> all, List(store));
  std::vector<ForeignCheckpoint> foreign;
  for (const Listed& one : all) {
    if (one.manifest.job_id != job_id) foreign.push_back({one.name, one.manifest.job_id});
  }
  return foreign;
}

Result<bool> CheckClaim(Store* store, const std::string& job_id, uint64_t term,
                        const std::optional<std::vector<ForeignCheckpoint>>& known) {
  ASSIGN_OR_RETURN(const std::optional<DirectoryClaim> there, ReadClaim(store));
  if (there.has_value()) {
    if (there->job_id == job_id && there->term <= term) return true;
    if (there->job_id == job_id) {
      return Failure{FailureKind::kFenced,
                     Concat("the directory is for the job's master of term ", there->term,
                            " now, and this node listens to that of term ", term)};
    }
    return Failure{FailureKind::kFenced,
                   Concat(kRefusedForGood, "job ", there->job_id, " (process ", there->pid, " on ",
                          there->host, ") saves to ", store->root())};
  }
  if (!known.has_value()) return false;
  ASSIGN_OR_RETURN(const std::vector<ForeignCheckpoint> foreign, ForeignIn(store, job_id));
  for (const ForeignCheckpoint& one : foreign) {
    if (std::find(known->begin(), known->end(), one) != known->end()) continue;
    return Failure{FailureKind::kFenced,
                   Concat(kRefusedForGood, "job ", one.job_id, " has saved to ", store->root())};
  }
  return false;
}

}  // namespace paceline::ckpt
