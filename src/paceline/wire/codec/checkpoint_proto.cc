#include "paceline/wire/codec/checkpoint_proto.h"

#include <string_view>
#include <vector>

#include "paceline/model/storage_place.h"
#include "paceline/wire/codec/decode.h"
#include "paceline/wire/codec/encode.h"

namespace paceline::wire {
namespace {

// ---- values to messages ----

void Fill(const SavedStep& from, pb::SavedStep* to) { PACELINE_SAVED_STEP(PUT) }
void Fill(const CheckpointTerms& from, pb::CheckpointTerms* to) {
  PACELINE_CHECKPOINT_TERMS(PUT)
  to->set_kind(Shifted<pb::CheckpointTerms::Kind>(from.policy.kind));
  to->set_steps(from.policy.steps);
  to->set_time(Encode(from.policy.time));
  if (from.replicas.has_value()) to->set_replicas(*from.replicas);
}
void Fill(const MemoryImage& from, pb::MemoryImage* to) {
  PACELINE_MEMORY_IMAGE(PUT)
  Fill(from.saved, to->mutable_saved());
}
void Fill(const ShardState& from, pb::ShardState* to) {
  PACELINE_SHARD_STATE(PUT)
  Fill(from.saved, to->mutable_saved());
}
void Fill(const StoredCheckpoint& from, pb::StoredCheckpoint* to) {
  PACELINE_STORED_CHECKPOINT(PUT)
  Fill(from.saved, to->mutable_saved());
  for (const uint32_t rank : from.file_of) to->add_file_of(rank);
}
void Fill(const EqualFiles& from, pb::EqualFiles* to) {
  Fill(from.saved, to->mutable_saved());
  to->set_file_root(from.file_root);
  for (const RankRun& run : from.ranks) {
    pb::RankRun* added = to->add_ranks();
    added->set_first(run.first);
    added->set_count(run.count);
  }
}
void Fill(const CommitState& from, pb::CommitState* to) { PACELINE_COMMIT_STATE(PUT) }
void Fill(const FetchFailure& from, pb::FetchFailure* to) {
  PACELINE_FETCH_FAILURE(PUT)
  Fill(from.saved, to->mutable_saved());
}
void Fill(const FetchOrder& from, pb::FetchOrder* to) {
  PACELINE_FETCH_ORDER(PUT)
  Fill(from.saved, to->mutable_saved());
  for (const FetchOrder::Source& source : from.sources) {
    pb::FetchOrder::Source* one = to->add_sources();
    one->set_node(Encode(source.node));
    one->set_address(Encode(source.address));
    one->set_place(Encode(source.place));
    one->set_is_copy(source.is_copy);
  }
}
void Fill(const RestoreOrder& from, pb::RestoreOrder* to) {
  PACELINE_RESTORE(PUT)
  Fill(from.saved, to->mutable_saved());
  for (const RestoreOrder::Source& source : from.sources) {
    pb::RestoreOrder::Source* added = to->add_sources();
    added->set_rank(source.rank.value());
    for (const RestoreOrder::Image& image : source.images) {
      pb::RestoreOrder::Image* one = added->add_images();
      one->set_rank(image.rank.value());
      one->set_place(Encode(image.place));
      one->set_is_copy(image.is_copy);
    }
  }
}
void Fill(const StorageReader& from, pb::StorageReader* to) {
  to->set_node(Encode(from.node));
  to->set_address(Encode(from.address));
}
void Fill(const PersistOrder& from, pb::PersistOrder* to) {
  Fill(from.saved, to->mutable_saved());
  to->set_world_size(from.world_size);
  to->set_name(Encode(from.name));
  for (const PersistOrder::Shard& shard : from.shards) {
    pb::PersistOrder::Shard* added = to->add_shards();
    added->set_rank(shard.rank.value());
    added->set_file_of(shard.file_of.value());
  }
}

// ---- messages to values ----

absl::Status CheckStep(int64_t step) {
  return step >= -1 ? absl::OkStatus() : Invalid("step", "is out of range");
}
// The name of a folder in the directory, or empty if there is no checkpoint.
absl::Status CheckFolder(const std::string& name) {
  return name.empty() || IsName(name) ? absl::OkStatus() : Invalid("name", "is not a name");
}
absl::Status CheckDirectory(const std::string& directory) {
  return IsWholePlace(directory)
             ? absl::OkStatus()
             : Invalid("directory", "is neither an absolute path nor a bucket of s3://");
}

absl::Status Take(const pb::SavedStep& from, SavedStep* to) {
  PACELINE_SAVED_STEP(TAKE)
  if (to->generation > kGenerationMax) return Invalid("generation", "is out of range");
  if (to->branch > kBranchMax) return Invalid("branch", "is out of range");
  return CheckStep(to->step);
}
absl::Status Take(const pb::CheckpointTerms& from, CheckpointTerms* to) {
  PACELINE_CHECKPOINT_TERMS(TAKE)
  RETURN_IF_ERROR(Shifted(from.kind(), "kind", PersistPolicy::Kind::kTime, &to->policy.kind));
  RETURN_IF_ERROR(Decode(from.steps(), "steps", &to->policy.steps));
  RETURN_IF_ERROR(Decode(from.time(), "time", &to->policy.time));
  if (to->policy.steps < 0) return Invalid("steps", "is negative");
  if (from.has_replicas()) to->replicas = from.replicas();
  if (to->replicas.value_or(0) > kReplicasMax) return Invalid("replicas", "are too many");
  return CheckDirectory(to->directory);
}
absl::Status Take(const pb::MemoryImage& from, MemoryImage* to) {
  PACELINE_MEMORY_IMAGE(TAKE)
  RETURN_IF_ERROR(CheckName(to->place, "place"));
  return Take(from.saved(), &to->saved);
}
absl::Status Take(const pb::ShardState& from, ShardState* to) {
  PACELINE_SHARD_STATE(TAKE)
  return Take(from.saved(), &to->saved);
}
absl::Status Take(const pb::StoredCheckpoint& from, StoredCheckpoint* to) {
  PACELINE_STORED_CHECKPOINT(TAKE)
  RETURN_IF_ERROR(CheckName(to->name, "name"));
  if (from.file_of_size() > kImagesPerReportMax) return Invalid("file_of", "is too long");
  to->file_of.assign(from.file_of().begin(), from.file_of().end());
  return Take(from.saved(), &to->saved);
}
// An address that a node may be told to dial, or empty.
absl::Status TakeAddress(const std::string& from, std::string* to) {
  RETURN_IF_ERROR(CheckAddress(from, "address"));
  *to = from;
  return absl::OkStatus();
}
absl::Status Take(const pb::FetchFailure& from, FetchFailure* to) {
  PACELINE_FETCH_FAILURE(TAKE)
  return Take(from.saved(), &to->saved);
}
absl::Status Take(const pb::FetchOrder& from, FetchOrder* to) {
  PACELINE_FETCH_ORDER(TAKE)
  RETURN_IF_ERROR(CheckFolder(to->name));
  RETURN_IF_ERROR(Take(from.saved(), &to->saved));
  if (from.sources_size() > kFetchSourcesMax) return Invalid("sources", "are too many");
  for (const pb::FetchOrder::Source& source : from.sources()) {
    FetchOrder::Source& one = to->sources.emplace_back();
    RETURN_IF_ERROR(CheckFolder(source.node()));
    RETURN_IF_ERROR(CheckFolder(source.place()));
    RETURN_IF_ERROR(TakeAddress(source.address(), &one.address));
    one.node = source.node();
    one.place = source.place();
    one.is_copy = source.is_copy();
  }
  return absl::OkStatus();
}
absl::Status Take(const pb::EqualFiles& from, EqualFiles* to) {
  RETURN_IF_ERROR(Take(from.saved(), &to->saved));
  to->file_root = from.file_root();
  if (from.ranks_size() > kImagesPerReportMax) return Invalid("ranks", "are too many");
  for (const pb::RankRun& run : from.ranks()) {
    RETURN_IF_ERROR(Decode(run.first(), "first", &to->ranks.emplace_back().first));
    RETURN_IF_ERROR(Decode(run.count(), "count", &to->ranks.back().count));
    if (run.count() > UINT32_MAX - run.first()) return Invalid("count", "is out of range");
  }
  return absl::OkStatus();
}
absl::Status Take(const pb::StorageReader& from, StorageReader* to) {
  RETURN_IF_ERROR(CheckName(from.node(), "node"));
  to->node = from.node();
  return TakeAddress(from.address(), &to->address);
}
absl::Status Take(const pb::CommitState& from, CommitState* to) {
  PACELINE_COMMIT_STATE(TAKE)
  return CheckName(to->name, "name");
}
absl::Status Take(const pb::RestoreOrder& from, RestoreOrder* to) {
  PACELINE_RESTORE(TAKE)
  RETURN_IF_ERROR(CheckFolder(to->name));
  RETURN_IF_ERROR(Take(from.saved(), &to->saved));
  if (from.sources_size() > kRanksPerMessageMax) return Invalid("sources", "are too many");
  for (const pb::RestoreOrder::Source& source : from.sources()) {
    RestoreOrder::Source& added = to->sources.emplace_back();
    RETURN_IF_ERROR(Decode(source.rank(), "rank", &added.rank));
    if (source.images_size() > kImagesPerReportMax) return Invalid("images", "are too many");
    for (const pb::RestoreOrder::Image& image : source.images()) {
      RestoreOrder::Image& one = added.images.emplace_back();
      RETURN_IF_ERROR(Decode(image.rank(), "rank", &one.rank));
      RETURN_IF_ERROR(CheckName(image.place(), "place"));
      one.place = image.place();
      one.is_copy = image.is_copy();
    }
  }
  return absl::OkStatus();
}
absl::Status Take(const pb::PersistOrder& from, PersistOrder* to) {
  RETURN_IF_ERROR(Take(from.saved(), &to->saved));
  to->world_size = from.world_size();
  RETURN_IF_ERROR(Decode(from.name(), "name", &to->name));
  RETURN_IF_ERROR(CheckName(to->name, "name"));
  if (from.shards_size() > kImagesPerReportMax) return Invalid("shards", "are too many");
  for (const pb::PersistOrder::Shard& shard : from.shards()) {
    PersistOrder::Shard& added = to->shards.emplace_back();
    RETURN_IF_ERROR(Decode(shard.rank(), "rank", &added.rank));
    RETURN_IF_ERROR(Decode(shard.file_of(), "file_of", &added.file_of));
  }
  return absl::OkStatus();
}

template <class Messages, class Value>
absl::Status TakeAll(const Messages& from, std::string_view field, std::vector<Value>* to) {
  if (from.size() > kImagesPerReportMax) return Invalid(field, "are too many");
  for (const auto& one : from) RETURN_IF_ERROR(Take(one, &to->emplace_back()));
  return absl::OkStatus();
}

template <class Names>
absl::Status TakeNames(const Names& from, int count_max, std::vector<std::string>* to) {
  if (from.size() > count_max) return Invalid("names", "are too many");
  for (const std::string& name : from) {
    RETURN_IF_ERROR(CheckName(name, "name"));
    to->push_back(name);
  }
  return absl::OkStatus();
}

}  // namespace

void ToProto(const CheckpointReport& from, pb::CheckpointReport* to) {
  to->set_generation(from.generation.value());
  if (from.terms.has_value()) Fill(*from.terms, to->mutable_terms());
  for (const MemoryImage& image : from.images) Fill(image, to->add_images());
  for (const ShardState& shard : from.shards) Fill(shard, to->add_shards());
  if (from.commit.has_value()) Fill(*from.commit, to->mutable_commit());
  if (from.stored.has_value()) Fill(*from.stored, to->mutable_stored());
  if (from.flush.has_value()) Fill(*from.flush, to->mutable_flush());
  for (const std::string& name : from.damaged) to->add_damaged(CleanText(name));
  to->set_place(Encode(from.place));
  to->set_address(Encode(from.address));
  to->set_domain(Encode(from.domain));
  for (const FetchFailure& one : from.failed) Fill(one, to->add_failed());
  for (const EqualFiles& one : from.equal) Fill(one, to->add_equal());
  to->set_is_final(from.is_final);
  to->set_is_blind(from.is_blind);
  to->set_is_closing(from.is_closing);
  for (const uint32_t rank : from.finished) to->add_finished(rank);
}

absl::Status FromProto(const pb::CheckpointReport& from, CheckpointReport* to) {
  RETURN_IF_ERROR(Decode(from.generation(), "generation", &to->generation));
  if (from.has_terms()) RETURN_IF_ERROR(Take(from.terms(), &to->terms.emplace()));
  RETURN_IF_ERROR(TakeAll(from.images(), "images", &to->images));
  RETURN_IF_ERROR(TakeAll(from.shards(), "shards", &to->shards));
  if (from.has_commit()) RETURN_IF_ERROR(Take(from.commit(), &to->commit.emplace()));
  if (from.has_stored()) RETURN_IF_ERROR(Take(from.stored(), &to->stored.emplace()));
  if (from.has_flush()) RETURN_IF_ERROR(Take(from.flush(), &to->flush.emplace()));
  RETURN_IF_ERROR(CheckFolder(from.place()));
  to->place = from.place();
  RETURN_IF_ERROR(TakeAddress(from.address(), &to->address));
  RETURN_IF_ERROR(Decode(from.domain(), "domain", &to->domain));
  RETURN_IF_ERROR(TakeAll(from.failed(), "failed", &to->failed));
  RETURN_IF_ERROR(TakeAll(from.equal(), "equal", &to->equal));
  to->is_final = from.is_final();
  to->is_blind = from.is_blind();
  to->is_closing = from.is_closing();
  to->finished.assign(from.finished().begin(), from.finished().end());
  return TakeNames(from.damaged(), kDamagedPerReportMax, &to->damaged);
}

void ToProto(const CheckpointOrder& from, pb::CheckpointOrder* to) {
  if (from.terms.has_value()) Fill(*from.terms, to->mutable_terms());
  if (from.restore.has_value()) Fill(*from.restore, to->mutable_restore());
  if (from.hold.has_value()) Fill(*from.hold, to->mutable_hold());
  if (from.persist.has_value()) Fill(*from.persist, to->mutable_persist());
  if (from.commit.has_value()) Fill(*from.commit, to->mutable_commit());
  if (from.durable.has_value()) Fill(*from.durable, to->mutable_durable());
  if (from.given_up.has_value()) Fill(*from.given_up, to->mutable_given_up());
  to->set_is_ending(from.is_ending);
  to->set_is_over(from.is_over);
  for (const std::string& name : from.damaged) to->add_damaged(CleanText(name));
  to->set_problem(Encode(from.problem));
  for (const FetchOrder& one : from.fetch) Fill(one, to->add_fetch());
  to->set_replicas(from.replicas);
  to->set_drop_others(from.drop_others);
  for (const StorageReader& one : from.readers) Fill(one, to->add_readers());
  for (const EqualFiles& one : from.equal) Fill(one, to->add_equal());
  if (from.replicated.has_value()) Fill(*from.replicated, to->mutable_replicated());
  if (from.copying.has_value()) Fill(*from.copying, to->mutable_copying());
  to->set_replica_problem(Encode(from.replica_problem));
}

absl::Status FromProto(const pb::CheckpointOrder& from, CheckpointOrder* to) {
  if (from.has_terms()) RETURN_IF_ERROR(Take(from.terms(), &to->terms.emplace()));
  if (from.has_restore()) RETURN_IF_ERROR(Take(from.restore(), &to->restore.emplace()));
  if (from.has_hold()) RETURN_IF_ERROR(Take(from.hold(), &to->hold.emplace()));
  if (from.has_persist()) RETURN_IF_ERROR(Take(from.persist(), &to->persist.emplace()));
  if (from.has_commit()) RETURN_IF_ERROR(Take(from.commit(), &to->commit.emplace()));
  if (from.has_durable()) RETURN_IF_ERROR(Take(from.durable(), &to->durable.emplace()));
  if (from.has_given_up()) RETURN_IF_ERROR(Take(from.given_up(), &to->given_up.emplace()));
  to->is_ending = from.is_ending();
  to->is_over = from.is_over();
  RETURN_IF_ERROR(TakeNames(from.damaged(), static_cast<int>(core::kDamagedMax), &to->damaged));
  RETURN_IF_ERROR(TakeAll(from.fetch(), "fetch", &to->fetch));
  to->drop_others = from.drop_others();
  RETURN_IF_ERROR(TakeAll(from.readers(), "readers", &to->readers));
  RETURN_IF_ERROR(TakeAll(from.equal(), "equal", &to->equal));
  to->replicas = from.replicas();
  if (to->replicas > kReplicasMax) return Invalid("replicas", "are too many");
  if (from.has_replicated()) RETURN_IF_ERROR(Take(from.replicated(), &to->replicated.emplace()));
  if (from.has_copying()) RETURN_IF_ERROR(Take(from.copying(), &to->copying.emplace()));
  RETURN_IF_ERROR(Decode(from.replica_problem(), "replica_problem", &to->replica_problem));
  return Decode(from.problem(), "problem", &to->problem);
}

void ToProto(const core::RestoreDecided& from, pb::RestoreDecided* to) {
  PACELINE_RESTORE(PUT)
  Fill(from.saved, to->mutable_saved());
}
absl::Status FromProto(const pb::RestoreDecided& from, core::RestoreDecided* to) {
  PACELINE_RESTORE(TAKE)
  RETURN_IF_ERROR(CheckFolder(to->name));
  return Take(from.saved(), &to->saved);
}

void ToProto(const core::CheckpointCommitted& from, pb::CheckpointCommitted* to) {
  PACELINE_CHECKPOINT_COMMITTED(PUT)
  Fill(from.saved, to->mutable_saved());
}
absl::Status FromProto(const pb::CheckpointCommitted& from, core::CheckpointCommitted* to) {
  PACELINE_CHECKPOINT_COMMITTED(TAKE)
  RETURN_IF_ERROR(CheckName(to->name, "name"));
  return Take(from.saved(), &to->saved);
}

void ToProto(const core::CheckpointDamaged& from,
             pb::CheckpointDamaged* to){PACELINE_CHECKPOINT_DAMAGED(PUT)} absl::Status
    FromProto(const pb::CheckpointDamaged& from, core::CheckpointDamaged* to) {
  PACELINE_CHECKPOINT_DAMAGED(TAKE)
  return CheckName(to->name, "name");
}

void ToProto(const core::CheckpointNotStored& from, pb::CheckpointNotStored* to) {
  PACELINE_CHECKPOINT_NOT_STORED(PUT)
  Fill(from.saved, to->mutable_saved());
}
absl::Status FromProto(const pb::CheckpointNotStored& from, core::CheckpointNotStored* to) {
  PACELINE_CHECKPOINT_NOT_STORED(TAKE)
  return Take(from.saved(), &to->saved);
}

}  // namespace paceline::wire
