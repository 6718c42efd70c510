#include "paceline/ps/partition_share.h"

#include <utility>

#include "paceline/ps/partition_image.h"

namespace paceline::ps {

PartitionBits PartitionShare::PartsIn(const TableRouting& routing) const {
  PartitionBits parts;
  for (uint32_t i = 0; i < kPartitions; ++i) parts[i] = routing.Of(i) == place_.server;
  return parts;
}

void PartitionShare::Begin(const RoutingNews& news) {
  news_ = news;
  own_ = PartsIn(news.routing);
}

bool PartitionShare::Learn(const RoutingNews& news, std::string* why) {
  if (news.id <= news_.id) return true;
  const PartitionBits next = PartsIn(news.routing);
  PartitionBits lacks = next & ~own_;
  for (const std::string& image : staged_) {
    if (lacks.none()) break;
    const auto loaded = holding_.LoadPartition(image);
    if (!loaded.ok()) {
      *why = loaded.failure().message;
      return false;
    }
    lacks.reset(*loaded);
  }
  if (lacks.any()) {
    *why = std::to_string(lacks.count()) + " partitions are of this server by the journal, and " +
           "this process has not received them";
    return false;
  }
  if (next != own_) {
    holding_.Keep(next);
    ++changes_;
  }
  own_ = next;
  frozen_ = 0;
  staged_.clear();
  news_ = news;
  return true;
}

PartitionShare::Gate PartitionShare::GateOf(uint64_t version, bool is_change) const {
  if (version < news_.routing.version()) return Gate::kMoved;
  if (version > news_.routing.version()) return Gate::kWait;
  return frozen_ > 0 && is_change ? Gate::kWait : Gate::kServe;
}

std::optional<std::vector<std::string>> PartitionShare::Give(uint64_t id, uint32_t to,
                                                             uint64_t bytes_max) {
  const auto& move = news_.move;
  if (!move || move->id != id || move->from != place_.server || move->to != to) {
    return std::nullopt;
  }
  if (frozen_ == 0) {
    uint64_t bytes = 0;
    while (frozen_ < move->partitions.size()) {
      bytes += holding_.BytesOf(move->partitions[frozen_]);
      if (frozen_ > 0 && bytes > bytes_max) break;
      ++frozen_;
    }
  }
  std::vector<std::string> images;
  images.reserve(frozen_);
  for (size_t i = 0; i < frozen_; ++i) {
    images.push_back(holding_.SavePartition(move->partitions[i]));
  }
  return images;
}

const TableMove* PartitionShare::Wanted() const {
  return news_.move && news_.move->to == place_.server ? &*news_.move : nullptr;
}

std::string PartitionShare::Stage(uint64_t id, uint64_t from_generation,
                                  std::vector<std::string> images) {
  const TableMove* const move = Wanted();
  if (move == nullptr || move->id != id) return "there is another move by now";
  if (images.empty() || images.size() > move->partitions.size()) return "they are too many";
  for (size_t i = 0; i < images.size(); ++i) {
    const Result<PartitionImage> image = ReadImage(images[i]);
    if (!image.ok()) return image.failure().message;
    if (image->partition != move->partitions[i]) return "one is of another partition";
  }
  staged_ = std::move(images);
  staged_from_ = from_generation;
  return "";
}

std::optional<PartitionsTaken> PartitionShare::Taken() const {
  if (staged_.empty()) return std::nullopt;
  return PartitionsTaken{.id = news_.id,
                         .from = news_.move->from,
                         .to = place_.server,
                         .count = static_cast<uint32_t>(staged_.size()),
                         .from_generation = staged_from_,
                         .to_generation = place_.generation};
}

}  // namespace paceline::ps
