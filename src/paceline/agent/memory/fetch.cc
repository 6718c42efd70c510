#include "paceline/agent/memory/fetch.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <utility>

#include "paceline/agent/socket/reactor.h"
#include "paceline/base/status_macros.h"
#include "paceline/base/text.h"
#include "paceline/ckpt/image/chunk_copy.h"
#include "paceline/ckpt/image/restore.h"
#include "paceline/ckpt/storage/image_files.h"
#include "paceline/ckpt/storage/storage.h"
#include "paceline/ckpt/store/posix.h"
#include "paceline/wire/bulk/bulk_client.h"

namespace paceline::agent {
namespace {

using std::chrono::milliseconds;

// How often every source is asked before the fetch fails.
constexpr int kRounds = 6;
constexpr milliseconds kRoundPause{300};
// For a source that first has to fetch the image itself.
constexpr int kLaterMax = 400;
constexpr milliseconds kLaterPause{50};
// For a host that reads an image for others: it may learn that later than they ask.
constexpr int kNotYetMax = 40;
constexpr milliseconds kAwayPause{1000};
// A fetch that no rank waits for uses half of the link, so that training has the rest: after each
// chunk it pauses as long as the chunk took, up to this limit.
constexpr milliseconds kShapeMax{500};

// The outcome of asking one source.
enum class Outcome {
  kWhole,
  kNext,   // this source cannot give it now
  kNever,  // no source can help: there is no room, or the order was withdrawn
};

class Fetching {
 public:
  Fetching(IncomingImage* incoming, const FetchMeans& means)
      : incoming_(*incoming), means_(means) {}

  std::string Run() {
    const FetchOrder& order = incoming_.order();
    if (HasRead()) return "";
    for (int round = 0; round < kRounds; ++round) {
      if (round > 0 && !incoming_.Sleep(kRoundPause)) break;
      for (const FetchOrder::Source& source : order.sources) {
        const Outcome outcome = source.node.empty() ? Read() : Ask(source);
        if (outcome == Outcome::kWhole) return "";
        if (outcome == Outcome::kNever || incoming_.is_cancelled()) return Failed();
      }
    }
    return Failed();
  }

 private:
  std::string Failed() {
    incoming_.Abandon();
    if (incoming_.order().sources.empty()) return "no host has it any more";
    return why_.empty() ? "it is not wanted any more" : why_;
  }

  Outcome Note(const std::string& who, std::string_view why, Outcome outcome) {
    why_ = Concat(who, ": ", why);
    return outcome;
  }

  // Evaluates a failed begin. It is final only if no other source can help.
  Outcome NoteBegin(const std::string& who, const Failure& failure) {
    const bool is_final = failure.kind == FailureKind::kFull ||
                          failure.kind == FailureKind::kSystem ||
                          failure.kind == FailureKind::kNotOurs;
    return Note(who, failure.message, is_final ? Outcome::kNever : Outcome::kNext);
  }

  Outcome Seal(const std::string& who) {
    const Result<void> sealed = incoming_.Seal(who);
    return sealed.ok() ? Outcome::kWhole : Note(who, sealed.failure().message, Outcome::kNever);
  }

  Outcome Ask(const FetchOrder::Source& source) {
    auto client = wire::BulkClient::Dial({source.address, source.node}, means_.credentials,
                                         *means_.tls, wire::BulkClient::kDialTimeout);
    if (!client.ok()) return Note(source.node, Text(client.status()), Outcome::kNext);
    incoming_.SetBreaker([raw = client->get()] { raw->Cancel(); });
    const Outcome outcome = AskAt(source, client->get());
    incoming_.SetBreaker(nullptr);
    return outcome;
  }

  Outcome AskAt(const FetchOrder::Source& source, wire::BulkClient* client) {
    const FetchOrder& order = incoming_.order();
    for (int later = 0; later < kLaterMax; ++later) {
      const auto answer = client->Ask({.rank = order.rank,
                                       .place = source.place,
                                       .is_copy = source.is_copy,
                                       .saved = order.saved,
                                       .root = order.root,
                                       .first_chunk = incoming_.done()});
      if (!answer.ok()) return Note(source.node, Text(answer.status()), Outcome::kNext);
      const bool may_come =
          answer->kind == wire::BulkAnswer::Kind::kNotHere && order.root == 0 && later < kNotYetMax;
      if (answer->kind == wire::BulkAnswer::Kind::kLater || may_come) {
        if (!incoming_.Sleep(kLaterPause)) return Outcome::kNever;
        continue;
      }
      if (answer->kind != wire::BulkAnswer::Kind::kImage) {
        return Note(source.node, answer->why, Outcome::kNext);
      }
      const Result<void> begun = incoming_.Begin(answer->facts);
      if (!begun.ok()) return NoteBegin(source.node, begun.failure());
      return TakeAll(source.node, [client](std::byte* to, size_t bytes) -> Result<void> {
        const absl::Status read = client->Read(to, bytes, wire::BulkClient::kReadTimeout);
        if (read.ok()) return {};
        return Failure{FailureKind::kBusy, std::string(Text(read))};
      });
    }
    return Note(source.node, "it waits for somebody itself", Outcome::kNext);
  }

  Outcome TakeAll(const std::string& who, const IncomingImage::Reader& read) {
    while (!incoming_.is_whole()) {
      const int64_t began = MonotonicNs();
      const Result<void> taken = incoming_.TakeChunk(read);
      if (!taken.ok()) return Note(who, taken.failure().message, Outcome::kNext);
      if (incoming_.is_cancelled()) return Outcome::kNever;
      if (incoming_.order().is_urgent) continue;
      const std::chrono::nanoseconds took(MonotonicNs() - began);
      const auto pause = std::min(std::chrono::duration_cast<milliseconds>(took), kShapeMax);
      if (pause.count() > 0 && !incoming_.Sleep(pause)) return Outcome::kNever;
    }
    return Seal(who);
  }

  // For the one host that reads the file for others. Waits for storage that does not answer,
  // because the step is decided.
  Outcome Read() {
    const std::string where = Concat(means_.directory, "/", incoming_.order().name);
    for (;;) {
      const Result<void> read = ReadFromStore();
      if (read.ok()) return Seal(where);
      if (incoming_.is_cancelled()) return Outcome::kNever;
      if (read.failure().kind != FailureKind::kBusy) return NoteBegin(where, read.failure());
      if (!incoming_.Sleep(kAwayPause)) return Note(where, read.failure().message, Outcome::kNever);
    }
  }

  Result<void> ReadFromStore() {
    ASSIGN_OR_RETURN(ckpt::Store* const store, means_.store->At(means_.directory));
    ASSIGN_OR_RETURN(const ckpt::Manifest manifest,
                     ckpt::ReadManifest(store, incoming_.order().name));
    return TakeFile(store, manifest);
  }

  // Reads the files and manifest that an earlier restore has fetched.
  bool HasRead() {
    if (incoming_.order().name.empty() || means_.local_tier.empty()) return false;
    const auto tier = ckpt::MakePosixStore(means_.local_tier);
    const auto manifest = ckpt::ReadManifest(tier.get(), incoming_.order().name);
    if (!manifest.ok() || !TakeFile(tier.get(), *manifest).ok()) return false;
    return Seal(Concat(means_.local_tier, "/", incoming_.order().name)) == Outcome::kWhole;
  }

  Result<void> TakeFile(ckpt::Store* store, const ckpt::Manifest& manifest) {
    const FetchOrder& order = incoming_.order();
    const ckpt::ManifestRank* of = manifest.Of(order.rank.value());
    const ckpt::ManifestFile* notes = of == nullptr ? nullptr : manifest.Find(of->notes);
    const SavedStep saved = manifest.saved();
    if (notes == nullptr || saved != order.saved) {
      return Failure{FailureKind::kInvalid, "its manifest is of something else"};
    }
    ASSIGN_OR_RETURN(const ckpt::OpenedImage tensors,
                     ckpt::OpenImage(store, order.name, manifest, order.rank.value()));
    ASSIGN_OR_RETURN(const auto small,
                     store->Open(Concat(order.name, "/", notes->name), notes->bytes));
    ASSIGN_OR_RETURN(const ckpt::Image head, ckpt::ReadHead(tensors.source.get(), tensors.hashes));
    wire::BulkFacts facts{.world_size = manifest.world_size,
                          .file_bytes = tensors.source->size(),
                          .head_bytes = head.head.size(),
                          .notes_bytes = notes->bytes,
                          .hashes = tensors.hashes};
    facts.hashes.insert(facts.hashes.end(), notes->hashes.begin(), notes->hashes.end());
    facts.root = ckpt::HashOf(facts.hashes.data(), facts.hashes.size() * sizeof(uint64_t));
    RETURN_IF_ERROR(incoming_.Begin(facts));
    while (!incoming_.is_whole()) {
      RETURN_IF_ERROR(TakeFrom(tensors.source.get(), small.get(), facts.file_chunks()));
      if (incoming_.is_cancelled()) return Failure{FailureKind::kBusy, "it is not wanted"};
    }
    return {};
  }

  Result<void> TakeFrom(ckpt::ChunkSource* file, ckpt::ChunkSource* notes, size_t file_chunks) {
    const size_t at = incoming_.done();
    ASSIGN_OR_RETURN(const std::span<const std::byte> chunk,
                     at < file_chunks ? file->Chunk(at) : notes->Chunk(at - file_chunks));
    size_t given = 0;
    return incoming_.TakeChunk([&](std::byte* to, size_t bytes) -> Result<void> {
      std::memcpy(to, chunk.data() + given, bytes);
      given += bytes;
      return {};
    });
  }

  IncomingImage& incoming_;
  const FetchMeans& means_;
  std::string why_;
};

}  // namespace

std::string Fetch(IncomingImage* incoming, const FetchMeans& means) {
  return Fetching(incoming, means).Run();
}

}  // namespace paceline::agent
