#include "paceline/ckpt/store/s3.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "paceline/base/json.h"
#include "paceline/base/json_field.h"
#include "paceline/base/text.h"
#include "paceline/ckpt/client_process.h"
#include "paceline/ckpt/disk/aligned_buffer.h"
#include "paceline/ckpt/image/chunk_copy.h"
#include "paceline/model/storage_place.h"

namespace paceline::ckpt {
namespace {

using nlohmann::json;

constexpr StoreTraits kS3Traits{.name = "s3", .has_paths = false, .has_folders = false};
// An upload is sent in frames: a length, then the bytes. These two lengths are control words.
constexpr uint32_t kFrameEnd = 0;
constexpr uint32_t kFrameAbort = 0xffffffff;
// Chunks that are requested at once: few for a header, many for a whole file.
constexpr size_t kWindowChunksMax = 16;

FailureKind KindOf(const std::string& word) {
  constexpr struct {
    const char* word;
    FailureKind kind;
  } kKinds[] = {{"not_found", FailureKind::kNotFound}, {"exists", FailureKind::kExists},
                {"denied", FailureKind::kNotOurs},     {"full", FailureKind::kFull},
                {"invalid", FailureKind::kInvalid},    {"too_large", FailureKind::kTooLarge}};
  for (const auto& [known, kind] : kKinds) {
    if (word == known) return kind;
  }
  return FailureKind::kBusy;
}

// The client process and its protocol.
class Client {
 public:
  explicit Client(const std::string& python)
      : process_({python, "-P", "-m", "paceline._storage.s3_client"}) {}

  // Sends a request. Answer() receives the answer.
  Result<void> Ask(const json& request) {
    if (!process_.is_running()) RETURN_IF_ERROR(process_.Start());
    const std::string line = PrintJson(request) + "\n";
    return process_.Send(line.data(), line.size());
  }
  Result<json> Answer() {
    ASSIGN_OR_RETURN(const std::string line, process_.ReceiveLine());
    json answer = ParseJson(line);
    if (!answer.is_object()) {
      process_.Stop();
      return Failure{FailureKind::kBusy, "the S3 client says what nobody understands"};
    }
    if (const std::string error = JsonText(answer, "error"); !error.empty()) {
      return Failure{KindOf(error), JsonText(answer, "message")};
    }
    return answer;
  }
  Result<json> Call(const json& request) {
    RETURN_IF_ERROR(Ask(request));
    return Answer();
  }
  ClientProcess& process() { return process_; }

 private:
  ClientProcess process_;
};

// Reads a range of an object into memory, completely.
Result<void> Fetch(Client* client, const json& where, uint64_t at, uint64_t bytes, void* to) {
  json request = where;
  request["op"] = "get";
  request["offset"] = at;
  request["bytes"] = bytes;
  ASSIGN_OR_RETURN(const json answer, client->Call(request));
  if (JsonInt<int64_t>(answer, "bytes", -1) != static_cast<int64_t>(bytes)) {
    client->process().Stop();
    return Failure{FailureKind::kDamaged, JsonText(where, "key") + " was cut off"};
  }
  return client->process().Receive(to, bytes);
}

class ObjectSource final : public ChunkSource {
 public:
  ObjectSource(std::shared_ptr<Client> client, json where, uint64_t size)
      : client_(std::move(client)), where_(std::move(where)), size_(size) {}

  uint64_t size() const override { return size_; }

  Result<std::span<const std::byte>> Chunk(size_t index) override {
    const uint64_t at = index * kChunkBytes;
    const uint64_t bytes = std::min<uint64_t>(kChunkBytes, size_ - at);
    // The same chunk again: it failed its check, perhaps because of the transfer, so read it anew.
    const bool is_again = last_ == index && bytes > 0;
    if (is_again || at < begin_ || at + bytes > begin_ + held_) {
      const bool is_in_a_row = !is_again && held_ > 0 && at == begin_ + held_;
      window_ = !is_in_a_row ? 1 : std::min(window_ * 4, kWindowChunksMax);
      const uint64_t wanted = std::min<uint64_t>(window_ * kChunkBytes, size_ - at);
      held_ = 0;
      std::byte* const to = buffer_.Get(std::min(window_ * kChunkBytes, size_));
      RETURN_IF_ERROR(Fetch(client_.get(), where_, at, wanted, to));
      begin_ = at;
      held_ = wanted;
    }
    last_ = index;
    return std::span<const std::byte>(buffer_.Get(0) + (at - begin_), bytes);
  }

 private:
  const std::shared_ptr<Client> client_;  // shared by the store and its open sources
  const json where_;
  const uint64_t size_;
  AlignedBuffer buffer_;
  uint64_t begin_ = 0;  // offset of the held bytes
  uint64_t held_ = 0;
  size_t window_ = 1;
  size_t last_ = SIZE_MAX;
};

class S3Store final : public Store {
 public:
  S3Store(std::string root, std::string bucket, std::string prefix, const std::string& python)
      : root_(std::move(root)),
        bucket_(std::move(bucket)),
        prefix_(std::move(prefix)),
        client_(std::make_shared<Client>(python)) {}

  const StoreTraits& traits() const override { return kS3Traits; }
  const std::string& root() const override { return root_; }

  Result<void> MakeFolder(const std::string&) override { return {}; }
  Result<void> SyncNames(const std::string&) override { return {}; }

  Result<void> WriteImage(const std::string& key, ChunkSource* image,
                          std::span<const uint64_t> hashes, Pacer* pacer) override {
    if (hashes.size() != ChunkCount(image->size())) {
      return Failure{FailureKind::kDamaged, "the image does not have that many chunks"};
    }
    json request = Where(key);
    request["op"] = "write";
    request["bytes"] = image->size();
    RETURN_IF_ERROR(client_->Ask(request));
    const Result<void> sent = SendChunks(image, hashes, pacer);
    const uint32_t end = sent.ok() ? kFrameEnd : kFrameAbort;
    RETURN_IF_ERROR(client_->process().Send(&end, sizeof(end)));
    const Result<json> answer = client_->Answer();
    if (!sent.ok()) return sent;
    return answer.ok() ? Result<void>() : answer.failure();
  }

  // The store copies the object; no byte is transferred here. Each object is independent of the
  // other.
  Result<void> Link(const std::string& from, const std::string& to) override {
    json request = Where(to);
    request["op"] = "copy";
    request["from"] = Where(from)["key"];
    const Result<json> answer = client_->Call(request);
    return answer.ok() ? Result<void>() : answer.failure();
  }

  Result<void> Put(const std::string& key, std::span<const std::byte> bytes,
                   PutMode mode) override {
    json request = Where(key);
    request["op"] = "put";
    request["bytes"] = bytes.size();
    request["new"] = mode == PutMode::kNew;
    RETURN_IF_ERROR(client_->Ask(request));
    RETURN_IF_ERROR(client_->process().Send(bytes.data(), bytes.size()));
    const Result<json> answer = client_->Answer();
    return answer.ok() ? Result<void>() : answer.failure();
  }

  Result<void> Exchange(const std::string& key, const std::string& from,
                        std::span<const std::byte> bytes) override {
    json request = Where(key);
    request["op"] = "exchange";
    request["from"] = from;
    request["bytes"] = bytes.size();
    RETURN_IF_ERROR(client_->Ask(request));
    RETURN_IF_ERROR(client_->process().Send(bytes.data(), bytes.size()));
    const Result<json> answer = client_->Answer();
    if (answer.ok()) return {};
    const FailureKind kind = answer.failure().kind;
    const bool is_other = kind == FailureKind::kExists || kind == FailureKind::kNotFound;
    return Failure{is_other ? FailureKind::kFenced : kind, answer.failure().message};
  }

  Result<bool> Has(const std::string& key) override {
    const Result<uint64_t> size = SizeOf(key);
    if (!size.ok() && size.failure().kind != FailureKind::kNotFound) return size.failure();
    return size.ok();
  }

  Result<std::string> Get(const std::string& key, uint64_t bytes_max) override {
    ASSIGN_OR_RETURN(const uint64_t size, SizeOf(key));
    if (size > bytes_max) return Failure{FailureKind::kTooLarge, Concat(key, " is too large")};
    std::string text(size, '\0');
    if (size > 0) RETURN_IF_ERROR(Fetch(client_.get(), Where(key), 0, size, text.data()));
    return text;
  }

  Result<std::vector<std::string>> GetAll(const std::vector<std::string>& keys,
                                          uint64_t bytes_max) override {
    if (keys.empty()) return std::vector<std::string>();
    json request = {{"op", "get_all"}, {"bucket", bucket_}, {"bytes_max", bytes_max}};
    for (const std::string& key : keys) request["keys"].push_back(Where(key)["key"]);
    ASSIGN_OR_RETURN(const json answer, client_->Call(request));
    const json sizes = answer.is_object() && answer.contains("sizes") ? answer["sizes"] : json();
    const bool is_whole = sizes.is_array() && sizes.size() == keys.size() &&
                          std::all_of(sizes.begin(), sizes.end(), [&](const json& size) {
                            return size.is_number_unsigned() && size.get<uint64_t>() <= bytes_max;
                          });
    if (!is_whole) {
      client_->process().Stop();
      return Failure{FailureKind::kBusy, "the S3 client says what nobody understands"};
    }
    std::vector<std::string> texts;
    for (const json& size : sizes) {
      std::string& text = texts.emplace_back(size.get<uint64_t>(), '\0');
      if (!text.empty()) RETURN_IF_ERROR(client_->process().Receive(text.data(), text.size()));
    }
    return texts;
  }

  Result<std::unique_ptr<ChunkSource>> Open(const std::string& key, uint64_t bytes) override {
    ASSIGN_OR_RETURN(const uint64_t size, SizeOf(key));
    if (size != bytes) {
      return Failure{FailureKind::kDamaged, Concat(key, " has ", size, " bytes and not ", bytes)};
    }
    return std::unique_ptr<ChunkSource>(new ObjectSource(client_, Where(key), size));
  }

  Result<std::vector<StoreEntry>> List(const std::string& folder) override {
    json request = Where(folder.empty() ? "" : folder + "/");
    request["op"] = "list";
    ASSIGN_OR_RETURN(const json answer, client_->Call(request));
    std::vector<StoreEntry> entries;
    const auto found = answer.find("entries");
    if (found == answer.end() || !found->is_array()) return entries;
    for (const json& one : *found) {
      if (!one.is_object()) continue;
      entries.push_back(
          {.name = JsonText(one, "name"),
           .is_folder = JsonInt<int64_t>(one, "bytes", -1) < 0,
           .bytes = static_cast<uint64_t>(std::max<int64_t>(JsonInt<int64_t>(one, "bytes", -1), 0)),
           .changed_ns = std::max<int64_t>(JsonInt<int64_t>(one, "changed_ns", -1), 0)});
    }
    std::sort(entries.begin(), entries.end(),
              [](const StoreEntry& a, const StoreEntry& b) { return a.name < b.name; });
    return entries;
  }

  Result<void> Remove(const std::string& key) override {
    json request = Where(key);
    request["op"] = "remove";
    const Result<json> answer = client_->Call(request);
    return answer.ok() ? Result<void>() : answer.failure();
  }

  Result<void> RenameFolder(const std::string& from, const std::string&) override {
    return Failure{FailureKind::kNotHere, Concat(from, " has no name of its own")};
  }

  Result<void> RemoveFolder(const std::string& folder) override {
    json request = Where(folder + "/");
    request["op"] = "sweep";
    const Result<json> answer = client_->Call(request);
    return answer.ok() ? Result<void>() : answer.failure();
  }

 private:
  json Where(const std::string& key) const {
    return {{"bucket", bucket_}, {"key", prefix_.empty() ? key : Concat(prefix_, "/", key)}};
  }

  Result<uint64_t> SizeOf(const std::string& key) {
    json request = Where(key);
    request["op"] = "stat";
    ASSIGN_OR_RETURN(const json answer, client_->Call(request));
    return static_cast<uint64_t>(std::max<int64_t>(JsonInt<int64_t>(answer, "bytes", -1), 0));
  }

  Result<void> SendChunks(ChunkSource* image, std::span<const uint64_t> hashes, Pacer* pacer) {
    for (size_t i = 0; i < hashes.size(); ++i) {
      ASSIGN_OR_RETURN(const std::span<const std::byte> chunk, image->Chunk(i));
      if (HashOf(chunk.data(), chunk.size()) != hashes[i]) {
        return Failure{FailureKind::kDamaged, Concat("chunk ", i, " is not what was saved")};
      }
      if (pacer != nullptr) pacer->Take(chunk.size());
      const auto bytes = static_cast<uint32_t>(chunk.size());
      RETURN_IF_ERROR(client_->process().Send(&bytes, sizeof(bytes)));
      RETURN_IF_ERROR(client_->process().Send(chunk.data(), bytes));
    }
    return {};
  }

  const std::string root_;
  const std::string bucket_;
  const std::string prefix_;
  const std::shared_ptr<Client> client_;  // shared by this store and its open sources
};

}  // namespace

Result<std::unique_ptr<Store>> OpenS3(const std::string& place, const StoreHost& host) {
  const StoragePlace named = JudgePlace(place);
  if (named.bucket.empty() || !named.problem.empty()) {
    return Failure{FailureKind::kInvalid, Concat(place, ": ", named.problem)};
  }
  if (host.python.empty()) {
    return Failure{FailureKind::kNotOurs, "no Python interpreter is known, which S3 needs"};
  }
  return std::unique_ptr<Store>(new S3Store(named.text, named.bucket, named.prefix, host.python));
}

}  // namespace paceline::ckpt
